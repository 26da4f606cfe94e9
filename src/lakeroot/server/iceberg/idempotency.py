"""`Idempotency-Key`: a change that is sent again is answered again, not made again.

The answers are kept in a directory that all workers share. A key is claimed by creating its file,
which only one of them can do; answers that a repetition could change (5xx) are not kept.
"""

import base64
import contextlib
import hashlib
import json
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lakeroot.server.iceberg.calls import Call
from lakeroot.server.iceberg.errors import IcebergError, bad_request
from lakeroot.server.problems import as_error
from lakeroot.server.refusals import OverloadedError
from lakeroot.server.wire import Response

LIFETIME: Final = "PT30M"
_SECONDS: Final = 30 * 60
_SWEEP_EVERY: Final = 60.0


class Idempotency:
    """Remembers the answers to changes by their keys."""

    def __init__(self, shared: Path | None = None) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="lakeroot-") if shared is None else None
        self._folder = Path(self._own.name) if self._own else (shared or Path()) / "idempotency"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._swept = time.monotonic()

    def once(self, call: Call, work: Callable[[], Response]) -> Response:
        """Do the work unless the same request with the same key was answered before."""
        key = call.request.headers.get("idempotency-key")
        if key is None:
            return work()
        try:
            uuid.UUID(key)
        except ValueError as problem:
            raise bad_request("Idempotency-Key must be a UUID") from problem
        self._sweep()
        file = (
            self._folder
            / hashlib.sha256(f"{call.request.access.principal}\n{key}".encode()).hexdigest()
        )
        asked = _fingerprint(call)
        try:
            with file.open("x") as claim:
                claim.write(json.dumps({"asked": asked}))
        except FileExistsError:
            return _replayed(file, asked)
        return self._first(file, asked, work, call)

    def _first(self, file: Path, asked: str, work: Callable[[], Response], call: Call) -> Response:
        try:
            response = work()
        except Exception as problem:
            error = as_error(problem, call.request.id)
            if isinstance(error, IcebergError) and error.status < 500:
                kept = {"status": error.status, "kind": error.kind, "message": error.what}
                _keep(file, {"asked": asked, "error": kept})
            else:
                file.unlink(missing_ok=True)
            raise
        _keep(file, {"asked": asked, "answer": _as_json(response)})
        return response

    def _sweep(self) -> None:
        if time.monotonic() - self._swept < _SWEEP_EVERY:
            return
        self._swept = time.monotonic()
        oldest = time.time() - _SECONDS
        for file in self._folder.iterdir():
            if file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)


def _fingerprint(call: Call) -> str:
    text = f"{call.request.method} {call.request.path}\n{json.dumps(call.body, sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()


def _keep(file: Path, value: dict[str, Any]) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    fresh.replace(file)


def _as_json(response: Response) -> dict[str, Any]:
    return {
        "status": response.status,
        "body": base64.b64encode(response.body).decode(),
        "type": response.content_type,
    }


def _replayed(file: Path, asked: str) -> Response:
    kept: Any = {}
    # A file that is gone or damaged says nothing; the request is not made a second time for it.
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(file.read_text() or "{}")
    if not isinstance(kept, dict):
        kept = {}
    if kept.get("asked", asked) != asked:
        raise bad_request("The Idempotency-Key was used for another request")
    if "error" in kept:
        error = kept["error"]
        raise IcebergError(error["status"], error["kind"], error["message"])
    if "answer" not in kept:
        raise OverloadedError(
            "The same request is still being worked on", headers={"Retry-After": "1"}
        )
    answer = kept["answer"]
    return Response(answer["status"], base64.b64decode(answer["body"]), answer["type"])
