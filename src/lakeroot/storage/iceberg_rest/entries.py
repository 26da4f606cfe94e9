"""Lance tables as entries of an Iceberg REST catalog: finding, listing and changing them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lakeroot.model.errors import (
    InvalidTableStateError,
    NotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.storage.iceberg_rest.client import Client, Json
from lakeroot.storage.iceberg_rest.faults import OutcomeUnknownError
from lakeroot.storage.iceberg_rest.placing import storage_options
from lakeroot.storage.iceberg_rest.properties import (
    KEYS,
    difference,
    owners_of_table,
    table_properties,
)
from lakeroot.storage.iceberg_rest.telling import AT_ONCE, Telling
from lakeroot.tables.iceberg import Definition, ManagedBy, last_column_id, read_definition


@dataclass(frozen=True, slots=True)
class Entry:
    """A Lance table that a catalog holds."""

    identifier: Identifier
    definition: Definition
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    metadata_location: str | None = None

    @property
    def location(self) -> str:
        """Where the data is."""
        return self.definition.location

    @property
    def properties(self) -> dict[str, str]:
        """The owner's properties."""
        return owners_of_table(self.definition.properties)

    @property
    def is_managed(self) -> bool:
        """Whether the catalog arbitrates the commits of the table."""
        if self.definition.managed_by is None:
            raise InvalidTableStateError(
                f"Table {show(self.identifier)} cannot be used",
                "its property `managed_by` is neither `storage` nor `impl`",
                "Correct the property in the Iceberg catalog",
            )
        return self.definition.managed_by is ManagedBy.IMPL

    @property
    def is_guarded(self) -> bool:
        """Whether no file of the server lies among the data."""
        return not (self.metadata_location or "").startswith(self.location + "/")


class Entries:
    """The Lance tables of one catalog."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.telling = Telling(client)

    def find(self, identifier: Identifier) -> Entry | None:
        """Find a Lance table; nothing if there is none of that name."""
        if len(identifier) < 2:
            return None
        try:
            return self.read(identifier, self._client.load_table(identifier))
        except NotFoundError:
            return None

    def get(self, identifier: Identifier) -> Entry:
        """Find a Lance table or say that there is none."""
        if len(identifier) < 2:
            raise TableNotFoundError(
                f"There is no table {show(identifier)}",
                "an Iceberg catalog keeps every table in a namespace",
            )
        return self.read(identifier, self._client.load_table(identifier))

    def everything(self) -> list[Entry]:
        """Read every Lance table of the catalog, several at a time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(self._tables_in, self._all_namespaces(pool))
            tables = [table for level in found for table in level]
            return [entry for entry in pool.map(self.find, tables) if entry is not None]

    def all_names(self, under: Identifier = ()) -> list[Identifier]:
        """List every Lance table of the catalog, or of a namespace at any depth, sorted."""
        return sorted((*n, name) for n in self._from(under) for name in self._names_in(n))

    def every_name(self, under: Identifier = ()) -> list[Identifier]:
        """List every table that may be ours or become ours, a name that is reserved too."""
        return sorted(name for n in self._from(under) for name in self._tables_in(n, reserved=True))

    def all_namespaces(self) -> list[Identifier]:
        """List every namespace of the catalog."""
        return self._from(())

    def _from(self, under: Identifier) -> list[Identifier]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [*([under] if under else []), *self._all_namespaces(pool, under)]

    def _all_namespaces(self, pool: ThreadPoolExecutor, under: Identifier = ()) -> list[Identifier]:
        found: list[Identifier] = []
        level: list[Identifier] = [under]
        while level:
            level = [child for below in pool.map(self._namespaces_in, level) for child in below]
            found += level
        return found

    def _names_in(self, namespace: Identifier) -> list[str]:
        try:
            return self.telling.names(namespace)
        except NotFoundError:
            return []  # dropped since it was listed

    def _tables_in(self, namespace: Identifier, *, reserved: bool = False) -> list[Identifier]:
        try:
            listed = self._client.list_tables(namespace)
        except NotFoundError:
            return []
        return [(*namespace, e["name"]) for e in listed if reserved or self.telling.may_be_lance(e)]

    def _namespaces_in(self, namespace: Identifier) -> list[Identifier]:
        try:
            return self._client.list_namespaces(namespace)
        except NotFoundError:
            return []

    def rename(self, entry: Entry, new_identifier: Identifier) -> None:
        """Give a table another name; a lost answer is found out."""
        try:
            self._client.rename_table(entry.identifier, new_identifier)
        except OutcomeUnknownError:
            if self._has_moved(entry, new_identifier):
                return
            try:
                self._client.rename_table(entry.identifier, new_identifier)
            except (NotFoundError, TableAlreadyExistsError):
                # It may be our own earlier request, which was slow and not lost.
                if not self._has_moved(entry, new_identifier):
                    raise

    def _has_moved(self, entry: Entry, new_identifier: Identifier) -> bool:
        moved = self.find(new_identifier)
        return moved is not None and moved.definition.uuid == entry.definition.uuid

    def remove(self, entry: Entry, *, keep_data: bool) -> None:
        """Take a table out of the catalog. The data is never deleted by the server."""
        if keep_data and not entry.is_guarded and not self._client.config.trust_drop:
            raise InvalidTableStateError(
                f"The table {show(entry.identifier)} cannot be deregistered safely",
                "the catalog's own files lie among its data, and some catalogs delete both",
                "Set `trust_drop` to true if this catalog keeps the files of a table it drops",
            )
        self._client.drop_table(entry.identifier)

    def set_properties(self, entry: Entry, properties: Mapping[str, str]) -> None:
        """Replace the owner's properties. Doing it twice is doing it once."""
        owners = {*entry.properties, KEYS}
        before = {k: v for k, v in entry.definition.properties.items() if k in owners}
        updates, removals = difference(before, self._kept(properties))
        changes: list[Json] = []
        if updates:
            changes.append({"action": "set-properties", "updates": updates})
        if removals:
            changes.append({"action": "remove-properties", "removals": removals})
        if not changes:
            return
        try:
            self.commit(entry, [], changes)
        except OutcomeUnknownError:
            self.commit(entry, [], changes)

    def _kept(self, properties: Mapping[str, str]) -> Mapping[str, str]:
        return properties if self._client.server.is_native else table_properties(properties)

    def commit(self, entry: Entry, requirements: Sequence[Json], updates: Sequence[Json]) -> None:
        """Commit updates to a table, as long as it is the same table that was read."""
        same = [{"type": "assert-table-uuid", "uuid": entry.definition.uuid}]
        self._client.update_table(
            entry.identifier,
            [*(same if entry.definition.uuid else []), *requirements],
            updates,
        )

    def read(self, identifier: Identifier, told: Json) -> Entry:
        """Read a Lance table from the answer of a load or a create."""
        definition = read_definition(told.get("metadata"), show(identifier))
        configured = self._client.config.storage_options
        location = told.get("metadata-location")
        return Entry(
            identifier,
            definition,
            storage_options(told, configured, definition.location),
            location if isinstance(location, str) else None,
        )


def schema_updates(schema: Mapping[str, Any], last_column: int) -> list[Json]:
    """Say how a table gets another current schema."""
    highest = max(last_column_id(dict(schema)), last_column)
    return [
        {"action": "add-schema", "schema": dict(schema), "last-column-id": highest},
        {"action": "set-current-schema", "schema-id": -1},
    ]


def snapshot_updates(snapshots: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Say how a table gets more versions, the last of which becomes the current one."""
    if not snapshots:
        return []
    added: list[Json] = [{"action": "add-snapshot", "snapshot": dict(s)} for s in snapshots]
    return [*added, set_main(snapshots[-1]["snapshot-id"])]


def set_main(version: int) -> Json:
    """Say that a version is the current one."""
    return {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "type": "branch",
        "snapshot-id": version,
    }
