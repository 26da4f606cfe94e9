"""Reading the rows of a table."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from lakeroot.metastore.data.files import in_parallel, read_file
from lakeroot.metastore.data.merge import Rows, merged
from lakeroot.metastore.data.plan import PartitionPlan, Step, StepKind, plan_table
from lakeroot.metastore.locators import PartitionValues
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.view import View
from lakeroot.model.errors import InvalidInputError


def read_rows(
    view: View,
    namespace: str,
    table: str,
    *,
    version: str | None = None,
    columns: Iterable[str] | None = None,
    keep: Callable[[PartitionValues], bool] | None = None,
) -> Any:
    """Read the rows of a table, merging what upserts and deletes left to readers."""
    found = view.table_version(namespace, table, version)
    stream = view.find_stream(found)
    wanted = None if columns is None else tuple(columns)
    if found.schema is not None and wanted is not None:
        unknown = set(wanted) - set(found.schema.arrow.names)
        if unknown:
            raise InvalidInputError(f"There is no column {min(unknown)!r}")
    if stream is None:
        raise InvalidInputError(f"The table {namespace}.{table} has no rows of its own")
    plan = plan_table(view, found, stream, keep=keep)
    parts = [read_partition(view, part, found.schema, wanted) for part in plan.partitions]
    if not parts:
        return _nothing(found.schema).select(wanted) if wanted else _nothing(found.schema)
    return pa.concat_tables(parts, promote_options="default")


def read_partition(
    view: View, plan: PartitionPlan, schema: Schema | None, columns: tuple[str, ...] | None = None
) -> Any:
    """Carry out the plan of one partition."""
    if schema is None:
        tables = list(in_parallel(read_file, [(view.log, file, None) for file in plan.files]))
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    needed = None if columns is None else {*columns, *_keys_of(plan), *_ranks_of(schema)}
    steps = [_rows(view, step, schema, needed) for step in plan.steps]
    if needed is None:
        return merged(steps, schema)
    narrow = _narrowed(schema, needed)
    return merged(steps, narrow).select(list(columns or ()))


def _rows(view: View, step: Step, schema: Schema, needed: set[str] | None) -> Rows:
    wanted: set[str] | None = set(step.keys) if step.kind is StepKind.DELETE else needed
    if step.columns is not None:
        present = set(step.columns)
        wanted = present if wanted is None else wanted & present
    files = [(view.log, file, schema, wanted) for file in step.files]
    tables = list(in_parallel(read_file, files))
    return Rows(step.kind, pa.concat_tables(tables), step.keys, step.columns)


def _keys_of(plan: PartitionPlan) -> set[str]:
    return {key for step in plan.steps for key in step.keys}


def _ranks_of(schema: Schema) -> set[str]:
    return {f.name for f in schema.fields if f.merge_order is not None or f.is_event_time}


def _narrowed(schema: Schema, names: set[str]) -> Schema:
    arrow = schema.arrow
    kept = pa.schema([field for field in arrow if field.name in names], metadata=arrow.metadata)
    return Schema(kept.serialize().to_pybytes())


def _nothing(schema: Schema | None) -> Any:
    return pa.table({}) if schema is None else schema.arrow.empty_table()
