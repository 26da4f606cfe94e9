"""Reading the names of a catalog: through its namespace, or, quicker to start, straight from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from lakeroot.catalog import Catalog
from lakeroot.lake.calls import Calls
from lakeroot.model.errors import LakerootError, NamespaceNotFoundError, TableNotFoundError
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.storage.contract import HistoryEntry


class Names(Protocol):
    """What a lake asks about names."""

    def namespaces(self, parent: Identifier) -> list[str]:
        """List the namespaces below one."""

    def tables(self, parent: Identifier) -> list[str]:
        """List the tables of a namespace."""

    def all_tables(self) -> list[Identifier]:
        """List every table."""

    def properties(self, namespace: Identifier) -> dict[str, str]:
        """Give the properties of a namespace."""

    def has_table(self, identifier: Identifier) -> bool:
        """Tell whether there is a table of this name."""


class OwnNames:
    """Names from a catalog of ours: nothing of the Lance ecosystem has to be loaded."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def namespaces(self, parent: Identifier) -> list[str]:
        """List the namespaces below one."""
        with translated():
            return list(self.catalog.list_namespaces(parent).items)

    def tables(self, parent: Identifier) -> list[str]:
        """List the tables of a namespace."""
        with translated():
            return list(self.catalog.list_tables(parent).items)

    def all_tables(self) -> list[Identifier]:
        """List every table."""
        with translated():
            return list(self.catalog.list_all_tables().items)

    def properties(self, namespace: Identifier) -> dict[str, str]:
        """Give the properties of a namespace."""
        with translated():
            return dict(self.catalog.describe_namespace(namespace).properties)

    def has_table(self, identifier: Identifier) -> bool:
        """Tell whether there is a table of this name."""
        with translated():
            try:
                self.catalog.table(identifier)
            except (TableNotFoundError, NamespaceNotFoundError):
                return False
            return True

    def history(self, limit: int | None) -> list[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        with translated():
            return list(self.catalog.history(limit))


class ForeignNames:
    """Names from any Lance namespace, page by page."""

    def __init__(self, namespace: Any) -> None:
        self._calls = Calls(namespace)

    def namespaces(self, parent: Identifier) -> list[str]:
        """List the namespaces below one."""
        return self._pages("list_namespaces", list(parent), "namespaces")

    def tables(self, parent: Identifier) -> list[str]:
        """List the tables of a namespace."""
        return self._pages("list_tables", list(parent), "tables")

    def all_tables(self) -> list[Identifier]:
        """List every table."""
        found = self._pages("list_all_tables", [], "tables")
        return [tuple(name.split(DELIMITER)) for name in found]

    def properties(self, namespace: Identifier) -> dict[str, str]:
        """Give the properties of a namespace."""
        found = self._calls.describe_namespace({"id": list(namespace)})
        return dict(found.properties or {})

    def has_table(self, identifier: Identifier) -> bool:
        """Tell whether there is a table of this name."""
        from lance_namespace import NamespaceNotFoundError as NoNamespace
        from lance_namespace import TableNotFoundError as NoTable

        try:
            self._calls.table_exists({"id": list(identifier)})
        except (NoTable, NoNamespace):
            return False
        return True

    def _pages(self, operation: str, identifier: list[str], field: str) -> list[str]:
        names: list[str] = []
        token = None
        while True:
            page = getattr(self._calls, operation)({"id": identifier, "page_token": token})
            names += getattr(page, field)
            token = page.page_token
            if not token:
                return names


@contextmanager
def translated() -> Iterator[None]:
    """Raise our errors as those that every Lance namespace raises."""
    try:
        yield
    except LakerootError as error:
        from lakeroot.namespace.border import ecosystem_error

        raise ecosystem_error(error) from error
