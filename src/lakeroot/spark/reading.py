"""Tables as Spark DataFrames: planned on the driver, read by tasks, in any kind of session."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.fitting import cut_columns
from lakeroot.spark.opening import opened_for
from lakeroot.spark.options import ReadOptions, parse, table_of
from lakeroot.spark.planning import ReadPlan, only_held, plan_read
from lakeroot.spark.scanning import batches, few
from lakeroot.spark.workers import begin

# What Spark believes of a frame at most: far above every size that it would hand to all executors.
_MOST_BYTES = 1 << 30


def read(spark: SparkSession, table: str | None = None, **options: Any) -> DataFrame:
    """Read a table, or a part of it, as a DataFrame.

    The table is named in a catalog (`root`, or `impl` with `property.*`) or by `location`; the
    other options are those of `format("lakeroot")`, in Python's spelling and with plain values.
    """
    given = {**options, "table": table} if table is not None else options
    asked = parse(ReadOptions, given)
    return planned(spark, table_of(given), asked)[0]


def planned(
    spark: SparkSession,
    ref: TableRef,
    options: ReadOptions,
    *,
    exact: bool = False,
    for_change: bool = False,
) -> tuple[DataFrame, ReadPlan]:
    """Plan a read of the whole of what the options say, and make the best frame of it.

    With `exact`, whoever chooses rows by a column with nanoseconds does so by all of them, or is
    refused; where Lance cannot be asked to compare it, the frame lacks the column. A read
    `for_change` lacks the columns that Spark cannot hold: rows can be changed without them.
    """
    from lakeroot.spark.spark_sql.frames import local, relation

    opened = opened_for(ref, options)
    if for_change:
        options = only_held(opened.dataset.schema, options)
    found = few if options.filter is not None or options.is_search else None
    plan = plan_read(
        ref, options, parallelism=parallelism(spark), opened=opened, spread=True, few=found
    )
    if plan.here is not None:
        return local(spark, plan) or spark.createDataFrame(plan.here, plan.schema), plan
    if options.limit is None and not options.is_search:
        made = relation(spark, plan, options, opened, exact=exact)
        if made is not None:
            return made, plan
        cut = cut_columns(opened.dataset.schema) if exact else []
        return frame(spark, plan).drop(*cut), plan
    # These rows are bounded or ranked first; no filter of Spark may get in before that.
    rows = frame(spark, plan)
    if len(plan.tasks) > 1 and options.ranked is not None:
        # Each task has found the nearest of its own rows.
        rows = rows.orderBy("_distance").limit(options.ranked)
    return rows, plan


def frame(spark: SparkSession, plan: ReadPlan) -> DataFrame:
    """Make the DataFrame of a planned read: one row per task goes in, the table's rows come out.

    Only task numbers are in Spark's plan. What a task must know, credentials included, travels
    inside the function.
    """
    scan, tasks = plan.scan, plan.tasks

    def read_tasks(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from batches(scan, tasks[number])

    return task_numbers(spark, len(tasks), plan.bytes).mapInArrow(read_tasks, plan.schema)


def task_numbers(spark: SparkSession, tasks: int, size: int) -> DataFrame:
    """Return one row per task, in a frame that Spark believes to have the bytes of the result.

    Spark takes what comes out of `mapInArrow` to be as large as what goes in. By a few numbers it
    would judge every table small enough for a broadcast, and die of a join with a large one. So
    the numbers are cut out of a range of that size, which is made nowhere but in registers.
    """
    rows = min(size, _MOST_BYTES) // 8 // max(tasks, 1)
    bits = max(rows - 1, 0).bit_length()
    numbers = spark.range(0, tasks << bits, 1, max(tasks, 1))
    if not bits:
        return numbers
    first = numbers.where(sf.col("id").bitwiseAND((1 << bits) - 1) == 0)
    return first.select(sf.shiftright("id", bits).alias("id"))


def parallelism(spark: SparkSession) -> int:
    """Tell how many tasks run at once; over Connect, where nobody can ask, the setting counts."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    return int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or 2)
