"""Looking at an Iceberg REST catalog: nothing is asked before it is needed, nor twice."""

from lakeroot.model.errors import NamespaceNotFoundError
from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.model.records import Namespace, Record, Table
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.entries import Entries, Entry
from lakeroot.storage.iceberg_rest.properties import created_at, owners_of_namespace


class EntryTable(Table, frozen=True, eq=False, kw_only=True):
    """A table that remembers the entry it was read from, so that its files open without a look."""

    entry: Entry

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and _known(self) == _known(other)

    def __ne__(self, other: object) -> bool:
        # A struct compares itself and asks no method of ours.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.identifier)


def _known(table: Table) -> tuple[object, ...]:
    return table.identifier, table.location, dict(table.properties), table.created_at_ms


class IcebergView:
    """What a catalog holds; each object as of the moment it is first asked for."""

    def __init__(
        self, client: Client, entries: Entries, fresh: frozenset[str] = frozenset()
    ) -> None:
        self._client = client
        self._entries = entries
        self._fresh = fresh
        self._seen: dict[Identifier, Record | None] = {}

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of this identifier; the root is a namespace."""
        if identifier not in self._seen:
            self._seen[identifier] = self._look(identifier)
        return self._seen[identifier]

    def is_empty(self, identifier: Identifier) -> bool:
        """Tell whether a namespace has no tables, of any format, and no namespaces."""
        return not self._client.list_namespaces(identifier) and not (
            identifier and self._client.list_tables(identifier)
        )

    def owner_of(self, location: str) -> Identifier | None:
        """Give the table that is at a location.

        The protocol has no such question, so every table is looked at; except for a location that
        was made up a moment ago and cannot have an owner, and on a server that sees to it itself.
        """
        if location in self._fresh or self._client.server.is_native:
            return None
        wanted = location.rstrip("/")
        owners = (e.identifier for e in self._entries.everything() if e.location == wanted)
        return next(owners, None)

    def namespaces(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child namespaces, sorted, starting after a name."""
        names = sorted(child[-1] for child in self._client.list_namespaces(parent))
        return [name for name in names if after is None or name > after][:limit]

    def tables(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child tables, sorted, starting after a name."""
        return self._entries.telling.names(parent, after, limit)

    def all_tables(self, after: Identifier | None, limit: int | None) -> list[Identifier]:
        """List every table of the catalog, sorted, starting after an identifier."""
        found = self._entries.all_names()
        return [table for table in found if after is None or table > after][:limit]

    def _look(self, identifier: Identifier) -> Record | None:
        if identifier == ROOT:
            return Namespace(ROOT)
        entry = self._entries.find(identifier)
        if entry is not None:
            return table_of(entry)
        try:
            kept = self._client.load_namespace(identifier)
        except NamespaceNotFoundError:
            return None
        return Namespace(identifier, owners_of_namespace(kept), created_at(kept))


def table_of(entry: Entry) -> Table:
    """Tell an entry as a table."""
    made = created_at(entry.definition.properties)
    return EntryTable(entry.identifier, entry.location, entry.properties, made, entry=entry)
