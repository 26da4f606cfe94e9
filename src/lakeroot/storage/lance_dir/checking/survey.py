"""One look at a whole catalog: its rows first, then the directories below its root."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

from lakeroot.model.identifiers import Identifier
from lakeroot.objects import LocalObjects, Objects, Root
from lakeroot.storage.lance_dir import placement, versions
from lakeroot.storage.lance_dir.checking.manifest import examine_manifest
from lakeroot.storage.lance_dir.checking.places import HASHED
from lakeroot.storage.lance_dir.checking.tables import Files
from lakeroot.storage.lance_dir.checking.versions import Kept
from lakeroot.storage.lance_dir.commits import VERSION_MANAGEMENT
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.rows import TABLE_ROW
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.version_rows import KeptVersions
from lakeroot.storage.lance_dir.whole_table import WholeTable

_AT_ONCE: Final = 16


class Rows:
    """The rows of a catalog, read when they are needed.

    In another process they are read anew, so what is asked about now is answered by now.
    """

    def __init__(self, root: Root, objects: Objects) -> None:
        self._root = root
        self._objects = objects

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self._root, self._objects)

    @cached_property
    def table(self) -> ManifestTable:
        """The table that holds them."""
        whole = WholeTable(self._root.join(versions.TABLE), dict(self._root.storage_options))
        return ManifestTable(self._objects, whole)

    def kept(self, identifier: Identifier) -> Kept:
        """Give the versions that the rows keep of a table; of a name that is none, nothing."""
        return KeptVersions(self.table.index, identifier)

    def kept_now(self, identifier: Identifier) -> Kept:
        """Give the versions that the rows keep of a table by now."""
        self.table.refresh()
        return self.kept(identifier)

    def has_owner_now(self, location: str) -> bool:
        """Tell whether a row has come to own a directory, or something below it."""
        self.table.refresh()
        owners = self.table.index.listings.locations
        return location in owners or any(one.startswith(f"{location}/") for one in owners)


@dataclass(frozen=True, slots=True)
class Look:
    """A directory to be looked at: that of a table, or one that no row owns."""

    identifier: Identifier
    """The table that it is; of a directory without a row, the one that it may be, if any."""
    location: str
    kept: Kept
    has_row: bool = False


class Survey:
    """What the rows say, and which directories are there.

    The rows are read before the directories: a table that is created meanwhile shows as a young
    directory without a row, and is let be.
    """

    def __init__(
        self, root: Root, objects: Objects, settings: DirectorySettings, grace: timedelta
    ) -> None:
        self.objects = objects
        self.cutoff_ms = int((time.time() - grace.total_seconds()) * 1000)
        # Of its own, so that what is there is checked whatever this connection was asked to use.
        self.rows = Rows(root, objects)
        self.table = self.rows.table
        self.manifest = examine_manifest(objects, self.table)
        self.owned: dict[Identifier, str] = {}
        self.unowned: list[str] = []
        if not self.manifest.is_readable:
            return
        said = self.table.head.table_metadata.get(VERSION_MANAGEMENT)
        wanted = settings.table_version_management if said is None else said == "true"
        self.manages_versions = wanted and self.manifest.exists
        # Only if it was said to the catalog: another connection may want what this one does not.
        self.has_stopped_managing = said == "false"
        self.owned = self._owned()
        self.unowned = self._unowned()

    def looks(self) -> list[Look]:
        """List the directories that are to be looked at, those without a row first."""
        unowned = [(self._name_of(location), location) for location in self.unowned]
        return [
            *(Look(name, location, self.rows.kept(name)) for name, location in unowned),
            *(
                Look(name, location, self.rows.kept(name), has_row=True)
                for name, location in self.owned.items()
            ),
        ]

    def _name_of(self, location: str) -> Identifier:
        name = (location.removesuffix(placement.SUFFIX),)
        return name if placement.is_flat(location) and name not in self.owned else ()

    def _owned(self) -> dict[Identifier, str]:
        return {
            entry.row.identifier: entry.row.location
            for entry in self.table.index.entries()
            if entry.row.object_type == TABLE_ROW
            and entry.row.location is not None
            and placement.is_inside(entry.row.location)
        }

    def _unowned(self) -> list[str]:
        # Whatever kind a row is of, and however strangely it writes its location, what it may
        # mean is not without an owner.
        said = (entry.row.location for entry in self.table.index.entries())
        taken = {part for location in said if location for part in location.split("/")}
        return sorted(
            name
            for name in self.objects.list_directory("").directories
            if name not in taken
            and name != versions.TABLE
            and (placement.is_flat(name) or HASHED.fullmatch(name))
        )


def is_flat_table(files: Files) -> bool:
    """Tell whether a directory of the flat kind is a table by itself."""
    return placement.DEREGISTERED not in files and bool(files.keys() - {placement.RESERVED})


def list_files(objects: Objects, location: str) -> Files:
    """List the files of a directory by their path below it."""
    return {info.path.removeprefix(f"{location}/"): info for info in objects.list(location)}


def list_all(objects: Objects, locations: Iterable[str]) -> dict[str, Files]:
    """List the files of many directories."""
    ordered = sorted(set(locations))
    if isinstance(objects, LocalObjects):
        return {location: list_files(objects, location) for location in ordered}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        listed = pool.map(lambda location: list_files(objects, location), ordered)
        return dict(zip(ordered, listed, strict=True))
