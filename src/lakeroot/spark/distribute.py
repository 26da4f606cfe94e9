"""Run one function over many items as Spark tasks; small work runs where it is."""

import pickle
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.spark.failures import translated
from lakeroot.spark.workers import begin

Item = TypeVar("Item")
Result = TypeVar("Result")

Work = Callable[[Any], Any]
# The number of an item, and the item or its result as bytes.
Numbered = tuple[int, bytes]
_NUMBERED = pa.schema([("number", pa.int32()), ("pickled", pa.binary())])

# Below this a Spark job costs more than the work.
SMALL = 32 << 20
# How often an append tries to follow the very version that it has looked at.
_STRICT_TRIES = 4


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
    """Give each task its own item, and nothing of the others'."""
    numbered = [(number, cloudpickle.dumps(item)) for number, item in enumerate(items)]
    run = _over_rdd if hasattr(spark, "_jsparkSession") else _over_frame
    # These bytes come from this job's own tasks.
    found = {n: pickle.loads(result) for n, result in run(spark, numbered, work)}  # noqa: S301
    return [found[number] for number in range(len(items))]


def _over_rdd(spark: SparkSession, items: list[Numbered], work: Work) -> Iterator[Numbered]:
    """Run tasks with what Spark has had from the start: it asks nothing of SQL's planner."""

    def task(mine: Iterable[Numbered]) -> Iterator[Numbered]:
        begin()
        for number, item in mine:
            yield number, _worked(work, item)

    yield from spark.sparkContext.parallelize(items, len(items)).mapPartitions(task).collect()


def _over_frame(spark: SparkSession, items: list[Numbered], work: Work) -> Iterator[Numbered]:
    """Run tasks over Spark Connect, which has frames only."""

    def task(mine: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        for batch in mine:
            for number, item in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield pa.record_batch([[number], [_worked(work, item)]], schema=_NUMBERED)

    numbers, pickled = zip(*items, strict=True)
    table = pa.table([numbers, pickled], schema=_NUMBERED)
    frame = spark.createDataFrame(table).repartitionById(len(items), "number")
    for row in frame.mapInArrow(task, frame.schema).collect():
        yield row.number, bytes(row.pickled)


def _worked(work: Work, item: bytes) -> bytes:
    # The driver has just written these bytes.
    result: bytes = cloudpickle.dumps(work(pickle.loads(item)))  # noqa: S301
    return result


def until_uncontested(attempt: Callable[[], Result], *, tries: int = 10) -> Result:
    """Do a job again from the start for as long as other writers get in between."""
    for number in range(tries - 1):
        try:
            return attempt()
        except ConcurrentModificationError:
            # Writers that collided once would collide again if both came back at once.
            time.sleep(random.uniform(0, 0.05 * 2**number))  # noqa: S311
    return attempt()


def strictly_at_first(strict: Callable[[], Result], otherwise: Callable[[], Result]) -> Result:
    """Append: right after the version that was looked at or, beside a busy writer, after any.

    What follows a version that nobody has looked at may follow a change of the columns, or the same
    rows of another driver. Only who has lost several races takes that chance, of milliseconds:
    otherwise it would lose for as long as the others write.
    """
    try:
        return until_uncontested(strict, tries=_STRICT_TRIES)
    except ConcurrentModificationError:
        return otherwise()
