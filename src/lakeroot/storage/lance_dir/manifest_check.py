"""Is a manifest that wants to be a version whole: could Lance read the table with it.

A damaged manifest that is committed makes a table unreadable. Everything that Lance decodes is
decoded here, and what it says twice must be the same; texts and numbers may still be wrong. Fields
and features that are not known are those of a later Lance, and pass.

Manifests have thousands of fragments, and nearly all are those of the version before. What was
found in order is remembered, by its very bytes, and is not looked at again.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.manifest_shapes import (
    INDEXES,
    LEGACY,
    MANIFEST,
    Field,
    Fragment,
    read_field,
    read_fragment,
    read_transaction,
)
from lakeroot.storage.lance_dir.protobuf import BYTES, MalformedError
from lakeroot.storage.lance_dir.version_file import (
    DATA_FORMAT,
    FIELDS,
    FOOTER,
    FRAGMENTS,
    INDEX_SECTION,
    MAX_FRAGMENT_ID,
    READER_FEATURES,
    TRANSACTION,
    VERSION,
)

_BASE_PATHS: Final = 18
_BRANCH: Final = 20
_TOP: Final = -1
"""What a field of the schema says that has no other above it."""
_MIXED_FORMATS: Final = 1 << 8
_FORMATS: Final = {"0.2": LEGACY, "0.3": "2.0"}
"""Versions of data files that are called otherwise, too."""
_KEYS: Final = (FIELDS << 3 | BYTES, FRAGMENTS << 3 | BYTES)
_MOST_BEGINNINGS: Final = 8
_WORTH_REMEMBERING: Final = 1 << 10
"""Beginnings of so many bytes, some ten fragments."""
_MOST_BYTES: Final = 16 << 20
_MOST_FRAGMENTS: Final = 4096
"""Of more that were not seen yet only the last are looked at: the new ones are among them."""

Part = TypeVar("Part")


class Said(Struct, frozen=True):
    """What a manifest says that it is."""

    version: int
    branch: str | None
    """Nothing for the main branch."""


class _Beginning(Struct, frozen=True):
    """How a manifest begins, its schema and its fragments, and what the rest has to fit to."""

    content: bytes = b""
    fields: frozenset[int] = frozenset()
    highest: int = -1
    bases: frozenset[int] = frozenset()
    formats: frozenset[str] = frozenset()


class _Remembered(Generic[Part]):
    """Parts of manifests that were in order; all are forgotten when they become too many."""

    def __init__(self) -> None:
        self._parts: dict[bytes, Part] = {}
        self._bytes = 0

    def get(self, raw: bytes) -> Part | None:
        return self._parts.get(raw)

    def keep(self, raw: bytes, part: Part) -> Part:
        self._bytes += len(raw)
        if self._bytes > _MOST_BYTES:
            self._parts, self._bytes = {}, len(raw)
        self._parts[raw] = part
        return part


_FIELDS_SEEN: Final = _Remembered[Field]()
_FRAGMENTS_SEEN: Final = _Remembered[Fragment]()
_BEGINNINGS: Final[list[_Beginning]] = []
"""Of the manifests that were looked at last, the latest first: of different tables, mostly."""


def checked(content: bytes) -> Said:
    """Read which version of its table a manifest says it is; raise if it is damaged."""
    try:
        return _checked(content)
    except UnicodeDecodeError:
        raise MalformedError("a text in it is not UTF-8") from None


def _checked(content: bytes) -> Said:
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    manifest = protobuf.unframed(content, position)
    reading = _Reading(_known_beginning(manifest))
    rest = reading.read_beginning(manifest)
    # Before the rest is read: what is there says nothing of others that begin like this.
    beginning = reading.beginning(manifest[:rest])
    found = reading.read_rest(manifest[rest:])
    highest = found.get(MAX_FRAGMENT_ID)
    if highest is not None and highest < reading.highest:
        raise MalformedError("it says of a fragment that it was never made")
    if reading.bases and not reading.bases <= {one.get(1, 0) for one in found.get(_BASE_PATHS, ())}:
        raise MalformedError("a file lies at a base that is not told")
    _require_format(found, reading.formats)
    if INDEX_SECTION in found:
        _require_indexes(_section(content, found[INDEX_SECTION], position))
    if TRANSACTION in found:
        made = read_transaction(_section(content, found[TRANSACTION], position))
        _require_new(made, reading.fresh, manifest)
    _remember(beginning)
    return Said(found.get(VERSION, 0), found.get(_BRANCH) or None)


class _Reading:
    """One look at the schema and the fragments of a manifest."""

    def __init__(self, before: _Beginning) -> None:
        self._before = before
        self._fields = before.fields
        self.highest = before.highest
        self.bases = before.bases
        self.formats = before.formats
        self.fresh: dict[tuple[bytes, ...], int] = {}

    def read_beginning(self, manifest: bytes) -> int:
        """Read the schema and the fragments that a manifest begins with; give where they end."""
        position, end = len(self._before.content), len(manifest)
        fields: list[bytes] = []
        fragments: list[bytes] = []
        while position < end and (key := manifest[position]) in _KEYS:
            size, start = protobuf.varint(manifest, position + 1)
            position = start + size
            if position > end:
                raise MalformedError("a field is cut off")
            (fields if key == _KEYS[0] else fragments).append(manifest[start:position])
        self._add(fields, fragments)
        return position

    def read_rest(self, rest: bytes) -> dict[int, Any]:
        """Read what follows: facts, and of other writers perhaps more of the schema."""
        found = MANIFEST.read(rest)
        self._add(found.get(FIELDS, ()), found.get(FRAGMENTS, ()))
        return found

    def beginning(self, content: bytes) -> _Beginning:
        """Give what to remember."""
        return _Beginning(content, self._fields, self.highest, self.bases, self.formats)

    def _add(self, fields: Sequence[bytes], fragments: Sequence[bytes]) -> None:
        if fields:
            self._fields = frozenset(_with_fields(set(self._fields), fields))
        for raw in fragments[-_MOST_FRAGMENTS:]:
            found = _FRAGMENTS_SEEN.get(raw) or _FRAGMENTS_SEEN.keep(raw, read_fragment(raw))
            self.highest = max(self.highest, found.id)
            if not found.bases <= self.bases:
                self.bases |= found.bases
            if not found.formats <= self.formats:
                self.formats |= found.formats
            self.fresh[found.files] = found.rows


def _with_fields(known: set[int], fields: Sequence[bytes]) -> set[int]:
    for raw in fields:
        found = _FIELDS_SEEN.get(raw) or _FIELDS_SEEN.keep(raw, read_field(raw))
        if found.id in known:
            raise MalformedError(f"two fields of the schema have the number {found.id}")
        if found.parent != _TOP and found.parent not in known:
            raise MalformedError("a field of the schema is below one that is not there")
        known.add(found.id)
    return known


def _known_beginning(manifest: bytes) -> _Beginning:
    for one in _BEGINNINGS:
        if manifest.startswith(one.content):
            return one
    return _Beginning()


def _remember(beginning: _Beginning) -> None:
    if len(beginning.content) < _WORTH_REMEMBERING:
        return  # It is read again as fast as it is found.
    # The one that it goes on from is not needed any more.
    others = [one for one in _BEGINNINGS if not beginning.content.startswith(one.content)]
    room = _MOST_BYTES - len(beginning.content)
    kept = [beginning]
    for one in others[: _MOST_BEGINNINGS - 1]:
        room -= len(one.content)
        if room > 0:
            kept.append(one)
    _BEGINNINGS[:] = kept


def _section(content: bytes, position: int, end: int) -> bytes:
    """Read a message that lies before the manifest in the same file."""
    return protobuf.unframed(content[:end], position)


# Most commits leave the indexes as they are.
@lru_cache(maxsize=8)
def _require_indexes(section: bytes) -> None:
    INDEXES.read(section)


def _require_format(found: dict[int, Any], formats: frozenset[str]) -> None:
    """Compare what the manifest says of all data files with what it says of each."""
    said = found.get(DATA_FORMAT, {}).get(2)
    is_mixed = found.get(READER_FEATURES, 0) & _MIXED_FORMATS
    if said is not None and not is_mixed and not formats <= {_FORMATS.get(said, said)}:
        raise MalformedError("a data file is of another format than the table")


def _require_new(
    made: list[Fragment], fresh: dict[tuple[bytes, ...], int], manifest: bytes
) -> None:
    """Compare what the transaction says was written with what the version is made of."""
    for one in made:
        rows = fresh.get(one.files)
        if rows is None and not all(file in manifest for file in one.files):
            raise MalformedError("a file that it was made of is not in it")
        if rows and one.rows and rows != one.rows:
            raise MalformedError("a fragment has not the rows that were written")
