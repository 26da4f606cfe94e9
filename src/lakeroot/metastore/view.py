"""Reading a state of the catalog: names lead to ids, ids to revisions, revisions to records."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lakeroot.metastore import codecs, naming
from lakeroot.metastore.index import Snapshot
from lakeroot.metastore.locators import PartitionValues, digest, partition_alias, table_version_of
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.records import (
    Delta,
    Namespace,
    Partition,
    Record,
    Stream,
    Table,
    TableVersion,
)
from lakeroot.metastore.states import NATIVE_FORMAT, CommitState, LifecycleState
from lakeroot.model.errors import (
    NamespaceNotFoundError,
    NotFoundError,
    TableNotFoundError,
    TableVersionNotFoundError,
)


def directory_of(record: Record) -> str:
    """Give the directory of an object: the ids of its ancestors, and its own."""
    return "/".join((*record.ancestor_ids, record.id))


class View:
    """One state of the catalog. What it shows does not change, whatever others commit."""

    def __init__(self, log: CommitLog, snapshot: Snapshot) -> None:
        self.log = log
        self.snapshot = snapshot

    @property
    def layout(self) -> Layout:
        """The layout of the catalog."""
        return self.log.layout

    # The three questions everything else is made of; a transaction answers them with its changes.

    def record_at(self, directory: str) -> Record | None:
        """Read the object of a directory; nothing if it does not exist."""
        revision = self.log.index.object(directory, self.snapshot)
        return None if revision is None else self.log.record(directory, revision)

    def target_of(self, directory: str) -> str | None:
        """Find the id that a name leads to."""
        return self.log.index.name(directory, self.snapshot)

    def child_ids(self, directory: str) -> Iterator[str]:
        """List the ids of the children of an object."""
        for name, _ in self.log.index.child_ids(directory, self.snapshot):
            yield name

    def find_namespace(self, name: str) -> Namespace | None:
        """Find a namespace by its name or an alias of it."""
        found = self._named("", (name,))
        return found if isinstance(found, Namespace) else None

    def namespace(self, name: str) -> Namespace:
        """Read a namespace."""
        found = self.find_namespace(name)
        if found is None:
            raise NamespaceNotFoundError(f"There is no namespace {name!r}")
        return found

    def namespaces(self) -> list[Namespace]:
        """List the namespaces, by name."""
        found = [self.record_at(name) for name in self.child_ids("")]
        return sorted((r for r in found if isinstance(r, Namespace)), key=lambda r: r.name)

    def find_table(self, namespace: str, name: str) -> Table | None:
        """Find a table by its name or an alias of it; nothing if there is none."""
        parent = self.find_namespace(namespace)
        return None if parent is None else self._table_in(parent, name)

    def table(self, namespace: str, name: str) -> Table:
        """Read a table."""
        found = self._table_in(self.namespace(namespace), name)
        if found is None:
            raise TableNotFoundError(f"There is no table {name!r} in the namespace {namespace!r}")
        return found

    def tables(self, namespace: str) -> list[Table]:
        """List the tables of a namespace, by name."""
        parent = self.namespace(namespace)
        found = (self.record_at(f"{parent.id}/{name}") for name in self.child_ids(parent.id))
        named = [codecs.with_names(r, parent.name) for r in found if isinstance(r, Table)]
        return sorted(named, key=lambda record: record.name)

    def table_version(self, namespace: str, table: str, version: str | None = None) -> TableVersion:
        """Read a version of a table: the latest active one, if none is named."""
        parent = self.table(namespace, table)
        wanted = version or parent.latest_active_table_version or self._newest_active(parent)
        found = None
        if wanted is not None:
            found = self._below(parent, table_version_of(wanted))
        if not isinstance(found, TableVersion):
            named = "an active version" if version is None else f"the version {version!r}"
            raise TableVersionNotFoundError(f"The table {namespace}.{table} does not have {named}")
        return found

    def table_versions(self, namespace: str, table: str) -> list[TableVersion]:
        """List the versions of a table, the oldest first."""
        found = [
            r for r in self.children(self.table(namespace, table)) if isinstance(r, TableVersion)
        ]
        return sorted(found, key=lambda record: version_order(record.id))

    def find_stream(
        self, version: TableVersion, stream_format: str = NATIVE_FORMAT
    ) -> Stream | None:
        """Find the current stream of a table version in a format."""
        target = self.target_of(f"{directory_of(version)}/{digest(stream_format)}")
        found = None if target is None else self._below(version, target)
        return found if isinstance(found, Stream) else None

    def stream(
        self,
        namespace: str,
        table: str,
        version: str | None = None,
        stream_format: str = NATIVE_FORMAT,
    ) -> Stream:
        """Read the current stream of a table version in a format."""
        parent = self.table_version(namespace, table, version)
        found = self.find_stream(parent, stream_format)
        if found is None:
            raise NotFoundError(
                f"The version {parent.id} of {namespace}.{table} has no stream of {stream_format!r}"
            )
        return found

    def streams(self, version: TableVersion) -> list[Stream]:
        """List the streams of a table version, staged ones too."""
        return [record for record in self.children(version) if isinstance(record, Stream)]

    def find_partition(
        self, stream: Stream, values: PartitionValues = None, scheme_id: str | None = None
    ) -> Partition | None:
        """Find the current partition of a stream for partition values."""
        scheme = stream.partition_scheme
        wanted = scheme_id or (scheme.id if scheme is not None else None)
        alias = digest(partition_alias(values or None, wanted))
        target = self.target_of(f"{directory_of(stream)}/{alias}")
        found = None if target is None else self._below(stream, target)
        return found if isinstance(found, Partition) else None

    def partitions(self, stream: Stream, *, staged: bool = False) -> list[Partition]:
        """List the partitions of a stream: the current ones, and if wanted the staged ones."""
        return [
            record
            for record in self.children(stream)
            if isinstance(record, Partition)
            and (
                record.state is CommitState.COMMITTED
                or (staged and record.state is CommitState.STAGED)
            )
        ]

    def find_delta(self, partition: Partition, position: int) -> Delta | None:
        """Find the delta at a position of a partition."""
        found = self._below(partition, str(position))
        return found if isinstance(found, Delta) else None

    def delta(self, partition: Partition, position: int) -> Delta:
        """Read the delta at a position of a partition."""
        found = self.find_delta(partition, position)
        if found is None:
            raise NotFoundError(f"The partition {partition.id} has no delta at {position}")
        return found

    def positions(self, partition: Partition) -> list[int]:
        """List the positions of a partition that hold a delta; those of adds come last."""
        return sorted(int(name) for name in self.child_ids(directory_of(partition)))

    def deltas(
        self, partition: Partition, *, after: int = 0, upto: int | None = None
    ) -> list[Delta]:
        """List the deltas of a partition in a range of positions, in their order."""
        wanted = [
            position
            for position in self.positions(partition)
            if position > after and (upto is None or position <= upto)
        ]
        return [self.delta(partition, position) for position in wanted]

    def children(self, parent: Any) -> Iterator[Record]:
        """List the children of an object below a table."""
        for name in self.child_ids(directory_of(parent)):
            found = self._below(parent, name)
            if found is not None:
                yield found

    def _newest_active(self, table: Table) -> str | None:
        # deltacat loses the active version when a version that is not active is added.
        versions = [
            record.id
            for record in self.children(table)
            if isinstance(record, TableVersion) and record.state is LifecycleState.ACTIVE
        ]
        return max(versions, key=version_order, default=None)

    def _table_in(self, parent: Namespace, name: str) -> Table | None:
        found = self._named(parent.id, (parent.name, name))
        return codecs.with_names(found, parent.name) if isinstance(found, Table) else None

    def _named(self, parent: str, parts: tuple[str, ...]) -> Record | None:
        prefix = f"{parent}/" if parent else ""
        for name in naming.name_digests(self.layout, parts):
            target = self.target_of(prefix + name)
            if target is not None:
                return self.record_at(prefix + target)
        return None

    def _below(self, parent: Any, name: str) -> Record | None:
        found = self.record_at(f"{directory_of(parent)}/{name}")
        return None if found is None else _adopted(found, parent)


def _adopted(record: Any, parent: Any) -> Any:
    above = parent.locator
    return replace(record, locator=replace(record.locator, parent=above))


def version_order(version: str) -> tuple[str, int]:
    """Order table versions: by their prefix, then by their number."""
    prefix, _, number = version.rpartition(".")
    return prefix, int(number)
