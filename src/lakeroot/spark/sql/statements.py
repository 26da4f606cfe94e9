"""SQL over Lakeroot catalogs: what Spark runs by itself, and MERGE and UPDATE, which it cannot.

Spark's own MERGE and UPDATE write row by row through Java, which a Python writer cannot take. Here
they are read, turned into a join or a projection, and committed like every other change.
"""

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeroot.model.errors import InvalidInputError, TableNotFoundError
from lakeroot.spark.catalogs import TableRef, exists, locate, parse_name
from lakeroot.spark.changing import update_rows
from lakeroot.spark.distribute import until_uncontested
from lakeroot.spark.merge_clauses import Clause, Merge, merge_rows
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, WriteOptions
from lakeroot.spark.reading import planned
from lakeroot.spark.row_changes import ChangeResult
from lakeroot.spark.sql.installing import catalog_in, catalogs_of
from lakeroot.spark.sql.scanning import Statement, assignments, split
from lakeroot.spark.types import spark_schema
from lakeroot.spark.writing import prepare

_ALIASED = re.compile(
    r"^(?P<what>.+?)(?:\s+(?:AS\s+)?(?P<alias>[A-Za-z_]\w*|`[^`]+`))?$", re.DOTALL | re.IGNORECASE
)


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement; tables are named ``catalog.namespace.table``.

    MERGE INTO and UPDATE run here, in every kind of session. Everything else runs in Spark: through
    its catalog in a classic session, with the tables put in as frames over Spark Connect.
    """
    statement = Statement(text)
    if statement.take("MERGE", "INTO"):
        return _summary(spark, _merge(spark, statement))
    if statement.take("UPDATE"):
        return _summary(spark, _update(spark, statement))
    if hasattr(spark, "_jsparkSession"):
        return spark.sql(text)
    return query(spark, text)


def query(spark: SparkSession, text: str) -> DataFrame:
    """Run a query with every table of a Lakeroot catalog put in as a frame."""
    names = "|".join(re.escape(name) for name in catalogs_of(spark)) or "(?!)"
    frames: dict[str, DataFrame] = {}

    def put_in(match: re.Match[str]) -> str:
        ref = _table(spark, match.group())
        key = f"table{len(frames)}"
        frames[key], _ = planned(spark, ref, ReadOptions())
        return "{" + key + "}"

    escaped = text.replace("{", "{{").replace("}", "}}")
    replaced = re.sub(rf"\b(?:{names})(?:\.(?:`[^`]+`|\w+))+", put_in, escaped)
    return spark.sql(replaced, **frames) if frames else spark.sql(text)


def _summary(spark: SparkSession, done: ChangeResult) -> DataFrame:
    return spark.createDataFrame(
        [(done.version, done.inserted, done.updated, done.deleted)],
        "version long, inserted long, updated long, deleted long",
    )


def _table(spark: SparkSession, name: str) -> TableRef:
    """Find the table of a name in the session's Lakeroot catalogs."""
    first, *rest = parse_name(name.strip())
    catalog = catalog_in(spark, first)
    if catalog is None and hasattr(spark, "_jsparkSession"):
        rest = [*(parse_name(spark.catalog.currentDatabase()) if not rest else ()), first, *rest]
        catalog = catalog_in(spark, spark.catalog.currentCatalog())
    if catalog is None or not rest:
        raise TableNotFoundError(
            f"{name!r} is in no Lakeroot catalog of this session",
            fix="Name it catalog.namespace.table, and add the catalog with use_catalog",
        )
    return TableRef(catalog, tuple(rest))


def _aliased(text: str, default: str) -> tuple[str, str]:
    match = _ALIASED.match(text.strip())
    if match is None:
        raise InvalidInputError(f"{text!r} is not a table")
    return match["what"].strip(), (match["alias"] or default).strip("`")


def _merge(spark: SparkSession, statement: Statement) -> ChangeResult:
    name, target = _aliased(statement.until(("USING",)), "")
    ref = _table(spark, name)
    target = target or ref.identifier[-1]
    statement.expect("USING")
    what, source_name = _aliased(statement.until(("ON",)), "")
    source_name = source_name or parse_name(what)[-1]
    statement.expect("ON")
    condition = sf.expr(statement.until(("WHEN",)))
    clauses: dict[str, list[Clause]] = {"matched": [], "target": [], "source": []}
    while not statement.finished:
        _when(statement, clauses)
    if exists(ref) is None:
        raise TableNotFoundError(f"There is no table {ref}")
    source = _source(spark, what)

    def attempt() -> ChangeResult:
        # The clauses decide what is written, so the rows have exactly the table's own columns.
        columns = spark_schema(open_table(locate(ref)).schema, truncate_nanos=True)
        plan = prepare(ref, columns, WriteOptions(mode="append"))
        merge = Merge(
            condition,
            clauses["matched"],
            clauses["target"],
            clauses["source"],
            (target, source_name),
        )
        return merge_rows(source, plan, merge)

    return until_uncontested(attempt)


def _source(spark: SparkSession, what: str) -> DataFrame:
    text = what if what.startswith("(") else f"(SELECT * FROM {what})"  # noqa: S608  # the user's own
    if hasattr(spark, "_jsparkSession"):
        return spark.sql(text[1:-1])
    return query(spark, text[1:-1])


def _when(statement: Statement, clauses: dict[str, list[Clause]]) -> None:
    statement.expect("WHEN")
    if statement.take("MATCHED"):
        kind = "matched"
    elif statement.take("NOT", "MATCHED", "BY", "SOURCE"):
        kind = "source"
    else:
        statement.expect("NOT", "MATCHED")
        statement.take("BY", "TARGET")
        kind = "target"
    condition = sf.expr(statement.until(("THEN",))) if statement.take("AND") else None
    statement.expect("THEN")
    clauses[kind].append(_action(statement, kind, condition))


def _action(statement: Statement, kind: str, condition: Column | None) -> Clause:
    if kind != "target" and statement.take("DELETE"):
        return Clause("delete", condition)
    if kind != "target" and statement.take("UPDATE", "SET"):
        text = statement.until(("WHEN",))
        return Clause("update", condition, None if text == "*" else _expressions(assignments(text)))
    if kind == "target" and statement.take("INSERT"):
        columns = statement.until(("VALUES",), ("WHEN",))
        if columns == "*":
            return Clause("insert", condition)
        statement.expect("VALUES")
        names = [name.strip("` ") for name in split(_inside(columns))]
        values = split(_inside(statement.until(("WHEN",))))
        if len(names) != len(values):
            raise InvalidInputError(
                f"INSERT names {len(names)} columns and gives {len(values)} values"
            )
        return Clause("insert", condition, _expressions(dict(zip(names, values, strict=True))))
    statement.expect({"target": "INSERT"}.get(kind, "UPDATE SET or DELETE"))
    raise AssertionError  # `expect` has raised: the word is not there


def _inside(text: str) -> str:
    if not (text.startswith("(") and text.endswith(")")):
        raise InvalidInputError(f"{text!r} should be in parentheses")
    return text[1:-1]


def _expressions(texts: dict[str, str]) -> dict[str, Column]:
    return {name: sf.expr(text) for name, text in texts.items()}


def _update(spark: SparkSession, statement: Statement) -> ChangeResult:
    name, alias = _aliased(statement.until(("SET",)), "")
    ref = _table(spark, name)
    statement.expect("SET")
    values = _expressions(assignments(statement.until(("WHERE",))))
    where = statement.until() if statement.take("WHERE") else None
    return update_rows(spark, ref, values, where, alias=alias or ref.identifier[-1])
