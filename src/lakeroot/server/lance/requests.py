"""From HTTP to the request model of an operation."""

import json
import typing
from typing import Any, Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import DELIMITER
from lakeroot.namespace.border import check_keys, completed
from lakeroot.server.bodies import parse_json
from lakeroot.server.lance.routes import Body, Route
from lakeroot.server.wire import Request, decoded

# Whatever a body says about who is calling is not evidence; the headers are.
_NEVER_FROM_BODY: Final = ("identity",)


def identifier_in(segment: str, delimiter: str) -> list[str]:
    """Read an identifier from a part of the path; the delimiter alone is the root."""
    text = decoded(segment)
    if text == delimiter:
        return []
    names = text.split(delimiter)
    if not all(names):
        raise InvalidInputError(
            f"The identifier {text!r} has an empty name",
            fix=f"Write names joined by {delimiter!r}; {delimiter!r} alone is the root",
        )
    return names


def delimiter_of(request: Request) -> str:
    """The delimiter that joins the names of identifiers in this request."""
    if not request.query_string:
        return DELIMITER
    given = request.one("delimiter")
    if given == "":
        raise InvalidInputError("The delimiter cannot be empty")
    return DELIMITER if given is None else given


def fields_of(
    route: Route, request: Request, parts: list[str], body: dict[str, Any]
) -> dict[str, Any]:
    """Collect the fields of an operation's request from the path, the query and the body."""
    fields = {"metadata": body} if route.body is Body.MAP else dict(body)
    for name in _NEVER_FROM_BODY:
        fields.pop(name, None)
    if request.query_string:
        fields.update(_from_query(route, request))
    if "{id}" in route.path:
        delimiter = delimiter_of(request)
        reading = identifier_in(_spaced(parts[1], delimiter), delimiter)
        if "+" in parts[1] and fields.get("id") not in (None, reading):
            reading = identifier_in(parts[1], delimiter)
        _put(fields, "id", reading)
    if "{index_name}" in route.path:
        name = decoded(_spaced(parts[3]))
        if "+" in parts[3] and fields.get("index_name") not in (None, name):
            name = decoded(parts[3])
        _put(fields, "index_name", name)
    check_keys(route.request, {**request.query, **fields} if request.query_string else fields)
    return completed(route.request, fields)


def _spaced(segment: str, delimiter: str = "") -> str:
    """Read a bare `+` as a space: Lance's own client writes it so, and `%2B` for a real one."""
    return segment if "+" in delimiter else segment.replace("+", "%20")


def _put(fields: dict[str, Any], name: str, value: object) -> None:
    given = fields.get(name)
    if given is not None and given != value:
        raise InvalidInputError(
            f"The {name} in the body is not the {name} in the path",
            f"the path says {json.dumps(value)}",
            "Leave it out of the body",
        )
    fields[name] = value


def _from_query(route: Route, request: Request) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in route.query:
        values = request.query.get(name)
        if values is not None:
            found[name] = _value(_kind_of(route, name), name, values)
    return found


def _value(kind: Any, name: str, values: list[str]) -> Any:
    if kind is list:
        return values
    if len(values) > 1:
        raise InvalidInputError(f"The query field {name!r} was given more than once")
    text = values[0]
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InvalidInputError(f"The query field {name!r} is true or false, not {text!r}")
        return text.lower() == "true"
    if kind is int:
        if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or len(text) > 20:
            raise InvalidInputError(f"The query field {name!r} is a number, not {text!r}")
        return int(text)
    if kind is dict:
        value = parse_json(text.encode("utf-8", "surrogatepass"))
        if not isinstance(value, dict):
            raise InvalidInputError(f"The query field {name!r} is a JSON object")
        return value
    return text


_KINDS: Final[dict[tuple[str, str], Any]] = {}


def _kind_of(route: Route, name: str) -> Any:
    key = (route.operation, name)
    if key not in _KINDS:
        _KINDS[key] = _innermost(route.request.model_fields[name].annotation)
    return _KINDS[key]


def _innermost(annotation: Any) -> Any:
    """Unwrap `Optional[Annotated[T, …]]` to `bool`, `int`, `str`, `list` or `dict`."""
    origin = typing.get_origin(annotation)
    if origin in (list, dict):
        return origin
    if origin is None:
        return annotation
    kinds = [part for part in typing.get_args(annotation) if part is not type(None)]
    return _innermost(kinds[0])
