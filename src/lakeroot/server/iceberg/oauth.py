"""Tokens for Iceberg clients that are configured with a credential instead of a token.

The specification has deprecated this endpoint, but clients ask it by default. Nothing is issued:
the secret of a credential is a static token of the access file, and that token is the answer.
"""

import asyncio
import base64
import binascii
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote_plus

from lakeroot.model.errors import LakerootError, UnauthenticatedError
from lakeroot.server.backend import Backend
from lakeroot.server.bodies import read_form
from lakeroot.server.identity.authentication import Authentication
from lakeroot.server.refusals import (
    MalformedRequestError,
    MethodNotAllowedError,
    RefusalError,
    RequestTimeoutError,
    RouteNotFoundError,
)
from lakeroot.server.wire import Request, Response, json_response

PATH: Final = "/iceberg/v1/oauth/tokens"
_CREDENTIALS: Final = "client_credentials"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  a name
_NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class OAuthError(RefusalError):
    """A request for a token that cannot be granted, with the name that OAuth has for it."""

    def __init__(self, name: str, what: str, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.name = name


class OAuthFace:
    """`POST /iceberg/v1/oauth/tokens`: what has to work before anybody is known."""

    name = "iceberg"
    prefix = PATH
    public = True
    cookie: str | None = None

    def __init__(self, backend: Backend, authentication: Authentication) -> None:
        self._backend = backend
        self._authentication = authentication

    async def answer(self, request: Request) -> Response:
        """Give the token of a credential, or of a token that is still good."""
        request.operation = "getToken"
        if request.path != PATH:
            raise RouteNotFoundError("There is nothing at this path")
        if request.method != "POST":
            raise MethodNotAllowedError("This route takes POST", headers={"Allow": "POST"})
        fields = await self._fields(request)
        if not self._authentication.asks:
            raise OAuthError(
                "unauthorized_client",
                "This server asks nobody for a token",
                "Leave the credential out of the client's configuration",
            )
        token = _secret(request, fields)
        found = self._authentication.static_token(token)
        named = _identity(request, fields)[0]
        if found is None or named not in ("", found.name):
            raise UnauthenticatedError("The credential is not valid")
        answer: dict[str, Any] = {
            "access_token": token,
            "token_type": "bearer",
            "issued_token_type": _ACCESS_TOKEN,
        }
        if found.expires is not None:
            left = found.expires - datetime.now(UTC)
            answer["expires_in"] = max(1, int(left.total_seconds()))
        if fields.get("scope"):
            answer["scope"] = fields["scope"]
        response = json_response(answer)
        response.headers.update(_NO_STORE)
        return response

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Write an error as OAuth wants it, which is not as Iceberg does."""
        status, name = 400, "invalid_request"
        if isinstance(error, UnauthenticatedError):
            status, name = 401, "invalid_client"
        elif isinstance(error, OAuthError):
            name = error.name
        elif isinstance(error, RefusalError):
            status = error.status
        else:
            status, name = 500, "server_error"
        response = json_response({"error": name, "error_description": str(error)}, status)
        response.headers.update(_NO_STORE)
        if isinstance(error, RefusalError):
            response.headers.update(error.headers)
        if status == 401:
            response.headers["WWW-Authenticate"] = "Basic"
        return response

    async def _fields(self, request: Request) -> dict[str, str]:
        idle = self._backend.limits.idle_seconds
        try:
            # Nobody watches the clock of public pages for us.
            async with asyncio.timeout(idle):
                return await read_form(request, idle)
        except TimeoutError as problem:
            raise RequestTimeoutError("The form did not arrive in time") from problem


def _secret(request: Request, fields: dict[str, str]) -> str:
    match fields.get("grant_type"):
        case None | "":
            raise MalformedRequestError("The form has no grant_type")
        case "client_credentials":
            secret = _identity(request, fields)[1]
        case grant if grant == _EXCHANGE:
            secret = fields.get("subject_token", "")
        case _:
            raise OAuthError(
                "unsupported_grant_type",
                "This kind of grant is not known here",
                f"Ask with grant_type={_CREDENTIALS}",
            )
    if not secret:
        raise MalformedRequestError("The form holds no secret")
    return secret


def _identity(request: Request, fields: dict[str, str]) -> tuple[str, str]:
    """The name and the secret of a client, from the form or from basic authentication."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if "client_secret" in fields or scheme.lower() != "basic":
        return fields.get("client_id", ""), fields.get("client_secret", "")
    try:
        text = base64.b64decode(given.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as problem:
        raise MalformedRequestError("The basic authentication cannot be read") from problem
    name, _, secret = text.partition(":")
    return unquote_plus(name), unquote_plus(secret)
