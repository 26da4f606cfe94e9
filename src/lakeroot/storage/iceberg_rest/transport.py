"""HTTP to one catalog: bounded waiting, bounded retries, and a clear end in every case.

A request is *safe* when doing it twice is doing it once. A safe request is repeated after any
failure that may pass; another is repeated only when it surely was not carried out, and otherwise
ends in `OutcomeUnknownError`, for the caller to find out by reading.
"""

import json
import random
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3
from urllib3 import exceptions as http_errors

from lakeroot.model.errors import InvalidInputError, ServiceUnavailableError
from lakeroot.storage.iceberg_rest.auth import authenticator
from lakeroot.storage.iceberg_rest.config import Config, Patience, Tls
from lakeroot.storage.iceberg_rest.faults import (
    EXPIRED,
    Answer,
    Kind,
    OutcomeUnknownError,
    Target,
    failure,
)
from lakeroot.storage.iceberg_rest.placing import brings_credentials

_UNPROVEN: Final = (401, EXPIRED)
_MAY_PASS: Final = (408, 500, 502, 503, 504)
_THROTTLED: Final = 429
_LONGEST_PAUSE_S: Final = 10.0
_CHUNK: Final = 1 << 16


class Transport:
    """Sends requests to the endpoint, with proof of who we are."""

    def __init__(self, config: Config) -> None:
        self._endpoint = config.endpoint
        self._patience = config.patience
        self._pool = _pool(config.tls, config.patience)
        self._headers = {
            "Accept": "application/json",
            "User-Agent": "lakeroot",
            **config.headers,
        }
        # Who has keys of their own need not borrow; a server that cannot lend then says at least
        # where the storage is.
        if not brings_credentials(config.storage_options):
            self._headers.setdefault("X-Iceberg-Access-Delegation", "vended-credentials")
        self._authenticator = authenticator(config, self._post_form)

    def send(
        self,
        method: str,
        path: str,
        target: Target,
        *,
        safe: bool,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer, or raise the error that it means."""
        url = f"{self._endpoint}/v1/{path}" + (
            f"?{urlencode(query, quote_via=quote)}" if query else ""
        )
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})} if data else headers or {}
        proof = self._authenticator.headers(method, url, data)
        answer = self._persist(method, url, data, {**sent, **proof}, target, safe=safe)
        if answer.status in _UNPROVEN and self._authenticator.renew(proof):
            proof = self._authenticator.headers(method, url, data)
            answer = self._persist(method, url, data, {**sent, **proof}, target, safe=safe)
        if answer.is_success or (answer.is_unchanged and "If-None-Match" in sent):
            return answer
        raise failure(answer, target)

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.clear()

    def _persist(
        self,
        method: str,
        url: str,
        data: bytes | None,
        headers: Mapping[str, str],
        target: Target,
        *,
        safe: bool,
    ) -> Answer:
        """Repeat a request as often as is allowed and sensible."""
        for attempt in range(self._patience.retries + 1):
            last = attempt == self._patience.retries
            try:
                answer = self._once(method, url, data, headers)
            except http_errors.SSLError as error:
                raise _untrusted(url, error) from error
            except (http_errors.NewConnectionError, http_errors.ConnectTimeoutError) as error:
                if last:
                    raise _unreachable(url, error) from error
                self._pause(attempt, None)
                continue
            except (http_errors.HTTPError, TimeoutError, OSError) as error:
                if not safe:
                    raise _unknown(target, type(error).__name__) from error
                if last:
                    raise _silent(target, error) from error
                self._pause(attempt, None)
                continue
            if answer.status in _MAY_PASS and not safe:
                raise _unknown(target, f"the catalog answered {answer.status}")
            if last or answer.status not in (*_MAY_PASS, _THROTTLED):
                return answer
            self._pause(attempt, answer.header("Retry-After"))
        raise AssertionError  # the last attempt always returns or raises

    def _once(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        deadline = time.monotonic() + self._patience.total
        response = self._pool.request(
            method,
            url,
            body=data,
            headers={**self._headers, **headers},
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            body = bytearray()
            # A server that sends one byte a second never trips the read timeout; this does.
            while chunk := response.read1(_CHUNK):
                body += chunk
                if time.monotonic() > deadline:
                    response.close()
                    raise TimeoutError
            return Answer(response.status, bytes(body), dict(response.headers))
        finally:
            response.release_conn()

    def _pause(self, attempt: int, retry_after: str | None) -> None:
        """Wait longer after each attempt, with jitter so that clients do not march in step."""
        wait = self._patience.backoff * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311
        if retry_after is not None and retry_after.isdigit():
            wait = max(wait, float(retry_after))
        time.sleep(min(wait, _LONGEST_PAUSE_S))

    def _post_form(self, url: str, form: bytes) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._persist("POST", url, form, headers, Target(Kind.CONFIG), safe=True)


def _pool(tls: Tls, patience: Patience) -> urllib3.PoolManager:
    options: dict[str, Any] = {"cert_reqs": "CERT_REQUIRED" if tls.verify else "CERT_NONE"}
    if not tls.verify:
        options["assert_hostname"] = False
        warnings.warn(
            "ssl.verify is false: the catalog's identity is not checked, and anybody on the way can"
            " read and change everything, credentials included. Give ssl.cabundle instead.",
            stacklevel=2,
        )
    options |= {
        key: value
        for key, value in (
            ("ca_certs", tls.ca_bundle),
            ("cert_file", tls.client_cert),
            ("key_file", tls.client_key),
        )
        if value is not None
    }
    for path in (tls.ca_bundle, tls.client_cert, tls.client_key):
        if path is not None and not Path(path).is_file():
            raise InvalidInputError(f"There is no file {path}", fix="Check the ssl.* properties")
    return urllib3.PoolManager(
        maxsize=16,
        timeout=urllib3.Timeout(connect=patience.connect, read=patience.read),
        **options,
    )


def _untrusted(url: str, error: Exception) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"No trusted connection to {url.partition('/v1')[0]}",
        str(error.args[0] if error.args else error),
        "Check `endpoint`, `ssl.cabundle`, `ssl.client.cert` and `ssl.client.key`",
    )


def _unreachable(url: str, error: Exception) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"No catalog can be reached at {url.partition('/v1')[0]}",
        type(error).__name__,
        "Check `endpoint` and that the server runs",
    )


def _silent(target: Target, error: Exception) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"The catalog gave no whole answer about {target}",
        type(error).__name__,
        "Try again later, or raise `read_timeout`",
    )


def _unknown(target: Target, why: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"It is not known whether the catalog carried out the request for {target}",
        why,
        "Look at it before you repeat the request",
    )
