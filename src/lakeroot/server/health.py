"""The face for operators: is it alive, is it ready, what does it count, what does it offer."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from lance_namespace import ListNamespacesRequest

from lakeroot.model.errors import LakerootError
from lakeroot.server.backend import Backend
from lakeroot.server.metrics import Metrics
from lakeroot.server.problems import as_error
from lakeroot.server.refusals import MethodNotAllowedError, RefusalError, RouteNotFoundError
from lakeroot.server.wire import JSON, Request, Response, json_response


class Health:
    """`/healthz`, `/readyz`, `/metrics` and the OpenAPI documents; open to everyone."""

    name = "health"
    prefix = "/"
    public = True
    cookie: str | None = None

    def __init__(
        self,
        backend: Backend,
        metrics: Metrics,
        documents: Mapping[str, Callable[[], dict[str, Any]]],
    ) -> None:
        self._backend = backend
        self._metrics = metrics
        self._documents = documents
        self._written: dict[str, bytes] = {}

    async def answer(self, request: Request) -> Response:
        """Answer a request of an operator."""
        path = request.path
        if path == "/":  # whoever comes with a browser looks for the console
            return Response(303, headers={"Location": "/console"})
        if path not in ("/healthz", "/readyz", "/metrics") and path not in self._documents:
            raise RouteNotFoundError("There is nothing at this path")
        request.operation = path.removeprefix("/")
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowedError(
                "This path can only be read", headers={"Allow": "GET, HEAD"}
            )
        if path == "/healthz":
            return json_response({"status": "ok"})
        if path == "/readyz":
            return await self._ready(request)
        if path == "/metrics":
            text = self._metrics.text()
            return Response(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
        if path not in self._written:
            self._written[path] = json.dumps(self._documents[path]()).encode()
        return Response(200, self._written[path], JSON)

    async def _ready(self, request: Request) -> Response:
        namespace = self._backend.namespace
        try:
            await self._backend.read(
                lambda: namespace.list_namespaces(ListNamespacesRequest(id=[], limit=1))
            )
        except Exception as problem:  # noqa: BLE001  whatever it is, the server is not ready
            as_error(problem, request.id)
            return json_response({"status": "the catalog does not answer"}, 503)
        return json_response({"status": "ready"})

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Say what went wrong."""
        status = error.status if isinstance(error, RefusalError) else 500
        response = json_response({"error": str(error), "code": error.code}, status)
        if isinstance(error, RefusalError):
            response.headers.update(error.headers)
        return response
