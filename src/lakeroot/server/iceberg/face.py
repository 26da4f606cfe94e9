"""The face that speaks Iceberg REST: find the route, check the rights, call the handler."""

from collections.abc import Callable
from typing import Any, Final

from lakeroot.model.errors import LakerootError, UnauthenticatedError
from lakeroot.model.identifiers import DELIMITER
from lakeroot.server.backend import Backend
from lakeroot.server.bodies import read_json_object
from lakeroot.server.iceberg import committing, errors, namespaces, planning, rights, tables, views
from lakeroot.server.iceberg.calls import SEPARATOR, Call, named, namespace_in
from lakeroot.server.iceberg.catalog import Catalog
from lakeroot.server.iceberg.config import get_config
from lakeroot.server.iceberg.errors import IcebergError, status_and_kind
from lakeroot.server.iceberg.idempotency import Idempotency
from lakeroot.server.iceberg.routes import ROUTES, Matcher, On, Route, without_prefix
from lakeroot.server.refusals import MethodNotAllowedError, RefusalError, RouteNotFoundError
from lakeroot.server.wire import Request, Response, decoded, json_response, segments

Handler = Callable[[Catalog, Call], Response]

HANDLERS: Final[dict[str, Handler]] = {
    "getConfig": get_config,
    "listNamespaces": namespaces.list_namespaces,
    "createNamespace": namespaces.create_namespace,
    "loadNamespaceMetadata": namespaces.load_namespace,
    "namespaceExists": namespaces.namespace_exists,
    "dropNamespace": namespaces.drop_namespace,
    "updateProperties": namespaces.update_properties,
    "listTables": tables.list_tables,
    "createTable": tables.create_table,
    "registerTable": tables.register_table,
    "loadTable": tables.load_table,
    "updateTable": committing.update_table,
    "dropTable": tables.drop_table,
    "tableExists": tables.table_is_there,
    "reportMetrics": tables.report_metrics,
    "loadCredentials": tables.load_credentials,
    "planTableScan": planning.plan_table_scan,
    "fetchScanTasks": planning.fetch_scan_tasks,
    "renameTable": tables.rename_table,
    "commitTransaction": committing.commit_transaction,
    "listViews": views.list_views,
    "createView": views.create_view,
    "loadView": views.no_view,
    "viewExists": views.no_view,
    "replaceView": views.no_view,
    "dropView": views.no_view,
}


class IcebergFace:
    """Iceberg REST under `/iceberg`."""

    name = "iceberg"
    prefix = "/iceberg/"
    public = False
    cookie: str | None = None

    def __init__(self, backend: Backend, catalog: Catalog, idempotency: Idempotency) -> None:
        self._backend = backend
        self._catalog = catalog
        self._idempotency = idempotency
        self._matcher = Matcher(ROUTES)

    async def answer(self, request: Request) -> Response:
        """Answer one call of an operation."""
        call = self._call(request)
        request.operation = call.route.operation
        if request.method == "POST":
            limits = self._backend.limits
            call.body = await read_json_object(request, limits.json_bytes, limits.idle_seconds)
        request.target = DELIMITER.join(call.namespace + ((call.table,) if call.table else ()))
        rights.check(call)
        if not call.route.changes:
            return await self._backend.read(lambda: self._handled(call))
        return await self._backend.change(
            request, lambda: self._idempotency.once(call, lambda: self._handled(call))
        )

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Write an error as Iceberg clients read it."""
        if not isinstance(error, IcebergError | RefusalError):
            error = _in_their_words(error, request)
        status, kind = status_and_kind(error)
        model = {"message": str(error), "type": kind, "code": status}
        response = json_response({"error": model}, status)
        if isinstance(error, RefusalError):
            response.headers.update(error.headers)
        if isinstance(error, UnauthenticatedError):
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _handled(self, call: Call) -> Response:
        return HANDLERS[call.route.operation](self._catalog, call)

    def _call(self, request: Request) -> Call:
        parts = segments(request.path)[1:]
        if parts[:1] != ["v1"]:
            raise RouteNotFoundError(f"No route for request: {request.method} {request.path[:200]}")
        parts = without_prefix(parts[1:])
        by_method = self._matcher.routes_of(parts)
        if by_method is None:
            raise RouteNotFoundError(f"No route for request: {request.method} {request.path[:200]}")
        route = by_method.get(request.method)
        if route is None:
            allowed = ", ".join(sorted(by_method))
            raise MethodNotAllowedError(f"This route takes {allowed}", headers={"Allow": allowed})
        return _parsed(route, request, parts)


def _parsed(route: Route, request: Request, parts: list[str]) -> Call:
    call = Call(route, request)
    request.call = call
    if "{namespace}" in route.path:
        call.namespace = namespace_in(parts[1])
    if "{table}" in route.path:
        call.table = decoded(parts[3])
        if not call.table:
            raise errors.bad_request("The name of the table is empty")
    if route.on is On.PARENT:
        parent = request.one("parent")
        call.namespace = named(tuple(parent.split(SEPARATOR))) if parent else ()
    return call


def _in_their_words(error: LakerootError, request: Request) -> LakerootError:
    """Say what is missing or taken in the words that Iceberg clients look for."""
    call: Any = getattr(request, "call", None)
    if call is None:
        return error
    about_table = bool(call.table)
    match error.code:
        case 1 if about_table and call.route.on is On.TABLE:
            # Clients probe for metadata tables this way, and take anything else for a failure.
            return errors.no_such_table(call.identifier)
        case 1:
            return errors.no_such_namespace(call.namespace)
        case 2:
            return errors.namespace_exists(call.namespace)
        case 3:
            return errors.not_empty(call.namespace)
        case 4 if about_table:
            return errors.no_such_table(call.identifier)
        case 5 if about_table:
            return errors.table_exists(call.identifier)
    return error
