"""A planned read as a frame that Spark sees through: it prunes, filters and counts before it reads.

In a classic session this needs no catalog with a name, only the same Java text. Where that cannot
be, the caller has another way to make a frame.
"""

import json
import logging
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.fitting import cut_columns, inexact
from lakeroot.spark.opening import Opened
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.planning import ReadPlan
from lakeroot.spark.spark_sql.reads import Reads

_log = logging.getLogger(__name__)


class _OneRead(Reads):
    """Answer about one table, at the version that was planned."""

    def __init__(
        self,
        ref: TableRef,
        options: ReadOptions,
        opened: Opened,
        parallelism: int,
        *,
        exact: bool,
    ) -> None:
        super().__init__(parallelism, columnar=True)
        self.one = (ref, options, opened)
        self.exact = exact

    def wanted(self, request: dict[str, Any]) -> tuple[TableRef, ReadOptions, Opened]:
        """Return the table, however and as long ago as it was opened."""
        del request
        return self.one

    def may_cut(self, request: dict[str, Any]) -> bool:
        """Tell what whoever made the frame has allowed."""
        del request
        return self.one[1].truncate_nanos and not self.exact

    def refuse_cut(self, read: pa.Schema) -> None:
        """Refuse to let Spark compute with columns that would lose their nanoseconds."""
        cut = cut_columns(read)
        if cut:
            raise inexact(cut, self.one[0])


def relation(
    spark: SparkSession,
    plan: ReadPlan,
    options: ReadOptions,
    opened: Opened,
    *,
    exact: bool = False,
) -> DataFrame | None:
    """Return the frame of a read, or nothing where Spark cannot be given one like this.

    Of an exact one Lance compares the columns with nanoseconds, and Spark does not get to see them.
    """
    from lakeroot.spark.reading import parallelism
    from lakeroot.spark.spark_sql.installing import check_version, plugin

    if not hasattr(spark, "_jsparkSession"):
        return None
    session: Any = spark._jsparkSession  # noqa: SLF001
    found = {
        "table": {"cut": opened.cut},
        "schema": plan.schema.json(),
        "properties": {"provider": "lakeroot", "version": str(plan.version)},
    }
    try:
        check_version()
        answers = _OneRead(plan.ref, options, opened, parallelism(spark), exact=exact)
        made = plugin(spark, str(plan.ref), answers, columnar=True)
        return DataFrame(made.frame(session, json.dumps(found)), spark)
    except Exception as error:  # noqa: BLE001  # whatever it is, there is another way
        _log.warning("Spark reads %s in rows, because: %s", plan.ref, str(error)[:300])
        return None


def local(spark: SparkSession, plan: ReadPlan) -> DataFrame | None:
    """Make a frame of rows that are here; nothing where Spark cannot have one like this."""
    if plan.here is None or not hasattr(spark, "_jsparkSession"):
        return None
    from lakeroot.spark.spark_sql.few_rows import FewRows

    return FewRows(spark, plan.here, plan.schema)
