"""Committing to the ``__manifest`` table: one leader commits for everybody who waits.

Threads that commit at the same time share one version of the table (group commit): each is
checked on top of those before it, and whoever breaks a rule fails alone. Between processes of one
machine a lock on the directory gives everybody a turn; it is for fairness only, the
compare-and-swap decides.
"""

import contextlib
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from lakeroot.model.commits import (
    Commit,
    Committed,
    DeregisterTable,
    DropTable,
    ManageTableVersions,
    Unchanged,
)
from lakeroot.model.errors import ConcurrentModificationError, LakerootError
from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.model.records import Namespace, Record, Table
from lakeroot.objects import LocalObjects, Objects
from lakeroot.storage.lance_dir import versions
from lakeroot.storage.lance_dir.drafts import Draft
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.rows import Row, row_of
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.version_file import VersionFile
from lakeroot.storage.lance_dir.version_rows import Rows
from lakeroot.storage.overlay import Overlay

VERSION_MANAGEMENT: Final = "table_version_management"
_LONGEST_PAUSE: Final = 0.25


def _closed() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class Pending(Struct, eq=False):
    """A commit that waits for its turn."""

    commit: Commit
    before: Callable[[], None]
    """What must be on disk before the commit may be seen, such as a marker."""

    outcome: Committed | None = None
    error: BaseException | None = field(default=None)
    leads: bool = False
    """Whether the thread that waits for it has to commit for everybody who waits."""

    wake: threading.Lock = field(default_factory=_closed)
    """Opened when it is over, or when it leads."""

    @property
    def is_open(self) -> bool:
        """Tell whether it is neither made nor refused yet."""
        return self.outcome is None and self.error is None

    def result(self) -> Committed | LakerootError:
        """Give how it ended, when it is over."""
        if self.outcome is not None:
            return self.outcome
        if isinstance(self.error, LakerootError):
            return self.error
        if self.error is not None:
            raise self.error
        return ConcurrentModificationError("The commit was not made", fix="Try again")


class _Drafted(Struct, frozen=True):
    """What a batch does to the version it comes after."""

    after: VersionFile
    draft: Draft
    accepted: list[Pending]
    refused: list[tuple[Pending, LakerootError]]

    def refuse(self) -> None:
        for pending, error in self.refused:
            pending.error = error


class Committer:
    """Turns pending commits into versions of the table."""

    def __init__(
        self,
        objects: Objects,
        table: ManifestTable,
        draft_over: Callable[[], Overlay],
        check: Callable[[Commit, Overlay, Rows, int], Rows],
        settings: DirectorySettings,
    ) -> None:
        self._objects = objects
        self._table = table
        self._draft_over = draft_over
        self._check = check
        self._retries = settings.commit_retries
        self._manages_versions = settings.table_version_management
        self._is_local = isinstance(objects, LocalObjects)
        self._queue: list[Pending] = []
        self._queue_lock = threading.Lock()
        self._is_led = False
        self._turn = threading.Lock()

    def commit(self, pending: Pending) -> Committed:
        """Commit, alone or with whoever else is waiting."""
        with self._queue_lock:
            self._queue.append(pending)
            pending.leads = not self._is_led
            self._is_led = True
        try:
            if not pending.leads:
                pending.wake.acquire()
            if pending.leads:
                self._lead()
        except BaseException:
            self._leave(pending)
            raise
        result = pending.result()
        if isinstance(result, LakerootError):
            raise result
        return result

    def commit_each(self, pendings: Sequence[Pending]) -> None:
        """Commit several in one turn, each of which may fail alone: their outcomes are in them."""
        if not pendings:
            return
        first = pendings[0]
        with self._queue_lock:
            self._queue.extend(pendings)
            first.leads = not self._is_led
            self._is_led = True
        try:
            # Whoever leads takes all that wait: if it is not us, then all of these at once.
            if not first.leads:
                first.wake.acquire()
            if first.leads:
                self._lead()
            else:
                for pending in pendings[1:]:
                    pending.wake.acquire()
        except BaseException:
            self._leave(*pendings)
            raise

    def _lead(self) -> None:
        """Commit for everybody who waits, then let the first of those who came since lead."""
        batch: list[Pending] = []
        try:
            with self._turn:
                with self._queue_lock:
                    batch, self._queue = self._queue, []
                self._commit_together(batch)
        finally:
            for pending in batch:
                pending.leads = False
                pending.wake.release()
            self._hand_over()

    def _hand_over(self) -> None:
        with self._queue_lock:
            self._is_led = bool(self._queue)
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].wake.release()

    def _leave(self, *pendings: Pending) -> None:
        """Stop waiting, as on an interrupt; nobody must wait for a leader that is gone."""
        with self._queue_lock:
            self._queue = [waiting for waiting in self._queue if waiting not in pendings]
        if any(pending.leads for pending in pendings):
            self._hand_over()

    def commit_draft(self, plan: Callable[[], Draft | None]) -> bool:
        """Commit a draft that changes no object, planned anew for each newest version.

        Tells whether it did; it does not if the plan, seeing that version, has nothing to do.
        """
        with self._turn, self._machine_turn():
            for attempt in range(self._retries + 1):
                self._table.refresh()
                with self._table.lock:
                    head, draft = self._table.head, plan()
                if draft is None:
                    return False
                if self._table.publish(draft, after=head) is not None:
                    return True
                _pause(attempt)
        raise self._always_second()

    def _commit_together(self, batch: list[Pending]) -> None:
        try:
            prepared = self._prepared(batch) if self._is_local else None
            with self._machine_turn():
                self._attempt_until_done(batch, prepared)
        except BaseException as error:
            for pending in batch:
                if pending.is_open:
                    pending.error = error
            if not isinstance(error, LakerootError):
                raise

    def _prepared(self, batch: list[Pending]) -> "_Drafted | None":
        """Put the markers of commits, before the turn of this process; whoever cannot fails alone.

        What is plainly not allowed does not even put a marker. One thread does it for all: several
        that make directories at the same time only spin on the lock of the directory above.
        """
        self._table.refresh()
        drafted = self._drafted(batch)
        drafted.refuse()
        for pending in drafted.accepted:
            try:
                pending.before()
                pending.before = _nothing
            except LakerootError as error:
                pending.error = error
        return drafted if all(pending.is_open for pending in drafted.accepted) else None

    def _attempt_until_done(self, batch: list[Pending], drafted: "_Drafted | None") -> None:
        # In a bucket the first attempt trusts what is in memory: if it is stale, the
        # compare-and-swap says so, and a refusal is only believed after a fresh look.
        fresh = self._is_local
        for attempt in range(self._retries + 1):
            if fresh or not self._table.head.version:
                self._table.refresh()
                fresh = True
            if drafted is None or drafted.after is not self._table.head:
                drafted = self._drafted([pending for pending in batch if pending.is_open])
            if drafted.refused and not fresh:
                fresh, drafted = True, None
                continue
            drafted.refuse()
            if not drafted.accepted:
                return
            effects = [pending.before for pending in drafted.accepted]
            made = self._table.publish(drafted.draft, effects, after=drafted.after)
            if made is not None:
                for pending in drafted.accepted:
                    pending.outcome = Committed(made.version, made.timestamp_ms)
                return
            fresh, drafted = True, None
            _pause(attempt)
        raise self._always_second()

    def _always_second(self) -> ConcurrentModificationError:
        return ConcurrentModificationError(
            f"The catalog changed {self._retries + 1} times while this commit was being made",
            "other writers were always first",
            "Try again",
        )

    def _drafted(self, batch: list[Pending]) -> "_Drafted":
        """Work out what a batch does to the newest known version, and who may not do it."""
        with self._table.lock:
            return self._drafted_after(self._table.head, batch)

    def _drafted_after(self, head: VersionFile, batch: list[Pending]) -> "_Drafted":
        overlay = self._draft_over()
        now_ms = int(time.time() * 1000)
        rows: dict[Identifier, Row | None] = {}
        accepted: list[Pending] = []
        refused: list[tuple[Pending, LakerootError]] = []
        for pending in batch:
            try:
                with overlay.trial():
                    rows.update(self._check(pending.commit, overlay, rows, now_ms))
            except LakerootError as error:
                refused.append((pending, error))
            else:
                accepted.append(pending)
        root = overlay.changed.pop(ROOT, None)
        rows.update({found: _row(record) for found, record in overlay.changed.items()})
        draft = Draft(
            rows,
            self._table_metadata(root, accepted),
            message="; ".join(
                dict.fromkeys(p.commit.message for p in accepted if p.commit.message)
            ),
            author="; ".join(dict.fromkeys(p.commit.author for p in accepted if p.commit.author)),
            dropped=tuple(place for p in accepted for place in _dropped(p.commit)),
        )
        return _Drafted(head, draft, accepted, refused)

    def _table_metadata(
        self, root: Record | None, accepted: list[Pending]
    ) -> dict[str, str] | None:
        """Work out the metadata of the table, if it changes: properties of the root, switches."""
        before = dict(self._table.head.table_metadata)
        after = before
        if isinstance(root, Namespace):
            controls = {key: value for key, value in before.items() if is_control(key)}
            after = {**root.properties, **controls}
        if self._manages_versions:
            after = {VERSION_MANAGEMENT: "true", **after}
        for pending in accepted:
            for change in pending.commit.changes:
                if isinstance(change, ManageTableVersions):
                    after = {**after, VERSION_MANAGEMENT: "true" if change.enabled else "false"}
        return None if after == before else after

    @contextlib.contextmanager
    def _machine_turn(self) -> Iterator[None]:
        if not isinstance(self._objects, LocalObjects):
            yield
            return
        with contextlib.ExitStack() as turn:
            # There is nothing to lock before the first commit, and on some disks.
            with contextlib.suppress(OSError):
                handle = _opened(turn, self._objects.local_path(versions.DIRECTORY))
                if not _is_locked_at_once(handle):
                    self._wait_in_line(self._objects.local_path(versions.TABLE), handle)
            yield

    def _wait_in_line(self, line_path: str, handle: int) -> None:
        # Only the first in line waits for the turn itself, and it catches up meanwhile with what
        # the others have committed: in its turn it has less to read. Whoever comes by in the
        # moment between two turns may take one: waking a process takes longer than a commit.
        with contextlib.ExitStack() as line:
            place = _opened(line, line_path)
            fcntl.flock(place, fcntl.LOCK_EX)
            if not _is_locked_at_once(handle):
                self._table.refresh()
                fcntl.flock(handle, fcntl.LOCK_EX)


def _opened(until: contextlib.ExitStack, directory: str) -> int:
    handle = os.open(directory, os.O_RDONLY)
    until.callback(os.close, handle)
    return handle


def _is_locked_at_once(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _dropped(commit: Commit) -> Iterator[str]:
    """Give the directories that a collector may delete in time."""
    dropped = {
        one.identifier
        for one in commit.changes
        if isinstance(one, DropTable) or (isinstance(one, DeregisterTable) and one.to_trash)
    }
    for required in commit.requires if dropped else ():
        record = required.record if isinstance(required, Unchanged) else None
        if required.identifier in dropped and isinstance(record, Table):
            yield record.location


def _pause(attempt: int) -> None:
    time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.002 * 2**attempt)))  # noqa: S311


def is_control(key: str) -> bool:
    """Tell whether a key of the table's metadata is for catalogs rather than for people."""
    return key.startswith(("lance.", "lakeroot.")) or key == VERSION_MANAGEMENT


def _nothing() -> None:
    pass


def _row(record: Record | None) -> Row | None:
    return None if record is None else row_of(record)
