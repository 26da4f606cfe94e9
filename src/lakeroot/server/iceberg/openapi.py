"""The OpenAPI description of the Iceberg face, written from the table of routes."""

from typing import Any, Final

from lakeroot.server.iceberg.routes import ROUTES, Route

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_NAMES: Final = {"type": "array", "items": _TEXT}
_TABLE: Final = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {"namespace": _NAMES, "name": _TEXT},
}
_COMMIT: Final = {
    "type": "object",
    "required": ["requirements", "updates"],
    "properties": {
        "identifier": _TABLE,
        "requirements": {"type": "array", "items": {"type": "object"}},
        "updates": {"type": "array", "items": {"type": "object"}},
    },
}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): schema for name, schema in properties.items()}
    return {"type": "object", "required": list(required), "properties": named}


_BODIES: Final[dict[str, dict[str, Any]]] = {
    "createNamespace": _object(("namespace",), namespace=_NAMES, properties=_TEXTS),
    "updateProperties": _object((), removals=_NAMES, updates=_TEXTS),
    "createTable": _object(
        ("name", "schema"),
        name=_TEXT,
        schema={"type": "object"},
        stage_create={"type": "boolean"},
        properties=_TEXTS,
    ),
    "registerTable": _object(("name", "metadata-location"), name=_TEXT, metadata_location=_TEXT),
    "updateTable": _COMMIT,
    "commitTransaction": _object(
        ("table-changes",), table_changes={"type": "array", "items": _COMMIT}
    ),
    "renameTable": _object(("source", "destination"), source=_TABLE, destination=_TABLE),
    "planTableScan": _object((), snapshot_id={"type": "integer"}, select=_NAMES),
    "fetchScanTasks": _object(("plan-task",), plan_task=_TEXT),
    "reportMetrics": {"type": "object"},
    "createView": _object(("name",), name=_TEXT),
    "replaceView": {"type": "object"},
}
_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "getConfig": {"warehouse": _TEXT},
    "listNamespaces": {"parent": _TEXT, "pageToken": _TEXT, "pageSize": {"type": "integer"}},
    "listTables": {"pageToken": _TEXT, "pageSize": {"type": "integer"}},
    "loadTable": {"snapshots": {"type": "string", "enum": ["all", "refs"]}},
    "dropTable": {"purgeRequested": {"type": "boolean"}},
}


def iceberg_document() -> dict[str, Any]:
    """Describe every route."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        path = f"/iceberg/v1/{route.path}"
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Iceberg REST, served by Lakeroot", "version": "1.0.0"},
        "paths": paths,
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in ("namespace", "table")
        if "{" + name + "}" in route.path
    ]
    parameters += [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in _QUERIES.get(route.operation, {}).items()
    ]
    described: dict[str, Any] = {
        "operationId": route.operation,
        "parameters": parameters,
        "responses": {
            str(route.success): {"description": f"The answer of {route.operation}."},
            "default": {"description": "What went wrong: message, type and code."},
        },
    }
    body = _BODIES.get(route.operation)
    if body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    return described
