"""Operations on namespaces."""

from lance_namespace import (
    CreateNamespaceRequest,
    CreateNamespaceResponse,
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    DropNamespaceRequest,
    DropNamespaceResponse,
    ListNamespacesRequest,
    ListNamespacesResponse,
    NamespaceExistsRequest,
    NamespaceExistsResponse,
)

from lakeroot.catalog import Catalog
from lakeroot.catalog.modes import DropBehavior, DropMode
from lakeroot.model.identifiers import identifier_of
from lakeroot.namespace.border import operation
from lakeroot.tables.options import CreateMode, read_mode


class NamespaceOperations:
    """Create, list, describe and drop namespaces."""

    catalog: Catalog

    @operation(CreateNamespaceRequest)
    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """Create a namespace, by mode Create, ExistOk or Overwrite."""
        mode = read_mode(CreateMode, request.mode, CreateMode.CREATE)
        created = self.catalog.create_namespace(identifier_of(request.id), request.properties, mode)
        return CreateNamespaceResponse(properties=dict(created.properties))

    @operation(ListNamespacesRequest)
    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        """List the names of child namespaces, a page at a time."""
        page = self.catalog.list_namespaces(
            identifier_of(request.id), request.page_token, request.limit
        )
        return ListNamespacesResponse(namespaces=page.items, page_token=page.token)

    @operation(DescribeNamespaceRequest)
    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        """Give the properties of a namespace."""
        found = self.catalog.describe_namespace(identifier_of(request.id))
        return DescribeNamespaceResponse(properties=dict(found.properties))

    @operation(DropNamespaceRequest)
    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """Drop a namespace, by mode Fail or Skip and behavior Restrict or Cascade."""
        dropped = self.catalog.drop_namespace(
            identifier_of(request.id),
            read_mode(DropMode, request.mode, DropMode.FAIL),
            read_mode(DropBehavior, request.behavior, DropBehavior.RESTRICT),
        )
        return DropNamespaceResponse(properties=dict(dropped.properties) if dropped else None)

    @operation(NamespaceExistsRequest)
    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """Say nothing if the namespace exists; raise if it does not."""
        self.catalog.describe_namespace(identifier_of(request.id))
        return NamespaceExistsResponse()
