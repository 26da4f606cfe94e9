"""Proving who we are: a token, OAuth2, AWS signatures, or one of PyIceberg's methods."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from lakeroot.model.errors import InvalidInputError, UnauthenticatedError, UnsupportedOperationError
from lakeroot.storage.iceberg_rest.config import Auth, Config
from lakeroot.storage.iceberg_rest.faults import Answer, told_by
from lakeroot.storage.iceberg_rest.signing import Signer

# (url, form body) -> answer; the transport's own retries and TLS apply.
PostForm = Callable[[str, bytes], Answer]

_HEADER: Final = "Authorization"
_UNTOLD_LIFETIME_S: Final = 300.0


class Authenticator(Protocol):
    """Gives the headers that prove who we are."""

    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """Return the headers to send with this request, or none."""
        ...

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Get a new proof after `refused` was refused; tell whether trying again makes sense."""
        ...


class Fixed:
    """The same header for ever, or none."""

    def __init__(self, value: str | None) -> None:
        self._headers = {} if value is None else {_HEADER: value}

    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """Return the header."""
        del method, url, body
        return self._headers

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Say that there is nothing else to offer."""
        del refused
        return False


class ClientCredentials:
    """OAuth2 client credentials: a token is fetched, kept until shortly before it expires."""

    def __init__(self, auth: Auth, url: str, post_form: PostForm) -> None:
        self._auth = auth
        self._url = url
        self._post_form = post_form
        self._lock = threading.Lock()
        self._token: str | None = None
        self._expires_at = 0.0

    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """Return a bearer token that has not expired."""
        del method, url, body
        with self._lock:
            if self._token is None or time.monotonic() >= self._expires_at:
                self._fetch()
            return {_HEADER: f"Bearer {self._token}"}

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Fetch a new token, unless another thread has done so already."""
        with self._lock:
            if refused.get(_HEADER) == f"Bearer {self._token}":
                self._fetch()
            return True

    def _fetch(self) -> None:
        answer = self._post_form(self._url, urlencode(self._form()).encode())
        if not answer.is_success:
            raise UnauthenticatedError(
                "The catalog gave no token for the credential",
                f"{self._url} answered {answer.status}: {told_by(answer.body)}",
                "Check `credential`, `scope` and `oauth2-server-uri`",
            )
        try:
            told = json.loads(answer.body)
            self._token = str(told["access_token"])
            lifetime = float(told.get("expires_in") or _UNTOLD_LIFETIME_S)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UnauthenticatedError(
                "The catalog gave no token for the credential",
                f"the answer of {self._url} has no `access_token`",
                "Check `oauth2-server-uri`",
            ) from None
        # A token that lives shorter than the margin is still used for half of its life.
        margin = min(self._auth.refresh_margin_s, lifetime / 2)
        self._expires_at = time.monotonic() + lifetime - margin

    def _form(self) -> dict[str, str]:
        client, separator, secret = (self._auth.credential or "").partition(":")
        form = {"grant_type": "client_credentials", "scope": self._auth.scope}
        # Without a colon the whole credential is the secret, as Iceberg clients have it.
        form |= (
            {"client_id": client, "client_secret": secret}
            if separator
            else {"client_secret": client}
        )
        if self._auth.audience:
            form["audience"] = self._auth.audience
        if self._auth.resource:
            form["resource"] = self._auth.resource
        return form


class ByPyIceberg:
    """One of PyIceberg's own methods: basic, google, entra, or a class of the user's."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """Return the header that the method gives."""
        del method, url, body
        try:
            value = self._manager.auth_header()
        except Exception as error:
            raise UnauthenticatedError(
                "The authentication method gave no header", f"{type(error).__name__}: {error}"
            ) from error
        return {} if value is None else {_HEADER: str(value)}

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Try again if the method now gives something else."""
        return self.headers("", "", None) != refused


def authenticator(config: Config, post_form: PostForm) -> Authenticator:
    """Choose the authenticator that the configuration asks for."""
    auth = config.auth
    if auth.signature is not None:
        return Signer(auth.signature)
    if auth.method is not None:
        return _by_pyiceberg(auth.method, dict(auth.method_options))
    if auth.credential is not None:
        url = auth.oauth2_server_uri or f"{config.endpoint}/v1/oauth/tokens"
        return ClientCredentials(auth, url, post_form)
    return Fixed(f"Bearer {auth.token}" if auth.token else None)


def _by_pyiceberg(method: str, options: dict[str, str]) -> Authenticator:
    try:
        from pyiceberg.catalog.rest.auth import AuthManagerFactory
    except ImportError:
        raise UnsupportedOperationError(
            f"`auth.type={method}` needs PyIceberg", fix="pip install 'lakeroot[iceberg]'"
        ) from None
    try:
        return ByPyIceberg(AuthManagerFactory.create(options.pop("impl", method), options))
    except Exception as error:
        raise InvalidInputError(
            f"The authentication method {method!r} cannot be used",
            f"{type(error).__name__}: {error}",
            "Check `auth.type` and the other auth.* properties",
        ) from error
