"""Reading request bodies: bounded in bytes and in time, strict in form."""

import asyncio
import json
import mmap
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from time import monotonic
from typing import IO, Any, Final
from urllib.parse import parse_qsl

import pyarrow as pa

from lakeroot.server.refusals import (
    BodyTooLargeError,
    MalformedRequestError,
    WrongContentTypeError,
)
from lakeroot.server.wire import JSON, Request

ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
ARROW_FILE: Final = "application/vnd.apache.arrow.file"
_ARROW_TYPES: Final = frozenset({"", ARROW_STREAM, "application/octet-stream"})
_IN_MEMORY: Final = 8 << 20
_WRITE_AT_ONCE: Final = 1 << 20
_FORM: Final = "application/x-www-form-urlencoded"
_LARGEST_FORM: Final = 64 << 10
_DEEPEST_JSON: Final = 200


def content_type(request: Request) -> str:
    """The media type of the body, without parameters, in lower case."""
    given = request.headers.get("content-type", "")
    return given if given == JSON else given.partition(";")[0].strip().lower()


async def pieces(request: Request, limit: int, idle_seconds: float) -> AsyncIterator[bytes]:
    """Receive the body; refuse one that is too large, and a client that stops sending."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    seen = 0
    whole_seconds = request.due
    request.receiving = True
    while True:
        request.due = min(whole_seconds, monotonic() + idle_seconds)
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise MalformedRequestError("The client went away before the body was complete")
        piece = message.get("body", b"")
        seen += len(piece)
        if seen > limit:
            raise _too_large(limit)
        if piece:
            yield piece
        if not message.get("more_body", False):
            request.due = whole_seconds
            request.receiving = False
            return


async def read_bytes(request: Request, limit: int, idle_seconds: float) -> bytes:
    """Receive a small body whole."""
    return b"".join([piece async for piece in pieces(request, limit, idle_seconds)])


def parse_json(body: bytes) -> Any:
    """Read JSON strictly: UTF-8, no repeated keys, no NaN, no bottomless nesting."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except RecursionError as problem:
        raise MalformedRequestError("The body is nested too deeply") from problem
    except ValueError as problem:
        raise MalformedRequestError("The body is not JSON", _where(problem)) from problem


async def read_json_object(
    request: Request, limit: int, idle_seconds: float, *, takes_null: bool = False
) -> dict[str, Any]:
    """Receive a JSON object; no body at all is an empty one, and so is null where it is taken."""
    return json_object(await read_bytes(request, limit, idle_seconds), takes_null=takes_null)


def json_object(body: bytes, *, takes_null: bool = False) -> dict[str, Any]:
    """Read a JSON object from a body that is here."""
    if body == b"{}" or not body.strip() or (takes_null and body == b"null"):
        return {}
    value = parse_json(body)
    if not isinstance(value, dict):
        raise MalformedRequestError("The body must be a JSON object")
    _check_depth(value)
    return value


def require_json_type(request: Request) -> None:
    """Refuse a body that says it is something else than JSON."""
    kind = content_type(request)
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise WrongContentTypeError(
            f"This route takes JSON, not {kind[:80]!r}", fix="Send application/json"
        )


async def read_form(request: Request, idle_seconds: float) -> dict[str, str]:
    """Receive the fields of a form, each once."""
    if content_type(request) != _FORM:
        raise WrongContentTypeError("This address takes a form", fix=f"Send {_FORM}")
    body = await read_bytes(request, _LARGEST_FORM, idle_seconds)
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=20,
        )
    except ValueError as problem:
        raise MalformedRequestError("The form cannot be read") from problem
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedRequestError("A field of the form was given more than once")
    return found


@asynccontextmanager
async def arrow_body(
    request: Request, limit: int, idle_seconds: float
) -> AsyncIterator[bytes | mmap.mmap]:
    """Receive an Arrow stream: a small one as bytes, a large one as a mapped temporary file."""
    kind = content_type(request)
    if kind not in _ARROW_TYPES:
        raise WrongContentTypeError(
            f"This route takes an Arrow IPC stream, not {kind[:80]!r}", fix=f"Send {ARROW_STREAM}"
        )
    held: list[bytes] = []
    size = 0
    with ExitStack() as stack:
        file: IO[bytes] | None = None
        async for piece in pieces(request, limit, idle_seconds):
            held.append(piece)
            size += len(piece)
            if size > (_IN_MEMORY if file is None else _WRITE_AT_ONCE):
                file = file or stack.enter_context(tempfile.TemporaryFile())
                await asyncio.to_thread(file.writelines, held)
                held, size = [], 0
        if file is None:
            yield b"".join(held)
            return
        file.writelines(held)
        file.flush()
        # Not closed by hand: Arrow buffers may still point into it; it goes with the last of them.
        yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def check_arrow(data: bytes | mmap.mmap, most_rows: int) -> None:
    """Refuse bytes that are not a whole, sound Arrow stream, before anything stores them.

    Every buffer is validated: offsets that point outside would be trusted by native readers.
    """
    rows = 0
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            for batch in reader:
                batch.validate(full=True)
                rows += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, KeyError) as problem:
        raise MalformedRequestError("The body is not a complete Arrow IPC stream") from problem
    if rows > most_rows:
        raise BodyTooLargeError(
            f"The body holds {rows} rows; at most {most_rows} are accepted in one request",
            fix="Send them in several requests",
        )


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"The body is larger than the {limit} bytes that are accepted",
        fix="Send it in smaller pieces",
        headers={"Connection": "close"},
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: making a decoder costs more than reading a small body.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _where(problem: ValueError) -> str:
    if isinstance(problem, json.JSONDecodeError):
        return f"{problem.msg} at line {problem.lineno}, column {problem.colno}"
    if isinstance(problem, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(problem)


def _check_depth(value: object, depth: int = 0) -> None:
    if depth > _DEEPEST_JSON:
        raise MalformedRequestError("The body is nested too deeply")
    if isinstance(value, dict):
        for part in value.values():
            _check_depth(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _check_depth(part, depth + 1)
