"""Single facts out of the manifest of any Lance table, ours or not."""

import struct
from collections.abc import Iterator
from typing import Final

from lakeroot.storage.lance_dir import index_section, protobuf
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import (
    FOOTER,
    FRAGMENTS,
    INDEX_SECTION,
    READER_FEATURES,
    TRANSACTION,
    TRANSACTION_FILE,
    decode_data_file,
    decode_fragment,
    decode_transaction,
)

_INDICES: Final = "_indices/"
_MESSAGE: Final = "__lance_commit_message"
_KNOWN_FEATURES: Final = 63
"""Bits of features that say nothing of files other than those we know."""
# Fields of Lance's DataFragment message, but for those that name further files.
_KNOWN_OF_FRAGMENTS: Final = frozenset({1, 2, 3, 4, 5, 7, 9})


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
    return {path for path in _named(content, set()) if not path.startswith(_INDICES)}


def everything_named_in(content: bytes) -> set[str]:
    """List the files that a version is made of, and the directories of its indexes."""
    return set(_named(content, set()))


def require_names(content: bytes, seen: set[bytes]) -> set[str]:
    """List what a version names, as far as ``seen`` has not; raise if it may name something else.

    Fragments by the thousand are in many versions. Each is read once, and added to those seen.
    """
    try:
        manifest = protobuf.unframed(content, FOOTER.unpack(content[-FOOTER.size :])[0])
        features = [v for n, _, v in protobuf.fields(manifest) if n == READER_FEATURES]
        if any(not isinstance(one, int) or one & ~_KNOWN_FEATURES for one in features):
            raise MalformedError("it has features that this version of Lakeroot does not know")
        return set(_named(content, seen, strictly=True))
    except (ValueError, struct.error, IndexError, TypeError) as error:
        raise MalformedError(str(error)) from error


def _named(content: bytes, seen: set[bytes], *, strictly: bool = False) -> Iterator[str]:
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    for number, _, value in protobuf.fields(protobuf.unframed(content, position)):
        if number == INDEX_SECTION and isinstance(value, int):
            for index in index_section.decode(protobuf.unframed(content, value)):
                if strictly and not index.directory:
                    raise MalformedError(f"its index {index.name} has no directory")
                yield f"{_INDICES}{index.directory}"
        elif number == TRANSACTION_FILE and isinstance(value, bytes) and value:
            yield f"_transactions/{value.decode()}"
        elif number == FRAGMENTS and isinstance(value, bytes) and value not in seen:
            seen.add(value)
            if strictly and {n for n, _, _ in protobuf.fields(value)} - _KNOWN_OF_FRAGMENTS:
                raise MalformedError("a fragment has parts that are not known")
            yield from _named_in_fragment(value)


def _named_in_fragment(raw: bytes) -> Iterator[str]:
    fragment = decode_fragment(raw)
    if fragment.deletion is not None:
        yield fragment.deletion.path(fragment.id)
    for number, _, value in protobuf.fields(raw):
        if number == 2 and isinstance(value, bytes):
            yield f"data/{decode_data_file(value)[0]}"


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
