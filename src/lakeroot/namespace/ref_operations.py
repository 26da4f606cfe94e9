"""Operations on the tags, branches and old versions of a table."""

from lance_namespace import (
    CreateTableBranchRequest,
    CreateTableBranchResponse,
    CreateTableTagRequest,
    CreateTableTagResponse,
    DeleteTableBranchRequest,
    DeleteTableBranchResponse,
    DeleteTableTagRequest,
    DeleteTableTagResponse,
    GetTableTagVersionRequest,
    GetTableTagVersionResponse,
    ListTableBranchesRequest,
    ListTableBranchesResponse,
    ListTableTagsRequest,
    ListTableTagsResponse,
    RestoreTableRequest,
    RestoreTableResponse,
    UpdateTableTagRequest,
    UpdateTableTagResponse,
)
from lance_namespace_urllib3_client.models import BranchContents, TagContents

from lakeroot.catalog.versions import TableVersions
from lakeroot.model.errors import TableTagNotFoundError
from lakeroot.model.identifiers import identifier_of
from lakeroot.namespace.access import TableAccess
from lakeroot.namespace.border import operation
from lakeroot.tables import refs


class RefOperations(TableAccess):
    """Tag versions, start branches, bring old versions back."""

    @operation(RestoreTableRequest)
    def restore_table(self, request: RestoreTableRequest) -> RestoreTableResponse:
        """Make an older version the newest, as a new version."""
        with self.at_work(request.id) as handle:
            done = refs.restore(handle, request.version, branch=request.branch)
        return RestoreTableResponse(transaction_id=done.transaction_id)

    @operation(ListTableTagsRequest)
    def list_table_tags(self, request: ListTableTagsRequest) -> ListTableTagsResponse:
        """List the tags of a table, a page at a time."""
        with self.at_work(request.id) as handle:
            page = refs.list_tags(handle, page_token=request.page_token, limit=request.limit)
        tags = {
            name: TagContents(
                branch=tag.branch, version=tag.version, manifestSize=tag.manifest_size
            )
            for name, tag in page.items.items()
            if self._names_what_was(request.id, tag)
        }
        return ListTableTagsResponse(tags=tags, page_token=page.next_token)

    @operation(GetTableTagVersionRequest)
    def get_table_tag_version(
        self, request: GetTableTagVersionRequest
    ) -> GetTableTagVersionResponse:
        """Find the version a tag names."""
        with self.at_work(request.id) as handle:
            tag = refs.get_tag(handle, request.tag)
            if not self._names_what_was(request.id, tag):
                raise TableTagNotFoundError(
                    f"The table had no tag {request.tag!r}", "it names a version that came later"
                )
        return GetTableTagVersionResponse(version=tag.version, branch=tag.branch)

    def _names_what_was(self, names: list[str] | None, tag: refs.Tag) -> bool:
        """Tell whether a tag names a version that was there in a catalog as it was.

        Lance keeps only the tags of now, and not since when a tag names what it names.
        """
        if not self.catalog.store.is_past:
            return True
        table = self.catalog.table(identifier_of(names))
        return TableVersions(self.catalog).known(table, tag.branch).version(tag.version) is not None

    @operation(CreateTableTagRequest)
    def create_table_tag(self, request: CreateTableTagRequest) -> CreateTableTagResponse:
        """Give a version a name."""
        with self.at_work(request.id) as handle:
            refs.create_tag(handle, request.tag, request.version, branch=request.branch)
        return CreateTableTagResponse()

    @operation(UpdateTableTagRequest)
    def update_table_tag(self, request: UpdateTableTagRequest) -> UpdateTableTagResponse:
        """Move a tag to another version."""
        with self.at_work(request.id) as handle:
            refs.update_tag(handle, request.tag, request.version, branch=request.branch)
        return UpdateTableTagResponse()

    @operation(DeleteTableTagRequest)
    def delete_table_tag(self, request: DeleteTableTagRequest) -> DeleteTableTagResponse:
        """Forget a tag; the version stays."""
        with self.at_work(request.id) as handle:
            refs.delete_tag(handle, request.tag)
        return DeleteTableTagResponse()

    @operation(CreateTableBranchRequest)
    def create_table_branch(self, request: CreateTableBranchRequest) -> CreateTableBranchResponse:
        """Start a branch at a version."""
        with self.at_work(request.id) as handle:
            refs.create_branch(
                handle,
                request.name,
                from_branch=request.from_branch,
                from_version=request.from_version,
            )
        return CreateTableBranchResponse()

    @operation(ListTableBranchesRequest)
    def list_table_branches(self, request: ListTableBranchesRequest) -> ListTableBranchesResponse:
        """List the branches of a table, a page at a time."""
        with self.at_work(request.id) as handle:
            page = refs.list_branches(handle, page_token=request.page_token, limit=request.limit)
        branches = {
            name: BranchContents(
                parentBranch=branch.parent_branch,
                parentVersion=branch.parent_version,
                createAt=branch.created_at_s,
                manifestSize=branch.manifest_size,
                metadata=dict(branch.metadata),
            )
            for name, branch in page.items.items()
            if self._had_begun(request.id, name)
        }
        return ListTableBranchesResponse(branches=branches, page_token=page.next_token)

    def _had_begun(self, names: list[str] | None, branch: str) -> bool:
        """Tell whether a branch is there in a catalog as it was: Lance keeps only those of now."""
        if not self.catalog.store.is_past:
            return True
        table = self.catalog.table(identifier_of(names))
        return TableVersions(self.catalog).known(table, branch).has_any

    @operation(DeleteTableBranchRequest)
    def delete_table_branch(self, request: DeleteTableBranchRequest) -> DeleteTableBranchResponse:
        """Delete a branch."""
        with self.at_work(request.id) as handle:
            refs.delete_branch(handle, request.name)
        return DeleteTableBranchResponse()
