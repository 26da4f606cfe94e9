"""The catalog as the Iceberg handlers use it: a namespace, and what Iceberg needs beyond it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Final

from lance_namespace import (
    DescribeNamespaceRequest,
    LanceNamespace,
    NamespaceExistsRequest,
    TableExistsRequest,
)
from lance_namespace.errors import LanceNamespaceError

from lakeroot.model.commits import (
    AlterNamespace,
    AlterTable,
    Change,
    Commit,
    DeclareTable,
    Unchanged,
)
from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Namespace, Table
from lakeroot.server.iceberg.errors import no_such_namespace, no_such_table, unsupported
from lakeroot.server.iceberg.settings import IcebergSettings
from lakeroot.server.vending import Vending
from lakeroot.storage.contract import Store, View
from lakeroot.storage.iceberg_rest.store import IcebergRestStore

_LOCKS: Final = 256
MIRROR: Final = "iceberg.mirror"
SCAN_PLANNING: Final = "iceberg.scan-planning"
_ON: Final = frozenset({"on", "true"})


@dataclass(slots=True)
class Catalog:
    """One catalog behind the Iceberg face."""

    namespace: LanceNamespace
    vending: Vending = field(default_factory=Vending)
    settings: IcebergSettings = field(default_factory=IcebergSettings)
    _locks: tuple[RLock, ...] = field(default_factory=lambda: tuple(RLock() for _ in range(_LOCKS)))

    @property
    def storage_options(self) -> Mapping[str, str]:
        """How the server itself opens the storage."""
        return self.vending.own

    def has_namespace(self, identifier: Identifier) -> bool:
        """Tell whether a namespace exists."""
        return _found(
            lambda: self.namespace.namespace_exists(NamespaceExistsRequest(id=list(identifier)))
        )

    def has_table(self, identifier: Identifier) -> bool:
        """Tell whether a table exists."""
        return _found(lambda: self.namespace.table_exists(TableExistsRequest(id=list(identifier))))

    def namespace_properties(self, identifier: Identifier) -> dict[str, str]:
        """The properties of a namespace."""
        answer = self.namespace.describe_namespace(DescribeNamespaceRequest(id=list(identifier)))
        return dict(answer.properties or {})

    def opted_in(self, identifier: Identifier, properties: Mapping[str, str], key: str) -> bool:
        """Tell whether a table wants something: it says so, or the nearest namespace does."""
        default = {MIRROR: self.settings.mirror, SCAN_PLANNING: self.settings.scan_planning}[key]
        if key in properties:
            return properties[key].lower() in _ON
        for end in range(len(identifier) - 1, 0, -1):
            inherited = self.namespace_properties(identifier[:end])
            if key in inherited:
                return inherited[key].lower() in _ON
        return default

    @contextmanager
    def committing(self, *identifiers: Identifier) -> Iterator[None]:
        """Let one commit at a time through for each table; between processes the store decides."""
        # A fixed number of locks, taken in order: names may share one, and memory stays flat.
        with ExitStack() as held:
            for place in sorted({hash(identifier) % _LOCKS for identifier in identifiers}):
                held.enter_context(self._locks[place])
            yield

    def record_of(self, identifier: Identifier) -> Table:
        """The table as the catalog keeps it."""
        record = self._store().read().get(identifier)
        if not isinstance(record, Table):
            raise no_such_table(identifier)
        return record

    def view(self) -> View | None:
        """What the catalog keeps, if that can be seen without a question for each object."""
        store: Store | None = getattr(getattr(self.namespace, "catalog", None), "store", None)
        return None if store is None or isinstance(store, IcebergRestStore) else store.read()

    def manages_versions(self) -> bool:
        """Tell whether the catalog is known to arbitrate the versions of a table made now."""
        store: Store | None = getattr(getattr(self.namespace, "catalog", None), "store", None)
        if store is None:
            return False
        store.read()  # it may have been switched since the last look
        return store.keeps_versions

    def alter_namespace(
        self, identifier: Identifier, change: Callable[[dict[str, str]], dict[str, str]]
    ) -> None:
        """Replace the properties of a namespace, if nobody else did meanwhile."""
        store = self._store()
        record = store.read().get(identifier)
        if not isinstance(record, Namespace):
            raise no_such_namespace(identifier)
        altered = AlterNamespace(identifier, change(dict(record.properties)))
        store.commit(Commit((altered,), (Unchanged(identifier, record),)))

    def alter_tables(self, *altered: tuple[Table, Mapping[str, str]]) -> None:
        """Replace the properties of tables, all or none, if they are still as they were read."""
        changes: tuple[Change, ...] = tuple(AlterTable(t.identifier, p) for t, p in altered)
        requires = tuple(Unchanged(table.identifier, table) for table, _ in altered)
        self._store().commit(Commit(changes, requires))

    def place(self, identifier: Identifier) -> str:
        """Choose where a new table goes."""
        store = self._store()
        return as_uri(store.uri(store.place(identifier)))

    def declare(self, identifier: Identifier, uri: str, properties: Mapping[str, str]) -> None:
        """Give a name to a place, in one step."""
        store = self._store()
        location = store.location_of(uri)
        store.commit(Commit((DeclareTable(identifier, location, dict(properties)),)))

    def require_inside(self, uri: str) -> None:
        """Refuse a place that is not the catalog's own."""
        self._store().location_of(uri)

    def _store(self) -> Store:
        store: Store | None = getattr(getattr(self.namespace, "catalog", None), "store", None)
        if store is None:
            raise unsupported("This catalog cannot keep properties of its own")
        return store


def as_uri(location: str) -> str:
    """Write a location as an absolute address, as Iceberg wants it."""
    location = location.rstrip("/")
    return f"file://{location}" if location.startswith("/") else location


def _found(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except (LanceNamespaceError, LakerootError) as problem:
        if int(problem.code) in (1, 4):
            return False
        raise
    return True
