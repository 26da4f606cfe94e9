"""Single facts out of the manifest of any Lance table, ours or not."""

import struct
from typing import Final

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.version_file import (
    FOOTER,
    FRAGMENTS,
    TRANSACTION,
    TRANSACTION_FILE,
    VERSION,
    decode_data_file,
    decode_fragment,
    decode_transaction,
)

_MESSAGE: Final = "__lance_commit_message"
_FRAGMENTS_SEEN: Final = [b""]
"""How the last manifest began that a version was read from: whole fields, and only messages."""


def version_in(content: bytes) -> int:
    """Read which version of its table a manifest says it is, and nothing else of it."""
    manifest = protobuf.unframed(content, FOOTER.unpack(content[-FOOTER.size :])[0])
    # Fragments by the thousand may be before it, and nearly all are those of the version before.
    before = _FRAGMENTS_SEEN[0]
    known = len(before) if manifest.startswith(before) else 0
    position = protobuf.after_messages(manifest, known)
    _FRAGMENTS_SEEN[0] = manifest[:position]
    for number, _, value in protobuf.fields(manifest[position:]):
        if number == VERSION and isinstance(value, int):
            return value
    return 0


def read_version_in(content: bytes) -> int | None:
    """Read which version the maker of a version had seen; 0 for none, nothing if it is not told."""
    transaction = _transaction_in(content)
    if transaction is None:
        return None
    found = {number: value for number, _, value in protobuf.fields(transaction)}
    seen = found.get(1, 0)
    return seen if isinstance(seen, int) else None


def files_named_in(content: bytes) -> set[str]:
    """List the files that a version of any Lance table is made of, below the table."""
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    paths: set[str] = set()
    for number, _, value in protobuf.fields(protobuf.unframed(content, position)):
        if number == TRANSACTION_FILE and isinstance(value, bytes) and value:
            paths.add(f"_transactions/{value.decode()}")
        elif number == FRAGMENTS and isinstance(value, bytes):
            fragment = decode_fragment(value)
            if fragment.deletion is not None:
                paths.add(fragment.deletion.path(fragment.id))
            files = (v for n, _, v in protobuf.fields(value) if n == 2 and isinstance(v, bytes))
            paths.update(f"data/{decode_data_file(file)[0]}" for file in files)
    return paths


def message_in(content: bytes) -> str:
    """Read why a version was made, if its writer said so (`commit_message` of Lance)."""
    if _MESSAGE.encode() not in content:
        return ""
    try:
        transaction = _transaction_in(content)
        return "" if transaction is None else decode_transaction(transaction)[1].get(_MESSAGE, "")
    except (ValueError, struct.error):
        return ""  # A damaged message is no reason to refuse a version.


def _transaction_in(content: bytes) -> bytes | None:
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    manifest = {n: value for n, _, value in protobuf.fields(protobuf.unframed(content, position))}
    transaction = manifest.get(TRANSACTION)
    return protobuf.unframed(content, transaction) if isinstance(transaction, int) else None
