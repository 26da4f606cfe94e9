"""A catalog of Lance tables in an Iceberg REST catalog, behind the storage contract.

What the protocol can do atomically is done so: each change alone, and versions of several tables
together. Removals, and one change that follows them, run one after the other, because each is whole
in itself and the rest can be repeated. Other combinations are refused rather than half done.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

from lakeroot.model.commits import (
    AlterNamespace,
    AlterTable,
    Change,
    Commit,
    Committed,
    CreateNamespace,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    DeregisterTable,
    DropNamespace,
    DropTable,
    ManageTableVersions,
    PointTableVersions,
    RegisterTable,
    RenameTable,
)
from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError
from lakeroot.model.identifiers import ROOT, Identifier, show
from lakeroot.model.records import Table, TableVersion
from lakeroot.model.rules import apply
from lakeroot.objects import Objects, Root, parse_root
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import Config
from lakeroot.storage.iceberg_rest.creating import Creation, NewTable
from lakeroot.storage.iceberg_rest.entries import Entries, Entry
from lakeroot.storage.iceberg_rest.namespaces import alter_namespace, create_namespace
from lakeroot.storage.iceberg_rest.observing import (
    files_of,
    manifest_snapshots,
    observe,
    observed_snapshot,
)
from lakeroot.storage.iceberg_rest.placing import location_name, new_location
from lakeroot.storage.iceberg_rest.syncing import forget_gone, sync
from lakeroot.storage.iceberg_rest.versions import VERSION_CHANGES, Versions
from lakeroot.storage.iceberg_rest.view import EntryTable, IcebergView
from lakeroot.storage.overlay import Overlay
from lakeroot.tables.iceberg import ManagedBy
from lakeroot.tables.versions import MAIN, VERSIONS

_REMOVALS: Final = (DeregisterTable, DropTable, DropNamespace)


class IcebergRestStore:
    """Lance tables in an Iceberg REST catalog."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.client = Client(config)
        self.entries = Entries(self.client)
        self._versions = Versions(self.client, self.entries)
        self._creation = Creation(self.client, self.entries)
        # Where tables are placed; without a root of ours, each namespace knows its own place.
        self.root = (
            parse_root(config.root, config.storage_options)
            if config.root
            else Root(config.endpoint, is_local=False, storage_options=config.storage_options)
        )
        self._placed: set[str] = set()  # made up a moment ago, so nobody's

    def __reduce__(self) -> tuple[Any, ...]:
        return IcebergRestStore, (self.config,)

    @property
    def keeps_versions(self) -> bool:
        """Say yes: each table has its own arbiter, and the catalog is it for the managed ones."""
        return True

    @property
    def is_past(self) -> bool:
        """Say no: an Iceberg catalog shows only its present."""
        return False

    def read(self) -> IcebergView:
        """Take a view, which asks the server for what it is asked for."""
        return IcebergView(self.client, self.entries)

    def commit(self, commit: Commit) -> Committed:
        """Apply a commit, all or nothing, by the rules."""
        now_ms = int(time.time() * 1000)
        for change in commit.changes:
            _require_possible(change)
        changes = commit.changes
        one_by_one = all(isinstance(change, _REMOVALS) for change in changes[:-1])
        if not one_by_one and not all(isinstance(change, VERSION_CHANGES) for change in changes):
            raise UnsupportedOperationError(
                "An Iceberg catalog cannot make these changes together",
                "its protocol commits several tables at once, but creates and names them singly",
                "Make them one after the other",
            )
        places = frozenset(c.location for c in changes if isinstance(c, DeclareTable))
        view = IcebergView(self.client, self.entries, places & self._placed)
        apply(commit, Overlay(view), now_ms, self._newest_version)
        self._placed -= places
        if one_by_one:
            for change in changes:
                self._apply(change)
        else:
            self._versions.commit([c for c in changes if isinstance(c, VERSION_CHANGES)])
        return Committed(now_ms, now_ms)

    def _newest_version(self, table: Identifier) -> int:
        return max(self._versions.kept(self.entries.get(table)), default=0)

    def place(self, identifier: Identifier) -> str:
        """Choose the location of a new table: below the root, or where its namespace is.

        A server that keeps Lance tables by itself chooses later; until then it is nowhere.
        """
        if self.client.server.is_native:
            place = ""
        elif self.config.root is not None:
            place = new_location(self.root.uri, identifier)
            place = place if "://" in place else f"file://{place}"
        else:
            place = self._place_in_namespace(identifier)
        self._placed.add(place)
        return place

    def place_unseen(self, identifier: Identifier) -> None:
        """Choose none: the protocol creates and names tables singly."""

    def uri(self, location: str) -> str:
        """Give the address at which any Lance client can open a location."""
        return location

    def location_of(self, uri: str) -> str:
        """Understand a location as a caller writes it; an Iceberg catalog keeps addresses.

        A catalog that others share holds no paths of this machine, unless its root is one.
        """
        if self.client.server.is_native and uri:
            return uri.rstrip("/") or "/"  # it knows by itself what it may own
        is_relative = "://" not in uri and not uri.startswith("/")
        if any(part in ("", ".", "..") for part in uri.rstrip("/").split("/")[3:]) or not uri:
            raise InvalidInputError(f"The location {uri!r} is not the place of a table")
        if is_relative:
            if self.config.root is None or ".." in uri.split("/"):
                raise InvalidInputError(
                    f"The location {uri!r} is relative",
                    "the catalog has no `root`, or it leads out of it",
                    "Give a complete address",
                )
            uri = self.root.join(uri)
        place = parse_root(uri)
        if not place.is_local:
            return place.uri
        if not self.root.is_local or self.root.relative(place.uri) is None:
            raise InvalidInputError(
                f"The location {uri!r} is on this machine",
                "others could not open it",
                "Give an address in a bucket, or a `root` on this machine that holds it",
            )
        return f"file://{place.uri}"

    def has_data(self, table: Table) -> bool:
        """Tell whether a table has been written, or is only declared."""
        entry = self._entry_of(table)
        if entry.definition.managed_by is ManagedBy.IMPL and entry.definition.version is not None:
            return True
        return self.files_of(entry).has_any(VERSIONS)

    def files(self, table: Table) -> Objects:
        """Give the files of a table, below its location."""
        return self.files_of(self._entry_of(table))

    def versions(self, table: Table, branch: str | None) -> dict[int, TableVersion]:
        """Give the versions the catalog keeps of a table, by number."""
        if branch not in (None, MAIN):
            return {}
        return self._versions.kept(self.entries.get(table.identifier))

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Tell what each commit changed: the protocol does not know."""
        raise UnsupportedOperationError("An Iceberg catalog keeps no history of itself")

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> "IcebergRestStore":
        """Give the catalog as it was: the protocol cannot."""
        raise UnsupportedOperationError("An Iceberg catalog shows only its present")

    def sync(self, identifier: Identifier) -> bool:
        """Bring what the catalog says of a table in step with the table itself."""
        return sync(self.entries, self.entries.get(identifier))

    def forget_gone(self, identifier: Identifier) -> bool:
        """Let the catalog show no version whose files were cleaned up; tell whether it did."""
        return forget_gone(self.entries, self.entries.get(identifier))

    def close(self) -> None:
        """Let go of the connections."""
        self.client.close()

    def files_of(self, entry: Entry) -> Objects:
        """Open the files of a table, with what the catalog lends to open them."""
        return files_of(entry.location, entry.storage_options)

    def _entry_of(self, table: Table) -> Entry:
        """Give the entry a table was read from: its place does not change, its versions do."""
        return table.entry if isinstance(table, EntryTable) else self.entries.get(table.identifier)

    def _apply(self, change: Change) -> None:
        match change:
            case CreateNamespace():
                create_namespace(self.client, change.identifier, change.properties)
            case AlterNamespace():
                alter_namespace(self.client, change.identifier, change.properties)
            case DropNamespace():
                self.client.drop_namespace(change.identifier)
            case DeclareTable():
                self._creation.create(
                    NewTable(
                        change.identifier,
                        change.location,
                        self.config.managed_by,
                        change.properties,
                    )
                )
            case RegisterTable():
                self._register(change)
            case ManageTableVersions():
                raise UnsupportedOperationError(
                    "Each table of an Iceberg catalog has its own arbiter of versions",
                    fix="Open the catalog with `managed_by`, which is for the tables it makes",
                )
            case _:
                self._apply_to_table(change, self.entries.get(change.identifier))

    def _apply_to_table(self, change: Change, entry: Entry) -> None:
        match change:
            case AlterTable():
                self.entries.set_properties(entry, change.properties)
            case DeregisterTable():
                self.entries.remove(entry, keep_data=True)
            case DropTable():
                self.entries.remove(entry, keep_data=False)
                files = self.files_of(entry)
                # Without versions, what a crash leaves is known to be garbage.
                files.delete_directory(VERSIONS)
                files.delete_directory("")
            case RenameTable():
                self.entries.rename(entry, change.new_identifier)
            case CreateTableVersions() | PointTableVersions() | DeleteTableVersions():
                self._versions.commit([change])
            case _:
                raise AssertionError(change)

    def _register(self, change: RegisterTable) -> None:
        """Enter a table that is there, with its schema and its versions."""
        options = self.config.storage_options
        seen = observe(change.location, options)
        if seen is None:
            raise InvalidInputError(
                f"There is no Lance table at {change.location}",
                fix="Register the directory of a Lance table, or declare a new table",
            )
        if self.config.managed_by is ManagedBy.IMPL:
            files = files_of(change.location, options)
            snapshots = manifest_snapshots(change.location, files, after=0)
        else:
            snapshots = [observed_snapshot(change.location, seen)]
        self._creation.create(
            NewTable(
                change.identifier,
                change.location,
                self.config.managed_by,
                change.properties,
                seen.schema,
                tuple(snapshots),
            )
        )

    def _place_in_namespace(self, identifier: Identifier) -> str:
        kept = self.client.load_namespace(identifier[:-1]) if identifier[:-1] else {}
        if kept.get("location"):
            return f"{kept['location'].rstrip('/')}/{location_name(identifier)}"
        warehouse = self.client.server.properties.get("warehouse", "")
        if "://" in warehouse:
            return new_location(warehouse, identifier)
        raise InvalidInputError(
            f"There is no place for the table {show(identifier)}",
            "neither the namespace nor the warehouse has a location",
            "Give `root`, or the location of the table",
        )


def _require_possible(change: Change) -> None:
    """Refuse what no Iceberg catalog can hold."""
    if isinstance(change, AlterNamespace) and change.identifier == ROOT:
        raise UnsupportedOperationError("The root of an Iceberg catalog has no properties")
    new = change.new_identifier if isinstance(change, RenameTable) else change.identifier
    if isinstance(change, DeclareTable | RegisterTable | RenameTable) and len(new) == 1:
        raise InvalidInputError(
            f"The table {show(new)} cannot be in an Iceberg catalog",
            "such a catalog keeps every table in a namespace",
            "Give the table a namespace",
        )
