"""Merge by any condition with any clauses: a join of the table and the source, read row by row.

The first clause whose situation and condition hold decides over a row, as in SQL.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import lance
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.commits import JOB
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.reading import parallelism, planned
from lakeroot.spark.row_changes import ADDRESS, COMES, ChangeResult, apply_changes
from lakeroot.spark.types import spark_schema
from lakeroot.spark.write_tasks import WritePlan

TARGET, SOURCE = "target", "source"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN of a merge: what to do with a row, if a condition holds.

    `values` gives the new columns, and no values mean those of the source by name. Expressions
    name the two sides `target` and `source`.
    """

    action: Literal["update", "insert", "delete"]
    condition: Column | None = None
    values: Mapping[str, Column] | None = None


UPDATE, INSERT, DELETE = Clause("update"), Clause("insert"), Clause("delete")


@dataclass(frozen=True, slots=True)
class Merge:
    """When rows of the two sides match, and what is done in each of the three situations."""

    condition: Column
    matched: Sequence[Clause]
    not_matched: Sequence[Clause]
    not_matched_by_source: Sequence[Clause]
    names: tuple[str, str] = (TARGET, SOURCE)
    """What the conditions call the table and the source."""


def same_keys(keys: Sequence[str]) -> Column:
    """Match rows of the two sides whose keys are equal."""
    return reduce(
        operator.and_, (sf.col(f"{TARGET}.`{k}`") == sf.col(f"{SOURCE}.`{k}`") for k in keys)
    )


def merge_rows(source: DataFrame, plan: WritePlan, merge: Merge) -> ChangeResult:
    """Merge with Spark: join the table with the source, and apply what the clauses make of it."""
    changes, tasks = merge_changes(source, plan, merge)
    return apply_changes(changes, plan, {JOB: plan.job}, tasks)


def merge_changes(source: DataFrame, plan: WritePlan, merge: Merge) -> tuple[DataFrame, int]:
    """Plan a merge: the rows that go and come, and the number of tasks to change them with."""
    if plan.dataset is None:
        raise InvalidInputError(
            f"Table {plan.table.ref} does not exist", fix="Create it with a write first"
        )
    spark = source.sparkSession
    ref = plan.table.ref
    options = ReadOptions(
        version=plan.read_version,
        branch=plan.options.branch,
        with_row_address=True,
        truncate_nanos=True,
    )
    rows, reading = planned(spark, ref, options)
    target = rows.withColumn("__in_target", sf.lit(1)).alias(merge.names[0])
    given = source.withColumn("__in_source", sf.lit(1)).alias(merge.names[1])
    kind = {(True, True): "full", (True, False): "right", (False, True): "left"}.get(
        (bool(merge.not_matched), bool(merge.not_matched_by_source)), "inner"
    )
    joined = target.join(given, merge.condition, kind)
    schema = spark_schema(lance_schema(plan), truncate_nanos=True)
    changes = changed_rows(joined, schema, source.columns, merge)
    return changes, max(parallelism(spark), len(reading.tasks))


def lance_schema(plan: WritePlan) -> pa.Schema:
    """Return the schema of the table that a plan writes to."""
    dataset: lance.LanceDataset = open_table(plan.table)
    return dataset.schema


def changed_rows(
    joined: DataFrame,
    schema: st.StructType,
    source_columns: Sequence[str],
    merge: Merge,
) -> DataFrame:
    """Turn a join of table and source into the rows that go and the rows that come."""
    names = merge.names
    in_target = sf.col(f"{names[0]}.__in_target").isNotNull()
    in_source = sf.col(f"{names[1]}.__in_source").isNotNull()
    situations = [
        *((in_target & in_source, clause) for clause in merge.matched),
        *((~in_target & in_source, clause) for clause in merge.not_matched),
        *((in_target & ~in_source, clause) for clause in merge.not_matched_by_source),
    ]
    if not situations:
        raise InvalidInputError("The merge has no clause, so it would do nothing")
    # The number of the first clause whose situation and condition hold decides over a row.
    chosen = sf.coalesce(
        *(
            sf.when(where if clause.condition is None else where & clause.condition, sf.lit(n))
            for n, (where, clause) in enumerate(situations)
        )
    )
    decided = joined.withColumn("__clause", chosen).where(sf.col("__clause").isNotNull())
    comes = [n for n, (_, clause) in enumerate(situations) if clause.action in ("update", "insert")]
    columns = [
        _column(field.name, situations, source_columns, names)
        .cast(field.dataType)
        .alias(field.name)
        for field in schema.fields
    ]
    return decided.select(
        sf.col(f"{names[0]}._rowaddr").alias(ADDRESS),
        sf.col("__clause").isin(comes).alias(COMES),
        *columns,
    )


def _column(
    name: str,
    situations: Sequence[tuple[Column, Clause]],
    source_columns: Sequence[str],
    names: tuple[str, str],
) -> Column:
    """Say where the value of a column comes from, clause by clause.

    A row that only goes has no values: where no clause asks for the old value of a column, the
    column is not read at all.
    """
    old = sf.col(f"{names[0]}.`{name}`")
    value: Column = sf.lit(None)
    for number, (_, clause) in enumerate(situations):
        if clause.action not in ("update", "insert"):
            continue
        missing = sf.lit(None) if clause.action == "insert" else old
        if clause.values is not None:
            new = clause.values.get(name, missing)
        else:
            new = sf.col(f"{names[1]}.`{name}`") if name in source_columns else missing
        value = sf.when(sf.col("__clause") == number, new).otherwise(value)
    return value
