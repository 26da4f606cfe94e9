"""A request and a response as every face of the server sees them: values over raw ASGI."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from lakeroot.server.identity.access import EVERYTHING, Access
from lakeroot.server.refusals import MalformedRequestError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON: Final = "application/json"
_MOST_QUERY_FIELDS: Final = 100


@dataclass(slots=True)
class Response:
    """A status, a body and headers; the body of a large answer is sent in pieces."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


def json_response(value: object, status: int = 200) -> Response:
    """Answer with a JSON document."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return Response(status, body, JSON)


class Request:
    """One HTTP request. The path stays percent-encoded, so that `%2F` never becomes a separator."""

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Receive,
        *,
        request_id: str,
        headers: Mapping[str, str],
    ) -> None:
        self.method: str = scope["method"]
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        self.path: str = raw.decode("latin-1").partition("?")[0]
        self.query_string: bytes = scope.get("query_string", b"")
        self.headers = headers
        self.receive = receive
        self.id = request_id
        self.scheme: str = scope.get("scheme", "http")
        client = scope.get("client")
        self.client: str = client[0] if client else ""
        self.operation = "unrouted"
        self.target = ""
        self.changes = False
        self.access: Access = EVERYTHING
        self.call: object = None
        self.due = 0.0
        self.overdue = False
        self.receiving = False

    @cached_property
    def query(self) -> dict[str, list[str]]:
        """The query, decoded, every value of a repeated name kept in order."""
        if not self.query_string:
            return {}
        try:
            pairs = parse_qsl(
                self.query_string.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MOST_QUERY_FIELDS,
            )
        except ValueError as problem:
            raise MalformedRequestError(
                "The query cannot be read", "it is not UTF-8 or has too many fields"
            ) from problem
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            found.setdefault(name, []).append(value)
        return found

    def one(self, name: str) -> str | None:
        """The value of a query field that may be given once."""
        values = self.query.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise MalformedRequestError(f"The query field {name!r} was given more than once")
        return values[0]


def segments(path: str) -> list[str]:
    """Split a path at its real slashes; the parts stay encoded."""
    return path.removeprefix("/").split("/")


def decoded(segment: str) -> str:
    """Decode one part of a path, once and strictly."""
    if segment.count("%") == segment.count("%24"):
        return segment.replace("%24", "$")  # most often nothing but the delimiter is encoded
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise MalformedRequestError("The path is not UTF-8") from problem
