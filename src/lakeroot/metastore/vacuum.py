"""Vacuum: finish what dead writers left, forget old history, and remove files nobody can reach.

Everything is decided in the commit log before a file is removed: a dead transaction is fenced so
that it can never commit, and revisions expire by an entry that every reader applies alike. Ages are
measured by the storage's clock, never by this machine's.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgpack

from lakeroot.metastore import naming, txnlogs
from lakeroot.metastore.entries import Entry, EntryKind, slim, write_entry
from lakeroot.metastore.litter import Litter, list_files
from lakeroot.metastore.locators import new_id
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.states import Operation
from lakeroot.model.errors import InvalidInputError, PermissionDeniedError
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import ObjectInfo, Objects

DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum removed, or (as a dry run) would remove."""

    fenced: tuple[str, ...]
    revisions: tuple[str, ...]
    data: tuple[str, ...]
    other: tuple[str, ...]
    bytes: int
    is_dry: bool
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    """How large each of these was."""


def vacuum(
    log: CommitLog,
    *,
    retention_ms: int = 7 * DAY_MS,
    dry_run: bool = False,
    spread: Spread = here,
) -> Vacuumed:
    """Clean a catalog; states younger than the retention can still be visited afterwards.

    Files are listed, read and deleted by whomever `spread` finds for it; what goes is decided here.
    """
    if retention_ms < 0:
        raise InvalidInputError("The retention cannot be negative")
    if log.read_only and not dry_run:
        raise PermissionDeniedError("This catalog was opened read-only", fix="Ask for a dry run")
    log.sync()
    log.publish_head()
    now_ms = storage_time(log, dry_run=dry_run)
    return _Vacuum(log, now_ms, retention_ms, dry_run=dry_run, spread=spread).run()


def storage_time(log: CommitLog, *, dry_run: bool = False) -> int:
    """Ask the storage what time it is, by writing a file and looking at its age.

    A dry run writes nothing, and in a catalog that is quiet the newest file is old. So this
    machine's clock counts too: nothing goes by what it says.
    """
    if not dry_run:
        log.objects.put(naming.CLOCK, new_id().encode())
    newest_ms = max((info.modified_ms for info in log.objects.list("txn")), default=0)
    return max(newest_ms, time.time_ns() // 1_000_000) if dry_run else newest_ms


def fence(log: CommitLog, txn_id: str) -> None:
    """Decide that a transaction can never commit, unless it has."""
    while txn_id not in log.index.sequences and txn_id not in log.index.fenced:
        if log.decide(Entry(EntryKind.FENCE, txn_id)):
            tree = txnlogs.opening(txn_id, log.catalog_root, "fenced by vacuum")
            path = naming.failed_path(log.layout, txn_id)
            log.objects.put(path, msgpack.packb(tree))


@dataclass(frozen=True, slots=True)
class _Deleting:
    """Deletes files, here or in another process; it pickles."""

    objects: Objects = field(repr=False)

    def __call__(self, paths: Sequence[str]) -> list[None]:
        """Delete some files; those already gone are fine."""
        self.objects.delete(paths)
        return [None] * len(paths)


class _Vacuum:
    """One run: first decisions in the log, then files."""

    def __init__(
        self, log: CommitLog, now_ms: int, retention_ms: int, *, dry_run: bool, spread: Spread
    ) -> None:
        self._log = log
        self._spread = spread
        self._now_ms = now_ms
        self._retention_ms = retention_ms
        self._dry_run = dry_run

    def run(self) -> Vacuumed:
        """Clean, or say what would be cleaned."""
        # In this order: a writer announces itself before its first file. So whoever wrote a file
        # seen here is still announced, or has committed by the time the log is read, or is gone.
        files = list_files(self._log, self._spread)
        running = self._running()
        self._log.look_wide()
        self._log.sync()
        dead = [info for info in running if self._is_dead(info)]
        fenced = tuple(info.path.rpartition("/")[2] for info in dead)
        self._fence(fenced)
        horizon = self._horizon()
        alive = {info.path.rpartition("/")[2] for info in (*running, *self._paused())}
        orphans = sorted(self._unreachable(horizon))
        alive -= set(fenced)
        litter = Litter(self._log, files, horizon, set(orphans), alive, self._spread)
        patience = max(self._retention_ms, DAY_MS)
        revisions = list(litter.revisions(self._now_ms, patience))
        data = list(litter.data(self._now_ms, patience))
        other = [info.path for info in dead] + list(litter.logs(self._now_ms, patience))
        other += self._old_checkpoints()
        paths = [info.path for info in data]
        going = [*revisions, *paths, *other]
        sizes = self._sizes(files, going)
        if not self._dry_run:
            self._expire(horizon, orphans)
            self._spread(_Deleting(self._log.objects), going)
            self._shorten()
        size = sum(info.size for info in data)
        return Vacuumed(
            fenced, tuple(revisions), tuple(paths), tuple(other), size, self._dry_run, sizes
        )

    def _sizes(self, files: list[ObjectInfo], going: list[str]) -> dict[str, int]:
        """Look how large everything is, before it goes."""
        known = {info.path: info.size for info in (*files, *self._log.objects.list("txn"))}
        for path in set(going) - known.keys():
            found = self._log.objects.head(path)
            known[path] = found.size if found is not None else 0
        return {path: known[path] for path in going}

    def _running(self) -> list[ObjectInfo]:
        directory = naming.running_directory(self._log.layout)
        return list(self._log.objects.list_directory(directory).objects)

    def _paused(self) -> list[ObjectInfo]:
        return list(self._log.objects.list_directory("txn/paused").objects)

    def _is_dead(self, info: ObjectInfo) -> bool:
        txn_id = info.path.rpartition("/")[2]
        if txn_id in self._log.index.sequences:
            return True  # it committed, and died before it could say so
        lease = txnlogs.read_log(self._log.objects.get(info.path)).get("lease") or {}
        return bool(self._now_ms - info.modified_ms > lease.get("ttl_ms", DAY_MS))

    def _fence(self, txn_ids: tuple[str, ...]) -> None:
        for txn_id in txn_ids if not self._dry_run else ():
            fence(self._log, txn_id)

    def _horizon(self) -> int:
        """Find the newest commit that is older than the retention: the first state that is kept."""
        limit = (self._now_ms - self._retention_ms + 1) * 1_000_000
        marks = self._log.index.marks.copy().items()
        old = [sequence for sequence, mark in marks if mark.end_time <= limit]
        return max(old, default=self._log.index.horizon)

    def _unreachable(self, horizon: int) -> Iterator[str]:
        """List what lies below objects that have been deleted since before the horizon."""
        index = self._log.index
        dead = {
            place
            for place, chain in index.objects.copy().items()
            if chain[-1].operation == Operation.DELETE and chain[-1].sequence <= horizon
        }
        for place in {*index.objects, *index.names}:
            parts = place.split("/")
            above = ("/".join(parts[:end]) for end in range(1, len(parts)))
            if any(parent in dead for parent in above):
                yield place

    def _expire(self, horizon: int, orphans: list[str]) -> None:
        if horizon <= self._log.index.horizon and not orphans:
            return
        facts = {"horizon": horizon, "orphans": orphans, "seen": self._log.index.head}
        while not self._log.decide(Entry(EntryKind.EXPIRE, facts=facts)):
            self._log.sync()

    def _old_checkpoints(self) -> list[str]:
        listing = self._log.objects.list_directory(naming.CHECKPOINTS).objects
        # The newest stays until the next one has been written, and a while longer.
        return sorted(i.path for i in listing if i.path != naming.LATEST_CHECKPOINT)[:-1]

    def _shorten(self) -> None:
        """Write a checkpoint, and keep of the log before it only that its numbers are taken."""
        self._log.publish_head()
        self._log.checkpoint()
        for sequence in range(self._log.index.horizon - 1, 0, -1):
            entry = self._log.entry(sequence)
            if entry is None or entry.kind is EntryKind.SLIM:
                return
            self._log.objects.put(naming.commit_path(sequence), write_entry(slim(entry)))
