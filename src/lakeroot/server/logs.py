"""The access log and the audit log: one JSON object a line, append-only.

Neither ever holds a body, a header, a query string or a secret: only who asked for which operation
on which object, and how it ended.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import time
from typing import Any, Final, Literal

from lakeroot.model.errors import InvalidInputError

LogFormat = Literal["json", "text"]

_FLUSH_SECONDS: Final = 0.2
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
_QUOTED: Final = json.encoder.encode_basestring_ascii


def _line(fields: Mapping[str, Any]) -> bytes:
    """Write fields as one JSON object; strings and numbers, which is all there is, by hand."""
    parts = [f'{{"at":"{_now()}"']
    for name, value in fields.items():
        kind = type(value)
        if kind is str:
            parts.append(f',"{name}":{_QUOTED(value)}')
        elif kind is int or kind is float:
            parts.append(f',"{name}":{value!r}')
        else:
            parts.append(f',"{name}":{_ENCODE(value)}')
    parts.append("}\n")
    return "".join(parts).encode()


def _text_line(fields: dict[str, Any]) -> bytes:
    """Write a request for people; names are written as in JSON, so they cannot forge a line."""
    shown = (_ENCODE(value) if name == "object" else value for name, value in fields.items())
    return (" ".join((_now(), *map(str, shown))) + "\n").encode()


def _now() -> str:
    now = time()
    second = int(now)
    return f"{_date(second)}.{int((now - second) * 1000):03d}+00:00"


@lru_cache(2)
def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class AccessLog:
    """Every request, written a few times a second so that a busy server is not slowed down."""

    def __init__(self, target: Path | None, form: LogFormat = "json") -> None:
        self._line = _line if form == "json" else _text_line
        self._descriptor = (
            sys.stderr.fileno() if target is None else _open_for_append(target, 0o640)
        )
        self._waiting: list[bytes] = []

    def write(self, fields: dict[str, Any]) -> None:
        """Note one answered request."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
        self._waiting.append(self._line(fields))

    def flush(self) -> None:
        """Write what is waiting."""
        if self._waiting:
            _write_all(self._descriptor, b"".join(self._waiting))
            self._waiting.clear()


class AuditLog:
    """Every change, before it is tried and after it ended, and every denial.

    A line is one `write` to a file opened for appending, so several workers can share the file,
    and a change is never made before its attempt is on record.
    """

    def __init__(self, target: Path) -> None:
        self._descriptor = _open_for_append(target, 0o600)

    def write(self, event: str, fields: dict[str, Any]) -> None:
        """Record an attempt, an outcome or a denial."""
        self.write_all([(event, fields)])

    def write_all(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Record several at once."""
        lines = [_line({"event": event, **fields}) for event, fields in events]
        _write_all(self._descriptor, b"".join(lines))


def _open_for_append(target: Path, mode: int) -> int:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    except OSError as problem:
        raise InvalidInputError(
            f"The log {target} cannot be written", problem.strerror or str(problem)
        ) from problem


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
