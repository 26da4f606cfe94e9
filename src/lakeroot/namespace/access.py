"""Getting at the inside of a table by its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakeroot.catalog import Catalog
from lakeroot.model.identifiers import identifier_of
from lakeroot.model.records import Table
from lakeroot.tables.handle import TableHandle, working_on


class TableAccess:
    """A catalog, and how its tables are opened."""

    catalog: Catalog
    vends_storage_options: bool = True

    def handle(self, table: Table, storage_options: Mapping[str, str] | None = None) -> TableHandle:
        """Make a handle on a table; a catalog that keeps versions arbitrates its commits."""
        store = self.catalog.store
        return TableHandle(
            store.uri(table.location),
            {**store.root.storage_options, **(storage_options or {})} or None,
            namespace_client=self if store.keeps_versions else None,
            table_id=table.identifier,
            managed=store.keeps_versions,
        )

    def handle_of(self, names: Any) -> TableHandle:
        """Make a handle on the table of a request."""
        return self.handle(self.catalog.table(identifier_of(names)))

    def require_version(self, table: Table, version: int) -> None:
        """Refuse a version that the table does not have."""
        with working_on(self.handle(table), "Looking for the version") as bench:
            bench.open(version=version)

    def vended(self, *, wanted: bool | None) -> dict[str, str] | None:
        """Give the options that open the storage, to those who may have them."""
        options = dict(self.catalog.store.root.storage_options)
        may_have = self.vends_storage_options and wanted is not False
        return options if options and may_have else None


def complete_uri(address: str) -> str:
    """Write an address as a complete URI."""
    return address if "://" in address else Path(address).as_uri()
