"""Transaction logs: what a transaction did, in the words of the storage model.

The commit log decides; these files tell other readers, released deltacat among them, and people.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack

from lakeroot.metastore import codecs, naming, records
from lakeroot.metastore.entries import Entry, Write
from lakeroot.metastore.naming import Layout, RevisionPath
from lakeroot.metastore.states import CommitState, Operation


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transaction of the history: when, why, and how many objects of each kind it touched."""

    id: str
    status: str
    start_time: int
    end_time: int | None
    message: str | None = None
    sequence: int | None = None
    operations: Mapping[str, int] = field(default_factory=dict)
    objects: Mapping[str, int] = field(default_factory=dict)


def write_log(entry: Entry, layout: Layout, catalog_root: str) -> bytes:
    """Write the log of a transaction that succeeded."""
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for write in entry.writes:
        if write.target is not None:
            names[_parent(write), write.target].append(write.path_in(layout, entry.txn_id))
    tree = {
        **opening(entry.txn_id, catalog_root, entry.message),
        "operations": [
            _operation(write, write.path_in(layout, entry.txn_id), names)
            for write in entry.writes
            if write.content
        ],
        "end_time": entry.end_time,
    }
    if entry.facts:
        tree["facts"] = dict(entry.facts)
    packed: bytes = msgpack.packb(tree)
    return packed


def opening(txn_id: str, catalog_root: str, message: str | None) -> dict[str, Any]:
    """Give what the log of any transaction starts with."""
    tree: dict[str, Any] = {
        "operations": [],
        "_time_provider": {"type": "TransactionSystemTimeProvider", "params": {}},
        "start_time": naming.start_time(txn_id),
        "catalog_root_normalized": catalog_root,
        "id": txn_id,
    }
    return tree if message is None else tree | {"commit_message": message}


def end_time_in(data: bytes | None) -> int | None:
    """Read the end time from a transaction log, if it has one."""
    end = read_log(data).get("end_time")
    return end if isinstance(end, int) else None


def read_log(data: bytes | None) -> dict[str, Any]:
    """Read a transaction log; one that is empty or damaged says nothing."""
    try:
        tree = msgpack.unpackb(data or b"\x80", strict_map_key=False)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def facts_in(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a transaction log says besides: the job that a transaction did, if it named one."""
    facts = tree.get("facts")
    return facts if isinstance(facts, dict) else {}


def written_paths(tree: Mapping[str, Any]) -> list[RevisionPath]:
    """List the revision and name-mapping files that a transaction log says it wrote."""
    found = []
    for operation in tree.get("operations") or ():
        for key in ("metafile_write_paths", "locator_write_paths"):
            for path in operation.get(key) or ():
                understood = naming.understand(path)
                if isinstance(understood, RevisionPath):
                    found.append(understood)
    return found


def describe(
    tree: Mapping[str, Any], status: str, txn_id: str, end: int | None
) -> TransactionRecord:
    """Summarise a transaction log for the history."""
    changes = [op for op in tree.get("operations") or () if not op["type"].startswith("read")]
    return TransactionRecord(
        txn_id,
        status,
        naming.start_time(txn_id),
        tree.get("end_time") or end,
        tree.get("commit_message"),
        operations=dict(Counter(op["type"] for op in changes)),
        objects=dict(Counter(_kind_of(op["dest_metafile"]["locator"]) for op in changes)),
    )


def _kind_of(locator: Mapping[str, Any]) -> str:
    kinds = {
        "streamPosition": "delta",
        "partitionId": "partition",
        "streamId": "stream",
        "tableVersion": "table_version",
        "tableName": "table",
    }
    return next((kind for key, kind in kinds.items() if key in locator), "namespace")


def _operation(
    write: Write, path: str, names: Mapping[tuple[str, str], list[str]]
) -> dict[str, Any]:
    record = codecs.decode(write.content or b"")
    metafile = {
        "id": record.id,
        "locator": codecs.locator_tree(record.locator),
        "locator_alias": _alias(record),
    }
    needs_source = write.operation in (Operation.UPDATE, Operation.REPLACE)
    return {
        "type": write.operation,
        "dest_metafile": metafile,
        "src_metafile": metafile if needs_source else None,
        "read_limit": None,
        "metafile_write_paths": [path],
        "locator_write_paths": names.get((_parent(write), record.id), []),
    }


def _parent(write: Write) -> str:
    return write.directory.rpartition("/")[0]


def _alias(record: records.Record) -> dict[str, Any] | None:
    if isinstance(record, records.Stream) and record.state is not CommitState.STAGED:
        return {"format": record.format, "parent": codecs.locator_tree(record.locator.parent)}
    if isinstance(record, records.Partition) and record.state is not CommitState.STAGED:
        return {
            "partition_values": None if record.values is None else list(record.values),
            "partition_scheme_id": record.partition_scheme_id,
            "parent": codecs.locator_tree(record.locator.parent),
        }
    return None
