"""Operations on tables as the catalog knows them: names, locations, properties."""

import contextlib
from collections.abc import Sequence

from lance_namespace import (
    CreateTableRequest,
    CreateTableResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DeregisterTableRequest,
    DeregisterTableResponse,
    DropTableRequest,
    DropTableResponse,
    LanceNamespaceError,
    ListTablesRequest,
    ListTablesResponse,
    RegisterTableRequest,
    RegisterTableResponse,
    RenameTableRequest,
    RenameTableResponse,
    TableExistsRequest,
    TableExistsResponse,
)
from msgspec.structs import replace

from lakeroot.catalog.modes import RegisterMode
from lakeroot.model.errors import (
    InvalidTableStateError,
    LakerootError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import DELIMITER, Identifier, identifier_of, show
from lakeroot.model.records import Table
from lakeroot.namespace.access import TableAccess
from lakeroot.namespace.border import ecosystem_error, operation
from lakeroot.tables import rows
from lakeroot.tables.arrow import ArrowData, check_new_schema
from lakeroot.tables.options import CreateMode, read_mode


class TableNameOperations(TableAccess):
    """Declare, create, register, list, rename, deregister and drop tables."""

    @operation(DeclareTableRequest)
    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Reserve a name and a location for a table that has no data yet."""
        declared = self.catalog.declare_table(
            identifier_of(request.id), request.properties, request.location
        )
        return self._declaration(declared, request)

    def declare_each(
        self, requests: Sequence[DeclareTableRequest]
    ) -> list[DeclareTableResponse | LanceNamespaceError]:
        """Declare tables for many callers at once, each with its own outcome."""
        given = [(identifier_of(one.id), one.properties, one.location) for one in requests]
        outcomes = zip(self.catalog.declare_each(given), requests, strict=True)
        return [
            ecosystem_error(made)
            if isinstance(made, LakerootError)
            else self._declaration(made, request)
            for made, request in outcomes
        ]

    def _declaration(self, declared: Table, request: DeclareTableRequest) -> DeclareTableResponse:
        return DeclareTableResponse(
            location=self.catalog.store.uri(declared.location),
            properties=dict(declared.properties),
            storage_options=self.vended(wanted=request.vend_credentials),
            managed_versioning=self.catalog.store.keeps_versions or None,
        )

    @operation(CreateTableRequest)
    def create_table(self, request: CreateTableRequest, request_data: bytes) -> CreateTableResponse:
        """Create a table with its first rows, by mode Create, ExistOk or Overwrite."""
        identifier = identifier_of(request.id)
        mode = read_mode(CreateMode, request.mode, CreateMode.CREATE)
        check_new_schema(ArrowData(request_data).schema)
        table, is_new = self._declared(identifier, request, mode)
        keeps = mode is CreateMode.EXIST_OK and not is_new and self.catalog.store.has_data(table)
        handle = self.handle(table, request.storage_options)
        try:
            written = rows.create(handle, request_data, mode=mode)
        except TableAlreadyExistsError as error:
            raise TableAlreadyExistsError(f"There is already a table {show(identifier)}") from error
        except LakerootError as error:
            self.refuse_another(table, error)
            if is_new:
                # If this fails too, the table stays declared, and can be created as such.
                with contextlib.suppress(LakerootError):
                    self.catalog.withdraw_table(table)
            raise
        if not is_new and not keeps:
            table = self._with_properties(table, request, mode)
        return CreateTableResponse(
            location=self.catalog.store.uri(table.location),
            version=written.version,
            properties=dict(table.properties),
            storage_options=self.vended(wanted=None),
        )

    def _declared(
        self, identifier: Identifier, request: CreateTableRequest, mode: CreateMode
    ) -> tuple[Table, bool]:
        """Declare the table, or find the one that is there."""
        try:
            return self.catalog.declare_table(identifier, request.properties), True
        except TableAlreadyExistsError:
            try:
                found = self.catalog.table(identifier)
            except TableNotFoundError:
                found = None
            # A table that is only declared is there to be created, in any mode.
            if found is None or (mode is CreateMode.CREATE and self.catalog.store.has_data(found)):
                raise
            return found, False

    def _with_properties(
        self, table: Table, request: CreateTableRequest, mode: CreateMode
    ) -> Table:
        """Give the new table its own properties; one that was only declared may keep its own."""
        properties = request.properties
        if properties is None:
            properties = {} if mode is CreateMode.OVERWRITE else dict(table.properties)
        if properties != table.properties:
            self.catalog.alter_table(table.identifier, properties)
        return replace(table, properties=properties)

    @operation(RegisterTableRequest)
    def register_table(self, request: RegisterTableRequest) -> RegisterTableResponse:
        """Give a name to the table at a location inside the root."""
        registered = self.catalog.register_table(
            identifier_of(request.id),
            request.location,
            request.properties,
            read_mode(RegisterMode, request.mode, RegisterMode.CREATE),
        )
        return RegisterTableResponse(
            location=self.catalog.store.uri(registered.location),
            properties=dict(registered.properties),
        )

    @operation(ListTablesRequest)
    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the names of the tables of a namespace, a page at a time."""
        page = self.catalog.list_tables(
            identifier_of(request.id),
            request.page_token,
            request.limit,
            include_declared=request.include_declared is not False,
        )
        return ListTablesResponse(tables=page.items, page_token=page.token)

    @operation(ListTablesRequest)
    def list_all_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the string identifiers of all tables, a page at a time."""
        page = self.catalog.list_all_tables(
            request.page_token,
            request.limit,
            include_declared=request.include_declared is not False,
        )
        return ListTablesResponse(
            tables=[DELIMITER.join(identifier) for identifier in page.items], page_token=page.token
        )

    @operation(TableExistsRequest)
    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """Say nothing if the table (and the version asked for) exists; raise if it does not."""
        table = self.catalog.table(identifier_of(request.id))
        if request.version is not None:
            self.require_version(table, request.version)
        return TableExistsResponse()

    @operation(DeregisterTableRequest)
    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """Take the name away and leave the data."""
        table = self.catalog.deregister_table(identifier_of(request.id))
        return DeregisterTableResponse(
            id=list(table.identifier),
            location=self._address(table),
            properties=dict(table.properties),
        )

    @operation(DropTableRequest)
    def drop_table(self, request: DropTableRequest) -> DropTableResponse:
        """Take the name away and delete the data."""
        identifier = identifier_of(request.id)
        table = self.catalog.drop_table(identifier)
        return DropTableResponse(
            id=list(identifier),
            location=self._address(table) if table else None,
            properties=dict(table.properties) if table else None,
        )

    def _address(self, table: Table) -> str | None:
        """Say where a table was that has lost its name; nothing if that cannot be said."""
        try:
            return self.catalog.store.uri(table.location)
        except InvalidTableStateError:
            return None

    @operation(RenameTableRequest)
    def rename_table(self, request: RenameTableRequest) -> RenameTableResponse:
        """Give a table another name, in the same namespace or another."""
        identifier = identifier_of(request.id)
        parent = (
            identifier[:-1]
            if request.new_namespace_id is None
            else identifier_of(request.new_namespace_id)
        )
        self.catalog.rename_table(identifier, (*parent, request.new_table_name))
        return RenameTableResponse()
