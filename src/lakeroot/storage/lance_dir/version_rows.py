"""Versions of tables as rows of the manifest (table version management).

A row ``<table>$<version>`` says which manifest file is that version; it is written unpadded, as
the specification has it, and read padded too, as some writers had it. Branches are not kept in
rows: the specification gives them no name, so their versions are arbitrated by their files alone.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import msgspec

from lakeroot.model.commits import (
    Change,
    CreateTableVersions,
    DeleteTableVersions,
    DeregisterTable,
    DropTable,
    ManageTableVersions,
    PointTableVersions,
    RenameTable,
)
from lakeroot.model.errors import TableVersionAlreadyExistsError, UnsupportedOperationError
from lakeroot.model.identifiers import DELIMITER, Identifier, show
from lakeroot.model.records import TableVersion
from lakeroot.objects import Objects
from lakeroot.storage.contract import VersionsByNumber
from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.rows import VERSION_ROW, Row
from lakeroot.tables.versions import VERSIONS, NamingScheme, manifest_name, parse_staging_name

Rows = dict[Identifier, Row | None]

_REMEMBERED: Final[dict[tuple[str, str | None], TableVersion]] = {}
_MOST_REMEMBERED: Final = 4096
_OWN_KEYS: Final = ("manifest_path", "manifest_size", "e_tag", "timestamp_millis")


class KeptVersions(VersionsByNumber):
    """The versions of one table by number; a row is read when it is asked for.

    Most calls ask for the newest alone. It is taken at once; the others, of which a table may have
    thousands, when one of them is asked for.
    """

    def __init__(
        self, index: Index, table: Identifier, lock: AbstractContextManager[object] | None = None
    ) -> None:
        listings = index.listings
        self._lock = lock or nullcontext()
        self._kept = listings.versions.get(table, {})
        self._newest = listings.newest_versions.get(table, 0)
        self._newest_row = self._kept.get(self._newest)
        self._copy: dict[int, Row] | None = None if lock else dict(self._kept)

    @property
    def newest(self) -> int:
        """Give the number of the newest version; 0 if there is none."""
        return self._newest

    @property
    def _rows(self) -> dict[int, Row]:
        if self._copy is None:
            with self._lock:  # While a commit is taken in, rows go and come again.
                self._copy = dict(self._kept)
        return self._copy

    def __getitem__(self, number: int) -> TableVersion:
        if number == self._newest and self._newest_row is not None:
            return version_of_row(self._newest_row)
        return version_of_row(self._rows[number])

    def __contains__(self, number: object) -> bool:
        return (number == self._newest and self._newest_row is not None) or number in self._rows

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        if self._copy is not None:
            return len(self._copy)
        with self._lock:
            return len(self._kept)

    def __bool__(self) -> bool:
        return self._newest_row is not None


def version_of_row(row: Row) -> TableVersion:
    """Read a row as a version."""
    # The newest row of a table is looked at by every call, several times.
    found = _REMEMBERED.get((row.object_id, row.metadata))
    return found or _remembered(row, _read(row))


def _remembered(row: Row, version: TableVersion) -> TableVersion:
    if len(_REMEMBERED) >= _MOST_REMEMBERED:
        _REMEMBERED.clear()
    _REMEMBERED[row.object_id, row.metadata] = version
    return version


def _read(row: Row) -> TableVersion:
    found = _object_in(row.metadata or "{}")
    size, timestamp = found.get("manifest_size"), found.get("timestamp_millis")
    e_tag = found.get("e_tag")
    return TableVersion(
        _number(row),
        manifest_path=str(found.get("manifest_path") or ""),
        manifest_size=size if isinstance(size, int) else None,
        e_tag=e_tag if isinstance(e_tag, str) else None,
        timestamp_ms=timestamp if isinstance(timestamp, int) else None,
        metadata={key: str(value) for key, value in found.items() if key not in _OWN_KEYS},
    )


def _number(row: Row) -> int:
    return int(row.object_id.rpartition(DELIMITER)[2])


def _object_in(text: str) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        try:
            found = json.loads(text)  # Understands what only Python writes, and is slower.
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def row_of_version(table: Identifier, version: TableVersion) -> Row:
    """Write a version as a row."""
    metadata: dict[str, Any] = dict(version.metadata)
    metadata["manifest_path"] = version.manifest_path
    if version.manifest_size is not None:
        metadata["manifest_size"] = version.manifest_size
    if version.e_tag is not None:
        metadata["e_tag"] = version.e_tag
    if version.timestamp_ms is not None:
        metadata["timestamp_millis"] = version.timestamp_ms
    object_id = DELIMITER.join((*table, str(version.version)))
    row = Row(object_id, VERSION_ROW, None, msgspec.json.encode(metadata).decode())
    if version.metadata.keys().isdisjoint(_OWN_KEYS):
        _remembered(row, version)  # The next commit looks at it.
    return row


def finish(files: Objects, version: TableVersion) -> None:
    """Put a version into its place below its table, if it is only staged."""
    name = version.manifest_path.rpartition("/")[2]
    final = parse_staging_name(name)
    if final is None:
        return
    content = files.get(f"{VERSIONS}/{name}")
    # A file of one version must not lie there under two names.
    other = NamingScheme.V2 if final.scheme is NamingScheme.V1 else NamingScheme.V1
    if content is not None and not files.exists(
        f"{VERSIONS}/{manifest_name(final.version, other)}"
    ):
        files.put_if_absent(f"{VERSIONS}/{final}", content)


def rows_of_change(change: Change, index: Index, pending: Rows) -> Rows:
    """Work out which version rows a change adds, replaces or takes away."""
    match change:
        case CreateTableVersions() | PointTableVersions() | DeleteTableVersions():
            return _changed_versions(change, index, pending)
        case DropTable() | DeregisterTable():
            return {row.identifier: None for row in _rows(change.identifier, index, pending)}
        case RenameTable():
            rows: Rows = {}
            for row in _rows(change.identifier, index, pending):
                rows[row.identifier] = None
                moved = row_of_version(change.new_identifier, version_of_row(row))
                rows[moved.identifier] = moved
            return rows
        case ManageTableVersions(enabled=False):
            every = [row for table in index.listings.versions for row in _kept_rows(table, index)]
            every += [row for row in pending.values() if row and row.object_type == VERSION_ROW]
            return {row.identifier: None for row in every}
        case _:
            return {}


def newest_version(table: Identifier, index: Index, pending: Rows) -> int:
    """Give the newest version of a table, with the commits before in the same batch; 0 if none."""
    if not any(identifier[:-1] == table for identifier in pending):
        return index.listings.newest_versions.get(table, 0)
    return max(map(_number, _rows(table, index, pending)), default=0)


def _changed_versions(
    change: CreateTableVersions | PointTableVersions | DeleteTableVersions,
    index: Index,
    pending: Rows,
) -> Rows:
    if change.branch is not None:
        raise UnsupportedOperationError("Versions of branches are not kept in the manifest")
    if isinstance(change, DeleteTableVersions):
        gone = set(change.versions)
        found = _rows(change.identifier, index, pending)
        return {row.identifier: None for row in found if _number(row) in gone}
    rows: Rows = {}
    for version in change.versions:
        before = _row(change.identifier, version.version, index, pending)
        if isinstance(change, CreateTableVersions) and before is not None:
            raise TableVersionAlreadyExistsError(
                f"{show(change.identifier)} already has a version {version.version}",
                "another writer committed it first",
                "Read the table again and commit the version after its newest",
            )
        if isinstance(change, PointTableVersions) and before is None:
            continue
        row = row_of_version(change.identifier, version)
        if before is not None and before.identifier != row.identifier:
            rows[before.identifier] = None  # Padded before, plain now.
        rows[row.identifier] = row
    return rows


def _row(table: Identifier, version: int, index: Index, pending: Rows) -> Row | None:
    """Give the row of one version; a table may have thousands, so only this one is looked at."""
    plain = (*table, str(version))
    if plain in pending:
        return pending[plain]
    found = index.listings.versions.get(table, {}).get(version)
    return None if found is None else pending.get(found.identifier, found)


def _kept_rows(table: Identifier, index: Index) -> list[Row]:
    """Give the version rows of a table, also those that say the same number in another way."""
    versions = index.listings.versions.get(table, {})
    twice = index.listings.spelled_twice.get(table, {})
    return [*versions.values(), *(row for rows in twice.values() for row in rows)]


def _rows(table: Identifier, index: Index, pending: Rows) -> list[Row]:
    """Give the version rows of a table, with those of the commits before in the same batch."""
    found = {row.identifier: row for row in _kept_rows(table, index)}
    for identifier, row in pending.items():
        if identifier[:-1] == table and (row is None or row.object_type == VERSION_ROW):
            if row is None:
                found.pop(identifier, None)
            else:
                found[identifier] = row
    return list(found.values())
