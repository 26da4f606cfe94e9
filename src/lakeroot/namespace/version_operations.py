"""Operations on the versions of tables: the catalog as an external manifest store."""

from lance_namespace import (
    BatchCommitTablesRequest,
    BatchCommitTablesResponse,
    BatchCreateTableVersionsRequest,
    BatchCreateTableVersionsResponse,
    BatchDeleteTableVersionsRequest,
    BatchDeleteTableVersionsResponse,
    CreateTableVersionRequest,
    CreateTableVersionResponse,
    DescribeTableVersionRequest,
    DescribeTableVersionResponse,
    ListTableVersionsRequest,
    ListTableVersionsResponse,
)

from lakeroot.catalog.batches import Batches
from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.identifiers import identifier_of
from lakeroot.namespace.access import TableAccess
from lakeroot.namespace.border import operation
from lakeroot.namespace.version_models import (
    batch_operation,
    commit_result,
    new_version,
    version_model,
    version_ranges,
)


class VersionOperations(TableAccess):
    """List, describe, create and delete versions, also of several tables at once."""

    @operation(ListTableVersionsRequest, mirrors_dicts=True)
    def list_table_versions(self, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
        """List versions, a page at a time, oldest first unless ``descending``."""
        found, token = TableVersions(self.catalog).list_versions(
            identifier_of(request.id),
            request.branch,
            request.page_token,
            request.limit,
            descending=bool(request.descending),
        )
        return ListTableVersionsResponse(
            versions=[version_model(version) for version in found], page_token=token
        )

    @operation(DescribeTableVersionRequest, mirrors_dicts=True)
    def describe_table_version(
        self, request: DescribeTableVersionRequest
    ) -> DescribeTableVersionResponse:
        """Describe a version, or the newest; finish it if its writer did not."""
        found = TableVersions(self.catalog).describe_version(
            identifier_of(request.id), request.version, request.branch
        )
        return DescribeTableVersionResponse(version=version_model(found))

    @operation(CreateTableVersionRequest, mirrors_dicts=True)
    def create_table_version(
        self, request: CreateTableVersionRequest
    ) -> CreateTableVersionResponse:
        """Create a version from a staged manifest; of two writers, one is refused."""
        (created,) = VersionCommits(self.catalog).create_versions([new_version(request)])
        return CreateTableVersionResponse(version=version_model(created))

    @operation(BatchCreateTableVersionsRequest, mirrors_dicts=True)
    def batch_create_table_versions(
        self, request: BatchCreateTableVersionsRequest
    ) -> BatchCreateTableVersionsResponse:
        """Create versions of several tables, all or none where the catalog arbitrates them."""
        created = VersionCommits(self.catalog).create_versions(
            [new_version(entry) for entry in request.entries]
        )
        return BatchCreateTableVersionsResponse(
            versions=[version_model(version) for version in created]
        )

    @operation(BatchDeleteTableVersionsRequest, mirrors_dicts=True)
    def batch_delete_table_versions(
        self, request: BatchDeleteTableVersionsRequest
    ) -> BatchDeleteTableVersionsResponse:
        """Delete ranges of versions: records and manifests, never data."""
        deleted = TableVersions(self.catalog).delete_versions(
            identifier_of(request.id), version_ranges(request.ranges), request.branch
        )
        return BatchDeleteTableVersionsResponse(deleted_count=deleted)

    @operation(BatchCommitTablesRequest, mirrors_dicts=True)
    def batch_commit_tables(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        """Declare, version and deregister tables in one commit, all or nothing."""
        wanted = [batch_operation(one) for one in request.operations]
        done = zip(request.operations, Batches(self.catalog).commit(wanted), strict=True)
        return BatchCommitTablesResponse(
            results=[commit_result(self, asked, result) for asked, result in done]
        )
