"""The part of the console that everybody may see: logging in, logging out, styles and scripts."""

import asyncio

from lakeroot.model.errors import LakerootError, PermissionDeniedError, UnauthenticatedError
from lakeroot.server.backend import Backend
from lakeroot.server.bodies import read_form
from lakeroot.server.console import rendering
from lakeroot.server.console.addresses import BASE, is_local
from lakeroot.server.console.forms import is_same_origin
from lakeroot.server.identity.authentication import Authentication
from lakeroot.server.identity.cookies import SESSION, set_cookie
from lakeroot.server.refusals import (
    MethodNotAllowedError,
    RefusalError,
    RequestTimeoutError,
    RouteNotFoundError,
)
from lakeroot.server.wire import Request, Response, segments


class ConsoleDoor:
    """`/console/-/`: what has to work before anybody is known."""

    name = "door"
    prefix = f"{BASE}/-/"
    public = True
    cookie: str | None = None

    def __init__(self, backend: Backend, authentication: Authentication) -> None:
        self._backend = backend
        self._authentication = authentication

    async def answer(self, request: Request) -> Response:
        """Answer with a file, the form to log in, or the outcome of one."""
        parts = segments(request.path)[2:]
        if len(parts) == 2 and parts[0] == "assets":
            request.operation = "asset"
            return _asset(request, parts[1])
        if parts == ["login"]:
            request.operation = "login"
            if request.method == "POST":
                return await self._log_in(request)
            return _form(_next(request.one("next") or ""))
        if parts == ["logout"] and request.method == "POST":
            request.operation = "logout"
            _require_own(request)
            gone = set_cookie(SESSION, "", secure=request.scheme == "https", seconds=0)
            return _onward(f"{BASE}/-/login", gone)
        raise RouteNotFoundError("There is no such page", fix="Start at /console")

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Say what went wrong."""
        status = error.status if isinstance(error, RefusalError) else 403
        said = {"what": error.what, "why": error.why, "fix": error.fix, "code": error.code}
        return rendering.html("error.html", {**said, "status": status}, status)

    async def _log_in(self, request: Request) -> Response:
        _require_own(request)
        idle = self._backend.limits.idle_seconds
        try:
            # Nobody watches the clock of public pages for us.
            async with asyncio.timeout(idle):
                fields = await read_form(request, idle)
        except TimeoutError as problem:
            raise RequestTimeoutError("The form did not arrive in time") from problem
        token, target = fields.get("token", "").strip(), _next(fields.get("next", ""))
        try:
            await self._authentication.access({"authorization": f"Bearer {token}"})
        except UnauthenticatedError:
            return _form(target, 401, problem="This token is not known here.")
        return _onward(target, set_cookie(SESSION, token, secure=request.scheme == "https"))


def _asset(request: Request, name: str) -> Response:
    found = rendering.assets().get(name)
    if found is None:
        raise RouteNotFoundError("There is no such file")
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowedError("Files can only be read", headers={"Allow": "GET, HEAD"})
    body, kind = found
    lasting = {"Cache-Control": "public, max-age=86400"}
    return Response(200, body, kind, {**rendering.SECURITY, **lasting})


def _form(target: str, status: int = 200, problem: str = "") -> Response:
    return rendering.html("login.html", {"target": target, "problem": problem}, status)


def _next(target: str) -> str:
    return target if is_local(target) else BASE


def _onward(target: str, cookie: str) -> Response:
    return Response(303, headers={"Location": target, "Set-Cookie": cookie, **rendering.SECURITY})


def _require_own(request: Request) -> None:
    if not is_same_origin(request):
        raise PermissionDeniedError("This form does not come from this console")
