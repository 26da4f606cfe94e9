"""From the response of an operation to HTTP."""

import json
from collections.abc import Callable
from typing import Any, Final

from lakeroot.server.bodies import ARROW_FILE
from lakeroot.server.lance.routes import Answer, Route
from lakeroot.server.wire import JSON, Response


def render(route: Route, result: Any) -> Response:
    """Write the response of an operation in the form its route promises."""
    return _WRITERS[route.answer](route.success, result)


def _json(status: int, result: Any) -> Response:
    if hasattr(result, "model_dump_json"):
        text: str = result.model_dump_json(by_alias=True, exclude_none=True)
        return Response(status, text.encode("utf-8", "replace"), JSON)
    return _bare(status, result)


def _bare(status: int, value: Any) -> Response:
    return Response(status, json.dumps(value).encode(), JSON)


def _empty(status: int, _: Any) -> Response:
    return Response(status)


def _number(status: int, result: Any) -> Response:
    return _bare(status, result if isinstance(result, int) else result.count)


def _text(status: int, result: Any) -> Response:
    return _bare(status, str(result))


def _map(status: int, result: Any) -> Response:
    found = result.get("metadata") if isinstance(result, dict) else result.metadata
    return _bare(status, found or {})


def _arrow_file(status: int, result: Any) -> Response:
    data = result if isinstance(result, bytes) else result.data
    return Response(status, bytes(data), ARROW_FILE)


_WRITERS: Final[dict[Answer, Callable[[int, Any], Response]]] = {
    Answer.JSON: _json,
    Answer.EMPTY: _empty,
    Answer.NUMBER: _number,
    Answer.TEXT: _text,
    Answer.MAP: _map,
    Answer.ARROW_FILE: _arrow_file,
}
