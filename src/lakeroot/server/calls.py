"""Calling a catalog, which is synchronous, from the event loop.

A thread costs more than a warm read of a catalog that lives in memory. So reads that may be quick
are timed, and as long as most of the last calls were quick they are made in place; a third slow
one among them sends that operation back to the threads.

There a call that is quick by itself looks slow whenever many wait for the interpreter, or for a
core. A call that has to wait for a storage elsewhere never looks quick. So two quick ones among
the last bring it back.
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
_SLOW_TO_LEAVE: Final = 3
_QUICK_TO_RETURN: Final = 2


class Kind:
    """One kind of work, how long it took lately, and where it is done."""

    def __init__(self) -> None:
        self.in_place = False
        self._were_quick: deque[bool] = deque(maxlen=_REMEMBERED)

    def timed(self, work: Callable[[], T]) -> T:
        """Do the work where this is called, and remember how long it took."""
        start = perf_counter()
        try:
            return work()
        finally:
            self.remember(perf_counter() - start)

    def remember(self, seconds: float) -> None:
        """Take one call into account."""
        were_quick = self._were_quick
        is_quick = seconds < _QUICK_SECONDS
        were_quick.append(is_quick)
        if is_quick == self.in_place:
            return
        quick = sum(were_quick)
        if self.in_place:
            moves = len(were_quick) - quick >= _SLOW_TO_LEAVE
        else:
            moves = quick >= _QUICK_TO_RETURN
        if moves:
            self.in_place = not self.in_place
            were_quick.clear()


class Caller:
    """Runs synchronous work: in a thread, or in place when it is known to be quick."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakeroot-call")
        self._kinds: dict[str, Kind] = {}

    async def run(self, work: Callable[[], T], quick: str | None = None) -> T:
        """Run the work; `quick` names a kind of work that may be worth doing in place."""
        if quick is None:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        kind = self.kind(quick)
        if kind.in_place:
            return kind.timed(work)
        return await asyncio.get_running_loop().run_in_executor(self._pool, kind.timed, work)

    def kind(self, name: str) -> Kind:
        """What is known of a kind of work."""
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = Kind()
        return found

    def close(self) -> None:
        """Wait for the work in flight and let the threads go."""
        self._pool.shutdown(wait=True, cancel_futures=False)
