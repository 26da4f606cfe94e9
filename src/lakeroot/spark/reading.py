"""Tables as Spark DataFrames: planned on the driver, read by tasks, in any kind of session."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeroot.spark.opening import opened_for
from lakeroot.spark.options import ReadOptions, parse, table_of
from lakeroot.spark.planning import ReadPlan, ReadTask, plan_read
from lakeroot.spark.scanning import batches


def read(spark: SparkSession, table: str | None = None, **options: Any) -> DataFrame:
    """Read a table, or a part of it, as a DataFrame.

    The table is named in a catalog (`root`, or `impl` with `property.*`) or by `location`; the
    other options are those of `format("lakeroot")`, in Python's spelling and with plain values.
    """
    from lakeroot.spark.sql.frames import local, relation

    given = {**options, "table": table} if table is not None else options
    ref, chosen = table_of(given), parse(ReadOptions, given)
    opened = opened_for(ref, chosen)
    plan = plan_read(ref, chosen, parallelism=parallelism(spark), opened=opened)
    if chosen.limit is not None or chosen.is_search:
        # These rows are bounded or ranked first; no filter of Spark may get in before that.
        few = plan.few and chosen.is_search
        return local(spark, plan) or local_frame(spark, plan) if few else frame(spark, plan)
    return relation(spark, plan, chosen, opened) or frame(spark, plan)


def local_frame(spark: SparkSession, plan: ReadPlan) -> DataFrame:
    """Read few rows here: a job for them would take many times as long as the read."""
    rows = pa.Table.from_batches(batches(plan.scan, ReadTask(None)), plan.scan.schema)
    return spark.createDataFrame(rows, plan.schema)


def frame(spark: SparkSession, plan: ReadPlan) -> DataFrame:
    """Make the DataFrame of a planned read: one row per task goes in, the table's rows come out.

    Only task numbers are in Spark's plan. What a task must know, credentials included, travels
    inside the function.
    """
    scan, tasks = plan.scan, plan.tasks

    def read_tasks(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from batches(scan, tasks[number])

    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(read_tasks, plan.schema)


def parallelism(spark: SparkSession) -> int:
    """Tell how many tasks run at once; over Connect, where nobody can ask, the setting counts."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    return int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or 2)
