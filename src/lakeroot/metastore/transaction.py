"""Transactions: several changes, all or nothing, decided by one put-if-absent."""

import random
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from lakeroot.metastore import foreign
from lakeroot.metastore.changes import TableChanges
from lakeroot.metastore.conflicts import conflicts
from lakeroot.metastore.entries import Entry, EntryKind, Write
from lakeroot.metastore.index import Snapshot
from lakeroot.metastore.jobs import is_done_since
from lakeroot.metastore.leases import Lease
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.naming import start_time
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    LakerootError,
    PermissionDeniedError,
)

ATTEMPTS: Final = 200
STRANGER_ATTEMPTS: Final = 60


def _wait(attempt: int) -> None:
    time.sleep(random.uniform(0, min(0.002 * 2 ** min(attempt, 6), 0.1)))  # noqa: S311


class Transaction(TableChanges):
    """A transaction sees the state it began with and its own changes, and commits or fails whole.

    Used as a context manager, it commits at the end of the block and aborts if the block raises.
    """

    def __init__(
        self,
        log: CommitLog,
        snapshot: Snapshot,
        *,
        message: str | None = None,
        serializable: bool = False,
    ) -> None:
        super().__init__(log, snapshot, serializable=serializable)
        self.message = message
        self.facts: dict[str, Any] = {}
        self.committed: Entry | None = None
        self.is_open = True
        self.lease = Lease(log, self.txn_id, message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        elif self.is_open and issubclass(kind, Exception):
            self.abort()
            if issubclass(kind, InternalError):
                # What is missing may have gone with a state that a clean-up has let go of.
                with suppress(LakerootError):
                    self.log.sync()
                self._require_remembered()

    def commit(self) -> None:
        """Decide the transaction, then publish what it wrote."""
        if not self.is_open:
            raise InvalidInputError("The transaction has ended already", fix="Begin a new one")
        try:
            entry = self._decide()
        except (ConcurrentModificationError, InvalidInputError, PermissionDeniedError):
            self.abort()
            raise
        except LakerootError:
            # The storage failed, and may have committed all the same: what was written must stay.
            # If it did not, vacuum finds the lease and removes the files.
            self.is_open = False
            raise
        self.is_open = False
        if entry is not None:
            self.committed = entry
            self._finish(entry)
        self.lease.release()

    def abort(self) -> None:
        """Give up: nothing was written that a reader could see; what was prepared is removed."""
        self.is_open = False
        self.lease.abandon()

    def _decide(self) -> Entry | None:
        for attempt in range(ATTEMPTS):
            writes = self.writes()
            if not writes:
                return None
            self.log.sync()
            if (own := self._already()) is not None:
                return own
            if self._rebase():
                writes = self.writes()
            if self.log.has_strangers:
                numbered = self._past_strangers(writes, attempt)
                if numbered is None:
                    continue
                writes = numbered
            entry = self._entry(writes)
            if self.log.decide(entry, self.snapshot.sequence):
                return entry
            _wait(attempt)
        raise ConcurrentModificationError(
            "The transaction could not be committed",
            f"other writers were faster {ATTEMPTS} times in a row",
            "Try again later, or put more changes into one transaction",
        )

    def _already(self) -> Entry | None:
        # A request that seemed lost may have arrived after all.
        sequence = self.log.index.sequences.get(self.txn_id)
        return None if sequence is None else self.log.entry(sequence)

    def _entry(self, writes: tuple[Write, ...]) -> Entry:
        end, facts = self._end_time(), dict(self.facts)
        return Entry(EntryKind.COMMIT, self.txn_id, end, self.message, writes, facts)

    def _past_strangers(self, writes: tuple[Write, ...], attempt: int) -> tuple[Write, ...] | None:
        now_ms = time.time_ns() // 1_000_000
        try:
            return foreign.renumbered(self.log.objects, self.layout, writes, self.txn_id, now_ms)
        except ConcurrentModificationError:
            if attempt >= STRANGER_ATTEMPTS:
                raise
            self.log.look_wide()
            _wait(attempt)
            return None

    def _require_remembered(self) -> None:
        if self.snapshot.sequence < self.log.index.horizon:
            raise ConcurrentModificationError(
                "The state that the transaction began with is forgotten",
                "a clean-up let go of it, because it is older than the history that is kept",
                "Begin it again, or keep more history than transactions last",
            )

    def _rebase(self) -> bool:
        index = self.log.index
        if self.txn_id in index.fenced:
            raise ConcurrentModificationError(
                "The transaction was ended by a clean-up",
                "it gave no sign of life for longer than its lease",
                "Begin it again, and call `lease.renew()` during long work",
            )
        if index.head == self.snapshot.sequence:
            return False
        # What was dropped since is gone without a trace, so nobody can tell of a conflict.
        self._require_remembered()
        if is_done_since(self.log, self.snapshot.sequence, self.facts):
            raise ConcurrentModificationError(
                "Another transaction has done the same job, or may have",
                "it committed after this one began",
            )
        written = {*self.changes.objects, *self.changes.names}
        spoiled = conflicts(index, self.snapshot.sequence, written, self.changes.footprint)
        movable = set() if self._serializable else self._movable()
        if spoiled - movable:
            raise self._conflict(min(spoiled - movable))
        self.snapshot = Snapshot(index.head)
        if spoiled:
            self._check_streams()
            self.rebase_appends()
        return True

    def _movable(self) -> set[str]:
        # A partition may be gone because it was compacted: the append then goes to its successor.
        return {path for append in self.appends for path in (*append.touched, append.partition)}

    def _check_streams(self) -> None:
        for append in self.appends:
            directory = "/".join((*append.stream.ancestor_ids, append.stream.id))
            if self.record_at(directory) is None:
                raise self._conflict(directory)

    def _conflict(self, directory: str) -> ConcurrentModificationError:
        return ConcurrentModificationError(
            f"Another transaction has changed {directory}",
            "it committed after this one began",
            "Begin a new transaction and make the changes again",
        )

    def _end_time(self) -> int:
        # Clocks of writers differ; the order of the log does not. Times follow the order.
        return max(time.time_ns(), self.log.index.last_end_time + 1, start_time(self.txn_id) + 1)

    def _finish(self, entry: Entry) -> None:
        try:
            self.log.finish(entry)
        except LakerootError:
            # The commit is decided and complete in the log; the next writer publishes it.
            return

    def __getstate__(self) -> Any:
        raise InvalidInputError(
            "A transaction cannot be sent to another process",
            fix="Send the data file paths to the process that began it",
        )
