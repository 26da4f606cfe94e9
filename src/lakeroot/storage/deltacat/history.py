"""The history of a metastore in the words of a catalog of Lance tables."""

from collections.abc import Iterator
from itertools import islice

from lakeroot.metastore import Metastore, codecs
from lakeroot.metastore import Namespace as StoredNamespace
from lakeroot.metastore import Table as StoredTable
from lakeroot.metastore import View as MetastoreView
from lakeroot.metastore.entries import Entry, EntryKind, Write
from lakeroot.metastore.index import Snapshot
from lakeroot.metastore.states import Operation
from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.model.records import Namespace, Record
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.deltacat.translation import is_lance, read_namespace, read_table

_DELTA_DEPTH = 5


def history(
    metastore: Metastore, limit: int | None, upto: int | None = None
) -> Iterator[HistoryEntry]:
    """Tell what each commit changed, the newest first."""
    return islice(_entries(metastore, upto), limit)


def _entries(metastore: Metastore, upto: int | None) -> Iterator[HistoryEntry]:
    index = metastore.log.index
    for sequence in sorted(index.marks, reverse=True):
        if sequence <= 0 or (upto is not None and sequence > upto):
            continue
        entry = metastore.log.entry(sequence)
        if entry is not None and entry.kind in (EntryKind.COMMIT, EntryKind.ADOPT):
            yield _entry(metastore, sequence, entry)


def _entry(metastore: Metastore, sequence: int, entry: Entry) -> HistoryEntry:
    before = MetastoreView(metastore.log, Snapshot(sequence - 1))
    after = MetastoreView(metastore.log, Snapshot(sequence))
    written = [write for write in entry.writes if write.target is None]
    places = [write.directory for write in written if write.directory.count("/") <= 1]
    old = dict(filter(None, (_named(before, place) for place in places)))
    new = dict(filter(None, (_named(after, place) for place in places)))
    if ROOT in new:
        # The root always exists, whether or not it has a record of its own yet.
        old.setdefault(ROOT, Namespace(ROOT))
    both = old.keys() & new.keys()
    return HistoryEntry(
        version=sequence,
        timestamp_ms=entry.end_time // 1_000_000,
        author=str(entry.facts.get("author", "")),
        message=entry.message or "",
        created=tuple(sorted(new.keys() - old.keys())),
        altered=tuple(sorted(name for name in both if old[name] != new[name])),
        removed=tuple(sorted(old.keys() - new.keys())),
        versions=tuple(_versions(after, written)),
    )


def _versions(view: MetastoreView, written: list[Write]) -> Iterator[tuple[Identifier, int]]:
    for write in written:
        if write.directory.count("/") == _DELTA_DEPTH and write.operation == Operation.CREATE:
            named = _named(view, "/".join(write.directory.split("/")[:2]))
            if named is not None:
                yield named[0], int(write.directory.rpartition("/")[2])


def _named(view: MetastoreView, directory: str) -> tuple[Identifier, Record] | None:
    record = view.record_at(directory)
    if isinstance(record, StoredNamespace):
        found = read_namespace(record)
        return found.identifier, found
    if isinstance(record, StoredTable) and is_lance(record):
        above = view.record_at(directory.partition("/")[0])
        if isinstance(above, StoredNamespace):
            table = read_table(codecs.with_names(record, above.name))
            return table.identifier, table
    return None
