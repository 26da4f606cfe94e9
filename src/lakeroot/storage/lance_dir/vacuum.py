"""Deleting the files of ``__manifest`` that only the distant past needs.

Version files stay for ever: other clients find the newest version by asking for the next one, and
would be lost in a gap. What goes are the data, deletion and index files that no version within
the window uses, and what crashed writers left. How far back the catalog then reaches is written
into it before the first file is deleted.
"""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final

from msgspec import Struct

from lakeroot.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    UnsupportedOperationError,
)
from lakeroot.objects import LocalObjects, ObjectInfo, Objects
from lakeroot.storage.lance_dir import versions
from lakeroot.storage.lance_dir.commits import Committer
from lakeroot.storage.lance_dir.drafts import Draft
from lakeroot.storage.lance_dir.history import HISTORY_START
from lakeroot.storage.lance_dir.manifest_facts import everything_named_in
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import VersionFile, decode
from lakeroot.storage.spans import RETENTION

STAGING_MS: Final = 60 * 60 * 1000
"""A file that no version names may belong to a commit that is being made: give it this long."""

_DIRECTORIES: Final = ("data", "_deletions", "_indices")
_AT_ONCE: Final = 16


class Vacuumed(Struct, frozen=True):
    """What was deleted (or would be), and the oldest version that can still be read."""

    files: tuple[str, ...]
    size_bytes: int
    oldest_version: int
    dry_run: bool


def vacuum(
    objects: Objects,
    table: ManifestTable,
    committer: Committer,
    older_than: timedelta = RETENTION,
    *,
    dry_run: bool = False,
    author: str = "",
) -> Vacuumed:
    """Delete what no version within the window needs; say what that is."""
    window_ms = int(older_than.total_seconds() * 1000)
    if window_ms < 0:
        raise InvalidInputError("The window cannot be negative", fix="Keep zero days or more")
    if objects.has_any(f"{versions.TABLE}/tree"):
        raise UnsupportedOperationError(
            "This catalog cannot be vacuumed",
            "its `__manifest` table has branches, whose files are not followed",
        )
    now_ms = int(time.time() * 1000)
    # The files are listed before the versions are read: one that is written in between cannot
    # be taken for unused.
    files = list(_files(objects))
    table.refresh()
    past = _Past(
        objects, table.head.version, now_ms - window_ms, now_ms - max(window_ms, STAGING_MS)
    )
    unused = [found for found in files if past.is_unused(found)]
    if unused and not dry_run:
        _remember_start(table, committer, past.oldest, author)
        objects.delete(found.path for found in unused)
    return Vacuumed(
        tuple(sorted(found.path for found in unused)),
        sum(found.size for found in unused),
        past.oldest,
        dry_run,
    )


class _Past:
    """Which files the versions use, inside the window and before it."""

    def __init__(
        self, objects: Objects, newest: int, window_start: int, staging_start: int
    ) -> None:
        self._staging_start = staging_start
        listed = objects.list_directory(versions.DIRECTORY).objects
        written = {versions.version_of(info.path.rpartition("/")[2]): info for info in listed}
        numbers = sorted((n for n in written if n), reverse=True)
        self.oldest = newest
        self._kept: set[str] = set()
        self._superseded: set[str] = set()
        is_inside = True
        for version, uses in _read(objects, numbers):
            # Two clocks, the writer's and the storage's: the later one counts.
            info = written.get(version.version)
            when = max(version.timestamp_ms, info.modified_ms if info else 0)
            if is_inside:
                self._kept |= uses
                self.oldest = version.version
                is_inside = when > window_start  # This one was the newest when the window opened.
            elif when > staging_start:
                self._superseded |= uses
            else:
                break
        for _, uses in _read(objects, _tagged(objects)):
            self._kept |= uses

    def is_unused(self, found: ObjectInfo) -> bool:
        name = _unit(found.path)
        if name in self._kept:
            return False
        return name in self._superseded or found.modified_ms <= self._staging_start


def _remember_start(table: ManifestTable, committer: Committer, oldest: int, author: str) -> None:
    def plan() -> Draft | None:
        metadata = dict(table.head.table_metadata)
        if metadata.get(HISTORY_START) == str(oldest) or not table.head.editable:
            return None
        metadata[HISTORY_START] = str(oldest)
        return Draft({}, metadata, message="Vacuum the catalog", author=author)

    committer.commit_draft(plan)


def _read(objects: Objects, numbers: list[int]) -> Iterator[tuple[VersionFile, set[str]]]:
    """Read versions and what each one uses."""
    # In a bucket each is a request; they are made some at a time and in order.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(numbers), _AT_ONCE):
            paths = map(versions.path_of, numbers[start : start + _AT_ONCE])
            for content in pool.map(objects.get, paths):
                if content is not None:
                    yield _understood(content)


def _understood(content: bytes) -> tuple[VersionFile, set[str]]:
    try:
        return decode(content), everything_named_in(content)
    except MalformedError as error:
        raise InvalidTableStateError(
            "The catalog was not vacuumed",
            f"one of its versions cannot be read, so what it needs is not known: {error}",
            "Run `lakeroot fsck` to see what is whole",
        ) from error


def _unit(path: str) -> str:
    """Give what a version calls a file: itself, or the index that it is a part of."""
    below = path.removeprefix(f"{versions.TABLE}/")
    parts = below.split("/")
    return "/".join(parts[:2]) if parts[0] == "_indices" else below


def _files(objects: Objects) -> Iterator[ObjectInfo]:
    for directory in _DIRECTORIES:
        yield from objects.list(f"{versions.TABLE}/{directory}")
    if isinstance(objects, LocalObjects):
        yield from objects.list_unfinished(versions.TABLE)


def _tagged(objects: Objects) -> list[int]:
    """List the versions that somebody has given a name; they are kept."""
    found: Iterable[ObjectInfo] = objects.list(f"{versions.TABLE}/_refs/tags")
    contents = (objects.get(info.path) for info in found)
    tagged = (versions.number_in(content) for content in contents)
    return sorted({number for number in tagged if number})
