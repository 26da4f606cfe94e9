"""The store: commits of a catalog as transactions of a metastore."""

import contextlib
import logging
import random
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from lakeroot.metastore import Layout, Metastore
from lakeroot.metastore import View as MetastoreView
from lakeroot.metastore.index import Snapshot
from lakeroot.metastore.vacuum import DAY_MS, Vacuumed
from lakeroot.model.commits import (
    Commit,
    Committed,
    CreateNamespace,
    DeregisterTable,
    DropTable,
    ManageTableVersions,
    RegisterTable,
    RenameTable,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Table, TableVersion
from lakeroot.model.rules import apply
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Below, Objects, Root, open_root
from lakeroot.storage.aged_versions import versions_put_before
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.deltacat.applying import Application
from lakeroot.storage.deltacat.checking import check
from lakeroot.storage.deltacat.cleaning import TABLES, collect_unowned
from lakeroot.storage.deltacat.history import history
from lakeroot.storage.deltacat.translation import too_deep
from lakeroot.storage.deltacat.view import DeltaCatView, said_of_versions
from lakeroot.storage.findings import Finding
from lakeroot.storage.lance_dir.version_rows import finish
from lakeroot.storage.overlay import Overlay
from lakeroot.tables.versions import VERSIONS, NamingScheme, manifest_name, object_key

_RESERVED: Final = frozenset({"txn", "data", "version", "compute", "_location"})
_ATTEMPTS: Final = 100
_LOG: Final = logging.getLogger(__name__)


class DeltaCatStore:
    """Lance tables in a metastore under a root."""

    def __init__(
        self,
        root: Root,
        *,
        layout: Layout | str | None = None,
        keeps_versions: bool = True,
        durable: bool = False,
        objects: Objects | None = None,
    ) -> None:
        self.root = root
        self.objects = objects or open_root(root, fsync=durable)
        self._layout = layout
        self._metastore: Metastore | None = None
        with contextlib.suppress(UnsupportedOperationError):
            self._metastore = self.metastore  # What is too new to be read can still be checked.
        self._wanted_versions = keeps_versions
        self._snapshot: Snapshot | None = None
        self._then_ms = 0

    def __reduce__(self) -> tuple[Any, ...]:
        if self._snapshot is not None:
            raise TypeError("The catalog as it was stays where it was opened")
        again = partial(
            DeltaCatStore,
            layout=self._layout,
            keeps_versions=self._wanted_versions,
            objects=self.objects,
        )
        return again, (self.root,)

    @property
    def metastore(self) -> Metastore:
        """The metastore below, with its tables of any format."""
        if self._metastore is None:
            self._metastore = Metastore(
                self.objects, layout=self._layout, catalog_root=self.root.uri
            )
        return self._metastore

    @property
    def keeps_versions(self) -> bool:
        """Tell whether versions of tables are deltas of their streams; in the past, all pinned."""
        if self._snapshot is not None:
            return True
        return self._keeps_versions_in(self.read())

    @property
    def is_past(self) -> bool:
        """Tell whether this is the catalog as it was."""
        return self._snapshot is not None

    def read(self) -> DeltaCatView:
        """Take a view that shows everything acknowledged before this call."""
        if self._snapshot is not None:
            return DeltaCatView(MetastoreView(self.metastore.log, self._snapshot))
        return DeltaCatView(self.metastore.view())

    def commit(self, commit: Commit) -> Committed:
        """Apply a commit, all or nothing."""
        if self._snapshot is not None:
            raise UnsupportedOperationError(
                "The past cannot be changed", "this catalog is open as of an earlier time"
            )
        for attempt in range(_ATTEMPTS):
            try:
                return self._try(commit)
            except _LostRaceError:
                time.sleep(random.uniform(0, min(0.001 * 2**attempt, 0.1)))  # noqa: S311
        raise ConcurrentModificationError(
            "The commit could not be made", "other writers were always first", "Try again"
        )

    def _try(self, commit: Commit) -> Committed:
        txn = self.metastore.transaction(commit.message or None)
        txn.facts["author"] = commit.author
        now_ms = time.time_ns() // 1_000_000
        before = DeltaCatView(txn)
        application = Application(txn, now_ms)
        application.rely_on(commit)
        draft = Overlay(before, keeps_versions=self._keeps_versions_in(before))
        apply(commit, draft, now_ms, before.newest_version)
        _refuse_depth(commit)
        self._finish_versions(commit, before)
        lost = self._places_of_dropped(commit, before)
        for change in commit.changes:
            if isinstance(change, RegisterTable):
                self._require_table_at(change.location)
            application.apply(change)
        try:
            txn.commit()
        except TableVersionAlreadyExistsError:
            raise
        except ConcurrentModificationError as error:
            raise _LostRaceError from error
        self._clean(lost)
        index = self.metastore.log.index
        if txn.committed is None:
            return Committed(max(index.head, 0), now_ms)
        sequence = index.sequences[txn.txn_id]
        return Committed(sequence, txn.committed.end_time // 1_000_000)

    def place(self, identifier: Identifier) -> str:
        """Choose the location of a new table."""
        name = identifier[-1] if identifier else ""
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "-" for c in name)
        return f"{TABLES}/{secrets.token_hex(8)}_{plain[:80]}"

    def place_unseen(self, identifier: Identifier) -> str:
        """Choose the location of a new table, which nobody knows before it has a name."""
        return self.place(identifier)

    def uri(self, location: str) -> str:
        """Give the address at which any Lance client can open a location."""
        return self.root.join(location)

    def location_of(self, uri: str) -> str:
        """Understand a location as a caller writes it; refuse what lies outside the root."""
        if not uri or "\0" in uri:
            raise InvalidInputError(f"{uri!r} is not a location")
        is_relative = "://" not in uri and not uri.startswith("/")
        relative = uri.strip("/") if is_relative else self.root.relative(uri)
        parts = (relative or "").split("/")
        if not relative or parts[0] in _RESERVED or any(p in ("", ".", "..") for p in parts):
            raise InvalidInputError(
                f"The location {uri} is not that of a table inside the root of this catalog",
                fix="Give the path of the table's directory, relative to the root",
            )
        return relative

    def has_data(self, table: Table) -> bool:
        """Tell whether a table has been written, or is only declared."""
        if self._snapshot is not None:
            return bool(self.versions(table, None))
        return self.objects.has_any(f"{table.location}/_versions")

    def files(self, table: Table) -> Objects:
        """Give the files of a table, below its location."""
        return Below(self.objects, table.location)

    def versions(self, table: Table, branch: str | None) -> Mapping[int, TableVersion]:
        """Give the versions the catalog keeps of a table, by number."""
        view = self.read()
        kept = view.versions(table) if branch is None else {}
        # Where it was switched off, what was kept all the same was not brought up to date.
        if self._snapshot is None or (kept and said_of_versions(view) is not False):
            return kept
        # Where nothing was kept of a table, the age of its files tells what it had.
        key = object_key(self.uri(table.location))
        return versions_put_before(self.files(table), key, self._then_ms, branch)

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        self.metastore.log.sync()
        return history(self.metastore, limit, self._snapshot and self._snapshot.sequence)

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> "DeltaCatStore":
        """Give the catalog as it was; it cannot be written."""
        if (version is None) == (timestamp_ms is None):
            raise InvalidInputError("Say either a version or a time")
        index = self.metastore.log.sync()
        if version is not None and version not in index.marks:
            known = f"it has {min(index.marks)} to {max(index.marks)}" if index.marks else ""
            raise InvalidInputError(f"The catalog has no version {version}", known)
        before = 2**63 if timestamp_ms is None else (timestamp_ms + 1) * 1_000_000
        if not any(mark.end_time < before for mark in index.marks.copy().values()):
            raise InvalidInputError(
                f"Nothing is known of the catalog at {timestamp_ms}",
                "it is before its first commit",
            )
        past = DeltaCatStore.__new__(DeltaCatStore)
        past.__dict__.update(self.__dict__)
        past._snapshot = Snapshot(version or index.head, before)  # noqa: SLF001 (same class)
        then_ms = index.marks[version].end_time // 1_000_000 if version else timestamp_ms
        past._then_ms = then_ms or 0  # noqa: SLF001
        return past

    def check(self, grace: timedelta, spread: Spread = here) -> list[Finding]:
        """Find everything that is wrong with the catalog and its tables; change nothing."""
        return check(self, grace, spread)

    def vacuum(
        self, *, retention_ms: int = 7 * DAY_MS, dry_run: bool = False, spread: Spread = here
    ) -> Vacuumed:
        """Clean the metastore, and delete directories of tables that are nobody's."""
        done = self.metastore.vacuum(retention_ms=retention_ms, dry_run=dry_run, spread=spread)
        gone = collect_unowned(self.metastore, retention_ms, dry_run=dry_run, spread=spread)
        sizes = {**done.sizes, **gone}
        return replace(done, other=(*done.other, *gone), sizes=sizes)

    def close(self) -> None:
        """Nothing is held open."""

    def _keeps_versions_in(self, view: DeltaCatView) -> bool:
        said = said_of_versions(view)
        return self._wanted_versions if said is None else said

    def _require_table_at(self, location: str) -> None:
        if not self.objects.has_any(location):
            raise InvalidInputError(
                f"There is no table at {location}",
                "the directory is empty or does not exist",
                "Register the directory of a Lance table below the root",
            )

    def _finish_versions(self, commit: Commit, view: DeltaCatView) -> None:
        """Put versions into their place while the catalog still knows where they are staged."""
        forgotten: list[Identifier] = []
        for change in commit.changes:
            if isinstance(change, DeregisterTable):
                forgotten.append(change.identifier)
            elif isinstance(change, ManageTableVersions) and not change.enabled:
                forgotten += view.all_tables(None, None)
        for table in map(view.get, forgotten):
            kept = view.versions(table) if isinstance(table, Table) else {}
            if isinstance(table, Table) and kept:
                files = self.files(table)
                there = set(files.list_names(VERSIONS))
                for number in kept:
                    if not there & {manifest_name(number, one) for one in NamingScheme}:
                        finish(files, kept[number])

    def _places_of_dropped(self, commit: Commit, view: DeltaCatView) -> list[str]:
        dropped = [c.identifier for c in commit.changes if isinstance(c, DropTable)]
        found = [view.get(identifier) for identifier in dropped]
        return [record.location for record in found if isinstance(record, Table)]

    def _clean(self, locations: list[str]) -> None:
        for location in locations:
            try:
                if self.read().owner_of(location) is None:
                    self.objects.delete_directory(location)
            except LakerootError as error:
                _LOG.warning("The drop is done, but its files are not all deleted: %s", error)


class _LostRaceError(Exception):
    """Another writer was first; the rules have to be asked again."""


def _refuse_depth(commit: Commit) -> None:
    for change in commit.changes:
        if isinstance(change, ManageTableVersions):
            continue
        deepest = 1 if isinstance(change, CreateNamespace) else 2
        named = [change.identifier]
        if isinstance(change, RenameTable):
            named.append(change.new_identifier)
        for identifier in named:
            if len(identifier) > deepest:
                raise too_deep(identifier)
