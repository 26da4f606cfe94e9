"""Carrying out the changes of a commit in a transaction of the metastore."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from lakeroot.metastore import Delta, Transaction
from lakeroot.metastore import Partition as StoredPartition
from lakeroot.metastore import Table as StoredTable
from lakeroot.metastore.states import LANCE_FORMAT
from lakeroot.metastore.view import directory_of
from lakeroot.model.commits import (
    AlterNamespace,
    AlterTable,
    Change,
    Commit,
    CreateNamespace,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    DeregisterTable,
    DropNamespace,
    DropTable,
    ManageTableVersions,
    NewestVersion,
    PointTableVersions,
    RegisterTable,
    RenameTable,
)
from lakeroot.model.errors import (
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import ROOT, Identifier, show
from lakeroot.model.records import TableVersion
from lakeroot.storage.deltacat.translation import (
    MANAGES_VERSIONS,
    ROOT_NAMESPACE,
    location_directory,
    namespace_properties,
    own_facts,
    read_table,
    stored_name,
    table_name,
    table_properties,
    too_deep,
    write_version,
)
from lakeroot.storage.deltacat.view import DeltaCatView


class Application:
    """The changes of one commit, on their way into one transaction."""

    def __init__(self, txn: Transaction, now_ms: int) -> None:
        self._txn = txn
        self._view = DeltaCatView(txn)
        self._now_ms = now_ms

    def rely_on(self, commit: Commit) -> None:
        """Make everything that the rules looked at a reason for conflict, if it changes."""
        changed = [change.identifier for change in commit.changes]
        renamed = [c.new_identifier for c in commit.changes if isinstance(c, RenameTable)]
        required = [requirement.identifier for requirement in commit.requires]
        for identifier in (*changed, *renamed, *required):
            self._watch_names(identifier)
        if any(isinstance(c, CreateTableVersions | PointTableVersions) for c in commit.changes):
            self._watch_record(ROOT)  # It says whether versions are kept.
        for requirement in commit.requires:
            if isinstance(requirement, NewestVersion):
                self._watch_versions(requirement.identifier)
            else:
                self._watch_record(requirement.identifier)

    def apply(self, change: Change) -> None:
        """Carry out one change that the rules have allowed."""
        match change:
            case CreateNamespace() | AlterNamespace() | DropNamespace():
                self._namespace(change)
            case DeclareTable() | RegisterTable():
                self._create_table(change.identifier, change.location, change.properties)
            case AlterTable():
                self._alter_table(change)
            case DeregisterTable():
                # The claim to the directory stays: what lies there is somebody's data, and no
                # clean-up may take it for the rest of a table that was dropped.
                self._txn.delete_table(*table_name(change.identifier))
            case DropTable():
                self._remove_table(change.identifier)
            case RenameTable():
                self._rename(change)
            case CreateTableVersions() | PointTableVersions():
                self._put_versions(change)
            case DeleteTableVersions():
                self._delete_versions(change)
            case ManageTableVersions():
                self._manage(enabled=change.enabled)
            case _:
                assert_never(change)

    def _namespace(self, change: CreateNamespace | AlterNamespace | DropNamespace) -> None:
        if len(change.identifier) > 1:
            raise too_deep(change.identifier)
        if isinstance(change, DropNamespace):
            self._txn.delete_namespace(change.identifier[0])
        elif isinstance(change, CreateNamespace):
            own = {"created_at_ms": self._now_ms}
            properties = namespace_properties(change.properties, own)
            self._txn.create_namespace(change.identifier[0], properties)
        else:
            name = change.identifier[0] if change.identifier else self._root()
            own = own_facts(self._txn.namespace(name))
            properties = namespace_properties(change.properties, own)
            self._txn.update_namespace(name, properties=properties)

    def _root(self) -> str:
        if self._txn.find_namespace(ROOT_NAMESPACE) is None:
            self._txn.create_namespace(ROOT_NAMESPACE)
        return ROOT_NAMESPACE

    def _create_table(self, identifier: Identifier, location: str, properties: Any) -> None:
        namespace, name = table_name(identifier)
        if namespace == ROOT_NAMESPACE:
            self._root()
        facts = table_properties(location, properties, self._now_ms)
        made = self._txn.create_table(namespace, name, properties=facts, stream_format=LANCE_FORMAT)
        self._claim(location, made)

    def _claim(self, location: str, made: StoredTable) -> None:
        target = f"{made.ancestor_ids[0]}.{made.id}"
        self._txn.stage_name(location_directory(location), target)

    def _alter_table(self, change: AlterTable) -> None:
        stored = self._stored(change.identifier)
        table = read_table(stored)
        facts = table_properties(table.location, change.properties, table.created_at_ms)
        properties = {**(stored.properties or {}), **facts}
        self._txn.update_table(*table_name(change.identifier), properties=properties)

    def _remove_table(self, identifier: Identifier) -> None:
        stored = self._stored(identifier)
        self._txn.stage_name(location_directory(read_table(stored).location), None)
        self._txn.delete_table(*table_name(identifier))

    def _rename(self, change: RenameTable) -> None:
        old, new = table_name(change.identifier), table_name(change.new_identifier)
        if old[0] == new[0]:
            self._txn.update_table(*old, new_name=new[1])
            return
        # A table lies in the directory of its namespace: in another one it is another object,
        # with the same location and the same versions.
        stored = self._stored(change.identifier)
        table = read_table(stored)
        versions = list(self._view.versions(table).values())
        self._remove_table(change.identifier)
        self._create_table(change.new_identifier, table.location, table.properties)
        made = self._stored(change.new_identifier)
        facts = table_properties(table.location, table.properties, table.created_at_ms)
        self._txn.update_table(*new, properties={**(made.properties or {}), **facts})
        self._put(change.new_identifier, versions, may_exist=True)

    def _put_versions(self, change: CreateTableVersions | PointTableVersions) -> None:
        _refuse_branch(change.branch)
        may_exist = isinstance(change, PointTableVersions)
        self._put(change.identifier, change.versions, may_exist=may_exist)

    def _put(
        self, identifier: Identifier, versions: Sequence[TableVersion], *, may_exist: bool
    ) -> None:
        if not versions:
            return
        partition = self._partition(identifier)
        for version in versions:
            delta = write_version(partition, version)
            if not may_exist and self._txn.find_delta(partition, version.version) is not None:
                raise TableVersionAlreadyExistsError(
                    f"{show(identifier)} already has a version {version.version}",
                    "another writer committed it first",
                    "Read the table again and commit the version after its newest",
                )
            self._txn.stage(delta)
        newest = max(version.version for version in versions)
        position = max(newest, partition.stream_position or 0)
        self._txn.stage(replace(partition, stream_position=position))

    def _delete_versions(self, change: DeleteTableVersions) -> None:
        _refuse_branch(change.branch)
        partition = self._partition(change.identifier)
        for number in change.versions:
            delta = self._txn.find_delta(partition, number)
            if isinstance(delta, Delta):
                self._txn.stage_delete(delta)

    def _partition(self, identifier: Identifier) -> StoredPartition:
        stored = self._stored(identifier)
        version = self._txn.table_version(stored.namespace, stored.name)
        stream = self._txn.find_stream(version, LANCE_FORMAT)
        if stream is None:
            stream = self._txn.create_stream(version, LANCE_FORMAT)
        found = self._txn.find_partition(stream)
        return found or self._txn.commit_partition(self._txn.stage_partition(stream))

    def _manage(self, *, enabled: bool) -> None:
        root = self._txn.namespace(self._root())
        own = {**own_facts(root), MANAGES_VERSIONS: enabled}
        self._txn.update_namespace(
            ROOT_NAMESPACE, properties={**(root.properties or {}), "lakeroot": own}
        )
        if not enabled:
            for identifier in self._view.all_tables(None, None):
                partition = self._view.partition(self._stored(identifier))
                if partition is not None:
                    self._txn.delete_partition(partition)

    def _stored(self, identifier: Identifier) -> StoredTable:
        stored = self._view.stored_table(identifier)
        if stored is None:
            raise TableNotFoundError(f"There is no table {show(identifier)}")
        return stored

    def _watch_names(self, identifier: Identifier) -> None:
        # A namespace and a table of the root may not share a name; their names are kept apart.
        steady = self._txn.changes.footprint.steady
        if len(identifier) == 1:
            steady.add(self._txn.name_directory((identifier[0],)))
            root = self._txn.find_namespace(ROOT_NAMESPACE)
            if root is not None:
                parts = (ROOT_NAMESPACE, identifier[0])
                steady.add(self._txn.name_directory(parts, root.id))
            else:
                steady.add(self._txn.name_directory((ROOT_NAMESPACE,)))

    def _watch_record(self, identifier: Identifier) -> None:
        steady = self._txn.changes.footprint.steady
        name = stored_name(identifier) if identifier != ROOT else None
        namespace = self._txn.find_namespace(ROOT_NAMESPACE if name is None else name[0])
        if namespace is None:
            steady.add(self._txn.name_directory((name[0] if name else ROOT_NAMESPACE,)))
            return
        if name is None or len(identifier) == 1:
            steady.add(namespace.id)
        if name is not None:
            steady.add(self._txn.name_directory((namespace.name, name[1]), namespace.id))
            table = self._txn.find_table(*name)
            if table is not None:
                steady.add(f"{namespace.id}/{table.id}")
        if len(identifier) == 1 and (found := self._txn.find_namespace(identifier[0])):
            steady.add(found.id)

    def _watch_versions(self, identifier: Identifier) -> None:
        self._watch_record(identifier)
        stored = self._view.stored_table(identifier)
        if stored is None:
            return
        version = self._txn.table_version(stored.namespace, stored.name)
        stream = self._txn.find_stream(version, LANCE_FORMAT)
        if stream is None:
            self._txn.changes.footprint.childless.add(directory_of(version))
            return
        # The first version makes the partition, every other one is a child of it.
        self._txn.changes.footprint.childless.add(directory_of(stream))
        partition = self._txn.find_partition(stream)
        if partition is not None:
            self._txn.changes.footprint.childless.add(directory_of(partition))


def _refuse_branch(branch: str | None) -> None:
    if branch not in (None, "main"):
        raise UnsupportedOperationError(
            "This catalog keeps the versions of main branches only",
            "the arbiter of a branch is its own directory",
        )
