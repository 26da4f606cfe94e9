"""Changes of namespaces, tables and table versions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakeroot.metastore import naming
from lakeroot.metastore.locators import (
    NamespaceLocator,
    TableLocator,
    TableVersionLocator,
    checked_name,
    new_id,
    next_table_version,
    table_version_of,
)
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.properties import with_defaults
from lakeroot.metastore.records import ALIASES, Namespace, Properties, Table, TableVersion
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.schemes import (
    UNPARTITIONED,
    UNSORTED,
    PartitionScheme,
    SortScheme,
    check_schemes,
)
from lakeroot.metastore.staging import Staging
from lakeroot.metastore.states import NATIVE_FORMAT, LifecycleState
from lakeroot.metastore.streams import StreamChanges
from lakeroot.metastore.view import version_order
from lakeroot.model.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    TableAlreadyExistsError,
    TableVersionAlreadyExistsError,
)


class NamespaceChanges(Staging):
    """Changes of namespaces."""

    def create_namespace(
        self, name: str, properties: Properties = None, *, namespace_id: str | None = None
    ) -> Namespace:
        """Create a namespace."""
        self._free_namespace(checked_name(name, "namespace"))
        record = Namespace(NamespaceLocator(name), namespace_id or new_id(), properties)
        self.stage(record)
        self.stage_name(self.name_directory((name,)), record.id)
        return record

    def update_namespace(
        self, name: str, *, new_name: str | None = None, properties: Properties = None
    ) -> Namespace:
        """Rename a namespace, or replace its properties; what is not given stays."""
        before = self.namespace(name)
        after = before if properties is None else replace(before, properties=properties)
        if new_name is not None and new_name != before.name:
            self._free_namespace(checked_name(new_name, "namespace"))
            after = replace(after, locator=NamespaceLocator(new_name))
            self._move_tables(before, new_name)
            self._move_name("", (before.name,), (new_name,), before.id)
        self.stage(after)
        return after

    def delete_namespace(self, name: str) -> None:
        """Delete an empty namespace. A table that is created meanwhile makes this a conflict."""
        record = self.namespace(name)
        if next(iter(self.child_ids(record.id)), None) is not None:
            raise NamespaceNotEmptyError(
                f"The namespace {name!r} is not empty", "it holds tables", "Drop its tables first"
            )
        self.changes.footprint.childless.add(record.id)
        self._drop_names("", record.id)
        self.stage_delete(record)

    def add_namespace_alias(self, name: str, alias: str) -> None:
        """Give a namespace one more name that leads to it."""
        record = self.namespace(name)
        self._free_namespace(checked_name(alias, "namespace"))
        self.stage_name(self.name_directory((alias,)), record.id)
        self.stage(record)

    def _free_namespace(self, name: str) -> None:
        if self.find_namespace(name) is not None:
            raise NamespaceAlreadyExistsError(f"There is already a namespace {name!r}")

    def name_directory(self, parts: tuple[str, ...], parent: str = "") -> str:
        """Give the directory of a name, as this layout hashes it."""
        prefix = f"{parent}/" if parent else ""
        return prefix + naming.name_digests(self.layout, parts)[0]

    def _move_name(
        self, parent: str, old: tuple[str, ...], new: tuple[str, ...], target: str
    ) -> None:
        prefix = f"{parent}/" if parent else ""
        for name in naming.name_digests(self.layout, old):
            if self.target_of(prefix + name) == target:
                self.stage_name(prefix + name, None)
        self.stage_name(self.name_directory(new, parent), target)

    def _move_tables(self, namespace: Namespace, new_name: str) -> None:
        # The layout of the specification hashes a table's name with its namespace's name.
        if self.layout is not Layout.SPEC:
            return
        self.changes.footprint.childless.add(namespace.id)
        for table in self.tables(namespace.name):
            for name in (table.name, *table.aliases):
                old, new = (namespace.name, name), (new_name, name)
                self._move_name(namespace.id, old, new, table.id)

    def _drop_names(self, parent: str, target: str) -> None:
        prefix = f"{parent}/" if parent else ""
        # A copy: other threads of this client may take in commits meanwhile.
        everywhere = list(self.log.index.names)
        known = [path for path in everywhere if path.rpartition("/")[0] == parent]
        staged = [path for path in self.changes.names if path.rpartition("/")[0] == parent]
        for path in {*known, *staged}:
            if path.startswith(prefix) and self.target_of(path) == target:
                self.stage_name(path, None)


class TableChanges(NamespaceChanges, StreamChanges):
    """Changes of tables and table versions."""

    def create_table(
        self,
        namespace: str,
        name: str,
        *,
        schema: Schema | None = None,
        version: str | None = None,
        partition_scheme: PartitionScheme = UNPARTITIONED,
        sort_scheme: SortScheme = UNSORTED,
        description: str | None = None,
        properties: Mapping[str, Any] | None = None,
        content_types: tuple[str, ...] | None = None,
        state: LifecycleState = LifecycleState.ACTIVE,
        stream_format: str = NATIVE_FORMAT,
    ) -> Table:
        """Create a table, its first version and the stream of that version."""
        parent = self.namespace(namespace)
        self._free_table(namespace, checked_name(name, "table"))
        if schema is not None:
            check_schemes(schema.arrow.names, partition_scheme, sort_scheme)
        first = table_version_of(version or "1")
        record = Table(
            TableLocator(parent.locator, name),
            new_id(),
            description,
            with_defaults(properties),
            first if state is LifecycleState.ACTIVE else None,
            first,
            ancestor_ids=(parent.id,),
        )
        self._steady_parent(parent.id)
        self.stage(record)
        self.stage_name(self.name_directory((parent.name, name), parent.id), record.id)
        made = TableVersion(
            TableVersionLocator(record.locator, first),
            schema,
            () if schema is None else (schema,),
            partition_scheme,
            (partition_scheme,),
            sort_scheme,
            (sort_scheme,),
            properties=record.properties,
            content_types=content_types,
            state=state,
            ancestor_ids=(parent.id, record.id),
        )
        self.stage(made)
        self.create_stream(made, stream_format)
        return record

    def update_table(
        self,
        namespace: str,
        name: str,
        *,
        new_name: str | None = None,
        description: str | None = None,
        properties: Properties = None,
    ) -> Table:
        """Rename a table, or change what is said of it; what is not given stays."""
        before = self.table(namespace, name)
        after = before
        if description is not None:
            after = replace(after, description=description)
        if properties is not None:
            after = replace(after, properties=properties)
        if new_name is not None and new_name != before.name:
            self._free_table(namespace, checked_name(new_name, "table"))
            after = replace(after, locator=TableLocator(before.locator.parent, new_name))
            self._steady_parent(before.ancestor_ids[0])
            above = before.namespace
            self._move_name(
                before.ancestor_ids[0], (above, before.name), (above, new_name), before.id
            )
        self.stage(after)
        return after

    def delete_table(self, namespace: str, name: str) -> None:
        """Delete a table. What is below it can no longer be reached, and is left to gc."""
        record = self.table(namespace, name)
        self._drop_names(record.ancestor_ids[0], record.id)
        self.stage_delete(record)

    def add_table_alias(self, namespace: str, name: str, alias: str) -> None:
        """Give a table one more name that leads to it."""
        record = self.table(namespace, name)
        self._free_table(namespace, checked_name(alias, "table"))
        parent = record.ancestor_ids[0]
        self._steady_parent(parent)
        self.stage_name(self.name_directory((record.namespace, alias), parent), record.id)
        # A hash cannot be read back, so the record keeps what its aliases are called.
        self.stage(replace(record, extra={**record.extra, ALIASES: [*record.aliases, alias]}))

    def create_table_version(
        self,
        namespace: str,
        table: str,
        *,
        version: str | None = None,
        state: LifecycleState = LifecycleState.CREATED,
        stream_format: str = NATIVE_FORMAT,
        **fields: Any,
    ) -> TableVersion:
        """Add a version to a table. The active version stays unless the new one is active."""
        parent = self.table(namespace, table)
        wanted = table_version_of(version or next_table_version(parent.latest_table_version))
        known = {record.id for record in self.table_versions(namespace, table)}
        if wanted in known:
            raise TableVersionAlreadyExistsError(
                f"The table {namespace}.{table} already has the version {wanted}"
            )
        if (schema := fields.get("schema")) is not None:
            schemes = fields.get("partition_scheme"), fields.get("sort_scheme")
            check_schemes(schema.arrow.names, *schemes)
        active = parent.latest_active_table_version or self._newest_active(parent)
        previous = parent.latest_table_version
        made = TableVersion(
            TableVersionLocator(parent.locator, wanted),
            properties=fields.pop("properties", parent.properties),
            state=state,
            previous_table_version=previous,
            ancestor_ids=(*parent.ancestor_ids, parent.id),
            **_histories(fields),
        )
        self.stage(made)
        self.stage(
            replace(
                parent,
                latest_table_version=wanted,
                latest_active_table_version=wanted if state is LifecycleState.ACTIVE else active,
            )
        )
        self.create_stream(made, stream_format)
        return made

    def update_table_version(self, record: TableVersion, **fields: Any) -> TableVersion:
        """Change a table version; a new schema or scheme joins the history of its kind."""
        for one, many in _HISTORIES.items():
            value = fields.get(one)
            history = getattr(record, many) or ()
            if value is not None and value not in history:
                fields[many] = (*history, value)
        after = replace(record, **fields)
        self.stage(after)
        if after.state is not record.state:
            self._mend_active(after)
        return after

    def delete_table_version(self, namespace: str, table: str, version: str) -> None:
        """Delete a version of a table; the newest of the others becomes the latest."""
        record = self.table_version(namespace, table, version)
        if len(self.table_versions(namespace, table)) == 1:
            raise InvalidInputError(
                f"{version} is the only version of {namespace}.{table}", fix="Delete the table"
            )
        self.stage_delete(record)
        self._mend_active(record)

    def _mend_active(self, version: TableVersion) -> None:
        table = version.locator.parent
        parent = self.table(table.parent.namespace, table.table_name)
        versions = self.table_versions(parent.namespace, parent.name)
        active = [record.id for record in versions if record.state is LifecycleState.ACTIVE]
        self.stage(
            replace(
                parent,
                latest_table_version=versions[-1].id if versions else None,
                latest_active_table_version=max(active, key=version_order, default=None),
            )
        )

    def _free_table(self, namespace: str, name: str) -> None:
        if self.find_table(namespace, name) is not None:
            raise TableAlreadyExistsError(
                f"There is already a table {name!r} in the namespace {namespace!r}"
            )

    def _steady_parent(self, directory: str) -> None:
        if self.layout is Layout.SPEC:
            self.changes.footprint.steady.add(directory)


_HISTORIES = {
    "schema": "schemas",
    "partition_scheme": "partition_schemes",
    "sort_scheme": "sort_schemes",
}


def _histories(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = {
        many: (fields[one],) for one, many in _HISTORIES.items() if fields.get(one) is not None
    }
    return {**fields, **known}
