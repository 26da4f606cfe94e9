"""One look at a whole catalog: its rows first, then every directory below its root."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final

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


class Survey:
    """What the rows say and what the directories hold.

    The rows are read before the directories: a table that is created meanwhile shows as a young
    directory without a row, and is let be.
    """

    def __init__(
        self,
        root: Root,
        objects: Objects,
        settings: DirectorySettings,
        grace: timedelta,
        *,
        lists_owned: bool = True,
    ) -> None:
        self.objects = objects
        self.cutoff_ms = int((time.time() - grace.total_seconds()) * 1000)
        # Of its own, so that what is there is checked whatever this connection was asked to use.
        self.table = rows_of(root, objects)
        self.manifest = examine_manifest(objects, self.table)
        self.owned: dict[Identifier, str] = {}
        self.unowned: list[str] = []
        self.files: dict[str, Files] = {}
        if not self.manifest.is_readable:
            return
        said = self.table.head.table_metadata.get(VERSION_MANAGEMENT)
        wanted = settings.table_version_management if said is None else said == "true"
        self.manages_versions = wanted and self.manifest.exists
        self.owned = self._owned()
        self.unowned = self._unowned()
        owned = self.owned.values() if lists_owned else ()
        self.files = self._listed({*owned, *self.unowned})

    @property
    def flat_tables(self) -> dict[Identifier, str]:
        """Give the tables that only their directories show."""
        return {
            (location.removesuffix(placement.SUFFIX),): location
            for location in self.unowned
            if placement.is_flat(location)
            and placement.DEREGISTERED not in self.files[location]
            and self.files[location].keys() - {placement.RESERVED}
        }

    def kept(self, identifier: Identifier) -> Kept:
        """Give the versions that the rows keep of a table."""
        return KeptVersions(dict(self.table.index.listings.versions.get(identifier, {})))

    def kept_now(self, identifier: Identifier) -> Kept:
        """Give the versions that the rows keep of a table by now."""
        self.table.refresh()
        return self.kept(identifier)

    def has_owner_now(self, location: str) -> bool:
        """Tell whether a row has come to own a directory, or something below it."""
        self.table.refresh()
        owners = self.table.index.listings.locations
        return location in owners or any(one.startswith(f"{location}/") for one in owners)

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

    def _listed(self, locations: Iterable[str]) -> dict[str, Files]:
        ordered = sorted(locations)
        if isinstance(self.objects, LocalObjects):
            return {location: self.list_files(location) for location in ordered}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(ordered, pool.map(self.list_files, ordered), strict=True))

    def list_files(self, location: str) -> Files:
        """List the files of a directory by their path below it."""
        return list_files(self.objects, location)


def rows_of(root: Root, objects: Objects) -> ManifestTable:
    """Open the rows of a catalog anew."""
    return ManifestTable(objects, WholeTable(root.join(versions.TABLE), dict(root.storage_options)))


def list_files(objects: Objects, location: str) -> Files:
    """List the files of a directory by their path below it."""
    return {info.path.removeprefix(f"{location}/"): info for info in objects.list(location)}
