"""What Spark asks about streams into tables, however they are named: in a catalog or by options."""

import base64
import json
import uuid
from abc import abstractmethod
from typing import Any

from pyspark.sql import types as st

from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.row_tasks import BATCH_BYTES
from lakeroot.spark.source_writing import LakerootWriter
from lakeroot.spark.spark_sql.reads import Reads
from lakeroot.spark.spark_sql.tasks import PICKLE, encoded, target_writer
from lakeroot.spark.streaming import LakerootSink, stream_sink


class Sinks(Reads):
    """Answer the questions of streams, and say of every write what its tasks run."""

    def __init__(self, parallelism: int, written_column: str, *, columnar: bool) -> None:
        super().__init__(parallelism, columnar=columnar)
        self.written_column = written_column
        self.sinks: dict[str, LakerootSink] = {}

    @abstractmethod
    def target(self, request: dict[str, Any]) -> TableRef:
        """Say which table is written."""

    def op_prepare_stream(self, request: dict[str, Any]) -> dict[str, Any]:
        """Prepare one micro-batch of a stream into a table."""
        ref, schema = self.target(request), st.StructType.fromJson(json.loads(request["schema"]))
        sink = stream_sink(
            request["options"],
            schema,
            overwrite=request["overwrite"],
            query=request["query"],
            ref=ref,
            batch=request.get("batch"),
        )
        token = uuid.uuid4().hex
        self.sinks[token] = sink
        return self.prepared(token, sink, ref)

    def op_commit_stream(self, request: dict[str, Any]) -> bool:
        """Publish a micro-batch; if it fails, Spark still asks to abort it."""
        self.sinks[request["write"]].commit(messages(request), request["batch"])
        self.sinks.pop(request["write"])
        return True

    def op_abort_stream(self, request: dict[str, Any]) -> bool:
        """Remove what the tasks of a micro-batch have written."""
        sink = self.sinks.pop(request["write"], None)
        if sink is not None:
            sink.abort(messages(request), request["batch"])
        return True

    def prepared(
        self, token: str, target: LakerootWriter | LakerootSink, ref: TableRef
    ) -> dict[str, Any]:
        """Give the function that Spark's workers run, and how they get their rows."""
        returned = st.StructType([st.StructField(self.written_column, st.BinaryType())])
        function = PICKLE.dumps((target_writer(target, self.written_column), returned))
        return {
            "write": token,
            "function": encoded(function),
            # The class that makes the batches is where the one is that reads vectors.
            "batches": self.columnar,
            "bytes": BATCH_BYTES,
            "what": f"Table {ref} cannot be written",
        }


def messages(request: dict[str, Any]) -> list[Any]:
    """Read what the tasks of a write report."""
    return [PICKLE.loads(base64.b64decode(text)) for text in request["messages"]]
