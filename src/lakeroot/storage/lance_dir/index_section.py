"""The index section of a version file: which indexes the table has, and what they cover."""

import struct
from typing import Final
from uuid import UUID

from msgspec import Struct

from lakeroot.storage.lance_dir import protobuf

_WITHOUT_RUNS: Final = 12346
_WITH_RUNS: Final = 12347
_HEAD: Final = struct.Struct("<II")
_LARGEST_ARRAY: Final = 4096


class TableIndex(Struct, frozen=True):
    """An index: its name, the directory of its files, the fragments it covers (none: unknown)."""

    name: str
    directory: str
    fragments: frozenset[int] | None


def decode(section: bytes) -> list[TableIndex]:
    """Read an index section."""
    found = (value for number, _, value in protobuf.fields(section) if number == 1)
    return [_index(value) for value in found if isinstance(value, bytes)]


def covered(section: bytes) -> frozenset[int] | None:
    """Give the fragments that any index covers; nothing if that cannot be told."""
    together: frozenset[int] = frozenset()
    for index in decode(section):
        if index.fragments is None:
            return None
        together |= index.fragments
    return together


def require_bitmap(content: bytes) -> bytes:
    """Refuse a Roaring bitmap in its portable form whose numbers do not fit into it."""
    if not content:
        return content  # Which fragments are covered is not told.
    try:
        cookie, containers = _HEAD.unpack_from(content)
        if cookie == _WITHOUT_RUNS:
            sizes = struct.unpack_from(f"<{2 * containers}H", content, _HEAD.size)[1::2]
            # A container of many numbers is a bit for each that there could be.
            held = sum(min(2 * (size + 1), 2 * _LARGEST_ARRAY) for size in sizes)
            is_whole = len(content) == _HEAD.size + 8 * containers + held
        else:
            is_whole = cookie & 0xFFFF == _WITH_RUNS
    except struct.error:
        is_whole = False
    if not is_whole:
        raise protobuf.MalformedError("the fragments of an index cannot be read")
    return content


def _index(message: bytes) -> TableIndex:
    found = {number: v for number, _, v in protobuf.fields(message) if isinstance(v, bytes)}
    uuid = next((v for n, _, v in protobuf.fields(found.get(1, b"")) if n == 1), b"")
    directory = str(UUID(bytes=uuid)) if isinstance(uuid, bytes) and len(uuid) == 16 else ""
    return TableIndex(found.get(3, b"").decode(), directory, _bitmap(found.get(5)))


def _bitmap(content: bytes | None) -> frozenset[int] | None:
    """Read a Roaring bitmap of small numbers, in its portable form; nothing if it is another."""
    if content is None or len(content) < _HEAD.size:
        return None
    cookie, containers = _HEAD.unpack_from(content)
    if cookie != _WITHOUT_RUNS:
        return None
    # Per container a key and a size, then where each one starts, then the arrays themselves.
    heads = _HEAD.size
    position = heads + 8 * containers
    numbers: set[int] = set()
    try:
        for container in range(containers):
            key, size = struct.unpack_from("<HH", content, heads + 4 * container)
            if size + 1 > _LARGEST_ARRAY:
                return None
            array = struct.unpack_from(f"<{size + 1}H", content, position)
            numbers.update(key << 16 | low for low in array)
            position += 2 * (size + 1)
    except struct.error:
        return None
    return frozenset(numbers)
