"""One version of the ``__manifest`` table: the file ``_versions/<n>.manifest`` that Lance writes.

Lance calls it the manifest of a version. We read it, and we write the next one by editing the one
before: same schema, same configuration, some fragments more or less. What we do not know stays as
it was, or, where keeping it blindly could be wrong, marks the file as not `editable`; then the
commit goes through pylance instead (see `pylance_commit`).

Layout: [index section] [transaction] [manifest] and sixteen bytes of footer.
"""

import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lakeroot.storage.lance_dir import index_section, protobuf
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.schema import (
    COLUMN_IDS,
    COLUMN_INDICES,
    FORMAT_VERSION,
    SCHEMA,
    is_ours,
)

MAGIC: Final = b"LANC"
FOOTER: Final = struct.Struct("<QHH4s")
WRITER: Final = "lakeroot"

# Features of a version file, as bits: deletion files, configuration, no transaction file.
DELETION_FILES: Final = 1
EDITABLE_FEATURES: Final = DELETION_FILES | 8 | 32

# Fields of Lance's Manifest message.
FIELDS, FRAGMENTS, VERSION, SCHEMA_METADATA, INDEX_SECTION, TIMESTAMP = 1, 2, 3, 5, 6, 7
READER_FEATURES, WRITER_FEATURES, MAX_FRAGMENT_ID, TRANSACTION_FILE = 9, 10, 11, 12
WRITER_VERSION, NEXT_ROW_ID, DATA_FORMAT, CONFIG, TABLE_METADATA, TRANSACTION = (
    13,
    14,
    15,
    16,
    19,
    23,
)
KEPT: Final = frozenset({SCHEMA_METADATA, NEXT_ROW_ID, DATA_FORMAT, CONFIG})
REWRITTEN: Final = frozenset(
    {
        FIELDS,
        FRAGMENTS,
        VERSION,
        INDEX_SECTION,
        TIMESTAMP,
        READER_FEATURES,
        WRITER_FEATURES,
        MAX_FRAGMENT_ID,
        TRANSACTION_FILE,
        WRITER_VERSION,
        TABLE_METADATA,
        TRANSACTION,
    }
)
# Of its Transaction message.
OVERWRITE: Final = 102
MESSAGE_KEY: Final = "lakeroot.message"
AUTHOR_KEY: Final = "lakeroot.author"
DROPPED_KEY: Final = "lakeroot.dropped"

_FIELDS: Final = b"".join(protobuf.blob(FIELDS, column) for column in SCHEMA)
_OVERWRITTEN_FIELDS: Final = b"".join(protobuf.blob(2, column) for column in SCHEMA)


class Deletion(Struct, frozen=True):
    """The rows of a fragment that are gone: a file of offsets."""

    file_type: int
    read_version: int
    id: int
    rows: int

    def path(self, fragment_id: int) -> str:
        """Give the place of the file inside the table."""
        suffix = "bin" if self.file_type else "arrow"
        return f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{suffix}"


class Fragment(Struct, frozen=True):
    """Some rows of the table: one data file, less the rows that are deleted."""

    id: int
    path: str
    size_bytes: int
    rows: int
    deletion: Deletion | None = None
    raw: bytes | None = None
    simple: bool = True

    @property
    def live_rows(self) -> int:
        """Count the rows that are not deleted."""
        return self.rows - (self.deletion.rows if self.deletion else 0)


class VersionFile(Struct, frozen=True):
    """What one version of the table is made of."""

    version: int
    timestamp_ms: int
    fragments: tuple[Fragment, ...]
    table_metadata: Mapping[str, str]
    max_fragment_id: int = -1
    index_section: bytes | None = None
    kept: bytes = b""
    editable: bool = True
    message: str = ""
    author: str = ""
    uuid: str = ""
    dropped: tuple[str, ...] = ()
    """The locations of the tables that were dropped, so that others can finish deleting them."""


FIRST: Final = VersionFile(
    version=0,
    timestamp_ms=0,
    fragments=(),
    table_metadata={},
    kept=protobuf.blob(DATA_FORMAT, protobuf.text(1, "lance") + protobuf.text(2, FORMAT_VERSION)),
)
"""Before the first version: a table that does not exist yet."""


def successor(
    before: VersionFile,
    fragments: tuple[Fragment, ...],
    *,
    timestamp_ms: int,
    uuid: str,
    message: str = "",
    author: str = "",
    dropped: tuple[str, ...] = (),
) -> VersionFile:
    """Make the version after this one, with other fragments."""
    return replace(
        before,
        version=before.version + 1,
        timestamp_ms=timestamp_ms,
        fragments=tuple(sorted(fragments, key=lambda fragment: fragment.id)),
        max_fragment_id=max([before.max_fragment_id, *(fragment.id for fragment in fragments)]),
        index_section=_still_true(before, fragments),
        uuid=uuid,
        message=message,
        author=author,
        dropped=dropped,
    )


def _still_true(before: VersionFile, fragments: tuple[Fragment, ...]) -> bytes | None:
    # An index speaks of fragments by their ids: it stays true only while those it covers are
    # the same files. What is added later is found without it.
    if before.index_section is None:
        return None
    old = {fragment.id: fragment.path for fragment in before.fragments}
    new = {fragment.id: fragment.path for fragment in fragments}
    covered = index_section.covered(before.index_section)
    needed = old.keys() if covered is None else covered
    is_same = all(number in old and old[number] == new.get(number) for number in needed)
    return before.index_section if is_same else None


def decode(content: bytes) -> VersionFile:
    """Read a version file; raise `MalformedError` if it is none."""
    if len(content) < FOOTER.size:
        raise MalformedError("the file is too short")
    position, _, _, magic = FOOTER.unpack(content[-FOOTER.size :])
    if magic != MAGIC:
        raise MalformedError("the file does not end as a Lance file does")
    try:
        return _decode_manifest(content, protobuf.unframed(content, position))
    except (UnicodeDecodeError, struct.error, KeyError, TypeError) as error:
        raise MalformedError(str(error)) from error


def _decode_manifest(content: bytes, manifest: bytes) -> VersionFile:
    numbers: dict[int, int] = {}
    blobs: dict[int, list[bytes]] = {}
    kept = b""
    editable = True
    for found in protobuf.fields(manifest):
        number, _, value = found
        if number in KEPT:
            kept += protobuf.raw(found)
        elif number not in REWRITTEN:
            editable = False
        if isinstance(value, int):
            numbers[number] = value
        else:
            blobs.setdefault(number, []).append(value)
    features = numbers.get(READER_FEATURES, 0) | numbers.get(WRITER_FEATURES, 0)
    fragments = tuple(decode_fragment(raw) for raw in blobs.get(FRAGMENTS, []))
    index = numbers.get(INDEX_SECTION)
    transaction = numbers.get(TRANSACTION)
    uuid, properties = (
        ("", dict[str, str]())
        if transaction is None
        else decode_transaction(protobuf.unframed(content, transaction))
    )
    return VersionFile(
        version=numbers[VERSION],
        timestamp_ms=_decode_timestamp(blobs.get(TIMESTAMP, [b""])[-1]),
        fragments=fragments,
        table_metadata=_decode_map(blobs.get(TABLE_METADATA, [])),
        max_fragment_id=numbers.get(MAX_FRAGMENT_ID, -1),
        index_section=None if index is None else protobuf.unframed(content, index),
        kept=kept,
        editable=editable
        and not features & ~EDITABLE_FEATURES
        and is_ours(tuple(blobs.get(FIELDS, [])))
        and _decode_format(blobs.get(DATA_FORMAT, [b""])[-1]) == FORMAT_VERSION
        and all(fragment.simple for fragment in fragments),
        message=properties.get(MESSAGE_KEY, ""),
        author=properties.get(AUTHOR_KEY, ""),
        uuid=uuid,
        dropped=_decode_dropped(properties.get(DROPPED_KEY)),
    )


def encode(version: VersionFile) -> bytes:
    """Write a version file, with the Overwrite transaction that made it inside.

    Every other writer takes an Overwrite for a conflict with whatever it was about to do, so a
    client that read an older version can never commit over ours unseen.
    """
    content = b""
    index_position = None
    if version.index_section is not None:
        index_position = len(content)
        content += protobuf.framed(version.index_section)
    transaction_position = len(content)
    fragments = b"".join(protobuf.blob(FRAGMENTS, _encode_fragment(f)) for f in version.fragments)
    content += protobuf.framed(_encode_transaction(version))
    features = DELETION_FILES if any(f.deletion for f in version.fragments) else 0
    manifest = (
        _FIELDS
        + fragments
        + protobuf.number(VERSION, version.version)
        + (b"" if index_position is None else protobuf.always_number(INDEX_SECTION, index_position))
        + protobuf.blob(TIMESTAMP, _encode_timestamp(version.timestamp_ms))
        + protobuf.number(READER_FEATURES, features)
        + protobuf.number(WRITER_FEATURES, features)
        + (
            protobuf.always_number(MAX_FRAGMENT_ID, version.max_fragment_id)
            if version.max_fragment_id >= 0
            else b""
        )
        + protobuf.blob(WRITER_VERSION, protobuf.text(1, WRITER) + protobuf.text(2, "0.1.0"))
        + version.kept
        + b"".join(
            protobuf.entry(TABLE_METADATA, key, value)
            for key, value in sorted(version.table_metadata.items())
        )
        + protobuf.always_number(TRANSACTION, transaction_position)
    )
    position = len(content)
    return content + protobuf.framed(manifest) + FOOTER.pack(position, 0, 2, MAGIC)


# Most fragments of a version were in the one before, and each is written twice.
@lru_cache(maxsize=1024)
def decode_fragment(raw: bytes) -> Fragment:
    """Read a fragment: its data file, less what is deleted."""
    numbers: dict[int, int] = {}
    files: list[bytes] = []
    deletion: Deletion | None = None
    simple = True
    for number, _, value in protobuf.fields(raw):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 2:
            files.append(value)
        elif number == 3:
            deletion = _decode_deletion(value)
        else:
            simple = False
    path, size, plain = decode_data_file(files[0]) if files else ("", 0, False)
    return Fragment(
        id=numbers.get(1, 0),
        path=path,
        size_bytes=size,
        rows=numbers.get(4, 0),
        deletion=deletion,
        raw=raw,
        simple=simple and plain and len(files) == 1 and not (deletion and deletion.file_type),
    )


def decode_data_file(raw: bytes) -> tuple[str, int, bool]:
    """Read where a data file is, its size, and whether it is as plain as ours are."""
    path, size, plain = "", 0, True
    columns: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    for number, _, value in protobuf.fields(raw):
        match number, value:
            case 1, bytes():
                path = value.decode()
            case 2, bytes():
                columns = tuple(protobuf.varints(value))
            case 3, bytes():
                indices = tuple(protobuf.varints(value))
            case 6, int():
                size = value
            case ((4 | 5), int()):
                plain = plain and not (number == 4 and value < 2)
            case _:
                plain = False
    return path, size, plain and columns == COLUMN_IDS and indices == COLUMN_INDICES


@lru_cache(maxsize=1024)
def _encode_fragment(fragment: Fragment) -> bytes:
    head = protobuf.number(1, fragment.id)
    deletion = protobuf.blob(3, _encode_deletion(fragment.deletion)) if fragment.deletion else b""
    if fragment.raw is not None:
        others = (f for f in protobuf.fields(fragment.raw) if f[0] not in (1, 3))
        return head + deletion + b"".join(protobuf.raw(found) for found in others)
    data_file = (
        protobuf.text(1, fragment.path)
        + protobuf.blob(2, b"".join(map(protobuf.encode_varint, COLUMN_IDS)))
        + protobuf.blob(3, b"".join(map(protobuf.encode_varint, COLUMN_INDICES)))
        + protobuf.number(4, 2)
        + protobuf.number(5, 2)
        + protobuf.number(6, fragment.size_bytes)
    )
    return head + protobuf.blob(2, data_file) + deletion + protobuf.number(4, fragment.rows)


def _decode_deletion(raw: bytes) -> Deletion:
    numbers = {number: value for number, _, value in protobuf.fields(raw) if isinstance(value, int)}
    return Deletion(*(numbers.get(number, 0) for number in (1, 2, 3, 4)))


def _encode_deletion(deletion: Deletion) -> bytes:
    values = (deletion.file_type, deletion.read_version, deletion.id, deletion.rows)
    return b"".join(protobuf.number(field, value) for field, value in enumerate(values, 1))


def _encode_transaction(version: VersionFile) -> bytes:
    overwrite = b"".join(protobuf.blob(1, _encode_fragment(f)) for f in version.fragments)
    overwrite += _OVERWRITTEN_FIELDS
    return (
        protobuf.number(1, version.version - 1)
        + protobuf.text(2, version.uuid)
        + (protobuf.entry(4, MESSAGE_KEY, version.message) if version.message else b"")
        + (protobuf.entry(4, AUTHOR_KEY, version.author) if version.author else b"")
        + (protobuf.entry(4, DROPPED_KEY, json.dumps(version.dropped)) if version.dropped else b"")
        + protobuf.blob(OVERWRITE, overwrite)
    )


def decode_transaction(raw: bytes) -> tuple[str, dict[str, str]]:
    """Read which transaction made a version, and its properties."""
    uuid = ""
    properties: dict[str, str] = {}
    for number, _, value in protobuf.fields(raw):
        if number == 2 and isinstance(value, bytes):
            uuid = value.decode()
        elif number == 4 and isinstance(value, bytes):
            properties.update(_decode_map([value]))
    return uuid, properties


def _decode_dropped(text: str | None) -> tuple[str, ...]:
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return ()
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def _decode_timestamp(raw: bytes) -> int:
    numbers = {number: value for number, _, value in protobuf.fields(raw) if isinstance(value, int)}
    return numbers.get(1, 0) * 1000 + numbers.get(2, 0) // 1_000_000


def _encode_timestamp(timestamp_ms: int) -> bytes:
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return protobuf.number(1, seconds) + protobuf.number(2, milliseconds * 1_000_000)


def _decode_format(raw: bytes) -> str:
    return next(
        (v.decode() for n, _, v in protobuf.fields(raw) if n == 2 and isinstance(v, bytes)), ""
    )


def _decode_map(entries: list[bytes]) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in map(protobuf.pairs, entries)}
