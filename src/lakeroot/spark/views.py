"""Materialized views: a refresh runs the query, and puts its rows in the place of the old ones."""

import re
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeroot.model.errors import InvalidInputError
from lakeroot.namespace.jobs import NewView, RefreshView
from lakeroot.spark.catalogs import Catalog, TableRef, locate
from lakeroot.spark.failures import translated
from lakeroot.spark.fitting import fit
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.spark_sql.installing import use_catalog
from lakeroot.spark.write_tasks import run
from lakeroot.spark.writing import OVERWRITE, WriteResult, abort, already_done, finish, prepare

NAME = "lake"
# Where Spark says in a query that something is wrong.
_LINE = re.compile(r"\bline (\d+)(?=,? pos)")


def check(spark: SparkSession, catalog: Catalog, view: NewView) -> None:
    """Refuse a view whose query Spark does not understand, or whose columns it does not give.

    Spark looks at the query and at the tables that it names; no job runs.
    """
    _fitting(spark, TableRef(catalog, view.table), view.query, view.schema)


def refresh(spark: SparkSession, catalog: Catalog, job: RefreshView) -> WriteResult:
    """Replace the rows of a view in one commit; its schema and definition stay as they are.

    The query is Spark's SQL. Tables are named as in the catalog, with or without ``lake.`` before.
    """
    ref = TableRef(catalog, job.table)
    options = WriteOptions(mode=OVERWRITE, job_id=job.job)
    if job.max_rows_per_file is not None:
        options = replace(options, max_rows_per_file=job.max_rows_per_file)
    before = already_done(ref, options)
    if before is not None:
        return before
    schema = open_table(locate(ref)).schema
    rows, fitted = _fitting(spark, ref, job.query, schema)
    plan = prepare(ref, rows.schema, options)
    plan = replace(plan, schema=fitted.with_metadata(schema.metadata))
    try:
        with translated(f"The view {ref} cannot be refreshed"):
            written = run(rows, plan)
    except BaseException:
        abort(plan)
        raise
    return finish(plan, written)


def _fitting(
    spark: SparkSession, ref: TableRef, query: str, schema: pa.Schema
) -> tuple[DataFrame, pa.Schema]:
    """Give the rows of a query in the order of the view's columns, and the schema to write them."""
    rows = _rows(spark, ref, query)
    names = rows.columns
    if sorted(names) != sorted(schema.names):
        raise InvalidInputError(
            f"The query of {ref} gives the columns {', '.join(names)}",
            f"the view has {', '.join(schema.names)}",
        )
    rows = rows.select(*(sf.col(f"`{name.replace('`', '``')}`") for name in schema.names))
    return rows, fit(rows.schema, schema, str(ref))


def _rows(spark: SparkSession, ref: TableRef, query: str) -> DataFrame:
    catalog = ref.catalog
    assert catalog is not None  # noqa: S101  # a view is named in a catalog
    # A session of its own: the caller's current catalog is not ours to change.
    own = spark.newSession()
    use_catalog(own, NAME, impl=catalog.impl, properties=dict(catalog.properties))
    own.catalog.setCurrentCatalog(NAME)
    try:
        with translated(f"The query of {ref} cannot be run"):
            # In brackets only a query is a query: a command in its place is an error of syntax.
            return own.sql(f"SELECT * FROM (\n{query}\n)")  # noqa: S608  # whoever defines may query
    except InvalidInputError as error:
        # The query begins in the second line of what Spark has read.
        why = _LINE.sub(lambda match: f"line {int(match[1]) - 1}", error.why)
        raise type(error)(error.what, why, error.fix) from error
