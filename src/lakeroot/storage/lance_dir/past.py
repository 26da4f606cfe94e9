"""A directory catalog as it was at one of its versions; every table has the version it had."""

from collections.abc import Mapping
from typing import NoReturn

from msgspec.structs import replace

from lakeroot.model.commits import Commit, Committed
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.records import Table, TableVersion
from lakeroot.storage.aged_versions import versions_put_before
from lakeroot.storage.lance_dir import placement
from lakeroot.storage.lance_dir.commits import VERSION_MANAGEMENT
from lakeroot.storage.lance_dir.store import LanceDirStore
from lakeroot.storage.lance_dir.version_file import VersionFile
from lakeroot.storage.lance_dir.view import DirectoryView
from lakeroot.tables.versions import object_key


class PastStore(LanceDirStore):
    """The catalog that a version of ``__manifest`` shows; what lies in the directory is younger."""

    def __init__(self, now: LanceDirStore, then: VersionFile, then_ms: int) -> None:
        settings = replace(now.settings, dir_listing_enabled=False)
        super().__init__(now.root, settings, now.objects)
        self._require_manifest().move_to(then)
        # A moment between two commits of the catalog has what was written since the first.
        self._then_ms = then_ms

    @property
    def is_past(self) -> bool:
        """Tell whether this is the catalog as it was: it is."""
        return True

    @property
    def keeps_versions(self) -> bool:
        """Tell whether versions are kept: every table is pinned to the one it had."""
        return True

    def read(self) -> DirectoryView:
        """Give the one view there is of the past."""
        return self._view

    def versions(self, table: Table, branch: str | None) -> Mapping[int, TableVersion]:
        """Give the versions a table had; where no rows tell, the age of its files does."""
        said = self._require_manifest().head.table_metadata.get(VERSION_MANAGEMENT)
        # Where it was switched off, what was kept all the same was not brought up to date.
        kept = {} if said == "false" else super().versions(table, branch)
        if kept:
            return kept
        key = object_key(self.uri(table.location))
        return versions_put_before(self.files(table), key, self._then_ms, branch)

    def has_data(self, table: Table) -> bool:
        """Tell whether a table had been written by then."""
        return placement.is_inside(table.location) and bool(self.versions(table, None))

    def commit(self, commit: Commit) -> Committed:
        """Refuse: there is nothing to add to the past."""
        del commit
        self._refuse_to_change_the_past()

    def _refuse_to_change_the_past(self) -> NoReturn:
        raise UnsupportedOperationError(
            "The past cannot be changed", "this catalog is open as of an earlier time"
        )
