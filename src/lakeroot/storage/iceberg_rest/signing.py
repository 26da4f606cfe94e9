"""Signing requests as the catalogs of AWS want it (Signature Version 4), without their libraries.

Only the machine's own credentials, where none are given, are looked up with boto3.
"""

import datetime
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from lakeroot.model.errors import UnauthenticatedError, UnsupportedOperationError

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_USUAL_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Keys:
    """What a request is signed with."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Signature:
    """For whom and with what requests are signed; without keys the machine's own are used."""

    region: str
    service: str = "execute-api"
    keys: Keys | None = None
    profile: str | None = None


class Signer:
    """Signs each request anew."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        keys = signature.keys
        self._keys: Callable[[], Keys] = _machine_keys(signature) if keys is None else lambda: keys

    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """Give the headers that prove who sends this request."""
        return signed(self._signature, self._keys(), method, url, body or b"", _now())

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Say that there is nothing else to offer."""
        del refused
        return False


def signed(
    signature: Signature, keys: Keys, method: str, url: str, body: bytes, now: datetime.datetime
) -> dict[str, str]:
    """Sign one request as of a moment."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": _host(url), "x-amz-content-sha256": digest, "x-amz-date": moment}
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(headers))
    request = "\n".join(
        [
            method,
            # A path is encoded once more than it is sent; only S3 itself is different.
            quote(urlsplit(url).path or "/", safe="/~"),
            "&".join(sorted(urlsplit(url).query.split("&"))),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            digest,
        ]
    )
    scope = f"{moment[:8]}/{signature.region}/{signature.service}/aws4_request"
    whole = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret_key}".encode()
    for part in scope.split("/"):
        key = _mac(key, part)
    proof = _mac(key, whole).hex()
    del headers["host"]  # the connection sends it
    credential = f"Credential={keys.access_key}/{scope}"
    headers["Authorization"] = (
        f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={proof}"
    )
    return headers


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _host(url: str) -> str:
    parts = urlsplit(url)
    usual = parts.port in (None, _USUAL_PORTS.get(parts.scheme))
    return str(parts.hostname) if usual else parts.netloc


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _machine_keys(signature: Signature) -> Callable[[], Keys]:
    try:
        import boto3
    except ImportError:
        raise UnsupportedOperationError(
            "The machine's own AWS credentials cannot be looked up without boto3",
            fix="pip install boto3, or give `client.access-key-id` and `client.secret-access-key`",
        ) from None
    session = boto3.Session(profile_name=signature.profile, region_name=signature.region)

    def found() -> Keys:
        credentials = session.get_credentials()
        if credentials is None:
            raise UnauthenticatedError(
                "There are no AWS credentials on this machine",
                fix="Give `client.access-key-id` and `client.secret-access-key`",
            )
        frozen = credentials.get_frozen_credentials()
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)

    return found
