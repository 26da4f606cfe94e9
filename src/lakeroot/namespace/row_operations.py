"""Operations on the rows of a table."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lance_namespace import (
    AnalyzeTableQueryPlanRequest,
    CountTableRowsRequest,
    CountTableRowsResponse,
    DeleteFromTableRequest,
    DeleteFromTableResponse,
    ExplainTableQueryPlanRequest,
    InsertIntoTableRequest,
    InsertIntoTableResponse,
    MergeInsertIntoTableRequest,
    MergeInsertIntoTableResponse,
    QueryTableRequest,
    QueryTableResponse,
    UpdateTableRequest,
    UpdateTableResponse,
)

from lakeroot.model.commits import AlterTable, Unchanged
from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.model.identifiers import identifier_of
from lakeroot.model.records import Table
from lakeroot.namespace.access import TableAccess
from lakeroot.namespace.border import operation
from lakeroot.tables import rows, search
from lakeroot.tables.options import InsertMode, read_mode, read_timeout


class RowOperations(TableAccess):
    """Count, insert, merge, update, delete and query rows."""

    @operation(CountTableRowsRequest)
    def count_table_rows(self, request: CountTableRowsRequest) -> CountTableRowsResponse:
        """Count the rows of a table, or those a predicate keeps."""
        with self.at_work(request.id) as handle:
            count = rows.count_rows(
                handle,
                predicate=request.predicate,
                version=request.version,
                branch=request.branch,
            )
        return CountTableRowsResponse(count=count)

    @operation(InsertIntoTableRequest)
    def insert_into_table(
        self, request: InsertIntoTableRequest, request_data: bytes
    ) -> InsertIntoTableResponse:
        """Append rows to a table, or put them in place of all its rows."""
        mode = read_mode(InsertMode, request.mode, InsertMode.APPEND)
        with self.at_work(request.id) as handle:
            done = rows.insert(handle, request_data, mode=mode, branch=request.branch)
        return InsertIntoTableResponse(
            transaction_id=done.transaction_id,
            num_inserted_rows=done.num_inserted_rows,
            version=done.version,
        )

    @operation(MergeInsertIntoTableRequest)
    def merge_insert_into_table(
        self, request: MergeInsertIntoTableRequest, request_data: bytes
    ) -> MergeInsertIntoTableResponse:
        """Merge rows into a table: update those that match, insert new ones, delete the rest."""
        rule = rows.MergeRule(
            on=tuple(request.on or ()),
            when_matched_update_all=bool(request.when_matched_update_all),
            when_matched_update_all_filt=request.when_matched_update_all_filt,
            when_not_matched_insert_all=bool(request.when_not_matched_insert_all),
            when_not_matched_by_source_delete=bool(request.when_not_matched_by_source_delete),
            when_not_matched_by_source_delete_filt=request.when_not_matched_by_source_delete_filt,
            timeout=read_timeout(request.timeout),
            use_index=bool(request.use_index),
        )
        with self.at_work(request.id) as handle:
            done = rows.merge_insert(handle, request_data, rule, branch=request.branch)
        return MergeInsertIntoTableResponse(
            transaction_id=done.transaction_id,
            num_updated_rows=done.num_updated_rows,
            num_inserted_rows=done.num_inserted_rows,
            num_deleted_rows=done.num_deleted_rows,
            version=done.version,
        )

    @operation(UpdateTableRequest)
    def update_table(self, request: UpdateTableRequest) -> UpdateTableResponse:
        """Set columns by SQL expressions, and replace the table's properties if some are given."""
        table = self.catalog.table(identifier_of(request.id))
        with self.at_work_on(table) as handle:
            properties = dict(table.properties)
            if request.properties is not None:
                # First: rows that were changed could not be taken back if these are refused.
                properties = request.properties
                self.catalog.alter_table(table.identifier, properties)
            try:
                done = rows.update(
                    handle,
                    request.updates,
                    predicate=request.predicate,
                    branch=request.branch,
                )
            except LakerootError:
                if request.properties is not None:
                    with suppress(LakerootError):
                        self._put_back(table, properties)
                raise
        return UpdateTableResponse(
            transaction_id=done.transaction_id,
            updated_rows=done.updated_rows,
            version=done.version,
            properties=properties,
        )

    def _put_back(self, before: Table, given: Mapping[str, str]) -> None:
        """Give a table the properties that it had, unless somebody else gave it others since."""
        now = self.catalog.table(before.identifier)
        if dict(now.properties) == dict(given):
            self.catalog.commit(
                AlterTable(before.identifier, before.properties),
                requires=[Unchanged(before.identifier, now)],
            )

    @operation(DeleteFromTableRequest)
    def delete_from_table(self, request: DeleteFromTableRequest) -> DeleteFromTableResponse:
        """Delete the rows a predicate keeps."""
        with self.at_work(request.id) as handle:
            done = rows.delete(handle, request.predicate, branch=request.branch)
        return DeleteFromTableResponse(transaction_id=done.transaction_id, version=done.version)

    @operation(QueryTableRequest)
    def query_table(self, request: QueryTableRequest) -> QueryTableResponse:
        """Query a table by vector, full text and filter; the answer is an Arrow IPC file."""
        query = _query(request)
        with self.at_work(request.id) as handle:
            return QueryTableResponse(data=search.query_ipc(handle, query))

    @operation(ExplainTableQueryPlanRequest)
    def explain_table_query_plan(self, request: ExplainTableQueryPlanRequest) -> str:
        """Tell how a query would be answered."""
        query = _query(request.query, branch=request.branch)
        with self.at_work(request.id or request.query.id) as handle:
            return search.explain(handle, query, verbose=bool(request.verbose))

    @operation(AnalyzeTableQueryPlanRequest)
    def analyze_table_query_plan(self, request: AnalyzeTableQueryPlanRequest) -> str:
        """Answer a query and tell what it cost."""
        query = _query(request)
        with self.at_work(request.id) as handle:
            return search.analyze(handle, query)


def _query(
    request: QueryTableRequest | AnalyzeTableQueryPlanRequest, branch: str | None = None
) -> search.Query:
    columns: Any = None
    if request.columns is not None:
        if request.columns.column_aliases and request.columns.column_names:
            raise InvalidInputError("Columns are named or given aliases, not both")
        columns = request.columns.column_aliases or request.columns.column_names
    full_text: Any = None
    full_text_columns = None
    if request.full_text_query is not None:
        wanted = request.full_text_query
        if (wanted.structured_query is None) == (wanted.string_query is None):
            raise InvalidInputError(
                "A full text query is a string or structured, and not both",
                fix="Give either `string_query` or `structured_query`",
            )
        if wanted.structured_query is not None:
            full_text = wanted.structured_query.query.model_dump(by_alias=True, exclude_none=True)
        elif wanted.string_query is not None:
            full_text = wanted.string_query.query
            full_text_columns = wanted.string_query.columns
    return search.Query(
        k=request.k,
        vector=request.vector.single_vector or (),
        vectors=request.vector.multi_vector or (),
        vector_column=request.vector_column,
        full_text=full_text,
        full_text_columns=full_text_columns,
        filter=request.filter,
        prefilter=bool(request.prefilter),
        offset=request.offset or 0,
        columns=columns,
        with_row_id=bool(request.with_row_id),
        version=request.version,
        branch=request.branch or branch,
        distance_type=request.distance_type,
        lower_bound=request.lower_bound,
        upper_bound=request.upper_bound,
        nprobes=request.nprobes,
        minimum_nprobes=request.minimum_nprobes,
        maximum_nprobes=request.maximum_nprobes,
        refine_factor=request.refine_factor,
        ef=request.ef,
        bypass_vector_index=bool(request.bypass_vector_index),
        fast_search=bool(request.fast_search),
    )
