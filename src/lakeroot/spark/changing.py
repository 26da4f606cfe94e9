"""Delete and update rows of a table by predicate."""

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

import lance
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from lakeroot.model.errors import ConcurrentModificationError, InvalidInputError
from lakeroot.spark.catalogs import TableRef, locate
from lakeroot.spark.commits import JOB, commit
from lakeroot.spark.distribute import distribute, until_uncontested
from lakeroot.spark.failures import translated
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, table_of
from lakeroot.spark.planning import ReadPlan, ReadTask, missing_column, plan_read
from lakeroot.spark.reading import parallelism, planned
from lakeroot.spark.row_changes import ADDRESS, COMES, ChangeResult, apply_changes
from lakeroot.spark.scanning import reopened
from lakeroot.spark.writing import prepare


def delete(
    spark: SparkSession, table: str | None = None, *, where: str, **options: Any
) -> ChangeResult:
    """Delete the rows for which a predicate, in the SQL of Lance, holds."""
    ref = table_of({**options, "table": table} if table is not None else options)
    return delete_rows(spark, ref, where)


def delete_rows(spark: SparkSession, ref: TableRef, where: str) -> ChangeResult:
    """Delete the rows of a table for which a predicate holds."""

    def attempt() -> ChangeResult:
        plan = plan_read(
            ref, ReadOptions(filter=where, truncate_nanos=True), parallelism=parallelism(spark)
        )
        what = f"Rows of table {ref} cannot be deleted"
        work = partial(_delete_in, plan, where)
        parts = distribute(spark, plan.tasks, work, what=what, size=plan.bytes)
        updated = [fragment for part in parts for fragment in part[0]]
        removed = [number for part in parts for number in part[1]]
        gone = sum(part[2] for part in parts)
        if not gone:
            return ChangeResult(plan.version)
        located = locate(ref)
        dataset = open_table(located).checkout_version(plan.version)
        operation = lance.LanceOperation.Delete(updated, removed, where)
        properties = {JOB: uuid.uuid4().hex}
        done = commit(located, dataset, operation, read_version=plan.version, properties=properties)
        return ChangeResult(done.version, deleted=gone)

    return until_uncontested(attempt)


def _delete_in(plan: ReadPlan, where: str, task: ReadTask) -> tuple[list[Any], list[int], int]:
    """Mark rows deleted in some fragments; nobody sees it before the commit."""
    dataset = reopened(plan.scan)
    numbers = task.fragments
    if numbers is None:
        numbers = tuple(fragment.fragment_id for fragment in dataset.get_fragments())
    updated, removed, gone = [], [], 0
    for number in numbers:
        fragment = dataset.get_fragment(number)
        before = fragment.count_rows()
        rest = fragment.delete(where)
        if rest is None:
            removed.append(number)
            gone += before
        elif rest.num_deletions != fragment.num_deletions:
            updated.append(rest)
            gone += rest.num_deletions - fragment.num_deletions
    return updated, removed, gone


def update(
    spark: SparkSession,
    table: str | None = None,
    *,
    set: Mapping[str, str | Column],  # noqa: A002  # the word of SQL
    where: str | Column | None = None,
    **options: Any,
) -> ChangeResult:
    """Set columns to Spark SQL expressions in the rows for which a Spark SQL condition holds."""
    ref = table_of({**options, "table": table} if table is not None else options)
    if not set:
        raise InvalidInputError("An update must set at least one column")
    values = {n: sf.expr(v) if isinstance(v, str) else v for n, v in set.items()}
    return update_rows(spark, ref, values, where)


def update_rows(
    spark: SparkSession,
    ref: TableRef,
    values: Mapping[str, Column],
    where: str | Column | None,
    *,
    alias: str = "target",
) -> ChangeResult:
    """Set columns in the rows of a table for which a condition holds."""

    def attempt() -> ChangeResult:
        options = ReadOptions(with_row_address=True, truncate_nanos=True)
        read, plan = planned(spark, ref, options)
        rows = read.alias(alias)
        names = [name for name in rows.columns if name != "_rowaddr"]
        for name in values:
            if name not in names:
                raise missing_column(name, ref, names)
        chosen = rows if where is None else rows.where(where)
        columns = [
            values[name].cast(plan.schema[name].dataType).alias(name)
            if name in values
            else sf.col(f"`{name}`")
            for name in names
        ]
        changes = chosen.select(
            sf.col("_rowaddr").alias(ADDRESS), sf.expr("true").alias(COMES), *columns
        )
        with translated(f"Table {ref} cannot be updated like this"):
            kind = changes.drop(ADDRESS, COMES).schema
        writing = prepare(ref, kind, WriteOptions(mode="append"))
        if writing.read_version != plan.version:
            raise ConcurrentModificationError(f"Table {ref} changed while the update was planned")
        tasks = max(parallelism(spark), len(plan.tasks))
        return apply_changes(changes, writing, {JOB: writing.job}, tasks)

    return until_uncontested(attempt)
