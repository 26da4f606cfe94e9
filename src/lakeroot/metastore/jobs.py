"""Jobs that happen once: a transaction says in the log which job it does, and is found by it."""

import heapq
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from lakeroot.metastore.entries import EntryKind
from lakeroot.metastore.index import Index
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.view import View

JOB: Final = "lakeroot.job"
"""The fact of a transaction, and the property of its deltas, that names the job."""

# How far back a job looks for what it has done; a job is retried soon or never.
HISTORY_SEARCHED: Final = 1000
# In a bucket each entry is a request, and a new job looks at all of them.
_SIDE_BY_SIDE: Final = 16
_ID, _TABLE, _VERB, _DID = "id", "table", "verb", "did"


class DoneJob(NamedTuple):
    """A job that was done: by which transaction, and what it said of it.

    The verb is what was done to the table; earlier releases did not note it.
    """

    txn_id: str
    verb: str | None
    did: Mapping[str, Any]


def fact_of(job: str, table: str, verb: str, did: Mapping[str, Any]) -> dict[str, Any]:
    """Say which job a transaction does to the table of a directory, and what it has done."""
    return {JOB: {_ID: job, _TABLE: table, _VERB: verb, _DID: dict(did)}}


def find_job(view: View, table: str, job: str) -> DoneJob | None:
    """Find the transaction that did a job, among the newest that have changed a table.

    What a clean-up has forgotten is not found any more.
    """
    index = view.log.index
    kept = {n for n in _changes(index, table) if index.horizon <= n <= view.snapshot.sequence}
    newest = [sequence for sequence in heapq.nlargest(HISTORY_SEARCHED, kept) if sequence > 0]
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        for begin in range(0, len(newest), _SIDE_BY_SIDE):
            for entry in pool.map(view.log.entry, newest[begin : begin + _SIDE_BY_SIDE]):
                if entry is not None and _is_same(entry.facts, job, table):
                    told = entry.facts[JOB]
                    return DoneJob(entry.txn_id, told.get(_VERB), told.get(_DID) or {})
    return None


def is_done_since(log: CommitLog, since: int, facts: Mapping[str, Any]) -> bool:
    """Tell whether another transaction has done the same job after a commit, or may have.

    What a clean-up has shortened since the log was read says no more what it was.
    """
    told = facts.get(JOB)
    if told is None:
        return False
    entries = (log.entry(sequence) for sequence in range(since + 1, log.index.head + 1))
    return any(
        each is None or each.kind is EntryKind.SLIM or _is_same(each.facts, told[_ID], told[_TABLE])
        for each in entries
    )


def _is_same(facts: Mapping[str, Any], job: str, table: str) -> bool:
    told = facts.get(JOB) or {}
    return (told.get(_ID), told.get(_TABLE)) == (job, table)


def _changes(index: Index, directory: str) -> Iterator[int]:
    """Number the commits that have changed an object, or something below it."""
    waiting = [directory]
    while waiting:
        place = waiting.pop()
        yield from (revision.sequence for revision in index.objects.get(place, ()))
        # A copy: other threads of this client may take in commits meanwhile.
        waiting.extend(f"{place}/{name}" for name in list(index.children.get(place, ())))
