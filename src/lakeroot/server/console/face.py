"""The face for people: find the page, see who asks, answer in HTML or JSON."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final
from urllib.parse import quote

from lance_namespace import LanceNamespace

from lakeroot.model.errors import LakerootError, UnauthenticatedError
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.server.backend import Backend
from lakeroot.server.bodies import read_form
from lakeroot.server.console import catalog_pages, forms, rendering, row_pages, table_pages
from lakeroot.server.console.addresses import BASE, identifier_in
from lakeroot.server.console.health_pages import HealthPages
from lakeroot.server.console.history_pages import history
from lakeroot.server.console.pages import Page
from lakeroot.server.console.trash_pages import trash
from lakeroot.server.console.version_pages import versions
from lakeroot.server.console.visit import Visit, whole_number
from lakeroot.server.identity.cookies import (
    SEED,
    SESSION,
    cookie,
    form_token,
    new_seed,
    set_cookie,
)
from lakeroot.server.identity.denials import require_table
from lakeroot.server.refusals import MethodNotAllowedError, RefusalError, RouteNotFoundError
from lakeroot.server.wire import Request, Response, segments

STATUS_OF_CODE: Final = {
    1: 404, 4: 404, 6: 404, 8: 404, 10: 404, 11: 404, 12: 404, 22: 404, 13: 400, 20: 400, 15: 403,
    16: 401, 17: 503, 18: 500, 21: 429, 0: 501,
}  # fmt: skip
_CONFLICT: Final = 409
_KEPT_PASTS: Final = 8
_TABLE_PAGES: Final[dict[str, Callable[[Visit, Identifier], Page]]] = {
    "overview": table_pages.overview,
    "rows": row_pages.rows,
    "versions": versions,
    "indexes": table_pages.indexes,
    "refs": table_pages.refs,
    "storage": table_pages.storage,
    "drop": table_pages.drop,
}


class ConsoleFace:
    """Everything under `/console` that shows or changes the catalog."""

    name = "console"
    prefix = BASE
    public = False
    cookie: str | None = SESSION

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._pasts: OrderedDict[int, LanceNamespace] = OrderedDict()
        self._lock = Lock()
        self._pages: dict[str, Callable[[Visit], Page]] = {
            "catalog": catalog_pages.catalog,
            "history": history,
            "health": HealthPages().health,
            "trash": trash,
        }

    async def answer(self, request: Request) -> Response:
        """Answer with a page, its twin, an image, or the outcome of a form."""
        parts = segments(request.path)[1:]
        if request.method == "POST":
            return await self._change(request, parts)
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowedError(
                "Pages can be read, and forms sent", headers={"Allow": "GET, HEAD, POST"}
            )
        if parts in ([], [""]):
            return Response(303, headers={"Location": f"{BASE}/catalog"})
        wants_json = parts[-1].endswith(".json")
        parts[-1] = parts[-1].removesuffix(".json")
        if len(parts) == 3 and parts[0] == "t" and parts[2] == "image":
            identifier = self._target(request, "image", parts[1])
            return await self._backend.read(
                lambda: row_pages.image(self._visit(request), identifier)
            )
        make = self._page(request, parts)
        return await self._backend.read(lambda: self._shown(request, make, wants_json=wants_json))

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Say what went wrong in three lines: what, why, and what to do."""
        status = (
            error.status
            if isinstance(error, RefusalError)
            else STATUS_OF_CODE.get(error.code, _CONFLICT)
        )
        wants_json = request.path.endswith(".json")
        if isinstance(error, UnauthenticatedError) and not wants_json and request.method == "GET":
            target = request.path
            if request.query_string:
                target += "?" + request.query_string.decode("latin-1")
            where = f"{BASE}/-/login?next={quote(target, safe='')}"
            return Response(303, headers={"Location": where, **rendering.SECURITY})
        said = {"what": error.what, "why": error.why, "fix": error.fix, "code": error.code}
        if wants_json:
            response = rendering.as_json(said, status)
        else:
            response = rendering.html("error.html", {**said, "status": status}, status)
        if isinstance(error, RefusalError):
            response.headers.update(error.headers)
        return response

    def _page(self, request: Request, parts: list[str]) -> Callable[[Visit], Page]:
        if len(parts) == 1 and parts[0] in self._pages:
            request.operation = parts[0]
            return self._pages[parts[0]]
        if len(parts) == 3 and parts[0] == "n" and parts[2] == "overview":
            identifier = self._target(request, "namespace", parts[1])
            return lambda visit: catalog_pages.namespace(visit, identifier)
        if len(parts) == 3 and parts[0] == "t" and parts[2] in _TABLE_PAGES:
            identifier = self._target(request, parts[2], parts[1])
            make = _TABLE_PAGES[parts[2]]
            return lambda visit: make(visit, identifier)
        raise RouteNotFoundError(
            "There is no such page", "the address is not one of the console's", "Start at /console"
        )

    def _target(self, request: Request, operation: str, segment: str) -> Identifier:
        identifier = identifier_in(segment)
        request.operation = operation
        request.target = DELIMITER.join(identifier)
        return identifier

    def _shown(
        self, request: Request, make: Callable[[Visit], Page], *, wants_json: bool
    ) -> Response:
        visit = self._visit(request)
        page = make(visit)
        if wants_json:
            return rendering.as_json(page.data)
        seed = cookie(request.headers, SEED) or new_seed()
        response = rendering.html(
            page.template,
            {
                "page": page,
                "d": page.data,
                "visit": visit,
                "tree": catalog_pages.tree(visit, page.where),
                "here": request.path,
                "twin": _twin(request),
                "csrf": form_token(seed, cookie(request.headers, SESSION)),
                "has_session": bool(cookie(request.headers, SESSION)),
            },
        )
        if page.has_form and not cookie(request.headers, SEED):
            secure = request.scheme == "https"
            response.headers["Set-Cookie"] = set_cookie(SEED, seed, secure=secure)
        return response

    def _visit(self, request: Request) -> Visit:
        query = {name: request.one(name) or "" for name in request.query}
        moment = whole_number(query.get("at", ""), "at", 0)
        origin = f"{request.scheme}://{request.headers.get('host', '')}"
        now = Visit(self._backend.namespace, request.access, query, None, origin)
        if not moment:
            return now
        return Visit(self._past(now, moment), request.access, query, moment, origin)

    def _past(self, now: Visit, version: int) -> LanceNamespace:
        with self._lock:
            found = self._pasts.pop(version, None)
            if found is None:
                found = now.ours("at")(version)
            self._pasts[version] = found
            while len(self._pasts) > _KEPT_PASTS:
                self._pasts.popitem(last=False)
            return found

    async def _change(self, request: Request, parts: list[str]) -> Response:
        if len(parts) != 3 or parts[0] != "t" or parts[2] not in forms.ACTIONS:
            raise RouteNotFoundError("There is no such form")
        operation, role, action = forms.ACTIONS[parts[2]]
        identifier = self._target(request, operation, parts[1])
        fields = await read_form(request, self._backend.limits.idle_seconds)
        forms.require_own_form(request, fields)
        visit = Visit(self._backend.namespace, request.access)
        require_table(request.access, identifier, role)
        target = await self._backend.change(request, lambda: action(visit, identifier, fields))
        return Response(303, headers={"Location": target, **rendering.SECURITY})


def _twin(request: Request) -> str:
    query = request.query_string.decode("latin-1")
    return f"{request.path}.json" + (f"?{query}" if query else "")
