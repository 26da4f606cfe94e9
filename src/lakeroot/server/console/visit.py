"""One look at the catalog: who looks, at which moment, and what they may see."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from lance import LanceDataset
from lance_namespace import (
    DescribeTableRequest,
    LanceNamespace,
    ListNamespacesRequest,
    ListTablesRequest,
)

from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.server import listing
from lakeroot.server.identity.access import Access, Role
from lakeroot.server.identity.denials import require_table
from lakeroot.tables.handle import TableHandle, working_on

PAGE: Final = 50
_PAGE_OF_ALL: Final = 1000


@dataclass(frozen=True, slots=True)
class Visit:
    """A catalog, now or as it was, in the hands of one person."""

    namespace: LanceNamespace
    access: Access
    query: dict[str, str] = field(default_factory=dict)
    at: int | None = None
    origin: str = ""

    def text(self, name: str) -> str:
        """A field of the query, empty if it was not given."""
        return self.query.get(name, "").strip()

    def number(self, name: str, default: int, most: int = 2**53) -> int:
        """A field of the query that is a whole number."""
        return whole_number(self.text(name), name, default, most)

    def namespaces(
        self, parent: Identifier, after: str | None, limit: int
    ) -> tuple[list[str], str | None]:
        """A page of the child namespaces that the person may see, and the next page's token."""
        request = ListNamespacesRequest(id=list(parent), page_token=after, limit=limit)
        found = listing.namespaces_for(self.namespace, request, self.access)
        return list(found.namespaces), found.page_token or None

    def tables(
        self, parent: Identifier, after: str | None, limit: int
    ) -> tuple[list[str], str | None]:
        """A page of the tables that the person may see, and the next page's token."""
        request = ListTablesRequest(id=list(parent), page_token=after, limit=limit)
        found = listing.tables_for(self.namespace, request, self.access)
        return list(found.tables), found.page_token or None

    def all_tables(self) -> Iterator[Identifier]:
        """Every table that the person may see, in order."""
        for identifier in self._every_table():
            if self.access.unlimited or self.access.role_on(identifier) is not None:
                yield identifier

    def _every_table(self) -> Iterator[Identifier]:
        if isinstance(self.namespace, LakerootNamespace):
            # In one go: a page costs as much as all of them together.
            yield from self.namespace.catalog.store.read().all_tables(None, None)
            return
        after: str | None = None
        while True:
            request = ListTablesRequest(page_token=after, limit=_PAGE_OF_ALL)
            found = self.namespace.list_all_tables(request)
            for name in found.tables:
                yield tuple(name.split(DELIMITER))
            after = found.page_token
            if not after:
                return

    def described(self, identifier: Identifier) -> Any:
        """What the catalog says of a table that the person may read."""
        require_table(self.access, identifier, Role.READER)
        request = DescribeTableRequest(id=list(identifier), check_declared=True)
        return self.namespace.describe_table(request)

    @contextmanager
    def opened(
        self, identifier: Identifier, doing: str, version: int | None = None
    ) -> Iterator[LanceDataset]:
        """Open a table that the person may read; what goes wrong is an error of the catalog."""
        require_table(self.access, identifier, Role.READER)
        with working_on(self._handle(identifier), doing) as table:
            yield table.open(version=version)

    @property
    def has_trash(self) -> bool:
        """Whether a table that is dropped can be brought back for a while."""
        return bool(getattr(self.namespace, "has_trash", False))

    def ours(self, operation: str) -> Any:
        """An operation that only Lakeroot's catalogs have."""
        found = getattr(self.namespace, operation, None)
        if found is None:
            raise UnsupportedOperationError(
                f"This catalog has no {operation}",
                "it is kept by an implementation without it",
                "Serve a directory catalog of Lakeroot to have it",
            )
        return found

    def _handle(self, identifier: Identifier) -> TableHandle:
        if isinstance(self.namespace, LakerootNamespace):
            # The catalog's own way: it knows the storage options, which it may not hand out.
            return self.namespace.handle_of(identifier)
        found = self.namespace.describe_table(DescribeTableRequest(id=list(identifier)))
        return TableHandle(found.location or "", found.storage_options)


def whole_number(text: str, name: str, default: int, most: int = 2**53) -> int:
    """Read a whole number that a person wrote into an address or a form."""
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16:
        raise InvalidInputError(f"{name} is a whole number, not {text[:40]!r}")
    return min(int(text), most)
