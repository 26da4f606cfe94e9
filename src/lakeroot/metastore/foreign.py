"""Other writers: transactions that released deltacat commits to the same catalog.

They do not know our log. A reader finds their success logs, which lie in a directory per minute of
their start, and gives each a place in our order. Their own protocol is weaker than ours; this
module keeps to it, so a catalog with mixed writers has the guarantees of deltacat, and no less.
"""

import time
from collections.abc import Iterator
from typing import Final

from lakeroot.metastore import imports, naming, txnlogs
from lakeroot.metastore.entries import Entry, EntryKind, Write
from lakeroot.metastore.index import Index
from lakeroot.metastore.naming import Layout, RevisionPath, SuccessPath
from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.objects import Objects

SKEW_NS: Final = 10 * 60 * 10**9
"""How far the clocks of two writers may differ."""

_MINUTE_NS: Final = 60 * 10**9
_HOUR_NS: Final = 60 * _MINUTE_NS
_NARROW_NS: Final = 55 * 10**9
WIDE_EVERY_NS: Final = 30 * 10**9
ABANDONED_MS: Final = 10 * 60 * 1000


class Watch:
    """What has been seen of other writers so far."""

    def __init__(self) -> None:
        self._since: int | None = None
        self._wide = 0
        self._running: set[str] = set()
        self.has_strangers = False

    def discover(self, objects: Objects, index: Index) -> Iterator[Entry]:
        """Find transactions that succeeded and are not in the index, in the order they ended."""
        now = time.time_ns()
        is_wide = now - self._wide > WIDE_EVERY_NS
        if not self._meets_strangers(objects) and not is_wide:
            return
        since = self._since if self._since is not None else min(now, index.last_end_time or now)
        # A narrow look at every read keeps it cheap; the wide one now and then finds a writer
        # whose clock is far from ours, or that has not left its version.
        slack = SKEW_NS if is_wide else _NARROW_NS
        self._since, self._wide = now, now if is_wide else self._wide
        found = self._finished(objects, index)
        horizon = index.horizon_time()
        for directory in _minutes(objects, since - slack, now + slack):
            for txn_id in objects.list_names(directory):
                if txn_id not in index.sequences:
                    found |= _successes(objects, f"{directory}/{txn_id}")
        # What is older than the history that is kept has been forgotten on purpose.
        new = [known for known in found.values() if (known.end_time or 0) > horizon]
        self.has_strangers = self.has_strangers or bool(new)
        for success in sorted(new, key=lambda known: (known.end_time or 0, known.txn_id)):
            yield adoption(objects, success, index.layout)

    def widen(self) -> None:
        """Look far and wide the next time."""
        self._wide = 0

    def _meets_strangers(self, objects: Objects) -> bool:
        # Before it does anything else in a catalog, deltacat writes its version there. As long as
        # there is none, nobody else's files need to be looked for.
        if not self.has_strangers:
            self.has_strangers = bool(objects.list_names(naming.VERSIONS))
        return self.has_strangers

    def _finished(self, objects: Objects, index: Index) -> dict[str, SuccessPath]:
        running = set(objects.list_names(naming.running_directory(Layout.DELTACAT_2)))
        gone, self._running = self._running - running - set(index.sequences), running
        found: dict[str, SuccessPath] = {}
        for txn_id in gone:
            found |= _successes(objects, _success_directory(txn_id))
        return found


def renumbered(
    objects: Objects, layout: Layout, writes: tuple[Write, ...], own_id: str, now_ms: int
) -> tuple[Write, ...]:
    """Move writes past the files that dead writers have left at their numbers.

    So they hide nothing from deltacat's readers either. A file of a writer that is running, or has
    just committed, is a conflict: look again at what is committed, then try again.
    """
    moved = []
    for write in writes:
        directory = write.path_in(layout, own_id).rpartition("/")[0]
        number, first = write.number, f"{write.number:020d}"
        for name in objects.list_names(directory):
            if name < first:
                continue  # most of them, in a long history
            other = naming.understand(f"{directory}/{name}")
            if not isinstance(other, RevisionPath) or other.txn_id == own_id:
                continue
            _refuse_if_alive(objects, other, now_ms)
            number = max(number, other.number + 1)
        moved.append(write._replace(number=number))
    return tuple(moved)


def _refuse_if_alive(objects: Objects, other: RevisionPath, now_ms: int) -> None:
    info = objects.head(naming.running_path(Layout.DELTACAT_2, other.txn_id))
    is_running = info is not None and now_ms - info.modified_ms < ABANDONED_MS
    if is_running or _successes(objects, _success_directory(other.txn_id)):
        raise ConcurrentModificationError(
            f"Another writer has changed {other.directory}, or is about to",
            f"it is the transaction {other.txn_id}",
            "Try again when it has ended",
        )


def adoption(objects: Objects, success: SuccessPath, layout: Layout) -> Entry:
    """Make an entry of the log from a transaction's success log."""
    tree = txnlogs.read_log(objects.get(success.path))
    writes = tuple(imports.as_write(path, layout) for path in txnlogs.written_paths(tree))
    end = success.end_time or naming.start_time(success.txn_id)
    message, facts = tree.get("commit_message"), txnlogs.facts_in(tree)
    return Entry(EntryKind.ADOPT, success.txn_id, end, message, writes, facts)


def _success_directory(txn_id: str) -> str:
    return f"txn/success/{naming.minute(naming.start_time(txn_id))}/{txn_id}"


def _successes(objects: Objects, directory: str) -> dict[str, SuccessPath]:
    understood = (naming.understand(info.path) for info in objects.list(directory))
    return {path.txn_id: path for path in understood if isinstance(path, SuccessPath)}


def _minutes(objects: Objects, start: int, end: int) -> Iterator[str]:
    if end - start > 24 * _HOUR_NS:
        parents = {info.path.rsplit("/", 2)[0] for info in objects.list("txn/success")}
        yield from sorted(parents)
        return
    if end - start < 2 * _MINUTE_NS:
        # Two minutes touch at most three directories: they are looked into, there or not.
        near = {naming.minute(moment) for moment in (*range(start, end, _MINUTE_NS), end)}
        yield from (f"txn/success/{minute}" for minute in sorted(near))
        return
    moments = [*range(start, end, _HOUR_NS), end]
    first, last = naming.minute(start), naming.minute(end)
    for hour in sorted({naming.minute(moment).rpartition("/")[0] for moment in moments}):
        for name in objects.list_names(f"txn/success/{hour}"):
            if first <= f"{hour}/{name}" <= last:
                yield f"txn/success/{hour}/{name}"
