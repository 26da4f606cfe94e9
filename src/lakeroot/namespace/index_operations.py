"""Operations on the indexes of a table."""

from typing import Final

from lance_namespace import (
    CreateTableIndexRequest,
    CreateTableIndexResponse,
    CreateTableScalarIndexResponse,
    DescribeTableIndexStatsRequest,
    DescribeTableIndexStatsResponse,
    DropTableIndexRequest,
    DropTableIndexResponse,
    ListTableIndicesRequest,
    ListTableIndicesResponse,
)
from lance_namespace_urllib3_client.models import IndexContent

from lakeroot.model.errors import InvalidInputError
from lakeroot.namespace.access import TableAccess
from lakeroot.namespace.border import operation
from lakeroot.tables import indexes
from lakeroot.tables.rows import Committed

_NOT_OPTIONS: Final = frozenset(
    {"identity", "context", "id", "branch", "column", "index_type", "name"}
)


class IndexOperations(TableAccess):
    """Create, list, describe and drop indexes."""

    @operation(CreateTableIndexRequest)
    def create_table_index(self, request: CreateTableIndexRequest) -> CreateTableIndexResponse:
        """Build an index of any kind on a column."""
        return CreateTableIndexResponse(transaction_id=self._create(request).transaction_id)

    @operation(CreateTableIndexRequest)
    def create_table_scalar_index(
        self, request: CreateTableIndexRequest
    ) -> CreateTableScalarIndexResponse:
        """Build a scalar index on a column."""
        indexes.require_scalar(request.index_type)
        return CreateTableScalarIndexResponse(transaction_id=self._create(request).transaction_id)

    def _create(self, request: CreateTableIndexRequest) -> Committed:
        options = request.model_dump(exclude=set(_NOT_OPTIONS), exclude_none=True)
        wanted = indexes.IndexRequest(request.column, request.index_type, request.name, options)
        with self.at_work(request.id) as handle:
            return indexes.create_index(handle, wanted, branch=request.branch)

    @operation(ListTableIndicesRequest)
    def list_table_indices(self, request: ListTableIndicesRequest) -> ListTableIndicesResponse:
        """List the indexes of a table, a page at a time."""
        with self.at_work(request.id) as handle:
            page = indexes.list_indices(
                handle,
                version=request.version,
                branch=request.branch,
                page_token=request.page_token,
                limit=request.limit,
            )
        return ListTableIndicesResponse(
            indexes=[_content(info) for info in page.items.values()], page_token=page.next_token
        )

    @operation(DescribeTableIndexStatsRequest)
    def describe_table_index_stats(
        self, request: DescribeTableIndexStatsRequest
    ) -> DescribeTableIndexStatsResponse:
        """Tell how much of a table an index covers."""
        with self.at_work(request.id) as handle:
            stats = indexes.describe_index_stats(
                handle,
                _required(request.index_name),
                version=request.version,
                branch=request.branch,
            )
        return DescribeTableIndexStatsResponse(
            distance_type=stats.distance_type,
            index_type=stats.index_type,
            num_indexed_rows=stats.num_indexed_rows,
            num_unindexed_rows=stats.num_unindexed_rows,
            num_indices=stats.num_indices,
        )

    @operation(DropTableIndexRequest)
    def drop_table_index(self, request: DropTableIndexRequest) -> DropTableIndexResponse:
        """Drop an index; the rows stay."""
        with self.at_work(request.id) as handle:
            done = indexes.drop_index(handle, _required(request.index_name), branch=request.branch)
        return DropTableIndexResponse(transaction_id=done.transaction_id)


def _content(info: indexes.IndexInfo) -> IndexContent:
    return IndexContent(
        index_name=info.name,
        index_uuid=info.uuid,
        columns=list(info.columns),
        status=info.status,
        index_type=info.index_type,
        type_url=info.type_url,
        num_indexed_rows=info.num_indexed_rows,
        num_unindexed_rows=info.num_unindexed_rows,
        size_bytes=info.size_bytes,
        num_segments=info.num_segments,
        created_at=info.created_at,
        index_version=info.index_version,
        index_details=info.index_details,
    )


def _required(name: str | None) -> str:
    if not name:
        raise InvalidInputError("The name of the index is missing", fix="Give `index_name`")
    return name
