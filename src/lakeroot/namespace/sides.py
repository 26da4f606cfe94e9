"""One side of a sync: any Lance namespace, asked by the operations of the specification alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import lance_namespace as spec
from lance_namespace import LanceNamespace

from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.objects import Streams, open_root, parse_root
from lakeroot.tables.versions import VERSIONS


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a catalog says of a table, and the files it says it of."""

    location: str
    properties: Mapping[str, str]
    storage_options: Mapping[str, str] = field(repr=False)

    @property
    def place(self) -> str:
        """The location, written the same way by every catalog."""
        return parse_root(self.location).uri.rstrip("/")

    @property
    def files(self) -> Streams:
        """The files of the table."""
        return open_root(parse_root(self.location, self.storage_options))

    @property
    def has_data(self) -> bool:
        """Whether the table has been written, or is only declared."""
        return self.files.has_any(VERSIONS)


class Side:
    """A catalog that is compared with another, or made equal to it."""

    def __init__(self, client: LanceNamespace) -> None:
        self._client: Any = client

    def namespaces(self, parent: Identifier) -> Iterator[str]:
        """List the names of all child namespaces."""
        ask = self._client.list_namespaces
        return _all(lambda token: ask(_page(spec.ListNamespacesRequest, parent, token)))

    def tables(self, parent: Identifier) -> Iterator[str]:
        """List the names of all child tables."""
        ask = self._client.list_tables
        return _all(lambda token: ask(_page(spec.ListTablesRequest, parent, token)))

    def namespace(self, identifier: Identifier) -> dict[str, str] | None:
        """Give the properties of a namespace; nothing if there is none."""
        request = spec.DescribeNamespaceRequest(id=list(identifier))
        try:
            return dict(self._client.describe_namespace(request).properties or {})
        except spec.NamespaceNotFoundError:
            return None

    def table(self, identifier: Identifier) -> TableFacts | None:
        """Describe a table; nothing if there is none."""
        try:
            found = self._client.describe_table(spec.DescribeTableRequest(id=list(identifier)))
        except (spec.TableNotFoundError, spec.NamespaceNotFoundError):
            return None
        return TableFacts(
            found.location, dict(found.properties or {}), dict(found.storage_options or {})
        )

    def finish_versions(self, identifier: Identifier) -> None:
        """Have the catalog put the newest version into place, or take it up, if it must."""
        request = spec.ListTableVersionsRequest(id=list(identifier), limit=1, descending=True)
        self._client.list_table_versions(request)

    def create_namespace(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """Create a namespace."""
        self._client.create_namespace(
            spec.CreateNamespaceRequest(id=list(identifier), properties=dict(properties))
        )

    def declare_table(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """Declare a table, where the catalog wants it."""
        self._client.declare_table(
            spec.DeclareTableRequest(id=list(identifier), properties=dict(properties))
        )

    def register_table(
        self, identifier: Identifier, location: str, properties: Mapping[str, str]
    ) -> None:
        """Give a name to a table that is at a location."""
        self._client.register_table(
            spec.RegisterTableRequest(
                id=list(identifier), location=location, properties=dict(properties)
            )
        )

    def alter_namespace(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """Replace the properties of a namespace."""
        self._own(identifier).catalog.alter_namespace(identifier, properties)

    def alter_table(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """Replace the properties of a table."""
        self._own(identifier).catalog.alter_table(identifier, properties)

    def _own(self, identifier: Identifier) -> LakerootNamespace:
        if isinstance(self._client, LakerootNamespace):
            return self._client
        raise UnsupportedOperationError(
            f"The properties of {show(identifier)} cannot be changed",
            "the specification has no operation for it",
            "Open the catalog with Lakeroot, or change them there",
        )


def _page(model: Any, parent: Identifier, token: str | None) -> Any:
    return model(id=list(parent), page_token=token)


def _all(ask: Callable[[str | None], Any]) -> Iterator[str]:
    token: str | None = None
    while True:
        page = ask(token)
        yield from getattr(page, "tables", None) or getattr(page, "namespaces", None) or ()
        token = page.page_token
        if not token:
            return
