"""Refresh a materialized view: run its query, and put the rows in the place of the old ones."""

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeroot.model.errors import InvalidInputError
from lakeroot.namespace.jobs import RefreshView
from lakeroot.spark.catalogs import Catalog, TableRef, locate
from lakeroot.spark.failures import translated
from lakeroot.spark.fitting import fit
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.spark_sql.installing import use_catalog
from lakeroot.spark.write_tasks import run
from lakeroot.spark.writing import OVERWRITE, WriteResult, abort, already_done, finish, prepare

NAME = "lake"


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
    rows = _rows(spark, catalog, job.query)
    names = rows.columns
    if sorted(names) != sorted(schema.names):
        raise InvalidInputError(
            f"The query of {ref} gives the columns {', '.join(names)}",
            f"the view has {', '.join(schema.names)}",
        )
    rows = rows.select(*(sf.col(f"`{name.replace('`', '``')}`") for name in schema.names))
    plan = prepare(ref, rows.schema, options)
    fitted = fit(rows.schema, schema, str(ref)).with_metadata(schema.metadata)
    plan = replace(plan, schema=fitted)
    try:
        with translated(f"The view {ref} cannot be refreshed"):
            written = run(rows, plan)
    except BaseException:
        abort(plan)
        raise
    return finish(plan, written)


def _rows(spark: SparkSession, catalog: Catalog, query: str) -> DataFrame:
    # A session of its own: the caller's current catalog is not ours to change.
    own = spark.newSession()
    use_catalog(own, NAME, impl=catalog.impl, properties=dict(catalog.properties))
    own.catalog.setCurrentCatalog(NAME)
    with translated("The query of the view cannot be run"):
        # In brackets only a query is a query: a command in its place is an error of syntax.
        return own.sql(f"SELECT * FROM (\n{query}\n)")  # noqa: S608  # whoever defines may query
