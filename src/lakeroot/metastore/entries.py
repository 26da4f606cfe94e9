"""Entries of the commit log: what one commit did, complete, so that anybody can finish it.

An entry is decided by one put-if-absent. It carries its own checksum: a file that was torn while it
was written is an entry that did nothing, for every reader alike, and the numbers go on after it.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgpack

from lakeroot.metastore.naming import Layout, revision_path
from lakeroot.model.errors import UnsupportedOperationError

_MAGIC: Final = b"LRC1"


class EntryKind(StrEnum):
    """Why an entry is in the log."""

    GENESIS = "genesis"
    COMMIT = "commit"
    ADOPT = "adopt"
    FENCE = "fence"
    EXPIRE = "expire"
    VOID = "void"
    SLIM = "slim"


class Write(NamedTuple):
    """One revision of an object (with its content) or of a name (with its target)."""

    directory: str
    number: int
    operation: str
    target: str | None = None
    content: bytes | None = None
    path: str | None = None

    def path_in(self, layout: Layout, txn_id: str) -> str:
        """Give the path of the file: its own, or the one of the layout."""
        return self.path or revision_path(
            layout, self.directory, self.number, self.operation, txn_id, self.target
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the commit log."""

    kind: EntryKind
    txn_id: str = ""
    end_time: int = 0
    message: str | None = None
    writes: tuple[Write, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


VOID: Final = Entry(EntryKind.VOID)


def seal(payload: Any) -> bytes:
    """Write a value as MessagePack behind a checksum."""
    packed: bytes = msgpack.packb(payload)
    return _MAGIC + zlib.crc32(packed).to_bytes(4, "big") + packed


def unseal(data: bytes | None) -> Any:
    """Read a sealed value; nothing if it is missing, torn or not ours."""
    if data is None or data[:4] != _MAGIC:
        return None
    if zlib.crc32(data[8:]).to_bytes(4, "big") != data[4:8]:
        return None
    return msgpack.unpackb(data[8:], strict_map_key=False)


def write_entry(entry: Entry) -> bytes:
    """Write an entry as the content of its file."""
    return seal(
        {
            "kind": entry.kind.value,
            "txn": entry.txn_id,
            "end": entry.end_time,
            "message": entry.message,
            "writes": [list(write) for write in entry.writes],
            "facts": dict(entry.facts),
        }
    )


def read_entry(data: bytes) -> Entry:
    """Read an entry from its file; a torn file is an entry that did nothing."""
    tree = unseal(data)
    if tree is None:
        return VOID
    if tree["kind"] not in tuple(EntryKind):
        raise UnsupportedOperationError(
            f"The log of the catalog has an entry of the kind {tree['kind']!r}",
            "a newer version of Lakeroot wrote it",
            "Upgrade Lakeroot",
        )
    return Entry(
        EntryKind(tree["kind"]),
        tree["txn"],
        tree["end"],
        tree["message"],
        tuple(Write(*write) for write in tree["writes"]),
        tree["facts"],
    )


def slim(entry: Entry) -> Entry:
    """Leave of an entry only what keeps its number taken; its effects are in a checkpoint."""
    return Entry(EntryKind.SLIM, entry.txn_id, entry.end_time)
