"""Delete and update rows of a table by predicate."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import lance
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeroot.model.errors import ConcurrentModificationError, InvalidInputError, LakerootError
from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.commits import JOB, VERB, commit, find_job, require_read
from lakeroot.spark.distribute import distribute, until_uncontested
from lakeroot.spark.failures import translated
from lakeroot.spark.fitting import (
    cut_columns,
    kept_apart,
    minds_case,
    refuse_cut,
    refuse_unheld,
    resolved,
    rows_of,
    spelled_as,
)
from lakeroot.spark.opening import open_table, opened_for
from lakeroot.spark.options import ReadOptions, WriteOptions, job_name, parse, table_alone
from lakeroot.spark.planning import ReadPlan, ReadTask, missing_column, only_held, plan_read
from lakeroot.spark.reading import parallelism, planned
from lakeroot.spark.row_changes import (
    ADDRESS,
    COMES,
    ChangeResult,
    apply_changes,
    done_before,
    foretold,
)
from lakeroot.spark.scanning import reopened
from lakeroot.spark.writing import prepare
from lakeroot.tables.expressions import whole

_DELETE, _UPDATE = "delete", "update"


def _nothing() -> None:
    """Look at nothing else."""


def delete(
    spark: SparkSession,
    table: str | None = None,
    *,
    where: str,
    job_id: str | None = None,
    dry_run: bool = False,
    **options: Any,
) -> ChangeResult:
    """Delete the rows for which a predicate, in the SQL of Lance, holds.

    A `job_id` makes it happen once; a dry run counts the rows and leaves them.
    """
    ref = table_alone(table, options, "where", "job_id", "dry_run")
    if dry_run:
        reading = ReadOptions(filter=where, truncate_nanos=True)
        rows, plan = planned(spark, ref, reading, for_change=True)
        with translated(f"Table {ref} cannot be read"):
            return ChangeResult(plan.version, deleted=rows.count())
    return delete_rows(spark, ref, where, job_id=job_id)


def delete_rows(
    spark: SparkSession, ref: TableRef, where: str, *, job_id: str | None = None
) -> ChangeResult:
    """Delete the rows of a table for which a predicate holds."""
    job_id = job_name(job_id)

    def attempt() -> ChangeResult:
        done = done_before(ref, job_id, _DELETE)
        if done is not None:
            return done
        options = ReadOptions(filter=where, truncate_nanos=True)
        opened = opened_for(ref, options)
        # Lance alone looks at the columns of the predicate.
        options = only_held(opened.dataset.schema, options)
        plan = plan_read(ref, options, parallelism=parallelism(spark), opened=opened)
        what = f"Rows of table {ref} cannot be deleted"
        work = partial(_delete_in, plan, where)
        parts = distribute(spark, plan.tasks, work, what=what, size=plan.bytes)
        updated = [fragment for part in parts for fragment in part[0]]
        removed = [number for part in parts for number in part[1]]
        gone = sum(part[2] for part in parts)
        if not gone:
            return ChangeResult(plan.version)
        # The very table that was read: what has its name by now may be another.
        located, dataset = opened.table, opened.dataset
        require_read(located, dataset)
        operation = lance.LanceOperation.Delete(updated, removed, where)
        job = job_id or uuid.uuid4().hex
        try:
            said = {JOB: job, VERB: _DELETE}
            made = commit(
                located, dataset, operation, read_version=plan.version, properties=said
            ).version
        except LakerootError:
            # It may have happened, and only its answer was lost.
            found = find_job(open_table(located), JOB, job, newer_than=plan.version)
            if found is None:
                raise
            made = found
        return ChangeResult(made, deleted=gone)

    return until_uncontested(attempt)


def delete_where(
    spark: SparkSession,
    ref: TableRef,
    where: str,
    *,
    alias: str,
    may_cut: bool = False,
    look: Callable[[], None] = _nothing,
) -> ChangeResult:
    """Delete the rows of a table for which a condition, in the SQL of Spark, holds.

    `look` is called when it is known which version changes: what else is read must not be older.
    """

    def attempt() -> ChangeResult:
        options = ReadOptions(with_row_address=True, truncate_nanos=True)
        rows, plan = planned(spark, ref, options, exact=not may_cut, for_change=True)
        look()
        table = reopened(plan.scan).schema
        kept = [field for field in plan.schema.fields if field.name != "_rowaddr"]
        # Rows that go have no values: only the columns of the condition are read.
        nothing = [sf.lit(None).cast(field.dataType).alias(field.name) for field in kept]

        def chosen(these: DataFrame) -> DataFrame:
            return (
                these.alias(alias)
                .where(where)
                .select(sf.col("_rowaddr").alias(ADDRESS), sf.expr("false").alias(COMES), *nothing)
            )

        with translated(f"Rows of table {ref} cannot be deleted like this"):
            changes = resolved(chosen, rows, table, ref)
        writing = replace(prepare(ref, rows_of(table), WriteOptions(mode="append")), verb=_DELETE)
        if writing.read_version != plan.version:
            raise ConcurrentModificationError(f"Table {ref} changed while the delete was planned")
        return apply_changes(changes, writing, max(parallelism(spark), len(plan.tasks)))

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
        rest = fragment.delete(whole(where))
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
    job_id: str | None = None,
    dry_run: bool = False,
    **options: Any,
) -> ChangeResult:
    """Set columns to Spark SQL expressions in the rows for which a Spark SQL condition holds.

    A `job_id` makes it happen once; a dry run checks it and counts the rows. Columns that are not
    set keep their exact values; `truncateNanos` lets Spark compute without nanoseconds, and those
    that are set lose them.
    """
    may_cut, rest = _may_cut(options)
    ref = table_alone(table, rest, "set", "where", "job_id", "dry_run", "truncateNanos")
    if not set:
        raise InvalidInputError("An update must set at least one column")
    if not isinstance(set, Mapping):
        raise InvalidInputError(
            f"Columns cannot be set by {set!r}",
            "it takes Spark SQL by column",
            'Write {"column": "an expression"}',
        )
    values = {n: sf.expr(v) if isinstance(v, str) else v for n, v in set.items()}
    return update_rows(spark, ref, values, where, job_id=job_id, dry_run=dry_run, may_cut=may_cut)


def update_rows(
    spark: SparkSession,
    ref: TableRef,
    values: Mapping[str, Column],
    where: str | Column | None,
    *,
    alias: str = "target",
    job_id: str | None = None,
    dry_run: bool = False,
    may_cut: bool = False,
    look: Callable[[], None] = _nothing,
) -> ChangeResult:
    """Set columns in the rows of a table for which a condition holds; `look` as of a delete."""
    job_id = job_name(job_id)

    def attempt() -> ChangeResult:
        done = done_before(ref, job_id, _UPDATE)
        if done is not None:
            return done
        options = ReadOptions(with_row_address=True, truncate_nanos=True)
        rows, plan = planned(spark, ref, options, exact=not may_cut, for_change=True)
        look()
        table = reopened(plan.scan).schema
        names = [name for name in plan.schema.fieldNames() if name != "_rowaddr"]
        new = _by_column(values, table.names, ref, exact=minds_case(spark))
        refuse_unheld(new, table, ref)
        writing = prepare(ref, rows_of(table), WriteOptions(mode="append", job_id=job_id))
        writing = replace(writing, verb=_UPDATE)
        if writing.read_version != plan.version:
            raise ConcurrentModificationError(f"Table {ref} changed while the update was planned")
        apart = kept_apart(writing.schema)
        columns = [
            new[name].cast(plan.schema[name].dataType).alias(name)
            if name in new
            else sf.col(f"`{name}`")
            for name in names
            if name in new or name not in apart
        ]

        def changed(these: DataFrame) -> DataFrame:
            named = these.alias(alias)
            chosen = named if where is None else named.where(where)
            return chosen.select(
                sf.col("_rowaddr").alias(ADDRESS), sf.expr("true").alias(COMES), *columns
            )

        cut = cut_columns(writing.schema)
        with translated(f"Table {ref} cannot be updated like this"):
            changes = resolved(changed, rows, table, ref)
        if not may_cut:
            refuse_cut(new, rows.drop(*cut).alias(alias), cut, ref)
        if dry_run:
            return foretold(changes, writing)
        return apply_changes(changes, writing, max(parallelism(spark), len(plan.tasks)))

    return until_uncontested(attempt)


def _may_cut(options: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Read whether nanoseconds may be lost; give the other options."""
    mine = {key for key in options if key.replace("_", "").lower() == "truncatenanos"}
    asked = parse(ReadOptions, {key: options[key] for key in mine})
    return asked.truncate_nanos, {key: options[key] for key in options if key not in mine}


def _by_column(
    values: Mapping[str, Column], names: Sequence[str], ref: TableRef, *, exact: bool
) -> dict[str, Column]:
    """Name new values as the table names its columns."""
    known = spelled_as(list(values), names, exact=exact)
    new: dict[str, Column] = {}
    for name, value in values.items():
        if name not in known:
            raise missing_column(name, ref, names)
        if known[name] in new:
            raise InvalidInputError(f"The column {known[name]!r} is set twice")
        new[known[name]] = value
    return new
