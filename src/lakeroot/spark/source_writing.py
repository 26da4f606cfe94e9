"""The writing half of ``format("lakeroot")``: the same plans, run by Spark's own write path."""

import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as st

from lakeroot.spark.options import WriteOptions, parse, table_of
from lakeroot.spark.write_tasks import WritePlan, Written, watched, write_rows
from lakeroot.spark.writing import abort, already_done, finish, prepare


class WrittenMessage(ds.WriterCommitMessage):  # type: ignore[misc]
    """What one task has written, as Spark carries it to the driver."""

    def __init__(self, written: Written) -> None:
        self.written = written


class LakerootWriter(ds.DataSourceArrowWriter):  # type: ignore[misc]
    """Write one batch query."""

    def __init__(self, plan: WritePlan | None) -> None:
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenMessage:
        """Write the rows of one task; of a job that was already done, none."""
        if self.plan is None:
            return WrittenMessage(Written((), None, 0))
        return WrittenMessage(write_rows(self.plan, iterator))

    def commit(self, messages: Sequence[WrittenMessage | None]) -> None:
        """Publish what all tasks have written."""
        if self.plan is not None:
            finish(self.plan, [message.written for message in messages if message is not None])

    def abort(self, messages: Sequence[WrittenMessage | None]) -> None:
        """Remove what the tasks have written, reported or not."""
        if self.plan is not None:
            abort(self.plan)


def batch_writer(
    given: dict[str, str], schema: st.StructType, *, overwrite: bool
) -> LakerootWriter:
    """Prepare a batch write; Spark's save mode decides unless the option `mode` is set."""
    options = parse(WriteOptions, given)
    if options.mode is None:
        options = dataclasses.replace(options, mode="overwrite" if overwrite else "append")
    ref = table_of(given)
    if already_done(ref, options) is not None:
        return LakerootWriter(None)
    return LakerootWriter(watched(prepare(ref, schema, options)))
