"""The past of a catalog: every version of ``__manifest`` is a state of the whole catalog."""

from collections.abc import Iterator
from typing import Final

from lakeroot.model.errors import InvalidInputError, InvalidTableStateError
from lakeroot.model.identifiers import Identifier
from lakeroot.objects import Objects
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.lance_dir import versions
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.rows import VERSION_ROW, Row
from lakeroot.storage.lance_dir.state import State, Touched, advance, load
from lakeroot.storage.lance_dir.version_file import VersionFile

HISTORY_START: Final = "lakeroot.history_start"
"""Where the table's metadata says which is the oldest version that a vacuum has kept."""

INDEXED: Final = "Index the manifest"
"""What is said of versions that only have another index than the one before."""


def entries(table: ManifestTable, objects: Objects, limit: int | None) -> Iterator[HistoryEntry]:
    """Tell what each commit changed, the newest first, as far back as the data is kept."""
    # What came after the version that the table stands at is not the past of a past catalog.
    kept = range(_start(table), table.head.version + 1)
    numbers = sorted(number for number in versions.all_versions(objects) if number in kept)
    if limit is not None:
        numbers = numbers[-limit - 1 :] if limit > 0 else []
    found: list[HistoryEntry] = []
    state = State()
    known = 0
    for number in numbers:
        version_file = table.read_version(number)
        before = state.version_file
        try:
            touched = advance(state, version_file, table.files, table.whole_table)
        except InvalidTableStateError:
            state = State()  # Its files are gone; the story starts after it.
            found.clear()
            continue
        if number == known + 1:  # Otherwise it is read only to know what the next one changed.
            found.append(_entry(before, version_file, touched))
        known = number
    return reversed(found)


def _start(table: ManifestTable) -> int:
    start = table.head.table_metadata.get(HISTORY_START, "")
    return int(start) if start.isascii() and start.isdigit() else 1


def version_at(
    table: ManifestTable, objects: Objects, version: int | None, timestamp_ms: int | None
) -> VersionFile:
    """Find the version of a number, or the one that was the newest at a time."""
    if (version is None) == (timestamp_ms is None):
        raise InvalidInputError("Say either a version or a time")
    numbers = sorted(versions.all_versions(objects))
    if version is None:
        found = _newest_before(table, numbers, timestamp_ms or 0)
    elif version in numbers:
        found = table.read_version(version)
    else:
        raise InvalidInputError(
            f"The catalog has no version {version}",
            f"it has {numbers[0]} to {numbers[-1]}" if numbers else "it is empty",
        )
    if found.version < _start(table):
        raise InvalidInputError(
            f"Version {found.version} of the catalog is no longer kept",
            f"a vacuum has deleted what is older than version {_start(table)}",
            f"Ask for version {_start(table)} or a later one",
        )
    load(found, table.files, table.whole_table)  # It must still be readable.
    return found


def _newest_before(table: ManifestTable, numbers: list[int], timestamp_ms: int) -> VersionFile:
    low, high = -1, len(numbers) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if table.read_version(numbers[middle]).timestamp_ms <= timestamp_ms:
            low = middle
        else:
            high = middle - 1
    if low < 0:
        raise InvalidInputError("The catalog did not exist at that time")
    return table.read_version(numbers[low])


def _entry(previous: VersionFile, version_file: VersionFile, touched: Touched) -> HistoryEntry:
    message = version_file.message
    is_same = not touched.before and not touched.after
    if not message and is_same and version_file.index_section != previous.index_section:
        message = INDEXED  # Lance says nothing about itself, and no object has changed.
    before, after = _objects(touched.before), _objects(touched.after)
    new_versions = (
        (row.identifier[:-1], int(row.identifier[-1]))
        for identifier, row in touched.after.items()
        if row.object_type == VERSION_ROW and identifier not in touched.before
    )
    return HistoryEntry(
        version=version_file.version,
        timestamp_ms=version_file.timestamp_ms,
        author=version_file.author,
        message=message,
        created=tuple(sorted(after.keys() - before.keys())),
        altered=tuple(sorted(_altered(before, after))),
        removed=tuple(sorted(before.keys() - after.keys())),
        versions=tuple(sorted(new_versions)),
    )


def _objects(rows: dict[Identifier, Row]) -> dict[Identifier, Row]:
    return {found: row for found, row in rows.items() if row.object_type != VERSION_ROW}


def _altered(before: dict[Identifier, Row], after: dict[Identifier, Row]) -> Iterator[Identifier]:
    return (k for k in before.keys() & after.keys() if before[k] != after[k])
