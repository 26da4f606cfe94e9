"""Turns of writers that meet at one table: those who lose races stop racing each other.

A Lance client looks which version is the newest, prepares the next one, and asks for it. If another
was first, everything it did is wasted, and it pauses for longer each time. So a client that has
just written takes a turn at its next look at a table and gives it back when its version is made:
whoever else is about to write the table waits for a moment instead of losing.

A turn is advice and nothing more: the commit decides, as if there were none. It is a lock on the
table's directory of versions, so it ends with the process that holds it. It also ends when its
time is over, and nobody waits for one forever. A client whose turns go unused, because it only
reads, takes none for a while. Only processes of one machine meet this way.
"""

import contextlib
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from lakeroot.model.errors import LakerootError

LONGEST_TURN: Final = 0.25
"""Seconds after which a turn is over, whatever its holder does."""
LONGEST_WAIT: Final = 0.5
"""Seconds after which a client goes on without a turn."""
_WRITER: Final = 2.0
"""Seconds for which a client that wrote a table is expected to write again."""
_WITHOUT: Final = 30.0
"""Seconds without turns after one that was not used, or not to be had."""
_OFTEN: Final = 0.0003
_SELDOM: Final = 0.002
_SOONER: Final = 0.93
_AT_ONCE: Final = 0.0
_KNOWN: Final = 256
_ASKED: Final = -1


class _Table(Struct, eq=False):
    """What this client knows of the writers of one table."""

    meets_others_until: float = 0.0
    without_until: float = 0.0
    handle: int | None = None
    ends_at: float = 0.0
    is_losers: bool = False
    """Whether the turn is kept for whoever of this client lost a race and will try again."""
    has_waited_in_vain: bool = False
    """Whether the last wait in the line ended before it was this client's turn."""


class Turns:
    """The turns of one client of a catalog, whatever the number of its threads."""

    def __init__(self) -> None:
        self._reset()
        _ALL.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._tables: dict[str, _Table] = {}
        self._is_watched = False
        self._writes_until = 0.0

    @property
    def are_taken(self) -> bool:
        """Tell whether this client takes turns now: it has just written."""
        return time.monotonic() < self._writes_until

    def take(self, directory: str, meanwhile: Callable[[], object]) -> None:
        """Take a turn at a table before looking for its newest version, or go on without."""
        with self._changed:
            table = self._table(directory)
            if time.monotonic() < table.without_until or not self._is_free(table):
                return
            table.handle = _ASKED
        handle = None
        try:
            handle = self._locked(directory, table, meanwhile)
        finally:
            with self._changed:
                table.handle = handle
                self._start(table)

    def _is_free(self, table: _Table) -> bool:
        """Tell whether this client has no turn yet; another of its threads may have it."""
        if table.is_losers:
            # Most likely it is the same one again, and its turn is asked for already.
            self._changed.wait_for(lambda: table.handle != _ASKED, LONGEST_WAIT)
            table.is_losers = False
            return table.handle is None
        if table.handle is None:
            return True
        if time.monotonic() >= table.meets_others_until:
            return False  # Most likely the same one again, that looked without writing.
        return self._changed.wait_for(lambda: table.handle is None, LONGEST_WAIT)

    def committed(self, directories: Iterable[str]) -> None:
        """Give the turns of tables back: their versions were made."""
        with self._changed:
            self._writes_until = time.monotonic() + _WRITER
            for directory in directories:
                table = self._tables.get(directory)
                if table is not None:
                    table.is_losers = False
                    self._give_back(table)

    def lost(self, directory: str) -> None:
        """Keep the turn, or ask for one: the client will try again, and must not lose again.

        Its retry does not look for the newest version first, so it cannot be told to wait. The
        turn is waited for beside it: whoever lost while others take turns would lose forever.
        """
        with self._changed:
            table = self._table(directory)
            now = time.monotonic()
            self._writes_until = table.meets_others_until = now + _WRITER
            table.is_losers = True
            if table.handle is None and now >= table.without_until:
                table.handle = _lock_by(_AT_ONCE, directory)
                if table.handle is None:
                    self._ask_beside(directory, table)
            self._start(table)

    def _ask_beside(self, directory: str, table: _Table) -> None:
        table.handle = _ASKED
        work = (directory, table)
        threading.Thread(
            target=self._ask_for_loser, args=work, name="lakeroot-turn", daemon=True
        ).start()

    def _ask_for_loser(self, directory: str, table: _Table) -> None:
        """Take the next turn for whoever lost, before the first in line; none if not needed."""
        end = time.monotonic() + LONGEST_WAIT
        handle = _lock_by(end, directory, is_wanted=lambda: table.is_losers)
        with self._changed:
            if handle is not None and not table.is_losers:
                _unlock(handle)
                handle = None
            table.handle = handle
            self._start(table)

    def _table(self, directory: str) -> _Table:
        if len(self._tables) > _KNOWN:
            now = time.monotonic()
            self._tables = {
                place: one
                for place, one in self._tables.items()
                if one.handle is not None or max(one.meets_others_until, one.without_until) > now
            }
        return self._tables.setdefault(directory, _Table())

    def _locked(self, directory: str, table: _Table, meanwhile: Callable[[], object]) -> int | None:
        handle = _lock_by(_AT_ONCE, directory)
        if handle is None:
            table.meets_others_until = time.monotonic() + _WRITER
            handle = self._waited_for(directory, table, meanwhile)
        if handle is not None:
            table.has_waited_in_vain = False
        return handle

    def _waited_for(
        self, directory: str, table: _Table, meanwhile: Callable[[], object]
    ) -> int | None:
        """Wait for a turn, but not for long.

        Only the first in line waits for the turn itself, and it catches up meanwhile with what
        others commit: in its turn it has less to read. There is no way to wait for a lock for a
        while, so everybody looks again and again, those who have waited longer more often.
        """
        end = time.monotonic() + LONGEST_WAIT
        line = _lock_by(end, os.path.dirname(directory), _SELDOM)  # noqa: PTH120
        if line is None:
            # A long line may be worth another wait, but no more than one.
            is_long = time.monotonic() >= end and not table.has_waited_in_vain
            table.has_waited_in_vain = is_long
            table.without_until = 0.0 if is_long else time.monotonic() + _WITHOUT
            return None
        try:
            with contextlib.suppress(LakerootError):
                meanwhile()
            handle = _lock_by(end, directory)
            if handle is None:
                table.without_until = time.monotonic() + _WITHOUT
            return handle
        finally:
            _unlock(line)

    def _start(self, table: _Table) -> None:
        if table.handle is not None and table.handle != _ASKED:
            table.ends_at = time.monotonic() + LONGEST_TURN
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="lakeroot-turns", daemon=True).start()
        self._changed.notify_all()

    def _give_back(self, table: _Table) -> None:
        if table.handle is None or table.handle == _ASKED:
            return
        handle, table.handle, table.is_losers = table.handle, None, False
        _unlock(handle)
        self._changed.notify_all()

    def _watch(self) -> None:
        """End the turns whose time is over; a thread that lives as long as there are any."""
        while True:
            with self._changed:
                now = time.monotonic()
                held = [one for one in self._tables.values() if one.handle not in (None, _ASKED)]
                for table in held:
                    if now >= table.ends_at:
                        table.without_until = now + _WITHOUT
                        self._give_back(table)
                if not held:
                    self._is_watched = False
                    return
                pause = min(table.ends_at for table in held) - now
            time.sleep(max(pause, 0.01))

    def after_fork(self) -> None:
        """Let go of the parent's turns in a child, without ending them."""
        for table in self._tables.values():
            if table.handle is not None and table.handle != _ASKED:
                with contextlib.suppress(OSError):
                    os.close(table.handle)
        self._reset()


def _lock_by(
    end: float,
    directory: str,
    pause: float = _OFTEN,
    is_wanted: Callable[[], bool] = lambda: True,
) -> int | None:
    """Lock a directory, and look for it again and again until some time; nothing if in vain."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return None
    is_locked = False
    try:
        while not (is_locked := _is_locked_now(handle)) and time.monotonic() < end and is_wanted():
            time.sleep(pause)
            pause = max(pause * _SOONER, _OFTEN)
    except OSError:
        pass  # Not every disk has locks.
    finally:
        if not is_locked:
            os.close(handle)
    return handle if is_locked else None


def _is_locked_now(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(handle: int) -> None:
    # Said, and not only closed: a child of this process may have the same file open.
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


_ALL: Final["weakref.WeakSet[Turns]"] = weakref.WeakSet()


def _after_fork() -> None:
    for turns in list(_ALL):
        turns.after_fork()


os.register_at_fork(after_in_child=_after_fork)
