"""Run one function over many items as Spark tasks; small work runs where it is."""

import pickle
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.spark.failures import translated
from lakeroot.spark.workers import begin

Item = TypeVar("Item")
Result = TypeVar("Result")

# Below this a Spark job costs more than the work.
SMALL = 32 << 20


def distribute(
    spark: SparkSession,
    items: Sequence[Item],
    work: Callable[[Item], Result],
    *,
    what: str,
    size: int | None = None,
) -> list[Result]:
    """Return the result of every item, in order; one task per item, unless all of it is small."""
    with translated(what):
        if len(items) <= 1 or (size is not None and size < SMALL):
            return [work(item) for item in items]
        return _in_tasks(spark, items, work)


def _in_tasks(
    spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Result]
) -> list[Result]:
    def tasks(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                result = cloudpickle.dumps(work(items[number]))
                yield pa.record_batch(
                    [pa.array([number], pa.int64()), pa.array([result], pa.binary())],
                    names=["number", "result"],
                )

    numbers = spark.range(0, len(items), 1, len(items))
    rows = numbers.mapInArrow(tasks, "number long, result binary").collect()
    # These bytes come from this job's own tasks.
    found = {row.number: pickle.loads(row.result) for row in rows}  # noqa: S301
    return [found[number] for number in range(len(items))]


def until_uncontested(attempt: Callable[[], Result], *, tries: int = 10) -> Result:
    """Do a job again from the start for as long as other writers get in between."""
    for number in range(tries - 1):
        try:
            return attempt()
        except ConcurrentModificationError:
            # Writers that collided once would collide again if both came back at once.
            time.sleep(random.uniform(0, 0.05 * 2**number))  # noqa: S311
    return attempt()
