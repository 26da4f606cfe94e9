"""The history of a catalog: its transactions, from the commit log and from transaction logs."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from lakeroot.metastore import naming, txnlogs
from lakeroot.metastore.entries import Entry, EntryKind
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.txnlogs import TransactionRecord
from lakeroot.model.errors import InvalidInputError

STATUSES = ("success", "running", "failed", "paused")
_KINDS = ("namespace", "table", "table_version", "stream", "partition", "delta")


def transactions(
    log: CommitLog, *, limit: int | None = None, status: str = "success"
) -> Iterator[TransactionRecord]:
    """List transactions of a status (success, running, failed, paused), the newest first."""
    if status not in STATUSES:
        raise InvalidInputError(
            f"There is no status {status!r}", fix=f"Use one of {', '.join(STATUSES)}"
        )
    if limit is not None and limit < 0:
        raise InvalidInputError("The limit cannot be negative")
    found = _succeeded(log) if status == "success" else _others(log, status)
    return islice(found, limit)


def _succeeded(log: CommitLog) -> Iterator[TransactionRecord]:
    for sequence in sorted(log.index.marks, reverse=True):
        mark = log.index.marks.get(sequence)
        if mark is None:
            continue  # forgotten since
        entry = log.entry(sequence) if sequence > 0 else None
        if entry is not None and entry.kind is EntryKind.COMMIT:
            yield _from_entry(entry, sequence)
            continue
        path = naming.success_path(log.layout, mark.txn_id, mark.end_time)
        data = log.objects.get(path)
        if data is None:
            yield TransactionRecord(
                mark.txn_id,
                "success",
                naming.start_time(mark.txn_id),
                mark.end_time,
                sequence=sequence,
            )
            continue
        yield txnlogs.describe(txnlogs.read_log(data), "success", mark.txn_id, mark.end_time)


def _from_entry(entry: Entry, sequence: int) -> TransactionRecord:
    objects = [write for write in entry.writes if write.target is None]
    return TransactionRecord(
        entry.txn_id,
        "success",
        naming.start_time(entry.txn_id),
        entry.end_time,
        entry.message,
        sequence,
        dict(Counter(write.operation for write in objects)),
        dict(Counter(_KINDS[write.directory.count("/")] for write in objects)),
    )


def _others(log: CommitLog, status: str) -> Iterator[TransactionRecord]:
    directories = {f"txn/{status}", f"txn/_{status}"}
    paths = [info.path for directory in directories for info in log.objects.list(directory)]
    for path in sorted(paths, key=lambda known: known.rpartition("/")[2], reverse=True):
        tree = txnlogs.read_log(log.objects.get(path))
        yield txnlogs.describe(tree, status, path.rpartition("/")[2], None)
