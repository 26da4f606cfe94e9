"""SQL over Lakeroot catalogs: what Spark runs by itself, and MERGE and UPDATE, which it cannot.

Spark's own MERGE and UPDATE write row by row through Java, which a Python writer cannot take. Here
they are read, turned into a join or a projection, and committed like every other change. So is
DELETE, of which Spark runs only what Lance can evaluate.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeroot.model.errors import (
    InvalidInputError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark.catalogs import exists, locate, parse_name
from lakeroot.spark.changing import delete_rows, delete_where, update_rows
from lakeroot.spark.distribute import until_uncontested
from lakeroot.spark.fitting import cut_columns, minds_case, rows_of
from lakeroot.spark.merge_clauses import Clause, Merge, lost_answer, merge_rows
from lakeroot.spark.null_checks import NullChecks
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, parse
from lakeroot.spark.row_changes import ChangeResult
from lakeroot.spark.spark_sql.connect import run, summary
from lakeroot.spark.spark_sql.connect_queries import Subqueries, query
from lakeroot.spark.spark_sql.installing import table_in
from lakeroot.spark.spark_sql.scanning import Statement, assignments, settings, split, unquoted
from lakeroot.spark.writing import prepare

_ALIASED = re.compile(
    r"^(?P<what>.+?)(?:\s+WITH\s*\((?P<options>[^()]*)\))?"
    r"(?:\s+(?:AS\s+)?(?P<alias>[A-Za-z_]\w*|`[^`]+`))?$",
    re.DOTALL | re.IGNORECASE,
)

_CHANGES = (("MERGE", "INTO"), ("UPDATE",), ("DELETE", "FROM"))


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement; tables are named ``catalog.namespace.table``.

    MERGE INTO, UPDATE and DELETE run here, in every kind of session; the table that they change may
    be followed by ``WITH (truncateNanos = true)``, which lets Spark compute without nanoseconds.
    Everything else runs in Spark in a classic session, through its catalog. Over Spark Connect
    queries run with the tables put in as frames, and statements that make, fill and drop tables and
    namespaces run here.
    """
    with Subqueries(spark) as inner:
        done = _changes(spark, text, inner)
    if done is not None:
        return summary(spark, done)
    if hasattr(spark, "_jsparkSession"):
        return spark.sql(text)
    return run(spark, text)


def _changes(spark: SparkSession, text: str, inner: Subqueries) -> ChangeResult | None:
    """Run a statement that changes rows; nothing is done if it is none of our tables."""
    statement = Statement(text)
    if statement.peek("MERGE", "WITH", "SCHEMA", "EVOLUTION"):
        raise UnsupportedOperationError(
            "MERGE WITH SCHEMA EVOLUTION is not supported",
            "a merge changes rows and no columns",
            "Add the columns first, with ALTER TABLE ... ADD COLUMNS, and use MERGE INTO",
        )
    if not any(statement.peek(*words) for words in _CHANGES):
        return None
    statement = Statement(inner.put_in(statement.text))
    if statement.take("MERGE", "INTO"):
        return _merge(spark, statement, inner)
    if statement.take("UPDATE"):
        return _update(spark, statement, inner)
    statement.expect("DELETE", "FROM")
    return _delete(spark, statement, inner)


def _aliased(text: str) -> tuple[str, str, str]:
    """Read a table or a query: what it is, its options, and its alias."""
    match = _ALIASED.match(text.strip())
    if match is None:
        raise InvalidInputError(f"{text!r} is not a table")
    return match["what"].strip(), match["options"] or "", (match["alias"] or "").strip("`")


def _changed(text: str) -> tuple[str, bool, str]:
    """Read the table that a statement changes: its name, whether it may cut, and its alias."""
    name, options, alias = _aliased(text)
    given = settings(options)
    for key in given:
        if key.replace("_", "").lower() != "truncatenanos":
            raise InvalidInputError(
                f"The table that a statement changes has no option {key!r}",
                fix="It may be told WITH (truncateNanos = true)",
            )
    return name, parse(ReadOptions, given).truncate_nanos, alias


def _called(name: str, alias: str) -> Sequence[str]:
    """Say how a statement calls its table: an alias hides the name."""
    return (alias,) if alias else parse_name(name)


def _merge(spark: SparkSession, statement: Statement, inner: Subqueries) -> ChangeResult:
    name, may_cut, target = _changed(statement.until(("USING",)))
    ref = table_in(spark, name)
    called = _called(name, target)
    target = target or ref.identifier[-1]
    statement.expect("USING")
    what, options, source_name = _aliased(statement.until(("ON",)))
    source_name = source_name or parse_name(what)[-1]
    what = f"{what} WITH ({options})" if options else what
    statement.expect("ON")
    condition = sf.expr(statement.until(("WHEN",)))
    begin = statement.position
    clauses = _clauses(statement, called, None)
    if exists(ref) is None:
        raise TableNotFoundError(f"There is no table {ref}")
    inner.look()
    source = _source(spark, what)
    cut = [] if may_cut else cut_columns(open_table(locate(ref)).schema)
    checks = NullChecks(cut, target, source.columns if cut else (), exact=minds_case(spark))
    if cut:
        statement.position = begin
        clauses = _clauses(statement, called, checks)

    job = uuid.uuid4().hex
    tried: int | None = None

    def attempt() -> ChangeResult:
        nonlocal tried
        done = None if tried is None else lost_answer(ref, job, newer_than=tried)
        if done is not None:
            return done
        # The clauses decide what is written, so the rows have exactly the table's own columns.
        columns = rows_of(open_table(locate(ref)).schema)
        plan = replace(prepare(ref, columns, WriteOptions(mode="append", job_id=job)), verb="merge")
        tried = plan.read_version if tried is None else tried
        inner.look()
        merge = Merge(
            condition,
            clauses["matched"],
            clauses["target"],
            clauses["source"],
            (target, source_name),
            checks.asked,
        )
        return merge_rows(source, plan, merge, may_cut=may_cut)

    return until_uncontested(attempt)


def _source(spark: SparkSession, what: str) -> DataFrame:
    text = what if what.startswith("(") else f"(SELECT * FROM {what})"  # noqa: S608  # the user's own
    if hasattr(spark, "_jsparkSession"):
        return spark.sql(text[1:-1])
    return query(spark, text[1:-1])


def _clauses(
    statement: Statement, target: Sequence[str], checks: NullChecks | None
) -> dict[str, list[Clause]]:
    clauses: dict[str, list[Clause]] = {"matched": [], "target": [], "source": []}
    while not statement.finished:
        _when(statement, clauses, target, checks)
    return clauses


def _when(
    statement: Statement,
    clauses: dict[str, list[Clause]],
    target: Sequence[str],
    checks: NullChecks | None,
) -> None:
    statement.expect("WHEN")
    if statement.take("MATCHED"):
        kind = "matched"
    elif statement.take("NOT", "MATCHED", "BY", "SOURCE"):
        kind = "source"
    else:
        statement.expect("NOT", "MATCHED")
        statement.take("BY", "TARGET")
        kind = "target"
    text = statement.until(("THEN",)) if statement.take("AND") else None
    # A row that only the source has has nothing of the table to ask for.
    if text is not None and checks is not None and kind != "target":
        text = checks.replaced(text)
    condition = None if text is None else sf.expr(text)
    statement.expect("THEN")
    clauses[kind].append(_action(statement, kind, condition, target))


def _action(
    statement: Statement, kind: str, condition: Column | None, target: Sequence[str]
) -> Clause:
    if kind != "target" and statement.take("DELETE"):
        return Clause("delete", condition)
    if kind != "target" and statement.take("UPDATE", "SET"):
        text = statement.until(("WHEN",))
        if text == "*":
            return Clause("update", condition)
        return Clause("update", condition, _expressions(assignments(text, target)))
    if kind == "target" and statement.take("INSERT"):
        columns = statement.until(("VALUES",), ("WHEN",))
        if columns == "*":
            return Clause("insert", condition)
        statement.expect("VALUES")
        names = [unquoted(name) for name in split(_inside(columns))]
        values = split(_inside(statement.until(("WHEN",))))
        if len(names) != len(values):
            raise InvalidInputError(
                f"INSERT names {len(names)} columns and gives {len(values)} values"
            )
        if len(set(names)) != len(names):
            raise InvalidInputError("INSERT names a column twice")
        return Clause("insert", condition, _expressions(dict(zip(names, values, strict=True))))
    statement.expect({"target": "INSERT"}.get(kind, "UPDATE SET or DELETE"))
    raise AssertionError  # `expect` has raised: the word is not there


def _inside(text: str) -> str:
    if not (text.startswith("(") and text.endswith(")")):
        raise InvalidInputError(f"{text!r} should be in parentheses")
    return text[1:-1]


def _expressions(texts: dict[str, str]) -> dict[str, Column]:
    return {name: sf.expr(text) for name, text in texts.items()}


def _update(spark: SparkSession, statement: Statement, inner: Subqueries) -> ChangeResult:
    name, may_cut, alias = _changed(statement.until(("SET",)))
    ref = table_in(spark, name)
    statement.expect("SET")
    values = _expressions(assignments(statement.until(("WHERE",)), _called(name, alias)))
    where = statement.until() if statement.take("WHERE") else None
    alias = alias or ref.identifier[-1]
    return update_rows(spark, ref, values, where, alias=alias, may_cut=may_cut, look=inner.look)


def _delete(spark: SparkSession, statement: Statement, inner: Subqueries) -> ChangeResult | None:
    """Delete rows; a table that is in no Lakeroot catalog is left to Spark."""
    name, may_cut, alias = _changed(statement.until(("WHERE",)))
    try:
        ref = table_in(spark, name)
    except TableNotFoundError:
        return None
    if exists(ref) is None:
        raise TableNotFoundError(f"There is no table {ref}")
    if statement.finished:
        return delete_rows(spark, ref, "true")
    statement.expect("WHERE")
    alias = alias or ref.identifier[-1]
    return delete_where(
        spark, ref, statement.until(), alias=alias, may_cut=may_cut, look=inner.look
    )
