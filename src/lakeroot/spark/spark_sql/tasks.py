"""The functions that Spark's workers run for the SQL catalog, pickled the way Spark expects."""

import base64
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer

from lakeroot.spark.planning import ReadTask, Scan
from lakeroot.spark.scanning import batches
from lakeroot.spark.source_writing import LakerootWriter
from lakeroot.spark.streaming import LakerootSink
from lakeroot.spark.workers import begin

PICKLE = CloudPickleSerializer()


def encoded(data: bytes) -> str:
    """Write bytes as text, to travel in JSON."""
    return base64.b64encode(data).decode()


def reader(scan: Scan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that reads one task; Spark hands the task in as one cell."""

    def read_task(cells: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        for batch in cells:
            task: ReadTask = PICKLE.loads(batch.column(0)[0].as_py())
            yield from batches(scan, task)

    return read_task


def part_reader(cells: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read tasks that come with all they must know: those of a stream differ in their version."""
    begin()
    for batch in cells:
        scan, task = PICKLE.loads(batch.column(0)[0].as_py())
        yield from batches(scan, task)


def target_writer(
    target: LakerootWriter | LakerootSink, column: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that writes the rows of one task, and returns the message as one cell."""

    def write_task(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        message = PICKLE.dumps(target.write(iter(rows)))
        yield pa.record_batch([pa.array([message], pa.binary())], names=[column])

    return write_task
