"""Deadlines of requests, kept by one clock for all of them.

A timer for every request costs more than many a request. So each request only notes when it is
due, and a few times a second one task looks for those that are late and stops them.
"""

import asyncio
from time import monotonic
from typing import Any, Final

from lakeroot.server.wire import Request

_LOOK_EVERY_SECONDS: Final = 0.1


class Deadlines:
    """The requests in flight, and when each of them is due."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Future[Any], Request] = {}

    def start(self, request: Request, seconds: float) -> asyncio.Task[Any]:
        """Watch a request; gives the task that works on it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a request is always worked on by a task
        self.watch_over(task, request, seconds)
        return task

    def watch_over(self, work: "asyncio.Future[Any]", request: Request, seconds: float) -> None:
        """Watch a request that is waiting for some work."""
        request.due = monotonic() + seconds
        self._running[work] = request

    def stop(self, work: "asyncio.Future[Any]") -> None:
        """The request is done."""
        self._running.pop(work, None)

    async def watch(self) -> None:
        """Stop those that are late, for as long as the server runs."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            now = monotonic()
            for task, request in list(self._running.items()):
                if request.due < now and not request.overdue:
                    request.overdue = True
                    task.cancel()
