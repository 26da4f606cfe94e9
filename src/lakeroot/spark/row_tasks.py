"""Give the rows of a frame to a function, task by task: how everything that writes runs on Spark.

`mapInArrow` would do, and does where there is nothing better. But it measures the whole batch again
after every row, which takes several times as long as making the batch. In a classic session a Java
class of our own fills the batches.
"""

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from lakeroot.spark.workers import begin

_log = logging.getLogger(__name__)

Rows = Iterable[pa.RecordBatch]
# What crosses to Python at once, at most: wide rows in few, so that a task stays small in memory.
BATCH_BYTES = 8 << 20
_MESSAGE = st.StructType([st.StructField("message", st.BinaryType())])


def over_rows(frame: DataFrame, work: Callable[[Rows], Any]) -> list[Any]:
    """Run a function once per task over its rows; return what the successful attempts return."""

    def task(batches: Rows) -> Iterator[pa.RecordBatch]:
        begin()
        message = cloudpickle.dumps(work(batches))
        yield pa.record_batch([pa.array([message], pa.binary())], names=["message"])

    found = _prepared(frame, task)
    if found is None:
        messages = [row.message for row in frame.mapInArrow(task, _MESSAGE).collect()]
    else:
        messages = list(found.run(frame._jdf))  # noqa: SLF001
    # These bytes come from this job's own tasks.
    return [pickle.loads(bytes(message)) for message in messages]  # noqa: S301


def _prepared(frame: DataFrame, task: Callable[[Rows], Iterator[pa.RecordBatch]]) -> Any | None:
    """Make the Java half, or nothing where Spark cannot have one: over Connect, another Spark."""
    from lakeroot.spark.spark_sql.compiling import WRITES, compiled, send_classes
    from lakeroot.spark.spark_sql.installing import check_version, python_source
    from lakeroot.spark.spark_sql.tasks import PICKLE

    spark: Any = frame.sparkSession
    if not hasattr(spark, "_jsparkSession"):
        return None
    try:
        check_version()
        context = spark.sparkContext
        made = compiled(context._jvm, WRITES)  # noqa: SLF001
        send_classes(context)
        arguments = context._jvm.java.util.ArrayList()  # noqa: SLF001
        arguments.add(python_source(context))
        arguments.add(PICKLE.dumps((task, _MESSAGE)))
        arguments.add(frame._jdf.schema())  # noqa: SLF001
        arguments.add(spark._jsparkSession.sessionState().conf())  # noqa: SLF001
        arguments.add(BATCH_BYTES)
        # Whoever runs this says what it could not do.
        arguments.add("")
        return made.getConstructors()[0].newInstance(arguments.toArray())
    except Exception as error:  # noqa: BLE001  # whatever it is, there is another way
        _log.warning("Rows go to Python the slow way, because: %s", str(error)[:300])
        return None
