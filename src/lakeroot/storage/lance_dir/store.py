"""A directory or a bucket as a catalog, behind the storage contract."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from lakeroot.model.commits import (
    Change,
    Commit,
    Committed,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    DeregisterTable,
    DropTable,
    ManageTableVersions,
    PointTableVersions,
    RegisterTable,
    RenameTable,
    Unchanged,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    DirectoryTakenError,
    InvalidInputError,
    InvalidTableStateError,
    LakerootError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Table, TableVersion
from lakeroot.model.rules import apply
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Below, Objects, Root, open_root
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.lance_dir import adding, flat_commits, history, placement
from lakeroot.storage.lance_dir.commits import VERSION_MANAGEMENT, Committer, Pending
from lakeroot.storage.lance_dir.directory import Directory
from lakeroot.storage.lance_dir.drafts import Draft
from lakeroot.storage.lance_dir.healing import Healer
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.markers import Markers
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.version_rows import (
    KeptVersions,
    Rows,
    finish,
    newest_version,
    rows_of_change,
)
from lakeroot.storage.lance_dir.versions import TABLE
from lakeroot.storage.lance_dir.view import DirectoryView
from lakeroot.storage.lance_dir.whole_table import WholeTable
from lakeroot.storage.overlay import Overlay
from lakeroot.storage.spans import GRACE, RETENTION

if TYPE_CHECKING:  # Loaded by those who look after a catalog; most only look at it.
    from lakeroot.storage.findings import Finding
    from lakeroot.storage.garbage import Collected
    from lakeroot.storage.lance_dir.maintenance import Optimized
    from lakeroot.storage.lance_dir.vacuum import Vacuumed

_TOUCHES_VERSIONS: Final = (
    CreateTableVersions,
    PointTableVersions,
    DeleteTableVersions,
    DropTable,
    DeregisterTable,
    RenameTable,
    ManageTableVersions,
)

_LOG: Final = logging.getLogger(__name__)


class LanceDirStore:
    """A catalog in a directory: V1, V2, or both."""

    def __init__(
        self,
        root: Root,
        settings: DirectorySettings | None = None,
        objects: Objects | None = None,
    ) -> None:
        self.root = root
        self.settings = settings or DirectorySettings()
        self.objects = objects or open_root(root, fsync=self.settings.durable)
        self.manifest: ManifestTable | None = None
        self.directory: Directory | None = None
        if self.settings.manifest_enabled:
            whole_table = WholeTable(root.join(TABLE), dict(root.storage_options))
            self.manifest = ManifestTable(self.objects, whole_table)
            self._committer = Committer(
                self.objects, self.manifest, self._draft, self._check, self.settings
            )
            self._healer = Healer(self.objects, self.manifest, self._committer)
        if self.settings.dir_listing_enabled:
            self.directory = Directory(self.objects, beside_manifest=self.manifest is not None)
        self._view = DirectoryView(self.manifest, self.directory)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_past:
            raise TypeError("The catalog as it was stays where it was opened")
        return LanceDirStore, (self.root, self.settings, self.objects)

    @property
    def keeps_versions(self) -> bool:
        """Tell whether versions of tables are rows of the manifest."""
        if self.manifest is None:
            return False
        # What was said to the catalog itself counts; a connection only says what is not yet said.
        said = self.manifest.head.table_metadata.get(VERSION_MANAGEMENT)
        return self.settings.table_version_management if said is None else said == "true"

    @property
    def is_past(self) -> bool:
        """Tell whether this is the catalog as it was."""
        return False

    def read(self) -> DirectoryView:
        """Take a view that shows everything acknowledged before this call."""
        if self.manifest is not None:
            self.manifest.refresh()
            self._healer.look()
        return self._view

    def commit(self, commit: Commit) -> Committed:
        """Apply a commit, all or nothing."""
        if self.directory is not None and self.manifest is None:
            return flat_commits.commit(self.objects, self.directory, self._view, commit)
        for _ in range(self.settings.commit_retries):
            losing = self._tables_that_lose_their_name(commit)
            try:
                return self._commit(commit, losing)
            except _LosingTableChangedError:
                continue
            finally:
                self._view.forget(change.identifier for change in commit.changes)
        raise ConcurrentModificationError(
            "The tables of this commit keep changing",
            "other writers were always first",
            "Try again",
        )

    def _commit(self, commit: Commit, losing: dict[Identifier, Table]) -> Committed:
        # What happens to a directory was decided on these records, so they must not have changed
        # by the time the commit is made: a directory that belongs to somebody else by then would
        # be marked or deleted.
        unchanged = tuple(Unchanged(identifier, table) for identifier, table in losing.items())
        guarded = replace(commit, requires=(*commit.requires, *unchanged))
        rowless = {found for found, t in losing.items() if not self._view.owner_of(t.location)}
        # Whoever still works on a table that is dropped commits by its name and directory alone.
        # A new table must not get both, or it would get the versions of the old one as well.
        markers = Markers(self.objects, commit, losing, rowless, leaves_marks=self.keeps_versions)
        markers.require_tables()
        self._finish_versions(commit, losing)
        try:
            committed = self._committer.commit(Pending(guarded, before=markers.put))
        except BaseException as error:
            with contextlib.suppress(LakerootError):
                markers.take_back(self.read())
            if isinstance(error, ConcurrentModificationError) and self._have_changed(losing):
                raise _LosingTableChangedError from error
            raise
        markers.finish(self._view)
        self._healer.look()
        self._keep_in_shape()
        return committed

    def commit_each(self, commits: Sequence[Commit]) -> list[Committed | LakerootError]:
        """Apply many commits, each all or nothing and for itself, in as few steps as possible."""
        if self.is_past or self.manifest is None or not all(map(adding.only_adds, commits)):
            return adding.one_by_one(self.commit, commits)
        outcomes = adding.together(self.objects, self._committer, self.read, commits)
        for commit in commits:
            self._view.forget(change.identifier for change in commit.changes)
        self._keep_in_shape()
        return outcomes

    def place(self, identifier: Identifier) -> str:
        """Choose the location of a new table: V1's where V1 clients should see it, else V2's."""
        if self.directory is None or len(identifier) != 1:
            return placement.hashed(identifier)
        name = identifier[0]
        if self.manifest is None:
            if not placement.is_plain(name):
                raise InvalidInputError(
                    f"The table {show(identifier)} cannot be kept in V1",
                    "there its name must be that of a directory: letters, digits, `_-.:` and space",
                    "Use such a name, or enable the manifest",
                )
            return placement.flat(name)
        if not placement.is_plain(name):
            return placement.hashed(identifier)
        location = placement.flat(name)
        self._view.forget([identifier])
        is_hidden = self._view.look(name).is_deregistered
        if is_hidden or self._view.owner_of(location) is not None:
            # Another table's data is there, under another name or none.
            return placement.hashed(identifier)
        return location

    def place_unseen(self, identifier: Identifier) -> str | None:
        """Choose a directory of its own for a new table, even where V1 clients look for names."""
        return None if self.manifest is None else placement.hashed(identifier)

    def uri(self, location: str) -> str:
        """Give the address at which any Lance client can open a location."""
        if not placement.is_inside(location):
            raise InvalidTableStateError(
                f"The table at {location!r} cannot be opened",
                "another writer gave it a location that is not a directory below the root",
                "Drop it, and register its directory again",
            )
        return self.root.join(location)

    def location_of(self, uri: str) -> str:
        """Understand a location as a caller writes it; refuse what lies outside the root."""
        location = self.root.locate(uri)
        if location is None or location.partition("/")[0] == TABLE:
            raise InvalidInputError(
                f"The location {uri!r} is not that of a table inside the root of this catalog",
                fix="Give the path of the table's directory, relative to the root",
            )
        return location

    def has_data(self, table: Table) -> bool:
        """Tell whether a table has been written, or is only declared."""
        return placement.is_inside(table.location) and self.objects.has_any(
            f"{table.location}/_versions"
        )

    def files(self, table: Table) -> Objects:
        """Give the files of a table, below its location."""
        return Below(self.objects, table.location)

    def versions(self, table: Table, branch: str | None) -> Mapping[int, TableVersion]:
        """Give the versions the catalog keeps of a table, by number."""
        if self.manifest is None or branch is not None:
            return {}
        with self.manifest.lock:
            return KeptVersions(self.manifest.index, table.identifier, self.manifest.lock)

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        self.read()
        return history.entries(self._require_manifest(), self.objects, limit)

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> "LanceDirStore":
        """Give the catalog as it was; it cannot be written."""
        from lakeroot.storage.lance_dir.past import PastStore  # Which is a store of this kind.

        self.read()
        found = history.version_at(self._require_manifest(), self.objects, version, timestamp_ms)
        return PastStore(self, found, max(timestamp_ms or 0, found.timestamp_ms))

    def optimize(self, author: str = "") -> "Optimized":
        """Fold the manifest into one data file and index it, for readers that scan it."""
        self._refuse_to_change_the_past()
        from lakeroot.storage.lance_dir import maintenance

        return maintenance.optimize(self._require_manifest(), self._committer, author)

    def vacuum(
        self, older_than: timedelta = RETENTION, *, dry_run: bool = False, author: str = ""
    ) -> "Vacuumed":
        """Delete the files of the manifest that no version within a window of time needs."""
        self._refuse_to_change_the_past()
        from lakeroot.storage.lance_dir.vacuum import vacuum

        table = self._require_manifest()
        return vacuum(
            self.objects, table, self._committer, older_than, dry_run=dry_run, author=author
        )

    def check(self, grace: timedelta = GRACE, spread: Spread = here) -> "list[Finding]":
        """Find everything that is wrong with the catalog and its tables; change nothing."""
        from lakeroot.storage.lance_dir.checking import check

        return check(self, grace, spread)

    def remove_repeated_rows(self, identifiers: Iterable[Identifier], author: str = "") -> bool:
        """Leave one row of each object that has several equal ones; tell whether any had."""
        table = self._require_manifest()

        def plan() -> Draft | None:
            entries = {one: list(table.index.positions(one)) for one in identifiers}
            rows = {
                one: found[0].row
                for one, found in entries.items()
                if len(found) > 1 and all(other.row == found[0].row for other in found)
            }
            return Draft(rows, message="Remove repeated rows", author=author) if rows else None

        identifiers = tuple(identifiers)
        return self._committer.commit_draft(plan)

    def put_back(self, version: int, author: str = "") -> bool:
        """Give the objects their names back that a version lost; tell whether any were missing."""
        self._require_manifest()
        return self._healer.put_back(version, author)

    def gc(
        self, older_than: timedelta, *, dry_run: bool, author: str, spread: Spread = here
    ) -> "Collected":
        """Delete what nothing in the catalog can reach any more, old enough to be nobody's."""
        self._refuse_to_change_the_past()
        from lakeroot.storage.lance_dir.collecting import collect

        return collect(self, older_than, dry_run=dry_run, author=author, spread=spread)

    def close(self) -> None:
        """Let go of whatever is held open."""

    def _require_manifest(self) -> ManifestTable:
        if self.manifest is None:
            raise UnsupportedOperationError(
                "V1 has no history and nothing to maintain",
                "the directory shows only what is there now",
                "Enable the manifest",
            )
        return self.manifest

    def _keep_in_shape(self) -> None:
        """Index the manifest again after it was compacted, or whenever that was asked for."""
        table = self._require_manifest()
        was_compacted = table.take_was_compacted()
        if not was_compacted and not self.settings.inline_optimization_enabled:
            return
        from lakeroot.storage.lance_dir import maintenance

        try:
            if self.settings.inline_optimization_enabled:
                maintenance.optimize(table, self._committer)
            else:
                maintenance.build_indexes(table, maintenance.missing_indexes(table.head))
        except LakerootError as error:
            _LOG.warning("The commit is made, but the manifest was not optimized: %s", error)

    def _refuse_to_change_the_past(self) -> None:
        """Do nothing: this is the catalog as it is."""

    def _draft(self) -> Overlay:
        return Overlay(self._view, keeps_versions=self.keeps_versions)

    def _check(self, commit: Commit, draft: Overlay, pending: Rows, now_ms: int) -> Rows:
        for change in commit.changes:
            self._refuse_unknown_kind(change)
            if isinstance(change, DeclareTable | RegisterTable):
                self._refuse_overlap(change.location)
        # Looked at before the rules are: they ask for the same directory, and forget it.
        hidden = [c for c in commit.changes if isinstance(c, DeclareTable) and self._is_hidden(c)]
        apply(commit, draft, now_ms, lambda table: self._newest_version(table, pending))
        if hidden:
            raise _directory_taken(hidden[0])
        if draft.has_deep_locations:
            placement.require_apart(draft.new_locations)
        if not any(isinstance(change, _TOUCHES_VERSIONS) for change in commit.changes):
            return {}
        rows: Rows = dict(pending)
        for change in commit.changes:
            rows.update(rows_of_change(change, self._require_manifest().index, rows))
        return rows

    def _newest_version(self, table: Identifier, pending: Rows) -> int:
        return newest_version(table, self._require_manifest().index, pending)

    def _refuse_unknown_kind(self, change: Change) -> None:
        """Keep off the rows of kinds that other implementations know and we do not."""
        if isinstance(change, CreateTableVersions | PointTableVersions | DeleteTableVersions):
            return
        new = change.new_identifier if isinstance(change, RenameTable) else change.identifier
        entry = self._require_manifest().index.entry(new) if new else None
        if entry is not None and self._require_manifest().get(new) is None:
            raise UnsupportedOperationError(
                f"{show(new)} is a {entry.row.object_type}, which this version does not know",
                fix="Choose another name, or upgrade Lakeroot",
            )

    def _refuse_overlap(self, location: str) -> None:
        """Keep the directories of tables apart: dropping one must not delete another."""
        owner = self._view.overlapping(location)
        if owner is not None:
            raise placement.overlap_error(location, f"that of the table {show(owner)}")

    def _is_hidden(self, change: DeclareTable) -> bool:
        """Tell whether a new table is to get the directory of one that was taken away."""
        if len(change.identifier) != 1 or change.location != placement.flat(change.identifier[0]):
            return False
        return self._view.look(change.identifier[0]).is_deregistered

    def _tables_that_lose_their_name(self, commit: Commit) -> dict[Identifier, Table]:
        """Find the tables that lose their name, for what has to be done to their directories."""
        losing = [
            change.identifier
            for change in commit.changes
            if isinstance(change, DeregisterTable | DropTable | RenameTable)
        ]
        if not losing:
            return {}
        view = self.read()
        found = ((identifier, view.get(identifier)) for identifier in losing)
        return {identifier: record for identifier, record in found if isinstance(record, Table)}

    def _have_changed(self, tables: dict[Identifier, Table]) -> bool:
        view = self.read()
        return any(view.get(identifier) != table for identifier, table in tables.items())

    def _finish_versions(self, commit: Commit, losing: dict[Identifier, Table]) -> None:
        """Put versions into their place while the catalog still knows where they are staged."""
        for change in commit.changes:
            if isinstance(change, DeregisterTable) and change.identifier in losing:
                tables = [losing[change.identifier]]
            elif isinstance(change, ManageTableVersions) and not change.enabled:
                view = self.read()
                known = map(view.get, list(self._require_manifest().index.listings.versions))
                tables = [table for table in known if isinstance(table, Table)]
            else:
                continue
            for table in tables:
                for version in self.versions(table, None).values():
                    finish(self.files(table), version)


def _directory_taken(change: DeclareTable) -> DirectoryTakenError:
    return DirectoryTakenError(
        f"{show(change.identifier)} cannot be declared in {change.location}",
        "this directory belongs to a table of the same name that was deregistered, or was dropped "
        "and keeps it until `gc` removes its mark",
        "Choose another directory, or give none",
    )


class _LosingTableChangedError(Exception):
    """A table changed between the look at its directory and the commit; look again."""
