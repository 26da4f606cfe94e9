"""Operations on the shape of a table: its description, columns, metadata, transactions."""

from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAddColumnsResponse,
    AlterTableAlterColumnsRequest,
    AlterTableAlterColumnsResponse,
    AlterTableDropColumnsRequest,
    AlterTableDropColumnsResponse,
    AlterTransactionRequest,
    AlterTransactionResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    DescribeTransactionRequest,
    DescribeTransactionResponse,
    GetTableStatsRequest,
    GetTableStatsResponse,
    UpdateFieldMetadataRequest,
    UpdateFieldMetadataResponse,
    UpdateTableSchemaMetadataRequest,
    UpdateTableSchemaMetadataResponse,
)
from lance_namespace_urllib3_client.models import (
    AlterTransactionAction,
    FragmentStats,
    FragmentSummary,
    JsonArrowSchema,
    TableBasicStats,
)

from lakeroot.catalog.versions import TableVersions
from lakeroot.model.errors import (
    InvalidInputError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import identifier_of, show
from lakeroot.model.records import Table
from lakeroot.namespace.access import TableAccess, complete_uri
from lakeroot.namespace.border import operation
from lakeroot.tables import columns, describe, transactions
from lakeroot.tables.arrow_json import schema_to_json, type_from_json
from lakeroot.tables.computed import declare_computed
from lakeroot.tables.job_notes import files_beside, find_job_note


class SchemaOperations(TableAccess):
    """Describe tables; add, alter and drop columns; note things about them."""

    @operation(DescribeTableRequest)
    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """Describe a table: where it is and, if asked, what is in it."""
        table = self.catalog.table(identifier_of(request.id))
        store = self.catalog.store
        uri = store.uri(table.location)
        response = DescribeTableResponse(
            table=table.identifier[-1],
            namespace=list(table.identifier[:-1]),
            location=uri,
            table_uri=complete_uri(uri) if request.with_table_uri else None,
            storage_options=self.vended(wanted=request.vend_credentials),
            properties=dict(table.properties),
            managed_versioning=store.keeps_versions or None,
        )
        asks_for_one = request.version is not None or request.tag or request.branch
        if request.load_detailed_metadata or asks_for_one:
            self._describe_inside(table, request, response)
        elif request.check_declared:
            response.is_only_declared = not store.has_data(table)
        if store.is_past and store.keeps_versions and response.version is None:
            response.version = TableVersions(self.catalog).latest(table) or None
        return response

    def _describe_inside(
        self, table: Table, request: DescribeTableRequest, response: DescribeTableResponse
    ) -> None:
        response.is_only_declared = not self.catalog.store.has_data(table)
        if response.is_only_declared:
            if request.version is not None or request.tag or request.branch:
                raise TableNotFoundError(
                    f"{show(table.identifier)} has no versions", "it is only declared"
                )
            return
        found = describe.describe(
            self.handle(table), version=request.version, tag=request.tag, branch=request.branch
        )
        response.version = found.version
        response.var_schema = JsonArrowSchema.from_dict(schema_to_json(found.schema))
        response.metadata = dict(found.metadata)
        response.stats = TableBasicStats(
            num_deleted_rows=found.num_deleted_rows, num_fragments=found.num_fragments
        )

    @operation(GetTableStatsRequest)
    def get_table_stats(self, request: GetTableStatsRequest) -> GetTableStatsResponse:
        """Measure a table."""
        with self.at_work(request.id) as handle:
            found = describe.table_stats(handle, branch=request.branch)
        lengths = found.lengths
        return GetTableStatsResponse(
            total_bytes=found.total_bytes,
            num_rows=found.num_rows,
            num_indices=found.num_indices,
            fragment_stats=FragmentStats(
                num_fragments=found.num_fragments,
                num_small_fragments=found.num_small_fragments,
                lengths=FragmentSummary(
                    min=lengths.min,
                    max=lengths.max,
                    mean=lengths.mean,
                    p25=lengths.p25,
                    p50=lengths.p50,
                    p75=lengths.p75,
                    p99=lengths.p99,
                ),
            ),
        )

    @operation(AlterTableAddColumnsRequest)
    def alter_table_add_columns(
        self, request: AlterTableAddColumnsRequest
    ) -> AlterTableAddColumnsResponse:
        """Add columns by SQL expressions: computed now, or declared for a backfill to fill."""
        now: dict[str, str] = {}
        later: dict[str, str] = {}
        for entry in request.new_columns:
            if entry.virtual_column is not None:
                raise _computed(entry.name)
            if entry.name in now or entry.name in later:
                raise InvalidInputError(f"The column {entry.name!r} is added twice")
            if entry.computed is None:
                now[entry.name] = entry.expression or ""
            elif entry.expression is None:
                later[entry.name] = entry.computed
            else:
                raise InvalidInputError(
                    f"The column {entry.name!r} has an expression and is computed too",
                    fix="Give `expression` to fill it now, or `computed` to fill it by a backfill",
                )
        if now and later:
            # They are changes of different kinds, and one request is one version or none.
            raise InvalidInputError(
                "Columns with an `expression` and `computed` ones cannot be added together",
                fix="Add them in two requests",
            )
        add = declare_computed if later else columns.add_columns
        with self.at_work(request.id) as handle:
            done = add(handle, later or now, branch=request.branch)
        return AlterTableAddColumnsResponse(version=done.version)

    @operation(AlterTableAlterColumnsRequest)
    def alter_table_alter_columns(
        self, request: AlterTableAlterColumnsRequest
    ) -> AlterTableAlterColumnsResponse:
        """Rename columns, change their types or whether they may hold nulls."""
        for entry in request.alterations:
            if entry.virtual_column is not None:
                raise _computed(entry.path)
        alterations = [
            columns.ColumnAlteration(
                path=entry.path,
                rename=entry.rename,
                nullable=entry.nullable,
                data_type=None if entry.data_type is None else type_from_json(entry.data_type),
            )
            for entry in request.alterations
        ]
        with self.at_work(request.id) as handle:
            done = columns.alter_columns(handle, alterations, branch=request.branch)
        return AlterTableAlterColumnsResponse(version=done.version)

    @operation(AlterTableDropColumnsRequest)
    def alter_table_drop_columns(
        self, request: AlterTableDropColumnsRequest
    ) -> AlterTableDropColumnsResponse:
        """Drop columns."""
        with self.at_work(request.id) as handle:
            done = columns.drop_columns(handle, request.columns, branch=request.branch)
        return AlterTableDropColumnsResponse(
            transaction_id=done.transaction_id, version=done.version
        )

    @operation(UpdateTableSchemaMetadataRequest)
    def update_table_schema_metadata(
        self, request: UpdateTableSchemaMetadataRequest
    ) -> UpdateTableSchemaMetadataResponse:
        """Set keys of the schema's metadata; the others stay."""
        with self.at_work(request.id) as handle:
            done = columns.update_schema_metadata(
                handle, request.metadata or {}, branch=request.branch
            )
        return UpdateTableSchemaMetadataResponse(
            metadata=dict(done.metadata), transaction_id=done.transaction_id
        )

    @operation(UpdateFieldMetadataRequest)
    def update_field_metadata(
        self, request: UpdateFieldMetadataRequest
    ) -> UpdateFieldMetadataResponse:
        """Set metadata of fields."""
        updates = [
            columns.FieldMetadata(entry.path, entry.metadata or {}, replace=bool(entry.replace))
            for entry in request.updates
        ]
        with self.at_work(request.id) as handle:
            done = columns.update_field_metadata(handle, updates, branch=request.branch)
        return UpdateFieldMetadataResponse(
            version=done.version, fields={path: dict(found) for path, found in done.fields.items()}
        )

    @operation(DescribeTransactionRequest)
    def describe_transaction(
        self, request: DescribeTransactionRequest
    ) -> DescribeTransactionResponse:
        """Tell how a transaction went; its id is the table's, then a version or an id."""
        *table, transaction = _transaction(request.id)
        with self.at_work(table) as handle:
            # The id of a job, as a backfill or a refresh answers it, is asked after like this too.
            files = files_beside(handle.location, handle.storage_options)
            found = find_job_note(files, transaction) or transactions.describe_transaction(
                handle, transaction
            )
        return DescribeTransactionResponse(status=found.status, properties=dict(found.properties))

    @operation(AlterTransactionRequest)
    def alter_transaction(self, request: AlterTransactionRequest) -> AlterTransactionResponse:
        """Note things about a transaction."""
        *table, transaction = _transaction(request.id)
        actions = [_action(action) for action in request.actions]
        with self.at_work(table) as handle:
            found = transactions.alter_transaction(handle, transaction, actions)
        return AlterTransactionResponse(status=found.status, properties=dict(found.properties))


def _computed(column: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"The column {column!r} is computed by a function",
        "only SQL expressions can be computed here",
        "Give an `expression`, or backfill the column with a Spark job",
    )


def _transaction(names: list[str] | None) -> list[str]:
    if not names or len(names) < 2:
        raise InvalidInputError(
            "A transaction is named by its table and its own id",
            fix="Give the names of the table, then a version number or a transaction id",
        )
    return names


def _action(action: AlterTransactionAction) -> transactions.Action:
    status, setting, unsetting = (
        action.set_status_action,
        action.set_property_action,
        action.unset_property_action,
    )
    given = [one for one in (status, setting, unsetting) if one is not None]
    if len(given) != 1:
        raise InvalidInputError("Each action sets a status, sets a property or unsets one")
    if status is not None:
        if not status.status:
            raise InvalidInputError("An action that sets a status does not say which")
        return transactions.SetStatus(status.status)
    if setting is not None:
        if setting.value is None:
            raise InvalidInputError("An action that sets a property gives it no value")
        return transactions.SetProperty(setting.key or "", setting.value, setting.mode)
    return transactions.UnsetProperty(
        (unsetting and unsetting.key) or "", unsetting and unsetting.mode
    )
