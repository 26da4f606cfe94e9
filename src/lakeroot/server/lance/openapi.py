"""The OpenAPI description of the Lance face, written from the table of routes."""

from typing import Any

from lakeroot.server.bodies import ARROW_FILE, ARROW_STREAM
from lakeroot.server.lance.routes import ROUTES, Answer, Body, Route

_REF = "#/components/schemas/{model}"
_ERROR = {"$ref": "#/components/schemas/ErrorResponse"}


def lance_document() -> dict[str, Any]:
    """Describe every route."""
    schemas: dict[str, Any] = {"ErrorResponse": _error_schema()}
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lance REST, served by Lakeroot", "version": "1.0.0"},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.operation,
        "parameters": _parameters(route),
        "responses": {
            str(route.success): _answer(route),
            "default": {
                "description": "What went wrong.",
                "content": {"application/json": {"schema": _ERROR}},
            },
        },
    }
    body = _body(route, schemas)
    if body is not None:
        described["requestBody"] = body
    return described


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in ("id", "index_name")
        if "{" + name + "}" in route.path
    ]
    found.append({"name": "delimiter", "in": "query", "schema": {"type": "string", "minLength": 1}})
    properties = route.request.model_json_schema()["properties"]
    for name in route.query:
        schema = properties[name]
        is_map = any("additionalProperties" in kind for kind in schema.get("anyOf", []))
        found.append(
            {"name": name, "in": "query", "schema": {"type": "string"} if is_map else schema}
        )
    return found


def _body(route: Route, schemas: dict[str, Any]) -> dict[str, Any] | None:
    if route.method == "GET":
        return None
    if route.body is Body.ARROW:
        binary = {"type": "string", "format": "binary"}
        return {"required": True, "content": {ARROW_STREAM: {"schema": binary}}}
    if route.body is Body.MAP:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
    else:
        model = route.request.__name__
        document = route.request.model_json_schema(ref_template=_REF)
        schemas.update(document.pop("$defs", {}))
        schemas[model] = document
        schema = {"$ref": _REF.format(model=model)}
    return {"content": {"application/json": {"schema": schema}}}


def _answer(route: Route) -> dict[str, Any]:
    described: dict[str, Any] = {"description": f"The answer of {route.operation}."}
    if route.answer is Answer.ARROW_FILE:
        described["content"] = {ARROW_FILE: {}}
    elif route.answer is not Answer.EMPTY:
        kind = {Answer.NUMBER: "integer", Answer.TEXT: "string"}.get(route.answer, "object")
        described["content"] = {"application/json": {"schema": {"type": kind}}}
    return described


def _error_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["code"],
        "properties": {
            "error": text,
            "code": {"type": "integer"},
            "detail": text,
            "instance": text,
        },
    }
