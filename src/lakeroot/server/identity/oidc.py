"""Tokens of an OpenID Connect issuer: JWTs checked against the issuer's published keys.

Only asymmetric algorithms that the operator allowed are accepted, whatever the token says of
itself; so neither `none` nor an HMAC made with the public key gets in.
"""

import json
import threading
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, Final

import jwt

from lakeroot.model.errors import InvalidInputError, ServiceUnavailableError
from lakeroot.server.identity.issuers import Issuer

_REFRESH_SECONDS: Final = 600.0
_LEAST_SECONDS_BETWEEN_FETCHES: Final = 10.0
_LARGEST_DOCUMENT: Final = 1 << 20
_REMEMBERED: Final = 1000
_LONGEST_TOKEN: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Claims:
    """Who a valid token speaks for, until when."""

    name: str
    groups: tuple[str, ...]
    expires: float


class Verifier:
    """Checks the tokens of one issuer; keys and verdicts are remembered while they are fresh."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched = -_REFRESH_SECONDS
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Claims] = OrderedDict()

    def remembered(self, token: str) -> Claims | None:
        """The verdict on a token that was seen to be valid and has not expired."""
        claims = self._known.get(token)
        return claims if claims is not None and claims.expires > time() else None

    def verify(self, token: str) -> Claims | None:
        """Check a token; nothing if it is not valid. May fetch the keys of the issuer."""
        if len(token) > _LONGEST_TOKEN or token.count(".") != 2:
            return None
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in self._issuer.algorithms:
                return None
            key = self._key(str(header.get("kid", "")))
            if key is None:
                return None
            found = jwt.decode(
                token,
                key,
                algorithms=list(self._issuer.algorithms),
                audience=self._issuer.audience,
                issuer=self._issuer.issuer,
                options={"require": ["exp", "iss", "aud", self._issuer.name_claim]},
            )
        except (jwt.PyJWTError, ValueError):
            return None
        return self._remember(token, found)

    def _remember(self, token: str, found: Mapping[str, Any]) -> Claims | None:
        name = found[self._issuer.name_claim]
        if not isinstance(name, str) or not name:
            return None
        groups = found.get(self._issuer.groups_claim, [])
        members = [g for g in groups if isinstance(g, str)] if isinstance(groups, list) else []
        claims = Claims(name, tuple(members), float(found["exp"]))
        with self._lock:
            self._known[token] = claims
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return claims

    def _key(self, kid: str) -> jwt.PyJWK | None:
        with self._lock:
            age = monotonic() - self._fetched
            # An unknown key id may be a new key; asking too often would let strangers
            # use this server to flood the issuer.
            unknown = kid not in self._keys and age > _LEAST_SECONDS_BETWEEN_FETCHES
            if age > _REFRESH_SECONDS or unknown:
                self._fetched = monotonic()
                self._keys = self._fetch()
            return self._keys.get(kid)

    def _fetch(self) -> dict[str, jwt.PyJWK]:
        uri = self._issuer.jwks_uri
        if uri is None:
            base = self._issuer.issuer.rstrip("/")
            uri = str(_document(f"{base}/.well-known/openid-configuration").get("jwks_uri", ""))
        found = _document(uri).get("keys", [])
        keys: dict[str, jwt.PyJWK] = {}
        for entry in found if isinstance(found, list) else []:
            try:
                keys[str(entry.get("kid", ""))] = jwt.PyJWK(entry)
            except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
                continue  # a key of a kind we do not know, or a damaged one, is no key of ours
        return keys


def _document(uri: str) -> dict[str, Any]:
    if not uri.startswith(("https://", "http://")):
        raise InvalidInputError(f"The issuer's document {uri!r} is not an http address")
    try:
        with urllib.request.urlopen(uri, timeout=10) as answer:  # noqa: S310  checked above
            found = json.loads(answer.read(_LARGEST_DOCUMENT))
    except (OSError, ValueError) as problem:
        raise ServiceUnavailableError("The keys of the token issuer cannot be read") from problem
    if not isinstance(found, dict):
        raise ServiceUnavailableError("The token issuer's document is not a JSON object")
    return found
