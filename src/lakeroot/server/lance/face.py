"""The face that speaks Lance REST: find the route, check the rights, call the operation."""

import mmap
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from lance_namespace import LanceNamespace

from lakeroot.model.errors import LakerootError, UnauthenticatedError
from lakeroot.model.identifiers import DELIMITER
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.server import listing
from lakeroot.server.backend import Backend
from lakeroot.server.bodies import (
    arrow_body,
    check_arrow,
    content_type,
    json_object,
    read_json_object,
    require_json_type,
)
from lakeroot.server.lance import rights
from lakeroot.server.lance.answers import render
from lakeroot.server.lance.lending import lent, lent_to_members
from lakeroot.server.lance.requests import fields_of
from lakeroot.server.lance.routes import ROUTES, Body, Matcher, On, Route
from lakeroot.server.lance.staging import check_staged
from lakeroot.server.refusals import MethodNotAllowedError, RefusalError, RouteNotFoundError
from lakeroot.server.together import Together
from lakeroot.server.wire import Request, Response, json_response, segments

# These three take and give plain dicts: pylance's namespaces refuse models for them.
_PLAIN: Final = frozenset(
    {"create_table_version", "describe_table_version", "batch_delete_table_versions"}
)

# The operations that commit manifests which clients have staged.
_COMMITTING: Final = frozenset(
    {"create_table_version", "batch_create_table_versions", "batch_commit_tables"}
)
# The operations whose answers can hold storage options.
_LENDING: Final = frozenset(
    {"describe_table", "declare_table", "create_table", "batch_commit_tables"}
)

_DECLARES: Final = "declare_table"
_BY_OPERATION: Final = {route.operation: route for route in ROUTES}
_MOST_REMEMBERED: Final = 4096
_LARGEST_REMEMBERED: Final = 256

STATUS_OF_CODE: Final = {
    0: 406, 1: 404, 2: 409, 3: 409, 4: 404, 5: 409, 6: 404, 7: 409, 8: 404, 9: 409, 10: 404,
    11: 404, 12: 404, 13: 400, 14: 409, 15: 403, 16: 401, 17: 503, 18: 500, 19: 409, 20: 400,
    21: 429, 22: 404, 23: 409,
}  # fmt: skip


class Call(NamedTuple):
    """A request of a quick kind, understood: what the same bytes mean does not change."""

    route: Route
    fields: dict[str, Any]
    model: Any
    quick: str | None
    target: str


class LanceFace:
    """Lance REST at the root of the address."""

    name = "lance"
    prefix = "/v1/"
    public = False
    cookie: str | None = None

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._matcher = Matcher(ROUTES)
        # Not where every table gets keys of its own: they are fetched one after another.
        together = isinstance(backend.namespace, LakerootNamespace) and not backend.vending.vendor
        self._calls: dict[object, Call] = {}
        self._declaring = Together(backend, self._declared) if together else None

    async def answer(self, request: Request) -> Response:
        """Answer one call of an operation."""
        route, parts = self._route(request)
        request.operation = route.operation
        limits = self._backend.limits
        if route.body is Body.ARROW:
            fields = fields_of(route, request, parts, {})
            model = self._checked(route, request, fields)
            async with arrow_body(request, limits.arrow_bytes, limits.idle_seconds) as data:
                result = await self._backend.change(
                    request, lambda: self._call_with_data(route, request, model, data)
                )
            return render(route, result)
        body: dict[str, Any] = {}
        if request.method != "GET":
            require_json_type(request)
            # Lance's own client lists versions with the body `null`.
            body = await read_json_object(
                request, limits.json_bytes, limits.idle_seconds, takes_null=not route.changes
            )
        fields = fields_of(route, request, parts, body)
        model = self._checked(route, request, fields)
        if self._declaring is not None and route.operation == _DECLARES:
            return render(route, await self._declaring.add(request, (request, model)))
        work = self._work(route, model, request)
        if route.changes:
            return render(route, await self._backend.change(request, work))
        quick = None if self._backend.vending.vendor else _quick(route, fields)
        return render(route, await self._backend.read(work, quick))

    def understood(self, request: Request, body: bytes) -> Call | None:
        """Understand a request that can be answered in place; nothing if it is of another kind."""
        key = (request.method, request.path, request.query_string, content_type(request), body)
        call = self._calls.get(key)
        if call is None:
            call = self._understood(request, body)
            if call is None:
                return None
            if call.quick is not None and len(body) <= _LARGEST_REMEMBERED:
                if len(self._calls) >= _MOST_REMEMBERED:
                    self._calls.clear()
                self._calls[key] = call
        if call.quick is not None and not self._backend.caller.kind(call.quick).in_place:
            return None
        request.operation, request.target = call.route.operation, call.target
        return call

    def _understood(self, request: Request, body: bytes) -> Call | None:
        parts = segments(request.path)[1:]
        route = (self._matcher.routes_of(parts) or {}).get(request.method)
        declares = (
            self._declaring is not None and route is not None and route.operation == _DECLARES
        )
        if route is None or not (route.quick or declares):
            return None
        request.operation = route.operation
        given: dict[str, Any] = {}
        if request.method != "GET":
            require_json_type(request)
            given = json_object(body, takes_null=not route.changes)
        fields = fields_of(route, request, parts, given)
        quick = None if self._backend.vending.vendor else _quick(route, fields)
        if quick is None and not declares:
            return None
        model = route.request.model_validate(fields)
        return Call(route, fields, model, quick, DELIMITER.join(fields.get("id") or ()))

    def at_once(self, request: Request, call: Call) -> "Response | Future[Any]":
        """Answer in place, or give what to wait for."""
        rights.check(call.route, call.fields, request.access)
        if call.quick is None and self._declaring is not None:
            return self._declaring.add(request, (request, call.model))
        work = self._work(call.route, call.model, request)
        return render(call.route, self._backend.caller.kind(call.quick or "").timed(work))

    def answered(self, request: Request, result: Any) -> Response:
        """Write what came of something to wait for."""
        return render(_BY_OPERATION[request.operation], result)

    def _declared(self, asked: Sequence[tuple[Request, Any]]) -> list[Any]:
        namespace: Any = self._backend.namespace
        outcomes = namespace.declare_each([model for _, model in asked])
        return [
            outcome
            if isinstance(outcome, Exception)
            else lent(self._backend.vending, request.access, tuple(model.id or ()), model, outcome)
            for (request, model), outcome in zip(asked, outcomes, strict=True)
        ]

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Write an error as the specification wants it: message, code, and where it happened."""
        status = error.status if isinstance(error, RefusalError) else STATUS_OF_CODE[error.code]
        detail = ". ".join(part for part in (error.why, error.fix) if part)
        body = {"error": error.what, "code": error.code, "instance": request.path[:500]}
        if detail:
            body["detail"] = detail
        response = json_response(body, status)
        if isinstance(error, RefusalError):
            response.headers.update(error.headers)
        if isinstance(error, UnauthenticatedError):
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _route(self, request: Request) -> tuple[Route, list[str]]:
        parts = segments(request.path)[1:]
        if parts and not parts[-1]:
            parts.pop()
        by_method = self._matcher.routes_of(parts)
        if by_method is None and parts[:1] == ["namespace"] and request.one("delimiter") == ".":
            # A root written as "." is taken out of the path by clients that tidy addresses.
            parts.insert(1, ".")
            by_method = self._matcher.routes_of(parts)
        if by_method is None:
            raise RouteNotFoundError("Lance REST has no such route")
        route = by_method.get(request.method)
        if route is None:
            allowed = ", ".join(sorted(by_method))
            raise MethodNotAllowedError(
                f"This route takes {allowed}, not {request.method[:20]}", headers={"Allow": allowed}
            )
        return route, parts

    def _checked(self, route: Route, request: Request, fields: dict[str, Any]) -> Any:
        model = route.request.model_validate(fields)
        request.target = DELIMITER.join(fields.get("id") or ())
        rights.check(route, fields, request.access)
        return model

    def _work(self, route: Route, model: Any, request: Request) -> Callable[[], Any]:
        namespace = self._backend.namespace
        special = _filtered(route, model, request, namespace)
        if special is not None:
            return special
        operation = getattr(namespace, route.operation)
        argument: Any = model
        if route.operation in _PLAIN:
            argument = model.model_dump(by_alias=True, exclude_none=True)
        commits, lends = route.operation in _COMMITTING, route.operation in _LENDING
        if not commits and not lends:
            return lambda: operation(argument)

        def guarded() -> Any:
            if commits:
                check_staged(namespace, model)
            answer = operation(argument)
            return self._lent(route, request, model, answer) if lends else answer

        return guarded

    def _call_with_data(
        self, route: Route, request: Request, model: Any, data: bytes | mmap.mmap
    ) -> Any:
        check_arrow(data, self._backend.limits.rows)
        namespace = self._backend.namespace
        whole: Any = data
        if not isinstance(data, bytes):
            # Lakeroot reads a large body where it lies; other catalogs take nothing but bytes.
            ours = isinstance(namespace, LakerootNamespace)
            whole = pa.py_buffer(data) if ours else data[:]
        answer = getattr(namespace, route.operation)(model, whole)
        return self._lent(route, request, model, answer) if route.operation in _LENDING else answer

    def _lent(self, route: Route, request: Request, model: Any, answer: Any) -> Any:
        vending, access = self._backend.vending, request.access
        if route.operation == "batch_commit_tables":
            return lent_to_members(vending, access, model, answer)
        return lent(vending, access, tuple(model.id or ()), model, answer)


def _quick(route: Route, fields: dict[str, Any]) -> str | None:
    """Name the kind of a read that may be quick; opening the table itself never is."""
    if not route.quick or fields.get("load_detailed_metadata") or fields.get("check_declared"):
        return None
    if "version" in fields or "tag" in fields or "branch" in fields:
        return None
    return route.operation


def _filtered(
    route: Route, model: Any, request: Request, namespace: LanceNamespace
) -> Callable[[], Any] | None:
    """The work of a list for a caller who may see only a part of it."""
    access = request.access
    if access.unlimited:
        return None
    if route.on is On.EVERYTHING:
        return lambda: listing.all_tables_seen(namespace, model, access)
    if route.on is On.LISTED:
        listed = listing.tables_for if route.operation == "list_tables" else listing.namespaces_for
        return lambda: listed(namespace, model, access)
    return None
