"""The models of versions, and of a commit over several tables."""

from lance_namespace import (
    BatchDeleteTableVersionsResponse,
    CommitTableOperation,
    CommitTableResult,
    CreateTableVersionEntry,
    CreateTableVersionRequest,
    CreateTableVersionResponse,
    DeclareTableResponse,
    DeregisterTableResponse,
)
from lance_namespace import TableVersion as TableVersionModel
from lance_namespace_urllib3_client.models import VersionRange

from lakeroot.catalog.batches import (
    BatchOperation,
    BatchResult,
    DeclareOperation,
    DeleteVersionsOperation,
    DeregisterOperation,
)
from lakeroot.catalog.staged_versions import NewVersion
from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import identifier_of
from lakeroot.model.records import Table, TableVersion
from lakeroot.namespace.access import TableAccess
from lakeroot.tables import versions
from lakeroot.tables.versions import naming_scheme


def batch_operation(request: CommitTableOperation) -> BatchOperation:
    """Read one operation of a batch; it holds exactly one request."""
    given = {
        "declare_table": request.declare_table,
        "create_table_version": request.create_table_version,
        "delete_table_versions": request.delete_table_versions,
        "deregister_table": request.deregister_table,
    }
    named = [name for name, one in given.items() if one is not None]
    if len(named) != 1:
        raise InvalidInputError(
            "Each operation of a batch is exactly one request", f"this one holds {named or 'none'}"
        )
    if request.declare_table is not None:
        declare = request.declare_table
        return DeclareOperation(
            identifier_of(declare.id), declare.location, declare.properties or {}
        )
    if request.create_table_version is not None:
        return new_version(request.create_table_version)
    if request.delete_table_versions is not None:
        deletion = request.delete_table_versions
        if deletion.branch not in (None, versions.MAIN):
            raise InvalidInputError("Versions of branches are not deleted in a batch")
        return DeleteVersionsOperation(
            identifier_of(deletion.id), tuple(version_ranges(deletion.ranges))
        )
    deregister = request.deregister_table
    return DeregisterOperation(identifier_of(deregister.id if deregister else None))


def commit_result(
    access: TableAccess, request: CommitTableOperation, result: BatchResult
) -> CommitTableResult:
    """Write the result of one operation of a batch."""
    store = access.catalog.store
    if isinstance(result, TableVersion):
        created = CreateTableVersionResponse(version=version_model(result))
        return CommitTableResult(create_table_version=created)
    if not isinstance(result, Table):
        deleted = BatchDeleteTableVersionsResponse(deleted_count=result)
        return CommitTableResult(delete_table_versions=deleted)
    uri = store.uri(result.location)
    if request.deregister_table is not None:
        return CommitTableResult(
            deregister_table=DeregisterTableResponse(
                id=list(result.identifier), location=uri, properties=dict(result.properties)
            )
        )
    declare = request.declare_table
    return CommitTableResult(
        declare_table=DeclareTableResponse(
            location=uri,
            properties=dict(result.properties),
            storage_options=access.vended(wanted=declare.vend_credentials if declare else None),
            managed_versioning=store.keeps_versions or None,
        )
    )


def new_version(request: CreateTableVersionRequest | CreateTableVersionEntry) -> NewVersion:
    """Read a request for a version."""
    return NewVersion(
        identifier=identifier_of(request.id),
        version=request.version,
        manifest_path=request.manifest_path,
        manifest_size=request.manifest_size,
        branch=request.branch,
        scheme=naming_scheme(request.naming_scheme),
        metadata=request.metadata or {},
    )


def version_ranges(ranges: list[VersionRange]) -> list[versions.VersionRange]:
    """Read the ranges of a request."""
    if not ranges:
        raise InvalidInputError("There are no ranges of versions", fix="Give at least one")
    return [versions.version_range(one.start_version, one.end_version) for one in ranges]


def version_model(version: TableVersion) -> TableVersionModel:
    """Write a version for a response."""
    return TableVersionModel(
        version=version.version,
        manifest_path=version.manifest_path,
        manifest_size=version.manifest_size,
        e_tag=version.e_tag,
        timestamp_millis=version.timestamp_ms,
        metadata=dict(version.metadata) or None,
    )
