"""A Lance data file of a few rows, written and read without the engine.

Most commits of a catalog add one row, and making a writer of the engine for it takes longer than
the rest of the commit. A file of one row needs only the simplest page that Lance 2.2 has, the
constant one, and comes out byte for byte as Lance writes it. A file of a few rows has a page for
each run of equal values. Whatever else a row may be (with base objects, with an empty string) is
left to the engine; so is reading any file that was not written with these pages alone.

What describes the values, behind them, depends on their lengths only. Names of one length make one
description, so the last ones are kept, and most files are read and written in a few steps.
"""

import itertools
import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.schema import SCHEMA

if TYPE_CHECKING:
    from lakeroot.storage.lance_dir.rows import Row

MOST_ROWS: Final = 64
"""Of more rows a file is left to the engine, which takes as long for many rows as for few."""

_FOOTER: Final = struct.Struct("<QQQIIHH4s")
_PLACE: Final = struct.Struct("<QQ")
_VALUE: Final = struct.Struct("<IIIII")
_ALIGNMENT: Final = 64
_PADDING: Final = b"H" * _ALIGNMENT
_TEXT_COLUMNS: Final = 4
_KEPT_DESCRIPTIONS: Final = 64

Shape = tuple[tuple[tuple[int, int | None], ...], ...]
"""Of each column of text its runs: how often a value is repeated, and its length in bytes."""

Runs = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
"""Of one column: how often a value is repeated, and the places and sizes of its buffers."""


def _message(kind: str, content: bytes) -> bytes:
    """Write an encoding: a message inside an envelope that names its type."""
    envelope = protobuf.text(1, kind) + protobuf.blob(2, content)
    return protobuf.blob(2, protobuf.blob(1, envelope))


_PAGE: Final = b"/lance.encodings21.PageLayout"


def _constant(layout: bytes) -> bytes:
    return _message(_PAGE.decode(), protobuf.blob(2, layout))


_COLUMN: Final = protobuf.blob(
    1, _message("/lance.encodings.ColumnEncoding", protobuf.blob(1, b""))
)
# Layers of a page, from the inside: 1 has no nulls, 3 is all null here, 4 is a list that may be.
_TEXT_LAYOUT: Final = _constant(protobuf.blob(5, b"\x01"))
_NULL_LAYOUT: Final = _constant(protobuf.blob(5, b"\x03"))
_SIXTEEN_BITS: Final = protobuf.blob(1, protobuf.number(1, 16))
_NO_LIST_LAYOUT: Final = _constant(
    protobuf.blob(5, b"\x01\x04")
    + protobuf.blob(7, _SIXTEEN_BITS)
    + protobuf.blob(8, _SIXTEEN_BITS)
    + protobuf.number(9, 1)
    + protobuf.number(10, 1)
)
_VARINT: Final = rb"[\x80-\xff]{0,9}[\x00-\x7f]"


def _page_pattern(layout: bytes, buffers: int, length: bytes = _VARINT) -> re.Pattern[bytes]:
    """Say how a page is written that has so many buffers: as ours are, field after field."""
    several = _VARINT * buffers
    places = rb"\x0a(?P<places_size>%b)(?P<places>%b)" % (_VARINT, several)
    sizes = rb"\x12(?P<sizes_size>%b)(?P<sizes>%b)" % (_VARINT, several)
    # Without buffers these are not there; a name that is there and never matches says so.
    head = places + sizes if buffers else rb"(?:(?!)%b%b)?" % (places, sizes)
    described = re.escape(protobuf.blob(4, layout))
    return re.compile(
        rb"\x12(?P<size>%b)%b\x18(?P<length>%b)%b(?:\x28%b)?"
        % (_VARINT, head, length, described, _VARINT),
        re.DOTALL,
    )


_TEXT_PAGES: Final = (_page_pattern(_TEXT_LAYOUT, 1), _page_pattern(_NULL_LAYOUT, 0))
_NO_LIST_PAGES: Final = (_page_pattern(_NO_LIST_LAYOUT, 2, rb"\x01"),)
_NO_LIST_BUFFER: Final = b"\x01\x00"
_NO_LISTS: Final = _NO_LIST_BUFFER + _PADDING[len(_NO_LIST_BUFFER) :]
_DESCRIBED: Final = protobuf.blob(1, b"".join(protobuf.blob(1, column) for column in SCHEMA))


def encode(rows: "Sequence[Row]") -> bytes | None:
    """Write rows as a data file; nothing if they are not simple or not few."""
    if not 0 < len(rows) <= MOST_ROWS:
        return None
    if any(row.base_objects is not None or "" in row[:_TEXT_COLUMNS] for row in rows):
        return None
    content = bytearray()
    shape: list[tuple[tuple[int, int | None], ...]] = []
    for column in range(_TEXT_COLUMNS):
        runs: list[tuple[int, int | None]] = []
        for value, run in itertools.groupby(row[column] for row in rows):
            text = None if value is None else str(value).encode()
            runs.append((sum(1 for _ in run), None if text is None else len(text)))
            if text is not None:
                # The value as a variable-width array of one: its two offsets and its bytes.
                content += _VALUE.pack(2, 8, len(text), 0, len(text))
                content += text
                content += _PADDING[: -len(content) % _ALIGNMENT]
        shape.append(tuple(runs))
    content += _NO_LISTS * (2 * len(rows))
    return bytes(content) + _description(tuple(shape), len(rows))


def decode(content: bytes) -> "list[Row] | None":
    """Read the rows of such a file; nothing if it is not one."""
    from lakeroot.storage.lance_dir.rows import Row

    try:
        schema_place = _FOOTER.unpack_from(content, len(content) - _FOOTER.size)[2]
        start, _ = _PLACE.unpack_from(content, schema_place)
        described = _described_runs(content[start:], start)
        if described is None:
            return None
        columns = [_texts(content, runs) for runs in described[:_TEXT_COLUMNS]]
        columns.append(_no_lists(content, described[_TEXT_COLUMNS]))
    except (MalformedError, struct.error, OverflowError, ValueError):
        return None
    if len({len(column) for column in columns}) != 1:
        return None
    return [Row._make(values) for values in zip(*columns, strict=True)]


def lacks(content: bytes, object_id: str) -> bool:
    """Tell, at a glance, that no row of a file has this identifier; no answer is no."""
    if object_id.encode() in content or len(content) < _FOOTER.size:
        return False
    places = _FOOTER.unpack_from(content, len(content) - _FOOTER.size)[1]
    if places + _PLACE.size > len(content):
        return False
    start, size = _PLACE.unpack_from(content, places)
    column = content[start : start + size]
    # Only if every page of the column holds its value as it is must it be there to be seen.
    return column.startswith(_COLUMN) and column.count(_PAGE) == column.count(_TEXT_LAYOUT)


def _texts(content: bytes, runs: Runs) -> list[str | None]:
    values: list[str | None] = []
    for length, buffers in runs:
        if not buffers:
            values += [None] * length
            continue
        ((place, size),) = buffers
        text = content[place + _VALUE.size : place + size]
        if _VALUE.unpack_from(content, place) != (2, 8, len(text), 0, len(text)):
            raise MalformedError("a value is not alone in its page")
        values += [text.decode()] * length
    return values


def _no_lists(content: bytes, runs: Runs) -> list[str | None]:
    for _, buffers in runs:
        if any(content[place : place + size] != _NO_LIST_BUFFER for place, size in buffers):
            raise MalformedError("a list is there")
    return [None] * len(runs)


@lru_cache(maxsize=_KEPT_DESCRIPTIONS)
def _described_runs(description: bytes, start: int) -> tuple[Runs, ...] | None:
    """Read where the values of each column lie; nothing if they lie in other pages than ours."""
    footer = _FOOTER.unpack_from(description, len(description) - _FOOTER.size)
    places, columns, version = footer[1], footer[4], footer[5:]
    if columns != _TEXT_COLUMNS + 1 or version != (2, 2, b"LANC") or places < start:
        return None
    found: list[Runs] = []
    for number in range(columns):
        place, size = _PLACE.unpack_from(description, places - start + number * _PLACE.size)
        column = description[max(place - start, 0) : max(place - start + size, 0)]
        if not column.startswith(_COLUMN):
            return None
        kinds = _TEXT_PAGES if number < _TEXT_COLUMNS else _NO_LIST_PAGES
        runs = _runs(column, len(_COLUMN), kinds)
        if runs is None:
            return None
        found.append(runs)
    return tuple(found)


def _runs(column: bytes, position: int, kinds: Sequence[re.Pattern[bytes]]) -> Runs | None:
    """Read what the pages of a column say of their values: one value, some times."""
    runs: list[tuple[int, tuple[tuple[int, int], ...]]] = []
    while position < len(column):
        page = next(filter(None, (kind.match(column, position) for kind in kinds)), None)
        if page is None or _number(page["size"]) != page.end() - page.end("size"):
            return None
        length, places, sizes = _number(page["length"]), page["places"], page["sizes"]
        if length > MOST_ROWS:
            return None
        position = page.end()
        if places is None:
            runs.append((length, ()))
            continue
        if _number(page["places_size"]) != len(places) or _number(page["sizes_size"]) != len(sizes):
            return None
        buffers = zip(protobuf.varints(places), protobuf.varints(sizes), strict=True)
        runs.append((length, tuple(buffers)))
    return tuple(runs)


def _number(raw: bytes) -> int:
    return raw[0] if len(raw) == 1 else protobuf.varint(raw, 0)[0]


@lru_cache(maxsize=_KEPT_DESCRIPTIONS)
def _description(shape: Shape, rows: int) -> bytes:
    """Write what follows the values: schema, pages of the columns, places of these, footer."""
    pages = _Pages()
    for runs in shape:
        pages.start_column()
        first = 0
        for length, size in runs:
            layout = _NULL_LAYOUT if size is None else _TEXT_LAYOUT
            pages.add(first, length, [] if size is None else [_VALUE.size + size], layout)
            first += length
    pages.start_column()
    for number in range(rows):
        pages.add(number, 1, [len(_NO_LIST_BUFFER)] * 2, _NO_LIST_LAYOUT)
    return pages.described(rows)


_varint: Final = lru_cache(maxsize=4096)(protobuf.encode_varint)


@lru_cache(maxsize=8)
def _layout(layout: bytes) -> bytes:
    return protobuf.blob(4, layout)


def _page(places: tuple[int, ...], sizes: tuple[int, ...], length: int) -> bytes:
    """Write where the buffers of a page lie, and how many values it has."""
    head = b""
    if sizes:
        packed_places = b"".join(map(_varint, places))
        packed_sizes = b"".join(map(_varint, sizes))
        head = b"\x0a" + _varint(len(packed_places)) + packed_places
        head += b"\x12" + _varint(len(packed_sizes)) + packed_sizes
    return head + b"\x18" + _varint(length)


class _Pages:
    """The pages of a file that is being put together."""

    def __init__(self) -> None:
        self._end = 0
        self._columns: list[bytearray] = []

    def start_column(self) -> None:
        self._columns.append(bytearray(_COLUMN))

    def add(self, first: int, length: int, sizes: list[int], layout: bytes) -> None:
        page = _page(tuple(map(self._place, sizes)), tuple(sizes), length) + _layout(layout)
        if first:
            page += b"\x28" + _varint(first)
        self._columns[-1] += b"\x12" + _varint(len(page)) + page

    def described(self, rows: int) -> bytes:
        content = bytearray(_DESCRIBED + protobuf.number(2, rows))
        schema_place = _PLACE.pack(self._end, len(content))
        columns_start = self._end + len(content)
        places = bytearray()
        for column in self._columns:
            places += _PLACE.pack(self._end + len(content), len(column))
            content += column
        places_start = self._end + len(content)
        content += places
        schema_start = self._end + len(content)
        content += schema_place
        content += _FOOTER.pack(
            columns_start, places_start, schema_start, 1, len(self._columns), 2, 2, b"LANC"
        )
        return bytes(content)

    def _place(self, size: int) -> int:
        place = self._end
        self._end += size + -(self._end + size) % _ALIGNMENT
        return place
