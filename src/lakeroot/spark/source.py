"""``format("lakeroot")``: Spark's Python data source over the same planner and the same commits.

Spark runs each of its planning steps in a process of its own, with nothing but the options. It
keeps one planned read per frame: a query that pushes filters replaces it, and any other query of
the frame, earlier or later, runs what is there. So a filter must never become a part of the plan;
all of them stay with Spark. The option `filter` is the same for every query, and reaches Lance.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as st

from lakeroot.spark import workers  # noqa: F401 (workers that only plan load it, too)
from lakeroot.spark.catalogs import locate
from lakeroot.spark.opening import open_for
from lakeroot.spark.options import ReadOptions, parse, table_of
from lakeroot.spark.planning import ReadTask, plan_read, read_schema
from lakeroot.spark.scanning import batches
from lakeroot.spark.source_writing import LakerootWriter, batch_writer
from lakeroot.spark.streaming import LakerootSink, LakerootStream, stream_sink


class TaskPartition(ds.InputPartition):  # type: ignore[misc]
    """One planned task, as Spark carries it."""

    def __init__(self, scan: Any, task: ReadTask) -> None:
        super().__init__(task)
        self.scan = scan


class LakerootReader(ds.DataSourceReader):  # type: ignore[misc]
    """Read a table. It takes no filters from Spark, which would give them to other queries."""

    def __init__(self, options: dict[str, str], schema: st.StructType) -> None:
        self.options = options
        self.schema = schema

    def partitions(self) -> list[TaskPartition]:
        """Plan the read."""
        plan = plan_read(
            table_of(self.options),
            parse(ReadOptions, self.options),
            pruned=self.schema.fieldNames(),
        )
        return [TaskPartition(plan.scan, task) for task in plan.tasks]

    def read(self, partition: TaskPartition) -> Iterator[pa.RecordBatch]:
        """Read one task."""
        return batches(partition.scan, partition.value)


class LakerootSource(ds.DataSource):  # type: ignore[misc]
    """The source, as Spark finds it by itself and as `lakeroot.spark.register` gives it."""

    @classmethod
    def name(cls) -> str:
        """Return the name after ``format``."""
        return "lakeroot"

    def schema(self) -> st.StructType:
        """Return the schema of the table, at the version that is read."""
        options = parse(ReadOptions, dict(self.options))
        ref = table_of(dict(self.options))
        return read_schema(open_for(locate(ref), options), ref, options)

    def reader(self, schema: st.StructType) -> LakerootReader:
        """Make the reader of a batch query."""
        return LakerootReader(dict(self.options), schema)

    def writer(self, schema: st.StructType, overwrite: bool) -> LakerootWriter:  # noqa: FBT001
        """Make the writer of a batch query."""
        return batch_writer(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: st.StructType) -> LakerootStream:  # noqa: N802
        """Make the reader of a stream out of the table."""
        return LakerootStream(dict(self.options), schema)

    def streamWriter(  # noqa: N802
        self,
        schema: st.StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> LakerootSink:
        """Make the writer of a stream into the table."""
        return stream_sink(dict(self.options), schema, overwrite=overwrite)
