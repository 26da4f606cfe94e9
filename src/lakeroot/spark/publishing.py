"""Publish prepared changes of several tables: in one commit of the catalog, or one by one."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lance

from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.model.commits import Change
from lakeroot.model.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
from lakeroot.namespace.staging import StagingClient
from lakeroot.spark import receipts
from lakeroot.spark.asides import naming
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.commits import commit, tell
from lakeroot.spark.failures import translated
from lakeroot.spark.opening import open_table
from lakeroot.spark.same_columns import has_same_columns
from lakeroot.spark.widening import schema_changed, with_columns
from lakeroot.spark.write_tasks import WritePlan, base_of

# With these a catalog refuses a commit; after any other error it may have made it.
_REFUSED = (
    ConcurrentModificationError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedOperationError,
)


@dataclass(frozen=True, slots=True)
class Pending:
    """A change of one table that is written and not visible."""

    plan: WritePlan
    operation: Any | None = field(repr=False)
    files: tuple[str, ...]
    properties: Mapping[str, str]
    # A merge has read the table, so nothing may come between; an append takes whatever is there.
    strict: bool = False


class NotPublished(Exception):  # noqa: N818  # it says what is certain, its cause is the error
    """Nothing was published, for certain: what was written can go."""


def require_atomic(catalog: Catalog) -> None:
    """Refuse a catalog that cannot publish several tables at once."""
    client: Any = catalog.connect()
    store = getattr(getattr(client, "catalog", None), "store", None)
    if store is None or not store.keeps_versions:
        raise UnsupportedOperationError(
            "This catalog cannot publish several tables in one commit",
            "it leaves the versions of tables to the tables' own directories",
            "Open it with the property table_version_management=true, or set `atomic` to false",
        )


def publish_together(catalog: Catalog, pending: Sequence[Pending], message: str) -> dict[str, int]:
    """Publish all changes in one commit of the catalog; return the new version of each table."""
    client: Any = catalog.connect()
    staging = StagingClient(client)
    changed = [each for each in pending if each.operation is not None]
    new: list[Change] = []
    try:
        versions = {str(each.plan.table.ref): _staged(staging, each) for each in changed}
        for each in changed:
            if each.plan.is_aside:
                new += naming(each.plan.table)
    except BaseException as error:
        staging.discard()
        raise NotPublished from error
    try:
        with translated("The tables cannot be published"):
            VersionCommits(client.catalog).commit_staged(staging.staged, new, message)
    except AlreadyExistsError as error:
        staging.discard()
        raise NotPublished from _made_meanwhile(error)
    except _REFUSED as error:
        staging.discard()
        raise NotPublished from error
    with contextlib.suppress(LakerootError):
        # Everything is published; a copy that cannot be deleted now is found by gc.
        staging.forget_copies()
    for each in changed:
        tell(each.plan.table.ref)
    settle(pending)
    return versions


def _made_meanwhile(error: LakerootError) -> ConcurrentModificationError:
    """Say that a new table is there by now, made by another: a run goes on from that one."""
    return ConcurrentModificationError(
        error.what, "another writer made it while the run ran", "Run it again"
    )


def _staged(staging: StagingClient, each: Pending) -> int:
    """Commit a change on a table, with the new version kept back."""
    plan = each.plan
    if plan.is_aside:
        return _first(each)
    identifier = plan.table.ref.identifier
    base = staging.base_version(identifier)
    # What was written for a table without a version would replace the rows of whoever was first.
    is_overtaken = plan.read_version == 0 and base != 0
    if is_overtaken or (each.strict and base != plan.read_version):
        raise ConcurrentModificationError(f"Table {plan.table.ref} changed while the run ran")
    target: Any = plan.table.location if base == 0 else open_table(plan.table)
    operation = each.operation
    if plan.widened is not None:
        # All fragments of the next version are named: it must follow the very version they are of.
        target = open_table(plan.table, base)
        operation = _with_columns(each, target)
    elif plan.dataset is not None and not has_same_columns(open_table(plan.table, base), plan):
        raise schema_changed(plan)
    transaction = lance.Transaction(base, operation, transaction_properties=dict(each.properties))
    arguments: dict[str, Any] = {"max_retries": 0} if base == 0 else {}
    if plan.dataset is None and plan.options.stable_row_ids:
        arguments["enable_stable_row_ids"] = True
    with translated(f"Table {plan.table.ref} cannot be committed"):
        done = lance.LanceDataset.commit(
            target,
            transaction,
            storage_options=plan.table.storage_options,
            namespace_client=staging,
            table_id=list(identifier),
            namespace_client_managed_versioning=True,
            **arguments,
        )
    return int(done.version)


def _first(each: Pending) -> int:
    """Write the first version of a table where nobody looks for one."""
    plan = each.plan
    done = commit(
        plan.table,
        plan.table.location,
        each.operation,
        read_version=0,
        properties=each.properties,
        stable_row_ids=plan.options.stable_row_ids or None,
        is_aside=True,
    )
    return int(done.version)


def publish_one_by_one(pending: Sequence[Pending]) -> dict[str, int]:
    """Publish every change in a commit of its table; a reader may see some and not yet others."""
    versions = {}
    for each in pending:
        if each.operation is None:
            continue
        plan = each.plan
        if plan.dataset is not None and not each.strict:
            versions[str(plan.table.ref)] = _appended(each)
            settle([each])
            continue
        new = plan.read_version == 0
        base: Any = plan.table.location if new else _base(each)
        wide = plan.widened is not None
        done = commit(
            plan.table,
            base,
            _with_columns(each, base) if wide else each.operation,
            read_version=0 if new else base.version,
            properties=each.properties,
            strict=each.strict or wide,
            stable_row_ids=(plan.dataset is None and plan.options.stable_row_ids) or None,
        )
        versions[str(plan.table.ref)] = int(done.version)
        settle([each])
    return versions


def _appended(each: Pending) -> int:
    from lakeroot.spark.writing import append_fragments

    operation: Any = each.operation
    return append_fragments(each.plan, list(operation.fragments), dict(each.properties))


def _base(each: Pending) -> Any:
    return base_of(each.plan) if each.strict else open_table(each.plan.table)


def _with_columns(each: Pending, base: lance.LanceDataset) -> Any:
    operation = with_columns(each.plan, each.operation, base)
    if operation is None:
        raise schema_changed(each.plan)
    return operation


def settle(pending: Sequence[Pending]) -> None:
    """Remove what failed attempts have left beside the published files."""
    for each in pending:
        receipts.settle(each.plan.table, each.plan.attempt, each.files)


def discard(plans: Sequence[WritePlan]) -> None:
    """Remove everything that was written and will not be published."""
    from lakeroot.spark.writing import abort

    for plan in plans:
        with contextlib.suppress(Exception):
            abort(plan)
