"""Merge by any condition with any clauses: a join of the table and the source, read row by row.

The first clause whose situation and condition hold decides over a row, as in SQL.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.catalogs import TableRef, exists
from lakeroot.spark.commits import JOB, find_job
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
from lakeroot.spark.null_checks import answered, computed
from lakeroot.spark.opening import newest_at
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.planning import missing_column
from lakeroot.spark.reading import parallelism, planned
from lakeroot.spark.row_changes import (
    ADDRESS,
    COMES,
    KEPT,
    ChangeResult,
    apply_changes,
    foretold,
)
from lakeroot.spark.types import held
from lakeroot.spark.write_tasks import WritePlan, target_of

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
    asked: Mapping[str, str] | None = None
    """Columns that the conditions name besides: each is whether another one is null."""


def same_keys(keys: Sequence[str]) -> Column:
    """Match rows of the two sides whose keys are equal."""
    return reduce(
        operator.and_, (sf.col(f"{TARGET}.`{k}`") == sf.col(f"{SOURCE}.`{k}`") for k in keys)
    )


def lost_answer(
    ref: TableRef, job: str, branch: str | None = None, *, newer_than: int
) -> ChangeResult | None:
    """Find what this very job has committed, before it tries again.

    Whoever took the number that it wanted may have been itself, if the answer was lost.
    """
    found = exists(ref)
    if found is None:
        return None
    version = find_job(newest_at(found, branch), JOB, job, newer_than=newer_than)
    return None if version is None else ChangeResult(version, already_done=True)


def merge_rows(
    source: DataFrame,
    plan: WritePlan,
    merge: Merge,
    *,
    dry_run: bool = False,
    may_cut: bool = False,
) -> ChangeResult:
    """Merge with Spark: join the table with the source, and apply what the clauses make of it."""
    changes, tasks = merge_changes(source, plan, merge, may_cut=may_cut)
    return foretold(changes, plan) if dry_run else apply_changes(changes, plan, tasks)


def merge_changes(
    source: DataFrame, plan: WritePlan, merge: Merge, *, may_cut: bool = False
) -> tuple[DataFrame, int]:
    """Plan a merge: the rows that go and come, and the number of tasks to change them with.

    Spark computes with nanoseconds of the table only if they may be cut off.
    """
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
    rows, reading = planned(spark, ref, options, exact=not may_cut, for_change=True)
    dataset: Any = target_of(plan)
    if merge.asked:
        cut = cut_columns(dataset.schema)
        seen = set(cut) <= set(rows.columns)
        whole = rows if seen else planned(spark, ref, options, for_change=True)[0]
        with translated(f"Rows cannot be merged into table {ref} like this"):
            rows = answered(whole, merge.asked) if seen else computed(whole, merge.asked).drop(*cut)
    known = rows_of(dataset.schema)
    schema = st.StructType([known[name] for name in held(dataset.schema)])
    # Columns that come with this very merge hold null in the rows that are there.
    apart = kept_apart(dataset.schema)
    absent = [field for field in schema.fields if field.name not in rows.columns]
    missing = [field for field in absent if field.name not in apart]
    nulls = (sf.lit(None).cast(field.dataType).alias(field.name) for field in missing)
    rows = rows.select("*", *nulls) if missing else rows
    mark = unused("__lakeroot_is_there", [*rows.columns, *source.columns])
    given = source.withColumn(mark, sf.lit(1)).alias(merge.names[1])
    kind = {(True, True): "full", (True, False): "right", (False, True): "left"}.get(
        (bool(merge.not_matched), bool(merge.not_matched_by_source)), "inner"
    )
    case = minds_case(spark)
    merge = named_as(merge, dataset.schema.names, ref, exact=case)
    clauses = (*merge.matched, *merge.not_matched, *merge.not_matched_by_source)
    for clause in clauses:
        refuse_unheld(clause.values or (), dataset.schema, ref)
    if any(clause.values is None and clause.action != "delete" for clause in clauses):
        valued = [f.name for f in source.schema if not isinstance(f.dataType, st.NullType)]
        refuse_unheld(spelled_as(dataset.schema.names, valued, exact=case), dataset.schema, ref)

    def marked(these: DataFrame) -> DataFrame:
        return these.withColumn(mark, sf.lit(1)).alias(merge.names[0])

    def changed(these: DataFrame) -> DataFrame:
        return changed_rows(
            marked(these).join(given, merge.condition, kind),
            schema,
            spelled_as(schema.fieldNames(), source.columns, exact=case),
            merge,
            mark,
            apart,
        )

    with translated(f"Rows cannot be merged into table {ref} like this"):
        changes = resolved(changed, rows, dataset.schema, ref)
    cut = [] if may_cut else cut_columns(dataset.schema)
    for clause in clauses:
        if set(clause.values or ()) & set(cut):
            refuse_cut(clause.values or {}, marked(rows.drop(*cut)).crossJoin(given), cut, ref)
    return changes, max(parallelism(spark), len(reading.tasks))


def unused(name: str, columns: Sequence[str]) -> str:
    """Give a name that no column has, however it is spelled."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name += "_"
    return name


def named_as(merge: Merge, columns: Sequence[str], ref: TableRef, *, exact: bool) -> Merge:
    """Let the clauses name columns as the table does; one that it has not is refused."""

    def named(clause: Clause) -> Clause:
        if clause.values is None:
            return clause
        known = spelled_as(list(clause.values), columns, exact=exact)
        values: dict[str, Column] = {}
        for name, value in clause.values.items():
            if name not in known:
                raise missing_column(name, ref, columns)
            if known[name] in values:
                raise InvalidInputError(f"A clause sets the column {known[name]!r} twice")
            values[known[name]] = value
        return replace(clause, values=values)

    return replace(
        merge,
        matched=[named(each) for each in merge.matched],
        not_matched=[named(each) for each in merge.not_matched],
        not_matched_by_source=[named(each) for each in merge.not_matched_by_source],
    )


def changed_rows(
    joined: DataFrame,
    schema: st.StructType,
    source_columns: Mapping[str, str],
    merge: Merge,
    mark: str,
    apart: Sequence[str] = (),
) -> DataFrame:
    """Turn a join of table and source into the rows that go and the rows that come.

    `mark` is a column of both sides that is never null where the side has a row. Old values of the
    columns `apart` are not read: the rows say that they keep them.
    """
    names = merge.names
    in_target = sf.col(f"{names[0]}.{mark}").isNotNull()
    in_source = sf.col(f"{names[1]}.{mark}").isNotNull()
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
    number = unused("__lakeroot_clause", joined.columns)
    decided = joined.withColumn(number, chosen).where(sf.col(number).isNotNull())
    comes = [n for n, (_, clause) in enumerate(situations) if clause.action in ("update", "insert")]
    columns = []
    for field in schema.fields:
        name, chosen = field.name, sf.col(number)
        old = sf.lit(None) if name in apart else sf.col(f"{names[0]}.`{name}`")
        keeping = [n for n in comes if not _gives(situations[n][1], name, source_columns)]
        if name in apart and keeping == comes:
            continue
        value = _column(name, situations, source_columns, names[1], chosen, old)
        columns.append(value.cast(field.dataType).alias(name))
        if name in apart and keeping:
            columns.append(chosen.isin(keeping).alias(KEPT + name))
    return decided.select(
        sf.col(f"{names[0]}._rowaddr").alias(ADDRESS),
        sf.col(number).isin(comes).alias(COMES),
        *columns,
    )


def _gives(clause: Clause, name: str, source_columns: Mapping[str, str]) -> bool:
    """Tell whether a clause has a value for a column."""
    return name in (source_columns if clause.values is None else clause.values)


def _column(
    name: str,
    situations: Sequence[tuple[Column, Clause]],
    source_columns: Mapping[str, str],
    source: str,
    chosen: Column,
    old: Column,
) -> Column:
    """Say where the value of a column comes from, clause by clause.

    A row that only goes has no values: where no clause asks for the old value of a column, the
    column is not read at all.
    """
    value: Column = sf.lit(None)
    for number, (_, clause) in enumerate(situations):
        if clause.action not in ("update", "insert"):
            continue
        missing = sf.lit(None) if clause.action == "insert" else old
        if clause.values is not None:
            new = clause.values.get(name, missing)
        else:
            given = source_columns.get(name)
            new = missing if given is None else sf.col(f"{source}.`{given}`")
        value = sf.when(chosen == number, new).otherwise(value)
    return value
