"""The messages of a Lance manifest, as far as Lance has been seen to write them.

What they mean is in Lance's table.proto, file.proto, rowids.proto and transaction.proto.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from lakeroot.storage.lance_dir.index_section import require_bitmap
from lakeroot.storage.lance_dir.message_kinds import (
    Kind,
    Shape,
    entry,
    entry_of_bytes,
    flag,
    message,
    number,
    numbers,
    octets,
    same_message,
    signed,
    signed_list,
    small,
    some_text,
    text,
    up_to,
)
from lakeroot.storage.lance_dir.protobuf import BYTES, MalformedError

_LATEST_SECOND: Final = 253_402_300_799
"""The end of the year 9999; no clock that Lance reads goes further."""
_FIRST_V2: Final = (0, 3)
"""As the version 2.0 of data files was called first; those before have no columns."""
_DROPPED: Final = -2
"""What Lance writes for a field of a file that is not in use any more."""
_UUID_BYTES: Final = 16
LEGACY: Final = "0.1"
"""How a manifest calls the first format of data files."""
_VERSION: Final = re.compile(rb"[0-9]+\.[0-9]+")


class Field(NamedTuple):
    """A field of the schema."""

    id: int
    parent: int


class Fragment(NamedTuple):
    """What of a fragment has to fit together with the rest of a manifest."""

    id: int
    files: tuple[bytes, ...]
    rows: int
    bases: frozenset[int]
    formats: frozenset[str]


# The schema

_FIELD: Final = Shape(
    {
        1: up_to(2),
        2: text,
        3: signed,
        4: signed,
        5: some_text,
        6: flag,
        7: up_to(4),
        8: message(Shape({1: number, 2: number})),
        9: text,
        10: entry_of_bytes,
        12: flag,
        13: small,
    }
)


# A new table has its schema twice, in its manifest and in the transaction that made it.
@lru_cache(maxsize=64)
def read_field(raw: bytes) -> Field:
    """Read a field of a schema."""
    found = _FIELD.read(raw)
    if 5 not in found:
        raise MalformedError("a field of the schema has no type")
    return Field(found.get(3, 0), found.get(4, 0))


_field: Final[Kind] = {BYTES: read_field}

# Fragments

_DATA_FILE: Final = Shape(
    {1: some_text, 2: signed_list, 3: signed_list, 4: small, 5: small, 6: number, 7: small}
)


class _DataFile(NamedTuple):
    raw: bytes
    format: str
    base: int | None


# A new file is told twice, as one of a fragment and as one that a transaction wrote.
@lru_cache(maxsize=64)
def _read_data_file(raw: bytes) -> _DataFile:
    found = _DATA_FILE.read(raw)
    if 1 not in found:
        raise MalformedError("a data file has no path")
    ids, columns = found.get(2, ()), found.get(3, ())
    if not _are_distinct(ids, _DROPPED) or not _are_distinct(columns, -1):
        raise MalformedError("a data file has a field twice, or one of a negative number")
    version = found.get(4, 0), found.get(5, 0)
    if len(ids) != len(columns) and (columns or version >= _FIRST_V2):
        raise MalformedError("a data file has not as many columns as fields")
    return _DataFile(raw, _format(*version), found.get(7))


def _are_distinct(numbers_: Sequence[int], none: int) -> bool:
    """Tell whether each number is there once, but for one that says that there is none."""
    if not numbers_ or (len({*numbers_}) == len(numbers_) and min(numbers_) >= none):
        return True
    some = [one for one in numbers_ if one != none]
    return len({*some}) == len(some) and min(some, default=0) >= none


@lru_cache(maxsize=64)
def _format(major: int, minor: int) -> str:
    if (major, minor) < _FIRST_V2:
        return LEGACY
    return "2.0" if (major, minor) == _FIRST_V2 else f"{major}.{minor}"


_data_file: Final[Kind] = {BYTES: _read_data_file}
_external_file: Final = message(Shape({1: some_text, 2: number, 3: number}))

# Row ids, and the versions that rows are of, as runs of numbers.
_offsets: Final = message(Shape({1: number, 2: octets}))
_array: Final = message(Shape({1: _offsets, 2: _offsets, 3: message(Shape({2: octets}))}))
_segment: Final = message(
    Shape(
        {
            1: message(Shape({1: number, 2: number})),
            2: message(Shape({1: number, 2: number, 3: _array})),
            3: message(Shape({1: number, 2: number, 3: octets})),
            4: _array,
            5: _array,
        }
    )
)
_row_versions: Final = message(Shape({1: message(Shape({1: _segment, 2: number}))}))

_FRAGMENT: Final = Shape(
    {
        1: number,
        3: message(Shape({1: flag, 2: number, 3: number, 4: number, 7: small})),
        4: number,
        5: message(Shape({1: _segment})),
        6: _external_file,
        7: _row_versions,
        8: _external_file,
        9: _row_versions,
        10: _external_file,
    },
    many={2: _data_file},
)


def read_fragment(raw: bytes) -> Fragment:
    """Read a fragment."""
    found = _FRAGMENT.read(raw)
    rows, deletion = found.get(4, 0), found.get(3, {})
    if rows and deletion.get(4, 0) > rows:
        raise MalformedError("a fragment has more rows deleted than it has")
    files: list[_DataFile] = found.get(2, [])
    bases = {one.base for one in files if one.base is not None}
    if 7 in deletion:
        bases.add(deletion[7])
    return Fragment(
        id=found.get(1, 0),
        files=tuple(one.raw for one in files),
        rows=rows,
        bases=frozenset(bases),
        formats=frozenset(one.format for one in files),
    )


_fragment: Final[Kind] = {BYTES: read_fragment}

# Indexes


def _read_uuid(raw: bytes) -> bytes:
    if len(raw) != _UUID_BYTES:
        raise MalformedError("a UUID has not 16 bytes")
    return raw


_uuid: Final = message(Shape({1: {BYTES: _read_uuid}}))
_details: Final = message(Shape({1: text, 2: octets}))
_INDEX: Final = Shape(
    {
        1: _uuid,
        2: signed_list,
        3: text,
        4: number,
        5: {BYTES: require_bitmap},
        6: _details,
        7: signed,
        8: number,
        9: small,
        10: message(Shape({1: text, 2: number})),
    }
)


def _read_index(raw: bytes) -> None:
    if 1 not in _INDEX.read(raw):
        raise MalformedError("an index has no UUID")


_index: Final[Kind] = {BYTES: _read_index}
INDEXES: Final = Shape({1: _index})

# The manifest

_base_path: Final = message(Shape({1: small, 2: text, 3: flag, 4: some_text}))


def _read_version(value: bytes) -> str:
    if _VERSION.fullmatch(value) is None:
        raise MalformedError("the version of its data files is not one")
    return value.decode()


_data_format: Final = same_message(Shape({1: some_text, 2: {BYTES: _read_version}}))

MANIFEST: Final = Shape(
    {
        3: number,
        4: number,
        5: entry_of_bytes,
        6: number,
        7: message(Shape({1: up_to(_LATEST_SECOND), 2: up_to(999_999_999)})),
        8: text,
        9: number,
        10: number,
        11: small,
        12: text,
        13: same_message(Shape({1: text, 2: text, 3: text, 4: text})),
        14: number,
        15: _data_format,
        16: entry,
        19: entry,
        20: text,
        23: number,
    },
    many={1: octets, 2: octets, 18: _base_path},
)
"""Fields of the schema and fragments are left as they are: most of them are known."""

# The transaction

_APPEND, _OVERWRITE, _UPDATE = 100, 102, 108
_NEW: Final = {_APPEND: 1, _OVERWRITE: 1, _UPDATE: 3}
"""Where each of these has the fragments that were written for it."""
_FIRST_OPERATION: Final = 100
"""The fields before say when and why; there is one more that says what was done."""
_TRANSACTION: Final = Shape(
    {
        1: number,
        2: text,
        3: text,
        4: entry,
        _APPEND: message(Shape({}, many={1: _fragment})),
        101: message(Shape({1: _fragment, 2: numbers, 3: text})),
        _OVERWRITE: message(
            Shape({2: _field, 3: entry_of_bytes, 4: entry, 5: _base_path}, many={1: _fragment})
        ),
        103: message(Shape({1: _index, 2: _index})),
        104: message(
            Shape(
                {
                    1: _fragment,
                    2: _fragment,
                    3: message(Shape({1: _fragment, 2: _fragment})),
                    4: message(Shape({1: _uuid, 2: _uuid, 3: _details, 4: small})),
                }
            )
        ),
        105: message(Shape({1: _fragment, 2: _field, 3: entry_of_bytes})),
        106: message(Shape({1: number})),
        107: message(Shape({1: small})),
        _UPDATE: message(Shape({1: numbers, 2: _fragment, 4: numbers}, many={3: _fragment})),
        109: message(Shape({1: _field})),
        111: message(Shape({1: message(Shape({1: number, 2: _data_file}))})),
    }
)


def read_transaction(raw: bytes) -> list[Fragment]:
    """Read the transaction that made a version; give the fragments that were written for it."""
    found: dict[int, Any] = _TRANSACTION.read(raw)
    if max(found, default=0) < _FIRST_OPERATION:
        raise MalformedError("its transaction does not say what was done")
    new: list[Fragment] = []
    for number_, where in _NEW.items():
        if number_ in found:
            new += found[number_].get(where, ())
    return new
