"""Getting at the inside of a table by its name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakeroot.catalog import Catalog
from lakeroot.model.errors import (
    ConcurrentModificationError,
    LakerootError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import identifier_of, show
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

    @contextmanager
    def at_work(self, names: Any) -> Iterator[TableHandle]:
        """Make a handle to work on the table of a request; failures are told as what they are."""
        with self.at_work_on(self.catalog.table(identifier_of(names))) as handle:
            yield handle

    @contextmanager
    def at_work_on(self, table: Table) -> Iterator[TableHandle]:
        """Work on a table that was found; if the work fails, see whether it is still there."""
        try:
            yield self.handle(table)
        except LakerootError as error:
            self.refuse_another(table, error)
            raise

    def refuse_another(self, table: Table, error: LakerootError) -> None:
        """See whether a table on which work failed is still there, and say so if it is not.

        Whatever fails on the files of a table that somebody drops says nothing of the cause. If
        the look fails, that says nothing of it either, and the error stays as it is.
        """
        try:
            found = self.catalog.table(table.identifier)
        except (TableNotFoundError, NamespaceNotFoundError) as gone:
            raise gone from error
        except LakerootError:
            return
        if found.location != table.location:
            raise ConcurrentModificationError(
                f"{show(table.identifier)} is another table now",
                "it was dropped and made again meanwhile",
                "Look at the table that is there now, then repeat the operation",
            ) from error

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
