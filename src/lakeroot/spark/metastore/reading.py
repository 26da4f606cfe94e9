"""Read a table of a metastore as a DataFrame: partitions are merged by the tasks that read them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeroot.metastore import Metastore, View
from lakeroot.metastore.data.plan import DataFile, PartitionPlan, Step, StepKind, plan_table
from lakeroot.metastore.locators import PartitionValues
from lakeroot.model.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableColumnNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark.catalogs import did_you_mean, parse_name
from lakeroot.spark.conform import to_spark
from lakeroot.spark.failures import nearest
from lakeroot.spark.metastore.tasks import Place, partition_rows
from lakeroot.spark.planning import BYTES_PER_TASK
from lakeroot.spark.reading import task_numbers
from lakeroot.spark.types import exchange_schema, spark_schema
from lakeroot.spark.workers import begin

_ROWS_PER_BATCH: Final = 32 * 1024


def read(
    spark: SparkSession,
    table: str,
    *,
    root: str | None = None,
    columns: Sequence[str] | None = None,
    keep: Callable[[PartitionValues], bool] | None = None,
    as_of: int | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **unknown: Any,
) -> DataFrame:
    """Read a table, merging on the way what upserts and deletes have left to readers.

    `keep` chooses partitions by their values; `as_of` is a time in nanoseconds or the id of a
    transaction. A partition that has to be merged is read by one task, all others by their files.
    """
    root = root_of(table, root, unknown, "columns", "keep", "as_of", "storage_options")
    namespace, name = table_name(table)
    place = Place(root, storage_options)
    view = Metastore.open(root, storage_options, read_only=True).view(as_of)
    with nearest_named(view, table):
        version = view.table_version(namespace, name, None)
    stream = view.find_stream(version)
    schema = version.schema
    if stream is None or schema is None:
        raise UnsupportedOperationError(
            f"The table {table} cannot be read with Spark", "it has no rows with a schema"
        )
    names = schema.arrow.names if columns is None else list(columns)
    for column in names:
        if column not in schema.arrow.names:
            raise TableColumnNotFoundError(
                f"Table {table} has no column {column!r}", fix=nearest(column, schema.arrow.names)
            )
    plan = plan_table(view, version, stream, keep=keep)
    parts = [part for each in plan.partitions for part in _parts(each)]
    kind = spark_schema(pa.schema([schema.arrow.field(column) for column in names]))
    exchanged = exchange_schema(kind)

    def read_tasks(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                rows = partition_rows(place, parts[number], schema, columns).combine_chunks()
                for piece in rows.to_batches(max_chunksize=_ROWS_PER_BATCH):
                    yield to_spark(piece, exchanged)

    size = sum(file.size or 0 for part in parts for file in part.files)
    return task_numbers(spark, len(parts), size).mapInArrow(read_tasks, kind)


def root_of(table: str, root: str | None, unknown: Mapping[str, Any], *known: str) -> str:
    """Give the root of the metastore; options that there are not are refused with the nearest."""
    for key in unknown:
        raise InvalidInputError(
            f"There is no option {key!r} here", fix=nearest(key, ["root", *known])
        )
    if not root:
        raise InvalidInputError(
            f"No metastore was given for table {table}", fix="Set `root`, its directory"
        )
    return root


def table_name(table: str) -> tuple[str, str]:
    """Read the name of a table of a metastore: one namespace, one name."""
    names = parse_name(table)
    if len(names) != 2:
        raise InvalidInputError(
            f"{table!r} is not the name of a table of a metastore", fix="Write namespace.table"
        )
    return names[0], names[1]


@contextmanager
def nearest_named(view: View, table: str) -> Iterator[None]:
    """Let the error that a table is not there say which has a name like it."""
    namespace, name = table_name(table)
    try:
        yield
    except (NamespaceNotFoundError, TableNotFoundError) as error:
        fix = error.fix or _alike(view, namespace, name)
        raise type(error)(error.what, error.why, fix) from error


def _alike(view: View, namespace: str, name: str) -> str:
    try:
        if view.find_namespace(namespace) is None:
            return did_you_mean(namespace, [each.name for each in view.namespaces()])
        return did_you_mean(name, [each.name for each in view.tables(namespace)], [namespace])
    except Exception:  # noqa: BLE001  # That it is not there is what was to be said.
        return ""


def _parts(plan: PartitionPlan) -> Iterator[PartitionPlan]:
    """Divide a partition whose files only follow each other; one to be merged stays whole."""
    if plan.needs_merge:
        yield plan
        return
    held: list[DataFile] = []
    for file in plan.files:
        held.append(file)
        if sum(each.size or 0 for each in held) >= BYTES_PER_TASK:
            yield PartitionPlan(plan.values, (Step(StepKind.INSERT, tuple(held)),))
            held = []
    if held:
        yield PartitionPlan(plan.values, (Step(StepKind.INSERT, tuple(held)),))
