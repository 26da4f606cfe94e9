"""Turns of writers that meet at one table: those who lose races stop racing each other.

A Lance client looks which version is the newest, prepares the next one, and asks for it. If another
was first, everything it did is wasted, and it pauses for longer each time. So a client that has
just written takes a turn at its next look at a table and gives it back when its version is made:
whoever else is about to write the table waits for a moment instead of losing. A client that makes
one version after the other stays for some of them, because handing a turn to another process costs
as much as a version. Who writes many rows takes none: others write theirs at the same time.

A turn is advice and nothing more: the commit decides, as if there were none. It is a lock on the
table's directory of versions, so it ends with the process that holds it. It also ends when its
time is over, and nobody waits for one forever. A client whose turns go unused, because it only
reads, takes none for a while. Only processes of one machine meet this way.
"""

import atexit
import contextlib
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from lakeroot.objects.locks import locked_now, unlock

LONGEST_TURN: Final = 0.25
"""Seconds after which a turn is over, whatever its holder does."""
LONGEST_STAY: Final = 0.1
"""Seconds for which a client may take one turn after the other while others wait."""
LONGEST_WAIT: Final = 0.5
"""Seconds after which a client goes on without a turn, if the table did not change meanwhile."""
LONGEST_LINE: Final = 3.0
"""Seconds after which a client goes on without a turn, however often the table changed."""
_BACK: Final = 0.005
"""Seconds within which a client that stays must be back for its next turn."""
_REST: Final = 0.1
"""Seconds after which the watch looks again while nobody stays, and nobody is about to."""
_NO_STAY: Final = 0.5
"""Seconds without staying after a client stayed and was not back."""
_WRITER: Final = 2.0
"""Seconds for which a client that wrote a table is expected to write again."""
_WITHOUT: Final = 30.0
"""Seconds without turns after one that was not used, or not to be had."""
LONG_WORK: Final = 0.02
"""Seconds of work from a look to its version, with which nobody takes turns at looks."""
_WORK_PER_BYTE: Final = 1e-7
"""Seconds that Lance may work for every byte of a manifest, which it reads, and writes again."""
_KNOWN: Final = 256
_THREADS: Final = 64
"""Threads of one process that wait for turns: whoever is stopped holds up all of them."""


class _Table(Struct, eq=False):
    """What this client knows of the writers of one table."""

    handle: int | None = None
    """The lock that is the turn of this client."""
    asked: tuple[int, ...] = ()
    """The locks that a thread of this client waits for."""
    is_wanted: bool = False
    """Whether anybody still wants the turn that is asked for."""
    ends_at: float = 0.0
    stays_until: float = 0.0
    """When this client has had its share of turns, and others come first."""
    is_staying: bool = False
    """Whether the turn is kept for the next version of this client, which is not begun yet."""
    is_losers: bool = False
    """Whether the turn is kept for whoever of this client lost a race and will try again."""
    meets_others_until: float = 0.0
    goes_until: float = 0.0
    """Until when this client does not stay."""
    without_until: float = 0.0
    began: tuple[float, float] | None = None
    """When this client had looked last: by the clock, and by the work that its process had done."""
    works_long: bool = False
    """Whether it worked for long on its last version: much more than what a lost race costs."""

    @property
    def is_free(self) -> bool:
        """Whether a thread of this client may take the next turn, or the one that was kept."""
        return self.is_staying or (self.handle is None and not self.asked)


class Turns:
    """The turns of one client of a catalog, whatever the number of its threads."""

    def __init__(self) -> None:
        self._reset()
        _ALL.add(self)

    def _reset(self) -> None:
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._called = threading.Condition(lock)
        self._tables: dict[str, _Table] = {}
        self._is_watched = False
        self._looks_at = 0.0
        self._writes_until = 0.0

    @property
    def are_taken(self) -> bool:
        """Tell whether this client takes turns now: it has just written."""
        return time.monotonic() < self._writes_until

    def look(self, directory: str, meanwhile: Callable[[], object]) -> None:
        """Take a turn at a table before looking for its newest version, or go on without.

        Who writes many rows between its look and its version goes without: others write theirs at
        the same time, and only the end of it can be lost in a race.
        """
        with self._changed:
            works_long = self._table(directory).works_long
        if not works_long:
            self.take(directory, meanwhile)

    def looked(self, directory: str) -> None:
        """Note that the newest version is known now, and that the work on the next begins."""
        with self._changed:
            self._table(directory).began = time.monotonic(), time.process_time()

    def take(self, directory: str, meanwhile: Callable[[], object]) -> None:
        """Take a turn at a table, or go on without.

        Who is about to have the turn can do something meanwhile.
        """
        with self._changed:
            table = self._table(directory)
            now = time.monotonic()
            if now < table.without_until:
                return
            if table.is_losers:
                # Most likely it is the same one again, and its turn is asked for already.
                self._is_granted(directory, table)
                table.is_losers = False
                if table.handle is not None:
                    return
            elif not table.is_free:
                if now >= table.meets_others_until:
                    return  # Most likely the same one again, that looked without writing.
                # Another thread of this client has it.
                self._changed.wait_for(lambda: table.is_free, LONGEST_WAIT)
            # It may have been forgotten while this thread waited: its turn would never end.
            table = self._tables.setdefault(directory, table)
            if table.is_free:
                self._take(directory, table, meanwhile)
            elif table.asked and not table.is_wanted:
                # What was asked for in vain is not to be had yet: whoever has it stands still.
                table.without_until = time.monotonic() + _WITHOUT

    def _take(self, directory: str, table: _Table, meanwhile: Callable[[], object]) -> None:
        if not table.is_staying:
            table.handle = locked_now(directory)
            if table.handle is None:
                table.meets_others_until = time.monotonic() + _WRITER
                try:
                    self._ask(directory, table, meanwhile)
                    is_granted = self._is_granted(directory, table)
                finally:
                    table.is_wanted = False  # Also for whoever is interrupted.
                if not is_granted:
                    table.without_until = time.monotonic() + _WITHOUT
                    for place in table.asked[:-1]:
                        # Its thread may wait for long: the line is for those who still want it.
                        with contextlib.suppress(OSError):
                            fcntl.flock(place, fcntl.LOCK_UN)
                    return
            table.stays_until = time.monotonic() + LONGEST_STAY
        table.is_staying = False
        self._start(table)

    def prepared(self, directory: str, manifest_size: int) -> None:
        """Note how long this client worked since its look; a retry has none of its own."""
        with self._changed:
            table = self._tables.get(directory)
            if table is None or table.began is None:
                return
            since, work = table.began
            table.began = None
            # Beside others its process waits for the processor: that is no work. Nor is what Lance
            # does with the manifest of a large table, which is lost with the race.
            little = LONG_WORK + manifest_size * _WORK_PER_BYTE
            worked, taken = time.process_time() - work, time.monotonic() - since
            table.works_long = worked > little or taken > LONGEST_TURN

    def committed(self, directories: Iterable[str]) -> None:
        """Give the turns of tables back, or stay for the next: their versions were made."""
        with self._changed:
            now = time.monotonic()
            self._writes_until = now + _WRITER
            for directory in directories:
                table = self._tables.get(directory)
                if table is None:
                    continue
                table.is_losers = False
                may_stay = min(table.stays_until, table.meets_others_until)
                is_back_soon = table.goes_until <= now < may_stay and not table.works_long
                if table.handle is not None and is_back_soon:
                    table.is_staying = True
                    table.ends_at = now + _BACK
                    self._call_watch(table)
                    self._changed.notify_all()
                else:
                    self._give_back(table)

    def leave(self, directories: Iterable[str]) -> None:
        """Give the turns of tables back, whether a version was made or not."""
        with self._changed:
            for directory in directories:
                table = self._tables.get(directory)
                if table is not None:
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
            if table.handle is None and not table.asked and now >= table.without_until:
                table.handle = locked_now(directory)
                if table.handle is None:
                    self._ask(directory, table)
            self._start(table)

    def _table(self, directory: str) -> _Table:
        if len(self._tables) > _KNOWN:
            now = time.monotonic()
            self._tables = {
                place: one
                for place, one in self._tables.items()
                if one.handle is not None
                or one.asked
                or max(one.meets_others_until, one.without_until) > now
            }
        return self._tables.setdefault(directory, _Table())

    def _ask(
        self, directory: str, table: _Table, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """Wait for a turn in a thread: there is no way to wait for a lock for a while only.

        Only the first in line waits for the turn itself, beside those who have lost a race, who
        have nothing to do meanwhile and want the turn until their version is made.
        """
        table.is_wanted = meanwhile is not None
        line = [os.path.dirname(directory)] if meanwhile is not None else []  # noqa: PTH120
        handles = []
        with contextlib.ExitStack() as opened:
            for place in (*line, directory):
                try:
                    handle = os.open(place, os.O_RDONLY)
                except OSError:
                    return
                opened.callback(os.close, handle)
                handles.append(handle)
            opened.pop_all()
        asked = tuple(handles)
        work = (table, asked, meanwhile or (lambda: None))
        thread = threading.Thread(target=self._wait, args=work, name="lakeroot-turn", daemon=True)
        table.asked = asked
        if not _has_begun(thread):
            table.asked = ()
            for handle in asked:
                os.close(handle)

    def _wait(self, table: _Table, asked: tuple[int, ...], meanwhile: Callable[[], object]) -> None:
        *line, handle = asked
        is_locked = False
        with contextlib.suppress(OSError):  # Not every disk has locks.
            for one in line:
                fcntl.flock(one, fcntl.LOCK_EX)
            if table.is_wanted or table.is_losers:
                # Whatever is wrong is told by the look that comes after it.
                with contextlib.suppress(Exception):
                    meanwhile()
                fcntl.flock(handle, fcntl.LOCK_EX)
                is_locked = True
        with self._changed:
            _BEGUN.discard(threading.current_thread())
            if table.asked != asked:
                return  # This client has ended, and closed them.
            table.asked = ()
            if is_locked and (table.is_wanted or table.is_losers) and table.handle is None:
                table.handle = handle
                self._start(table)
            else:
                unlock(handle)
            for one in line:
                unlock(one)
            self._changed.notify_all()

    def _is_granted(self, directory: str, table: _Table) -> bool:
        """Wait for what is asked for, as long as the line moves; whoever gives up loses races."""
        end = time.monotonic() + LONGEST_LINE
        before, changed = None, _changed_at(directory)
        while changed != before and time.monotonic() < end:
            if self._changed.wait_for(lambda: not table.asked, LONGEST_WAIT):
                break
            before, changed = changed, _changed_at(directory)
        return table.handle is not None

    def _start(self, table: _Table) -> None:
        if table.handle is not None:
            table.ends_at = time.monotonic() + LONGEST_TURN
            if not self._is_watched:
                watch = threading.Thread(target=self._watch, name="lakeroot-turns", daemon=True)
                try:
                    watch.start()
                    self._is_watched = True
                except RuntimeError:  # There are too many threads, or Python is about to end.
                    self._give_back(table)
        self._changed.notify_all()

    def _give_back(self, table: _Table) -> None:
        handle, table.handle = table.handle, None
        table.is_losers = table.is_staying = False
        if handle is not None:
            unlock(handle)
            self._changed.notify_all()

    def _watch(self) -> None:
        """End the turns whose time is over; a thread that lives as long as this client writes."""
        with self._changed:
            while (pause := self._end_overdue()) is not None:
                self._looks_at = time.monotonic() + pause
                self._called.wait(pause)
            self._is_watched = False

    def _end_overdue(self) -> float | None:
        """End the turns whose time is over; say when to look again, or that nobody has to."""
        now = time.monotonic()
        held = [one for one in self._tables.values() if one.handle is not None]
        for table in held:
            if now < table.ends_at:
                continue
            if table.is_staying:
                table.goes_until = now + _NO_STAY
            else:
                table.without_until = now + _WITHOUT
            self._give_back(table)
        held = [one for one in held if one.handle is not None]
        if not held and now >= self._writes_until:
            return None
        # A stay that begins while the watch rests calls it; in between stays it is not worth it.
        if any(one.meets_others_until > now for one in held):
            return min((one.ends_at - now for one in held if one.is_staying), default=_BACK)
        return _REST

    def _call_watch(self, table: _Table) -> None:
        if table.ends_at < self._looks_at:
            self._called.notify()

    def end(self) -> None:
        """Give back every turn."""
        with self._changed:
            for table in self._tables.values():
                table.is_wanted = False
                self._give_back(table)
                # A lock that a thread still waits for is nobody's once its handle is closed.
                asked, table.asked = table.asked, ()
                for handle in asked:
                    os.close(handle)

    def after_fork(self) -> None:
        """Let go of the parent's turns in a child, without ending them."""
        for table in self._tables.values():
            for handle in (table.handle, *table.asked):
                if handle is not None:
                    with contextlib.suppress(OSError):
                        os.close(handle)
        self._reset()


def _has_begun(thread: threading.Thread) -> bool:
    """Start a thread that waits, unless there are too many: a turn is no reason to fail."""
    if len(_BEGUN) >= _THREADS:
        return False
    _BEGUN.add(thread)
    try:
        thread.start()
    except RuntimeError:
        _BEGUN.discard(thread)
        return False
    return True


def _changed_at(directory: str) -> int | None:
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116
    except OSError:
        return None


_BEGUN: Final[set[threading.Thread]] = set()
_ALL: Final["weakref.WeakSet[Turns]"] = weakref.WeakSet()


def _after_fork() -> None:
    _BEGUN.clear()
    for turns in list(_ALL):
        turns.after_fork()


def _at_exit() -> None:
    # A process that ends takes a while to be gone, and nobody watches its turns any more.
    for turns in list(_ALL):
        turns.end()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
