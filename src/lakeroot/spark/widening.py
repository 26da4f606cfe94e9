"""New columns of a table, in the very version that brings the first rows with them.

Rows are written for a version that nobody has committed and nobody can see: the one that was read,
with more columns. It exists as a value that travels to the tasks. The commit is Lance's `Merge`,
which says the schema and all fragments of the next version, so it can bring both at once. It must
be that very next version: fragments that another writer has added or changed meanwhile would be
lost, so the commit is strict.
"""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import DeletionFile, FragmentMetadata
from lance.schema import LanceSchema

from lakeroot.model.errors import ConcurrentModificationError, UnsupportedOperationError
from lakeroot.spark.commits import commit
from lakeroot.spark.passing import commit_passing
from lakeroot.spark.write_tasks import WritePlan, base_of, target_of
from lakeroot.storage.lance_dir import protobuf

# The numbers of fields in the messages of Lance: the columns of a manifest, and what one says.
_COLUMNS, _ID, _PARENT = 1, 3, 4
_NO_PARENT = 2**64 - 1
_FIRST_FORMAT = "0.1"


def widened(dataset: lance.LanceDataset, columns: Sequence[pa.Field]) -> bytes:
    """Make the manifest of a version with more columns, which is written nowhere.

    Columns have numbers, by which files know them. New ones come after all that the table has or a
    file of it still holds, as Lance numbers them.
    """
    if dataset.data_storage_version == _FIRST_FORMAT:
        raise UnsupportedOperationError(
            "A table in the first version of Lance's files takes no new columns",
            fix="Write it anew with mode 'overwrite'",
        )
    # New columns hold null in the old rows, whatever the rows that come say of themselves.
    nullable = pa.schema([column.with_nullable(nullable=True) for column in columns])
    _, (_, *messages) = LanceSchema.from_pyarrow(nullable).__reduce__()
    first = dataset.max_field_id + 1
    # A list in a message of protobuf goes on wherever more of it follows.
    more = (protobuf.blob(_COLUMNS, _numbered(each, first)) for each in messages)
    return bytes(dataset._ds.serialized_manifest()) + b"".join(more)  # noqa: SLF001


def _numbered(column: bytes, first: int) -> bytes:
    """Count the numbers of a column, and of the one it is inside of, from another than zero."""
    number = parent = 0
    rest = b""
    for key, wire, value in protobuf.fields(column):
        if key == _ID and isinstance(value, int):
            number = value
        elif key == _PARENT and isinstance(value, int):
            parent = value
        else:
            rest += protobuf.raw((key, wire, value))
    parent = parent if parent == _NO_PARENT else parent + first
    ids = protobuf.always_number(_ID, number + first) + protobuf.always_number(_PARENT, parent)
    return rest + ids


def schema_changed(plan: WritePlan) -> ConcurrentModificationError:
    """Say that other writers have changed the columns, and what was written fits no more."""
    return ConcurrentModificationError(
        f"The schema of table {plan.table.ref} changed while the job ran", fix="Run it again"
    )


def with_columns(plan: WritePlan, operation: Any, newest: lance.LanceDataset) -> Any | None:
    """Turn an append or an update into one that adds the columns of the plan as well.

    `newest` is the version that the commit will follow; nothing if its columns are not those that
    the rows were written for.
    """
    read: Any = base_of(plan)
    wide: Any = target_of(plan)
    if newest.lance_schema == wide.lance_schema:
        return operation  # Another job has added the same columns.
    # A column that came and went meanwhile may have left values under the number of a new one.
    if newest.lance_schema != read.lance_schema or newest.max_field_id > read.max_field_id:
        return None
    if isinstance(operation, lance.LanceOperation.Update):
        new, removed = operation.new_fragments, set(operation.removed_fragment_ids)
        updated = {fragment.id: fragment for fragment in operation.updated_fragments}
    else:
        new, removed, updated = operation.fragments, set(), {}
    old = [fragment.metadata for fragment in newest.get_fragments()]
    kept = [_gone(each) if each.id in removed else updated.get(each.id, each) for each in old]
    return lance.LanceOperation.Merge([*kept, *new], wide.lance_schema)


def _gone(fragment: FragmentMetadata) -> FragmentMetadata:
    """Say that all rows of a fragment are deleted.

    Lance refuses a `Merge` that leaves a fragment out, and itself drops one that has no rows; so
    the file with the deletions is never looked for.
    """
    nothing = DeletionFile(0, 0, "array", fragment.physical_rows, None)
    return dataclasses.replace(fragment, deletion_file=nothing)


def commit_changes(
    plan: WritePlan, operation: Any, properties: Mapping[str, str]
) -> lance.LanceDataset:
    """Commit changed rows, with the columns that they bring."""
    base: Any = base_of(plan)
    if plan.widened is not None and _keeps_row_ids(operation):
        return _columns_first(plan, base, operation, properties)
    if plan.widened is not None:
        return _next(plan, base, with_columns(plan, operation, base), properties)
    return commit_passing(plan, base, operation, properties)


def _keeps_row_ids(operation: Any) -> bool:
    return any(fragment.row_id_meta is not None for fragment in operation.new_fragments)


def _columns_first(
    plan: WritePlan, base: Any, operation: Any, properties: Mapping[str, str]
) -> lance.LanceDataset:
    """Commit columns and then rows that keep their stable ids, which no `Merge` may bring.

    Everything is written by now. If the rows cannot be committed, the columns are taken back; if
    another writer came between, they stay for the merge that begins anew.
    """
    wide = _next(plan, base, with_columns(plan, lance.LanceOperation.Append([]), base), {})
    try:
        return _next(plan, wide, operation, properties)
    except ConcurrentModificationError:
        raise
    except BaseException:
        with contextlib.suppress(Exception):
            _next(plan, wide, lance.LanceOperation.Project(base.lance_schema), {})
        raise


def _next(
    plan: WritePlan, base: lance.LanceDataset, operation: Any, properties: Mapping[str, str]
) -> lance.LanceDataset:
    return commit(
        plan.table,
        base,
        operation,
        read_version=base.version,
        properties=properties,
        strict=True,
        branch=plan.options.branch,
    )
