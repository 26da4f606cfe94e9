"""Reading a catalog that has no commit log: one listing tells all its history, in any generation.

A revision counts if the transaction that wrote it has a success log. Transactions are put in the
order in which they ended, and become the entries before the first one of the log.
"""

from collections import defaultdict
from typing import Any, NamedTuple

from lakeroot.metastore import naming
from lakeroot.metastore.entries import Entry, EntryKind, Write
from lakeroot.metastore.naming import Layout, RevisionPath, SuccessPath
from lakeroot.metastore.txnlogs import end_time_in
from lakeroot.objects import Objects


class Found(NamedTuple):
    """What a listing of a whole catalog shows."""

    revisions: list[RevisionPath]
    successes: dict[str, SuccessPath]
    is_empty: bool


def survey(objects: Objects) -> Found:
    """List a whole catalog and understand its files."""
    revisions: list[RevisionPath] = []
    successes: dict[str, SuccessPath] = {}
    is_empty = True
    for info in objects.list(""):
        is_empty = False
        match naming.understand(info.path):
            case RevisionPath() as revision:
                revisions.append(revision)
            case SuccessPath() as success:
                successes[success.txn_id] = success
            case None:
                pass
    return Found(revisions, successes, is_empty)


def genesis(objects: Objects, wanted: Layout | None) -> Entry:
    """Make the first entry of the log of a catalog: its layout, and what is there already."""
    found = survey(objects)
    layout = _layout(found) or wanted or Layout.SPEC
    facts: dict[str, Any] = {"layout": layout.value}
    if found.successes:
        facts["base"] = _base(objects, found, layout)
    return Entry(EntryKind.GENESIS, facts=facts)


def _layout(found: Found) -> Layout | None:
    if not found.successes:
        return None
    old = any(success.path.startswith("txn/success/") for success in found.successes.values())
    return Layout.DELTACAT_2 if old else Layout.SPEC


def _base(objects: Objects, found: Found, layout: Layout) -> list[list[Any]]:
    writes: dict[str, list[Write]] = defaultdict(list)
    for revision in found.revisions:
        writes[revision.txn_id].append(as_write(revision, layout))
    ends = {txn_id: _end_time(objects, success) for txn_id, success in found.successes.items()}
    ordered = sorted(ends, key=lambda txn_id: (ends[txn_id], txn_id))
    return [
        [txn_id, ends[txn_id], [list(write) for write in writes.get(txn_id, ())]]
        for txn_id in ordered
    ]


def as_write(revision: RevisionPath, layout: Layout) -> Write:
    """Turn a file that is there already into a write of the log."""
    number, operation = revision.number, revision.operation.value
    usual = naming.revision_path(
        layout, revision.directory, number, operation, revision.txn_id, revision.target
    )
    path = None if usual == revision.path else revision.path
    return Write(revision.directory, number, operation, revision.target, None, path)


def _end_time(objects: Objects, success: SuccessPath) -> int:
    if success.end_time is not None:
        return success.end_time
    recorded = end_time_in(objects.get(success.path))
    return naming.start_time(success.txn_id) if recorded is None else recorded
