"""A view of the metastore as a catalog of Lance tables."""

from collections.abc import Iterator, Mapping

from lakeroot.metastore import Namespace as StoredNamespace
from lakeroot.metastore import Partition as StoredPartition
from lakeroot.metastore import Table as StoredTable
from lakeroot.metastore import View as MetastoreView
from lakeroot.metastore.states import LANCE_FORMAT
from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.model.records import Namespace, Record, Table, TableVersion
from lakeroot.storage.deltacat.translation import (
    MANAGES_VERSIONS,
    ROOT_NAMESPACE,
    identifier_in,
    is_lance,
    location_directory,
    own_facts,
    read_namespace,
    read_table,
    read_version,
    stored_name,
)


class DeltaCatView:
    """What a catalog of Lance tables holds in one state of the metastore."""

    def __init__(self, state: MetastoreView) -> None:
        self.state = state

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of this identifier; the root is a namespace."""
        if identifier == ROOT:
            root = self.state.find_namespace(ROOT_NAMESPACE)
            return Namespace(ROOT) if root is None else read_namespace(root)
        if len(identifier) == 1 and identifier[0] != ROOT_NAMESPACE:
            found = self.state.find_namespace(identifier[0])
            if found is not None:
                return read_namespace(found)
        stored = self.stored_table(identifier)
        return None if stored is None else read_table(stored)

    def stored_table(self, identifier: Identifier) -> StoredTable | None:
        """Find a Lance table in the metastore."""
        name = stored_name(identifier)
        if name is None or (len(identifier) == 2 and identifier[0] == ROOT_NAMESPACE):
            return None
        found = self.state.find_table(*name)
        return found if found is not None and is_lance(found) else None

    def is_empty(self, identifier: Identifier) -> bool:
        """Tell whether a namespace has no tables and no namespaces, tables of others included."""
        if identifier == ROOT:
            return not self.namespaces(ROOT, None, 1) and not self.tables(ROOT, None, 1)
        found = self.state.find_namespace(identifier[0]) if len(identifier) == 1 else None
        return found is None or next(iter(self.state.child_ids(found.id)), None) is None

    def owner_of(self, location: str) -> Identifier | None:
        """Give the table that is at a location."""
        target = self.state.target_of(location_directory(location))
        if target is None:
            return None
        namespace_id, _, table_id = target.partition(".")
        namespace = self.state.record_at(namespace_id)
        table = self.state.record_at(f"{namespace_id}/{table_id}")
        if not isinstance(namespace, StoredNamespace) or not isinstance(table, StoredTable):
            return None
        return identifier_in(namespace.name, table.name)

    def is_claimed(self, location: str) -> bool:
        """Tell whether a location was some table's and never dropped, be the table there or not."""
        return self.state.target_of(location_directory(location)) is not None

    def namespaces(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child namespaces, sorted, starting after a name."""
        if parent != ROOT:
            return []
        names = (record.name for record in self.state.namespaces())
        return _page((name for name in names if name != ROOT_NAMESPACE), after, limit)

    def tables(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child tables, sorted, starting after a name."""
        namespace = ROOT_NAMESPACE if parent == ROOT else parent[0]
        if len(parent) > 1 or self.state.find_namespace(namespace) is None:
            return []
        found = self.state.tables(namespace)
        return _page((record.name for record in found if is_lance(record)), after, limit)

    def all_tables(self, after: Identifier | None, limit: int | None) -> list[Identifier]:
        """List every table of the catalog, sorted, starting after an identifier."""
        found = sorted(
            identifier_in(record.namespace, record.name)
            for namespace in self.state.namespaces()
            for record in self.state.tables(namespace.name)
            if is_lance(record)
        )
        return [one for one in found if after is None or one > after][:limit]

    def versions(self, table: Table) -> Mapping[int, TableVersion]:
        """Give the versions that are kept of a table, by number."""
        stored = self.stored_table(table.identifier)
        partition = None if stored is None else self.partition(stored)
        return {} if partition is None else KeptVersions(self.state, partition)

    def newest_version(self, identifier: Identifier) -> int:
        """Give the newest version that is kept of a table; 0 if there is none."""
        stored = self.stored_table(identifier)
        partition = None if stored is None else self.partition(stored)
        return 0 if partition is None else max(self.state.positions(partition), default=0)

    def partition(self, stored: StoredTable) -> StoredPartition | None:
        """Find the one partition of a Lance table; it has none before its first version."""
        version = self.state.table_version(stored.namespace, stored.name)
        stream = self.state.find_stream(version, LANCE_FORMAT)
        return None if stream is None else self.state.find_partition(stream)


def said_of_versions(view: DeltaCatView) -> bool | None:
    """Tell whether the catalog keeps versions of tables; nothing if it was never said."""
    own = own_facts(view.state.find_namespace(ROOT_NAMESPACE))
    said = own.get(MANAGES_VERSIONS)
    return None if said is None else bool(said)


class KeptVersions(Mapping[int, TableVersion]):
    """Versions by number; what is known of one is read when it is asked for."""

    def __init__(self, state: MetastoreView, partition: StoredPartition) -> None:
        self._state = state
        self._partition = partition
        self._numbers = dict.fromkeys(state.positions(partition))

    def __getitem__(self, number: int) -> TableVersion:
        if number not in self._numbers:
            raise KeyError(number)
        return read_version(self._state.delta(self._partition, number))

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _page(names: Iterator[str], after: str | None, limit: int | None) -> list[str]:
    return sorted(name for name in names if after is None or name > after)[:limit]
