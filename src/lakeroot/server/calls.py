"""Calling a catalog, which is synchronous, from the event loop.

A thread costs more than a warm read of a catalog that lives in memory. So reads that may be quick
are timed, and as long as nearly all of the last calls were quick they are made in place; a second
slow call sends that operation back to the threads until it has been quick again for a while.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final, TypeVar

T = TypeVar("T")

_QUICK_SECONDS: Final = 0.001
_REMEMBERED: Final = 8
_SLOW: Final = (1.0,) * _REMEMBERED


class Caller:
    """Runs synchronous work: in a thread, or in place when it is known to be quick."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakeroot-call")
        self._times: dict[str, deque[float]] = {}

    async def run(self, work: Callable[[], T], quick: str | None = None) -> T:
        """Run the work; `quick` names a kind of work that may be worth doing in place."""
        if quick is None:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        times = self._times.get(quick)
        if times is None:
            times = self._times[quick] = deque(_SLOW, _REMEMBERED)
        if sorted(times)[-2] >= _QUICK_SECONDS:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _timed, work, times)
        start = perf_counter()
        try:
            return work()
        finally:
            times.append(perf_counter() - start)

    def close(self) -> None:
        """Wait for the work in flight and let the threads go."""
        self._pool.shutdown(wait=True, cancel_futures=False)


def _timed(work: Callable[[], T], times: deque[float]) -> T:
    start = perf_counter()
    try:
        return work()
    finally:
        times.append(perf_counter() - start)
