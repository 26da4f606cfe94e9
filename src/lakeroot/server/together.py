"""Changes of many requests in one call: whoever comes while one is made goes into the next.

The catalog commits for many callers almost at the price of one. Giving each of them a thread of
its own would cost more than the commit: here one thread at a time has them all.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from lakeroot.server.backend import Backend, audited
from lakeroot.server.problems import as_error
from lakeroot.server.wire import Request

_MOST_AT_ONCE: Final = 256
_PATIENCE_SECONDS: Final = 0.001

Work = Callable[[Sequence[Any]], Sequence[Any]]
"""Does what is asked for each, and gives for each the answer or the exception."""


class Together:
    """One kind of change, of which many can be made at once."""

    def __init__(self, backend: Backend, work: Work) -> None:
        self._backend = backend
        self._work = work
        self._waiting: list[tuple[Request, Any, asyncio.Future[Any]]] = []
        self._running: asyncio.Task[None] | None = None
        self._enough = 1
        self._are_enough = asyncio.Event()

    def add(self, request: Request, asked: Any) -> "asyncio.Future[Any]":
        """Make a change with the next call; the future has its answer or its exception.

        Nobody has to wait for it: the change is made, and on record, whether or not anybody does.
        """
        request.changes = True
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((request, asked, answer))
        if len(self._waiting) >= self._enough:
            self._are_enough.set()
        if self._running is None:
            self._running = loop.create_task(self._run())
        return answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_MOST_AT_ONCE]
                del self._waiting[:_MOST_AT_ONCE]
                self._enough = len(batch)
                outcomes = await self._outcomes(batch)
                for (_, _, answer), outcome in zip(batch, outcomes, strict=True):
                    if answer.done():
                        continue  # nobody waits any more
                    if isinstance(outcome, Exception):
                        answer.set_exception(outcome)
                    else:
                        answer.set_result(outcome)
                await self._gather()
        finally:
            self._running = None

    async def _gather(self) -> None:
        """Wait while those who were just answered ask again, as clients in a loop do.

        To begin with the first of them would make two commits of one, and the second would have
        to share the interpreter with the reading of the others' requests. Whoever is alone waits
        for nobody.
        """
        seen = -1
        while seen < len(self._waiting) < self._enough:
            seen = len(self._waiting)
            self._are_enough.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._are_enough.wait(), _PATIENCE_SECONDS)

    async def _outcomes(self, batch: Sequence[tuple[Request, Any, object]]) -> Sequence[Any]:
        try:
            return await self._backend.caller.run(lambda: self._made(batch))
        except Exception as problem:  # noqa: BLE001  everybody in the batch is told
            return [problem] * len(batch)

    def _made(self, batch: Sequence[tuple[Request, Any, object]]) -> Sequence[Any]:
        """Make a batch, in a thread: every attempt is on record before, every outcome after."""
        audit = self._backend.audit
        requests = [request for request, _, _ in batch]
        if audit is not None:
            audit.write_all([("attempt", audited(request)) for request in requests])
        try:
            outcomes = self._work([asked for _, asked, _ in batch])
        except Exception as problem:  # noqa: BLE001  everybody in the batch is told
            outcomes = [problem] * len(batch)
        if audit is not None:
            ends = zip(requests, outcomes, strict=True)
            audit.write_all([_ended(request, outcome) for request, outcome in ends])
        return outcomes


def _ended(request: Request, outcome: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(outcome, Exception):
        error = as_error(outcome, request.id)
        return "failed", {**audited(request), "code": error.code}
    return "done", audited(request)
