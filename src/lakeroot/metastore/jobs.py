"""Jobs that happen once: a transaction says in the log which job it does, and is found by it."""

import heapq
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from lakeroot.metastore.entries import EntryKind
from lakeroot.metastore.index import Index
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.naming import success_path
from lakeroot.metastore.txnlogs import facts_in, read_log
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
    for said in _said(view.log, heapq.nlargest(HISTORY_SEARCHED, kept)):
        told = {} if said is None else _told(said.facts)
        if said is not None and _is_same(told, job, table):
            verb, did = told.get(_VERB), told.get(_DID)
            return DoneJob(
                said.txn_id,
                verb if isinstance(verb, str) else None,
                did if isinstance(did, Mapping) else {},
            )
    return None


def is_done_since(log: CommitLog, since: int, facts: Mapping[str, Any]) -> bool:
    """Tell whether another transaction has done the same job after a commit, or may have.

    What a clean-up has shortened since the log was read says no more what it was.
    """
    own = _told(facts)
    job, table = own.get(_ID), own.get(_TABLE)
    if not isinstance(job, str) or not isinstance(table, str):
        return False
    later = sorted({n for n in _changes(log.index, table) if n > since})
    return any(
        said is None or _is_same(_told(said.facts), job, table) for said in _said(log, later)
    )


class _Said(NamedTuple):
    """What a transaction says of itself."""

    txn_id: str
    facts: Mapping[str, Any]


def _said(log: CommitLog, sequences: list[int]) -> Iterator[_Said | None]:
    """Read what commits say, many at a time; nothing, where nobody knows it any more."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        for begin in range(0, len(sequences), _SIDE_BY_SIDE):
            yield from pool.map(partial(_read, log), sequences[begin : begin + _SIDE_BY_SIDE])


def _read(log: CommitLog, sequence: int) -> _Said | None:
    """Read what a commit says: in the log, or else in the file that tells others of its success.

    Without the log its effects are read from files; and who may write nothing gives a number of its
    own to a commit whose entry is damaged.
    """
    mark = log.index.marks.get(sequence)
    if mark is None:
        return None
    entry = log.entry(sequence) if sequence > 0 else None
    if entry is not None and entry.kind is not EntryKind.SLIM and entry.txn_id == mark.txn_id:
        return _Said(entry.txn_id, entry.facts)
    tree = read_log(log.objects.get(success_path(log.layout, mark.txn_id, mark.end_time)))
    return _Said(mark.txn_id, facts_in(tree)) if tree else None


def _told(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what a transaction says of a job; others may write something else under its name."""
    told = facts.get(JOB)
    return told if isinstance(told, Mapping) else {}


def _is_same(told: Mapping[str, Any], job: str, table: str) -> bool:
    return (told.get(_ID), told.get(_TABLE)) == (job, table)


def _changes(index: Index, directory: str) -> Iterator[int]:
    """Number the commits that have changed an object, or something below it."""
    waiting = [directory]
    while waiting:
        place = waiting.pop()
        yield from (revision.sequence for revision in index.objects.get(place, ()))
        # A copy: other threads of this client may take in commits meanwhile.
        waiting.extend(f"{place}/{name}" for name in list(index.children.get(place, ())))
