"""A Lakeroot catalog as a Lance namespace."""

from typing import Any, Self

from lance_namespace import LanceNamespace

from lakeroot.catalog import Catalog
from lakeroot.namespace.index_operations import IndexOperations
from lakeroot.namespace.job_operations import JobOperations
from lakeroot.namespace.names import NamespaceOperations
from lakeroot.namespace.ref_operations import RefOperations
from lakeroot.namespace.row_operations import RowOperations
from lakeroot.namespace.schema_operations import SchemaOperations
from lakeroot.namespace.table_names import TableNameOperations
from lakeroot.namespace.transaction import Transaction
from lakeroot.namespace.version_operations import VersionOperations


class LakerootNamespace(
    NamespaceOperations,
    TableNameOperations,
    SchemaOperations,
    RowOperations,
    IndexOperations,
    RefOperations,
    VersionOperations,
    JobOperations,
    LanceNamespace,
):
    """All operations of the Lance namespace over a catalog of any kind."""

    def __init__(self, catalog: Catalog, *, vends_storage_options: bool = True) -> None:
        self.catalog = catalog
        self.vends_storage_options = vends_storage_options

    def namespace_id(self) -> str:
        """Name this namespace and where it is; never with credentials."""
        return f"{type(self).__name__} {{ root: {self.catalog.store.root.uri!r} }}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.catalog.store.root.uri}>"

    def transaction(self, message: str = "") -> Transaction:
        """Change several tables in one atomic step: ``with namespace.transaction("…") as tx``."""
        return Transaction(self, message)

    def close(self) -> None:
        """Let go of whatever the catalog holds open."""
        self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
