"""What ``format("lakeroot")`` answers in a classic session: reads, writes and streams."""

import json
import uuid
from dataclasses import replace
from typing import Any

from pyspark.sql import types as st
from pyspark.sql.streaming import datasource as limits

from lakeroot.model.errors import ConcurrentModificationError, InvalidInputError
from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.opening import Opened, opened_for
from lakeroot.spark.options import ReadOptions, parse, table_of
from lakeroot.spark.planning import missing_column, read_schema
from lakeroot.spark.source_writing import LakerootWriter, batch_writer
from lakeroot.spark.spark_sql.sinks import Sinks, messages
from lakeroot.spark.spark_sql.tasks import PICKLE, encoded, part_reader
from lakeroot.spark.streaming import LakerootStream


class SourceAnswers(Sinks):
    """Answer the questions of one session's source."""

    def __init__(self, parallelism: int, written_column: str) -> None:
        super().__init__(parallelism, written_column, columnar=True)
        self.writers: dict[str, LakerootWriter] = {}

    # Reads

    def op_load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Find the version to read, and the schema of it; the one a user gives must fit."""
        given = request["options"]
        ref, options = table_of(given), parse(ReadOptions, given)
        opened = opened_for(ref, options)
        schema = read_schema(opened.dataset, ref, options)
        if "schema" in request:
            schema = _fitting(_schema(request), schema, ref)
        key = uuid.uuid4().hex
        self.keep(key, opened)
        return {
            "table": {"key": key, "version": opened.dataset.version, "cut": opened.cut},
            "schema": schema.json(),
            "countable": options.limit is None and not options.is_search,
            "most": options.max_versions_per_trigger or 0,
        }

    def wanted(self, request: dict[str, Any]) -> tuple[TableRef, ReadOptions, Opened]:
        """Return the table as it was found, or open the same version again."""
        given, table = request["options"], request["table"]
        ref, options = table_of(given), parse(ReadOptions, given)
        if options.version is None and options.tag is None and options.as_of is None:
            options = replace(options, version=table["version"])
        opened = self.opened.get(table["key"]) or opened_for(ref, options)
        if opened.dataset.version != table["version"]:
            raise ConcurrentModificationError(
                f"Table {ref} is not what it was when the frame was loaded",
                "its tag was moved, or a version was added before the time that was asked for",
                "Load it again",
            )
        return ref, options, opened

    # Writes

    def target(self, request: dict[str, Any]) -> TableRef:
        """Find the table that the options name."""
        return table_of(request["options"])

    def op_prepare_write(self, request: dict[str, Any]) -> dict[str, Any]:
        """Prepare a batch write: the function that Spark's workers run."""
        given, schema = request["options"], _schema(request)
        target = batch_writer(given, schema, overwrite=request["overwrite"])
        token = uuid.uuid4().hex
        self.writers[token] = target
        return self.prepared(token, target, table_of(given))

    def op_commit_write(self, request: dict[str, Any]) -> bool:
        """Publish what the tasks have written; if it fails, Spark still asks to abort it."""
        self.writers[request["write"]].commit(messages(request))
        self.writers.pop(request["write"])
        return True

    def op_abort_write(self, request: dict[str, Any]) -> bool:
        """Remove what the tasks have written."""
        writer = self.writers.pop(request["write"], None)
        if writer is not None:
            writer.abort(messages(request))
        return True

    # Streams out of a table

    def op_stream_start(self, request: dict[str, Any]) -> str:
        """Say where a new query starts."""
        return json.dumps(_stream(request).initialOffset())

    def op_stream_latest(self, request: dict[str, Any]) -> str:
        """Say up to which version the next micro-batch goes."""
        stream = _stream(request)
        if "last" in request:
            stream.last = json.loads(request["last"])["version"]
        most = request.get("most")
        limit = limits.ReadAllAvailable() if most is None else limits.ReadMaxFiles(most)
        return json.dumps(stream.latestOffset(json.loads(request["start"]), limit))

    def op_stream_newest(self, request: dict[str, Any]) -> str:
        """Say what there is."""
        return json.dumps(_stream(request).reportLatestOffset())

    def op_stream_plan(self, request: dict[str, Any]) -> list[str]:
        """Plan a micro-batch: what the tasks read, each with all that it must know."""
        start, end = json.loads(request["start"]), json.loads(request["end"])
        parts = _stream(request).partitions(start, end)
        return [encoded(PICKLE.dumps((part.scan, part.value))) for part in parts]

    def op_stream_reader(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the function that reads a task of any micro-batch."""
        function = PICKLE.dumps((part_reader, _schema(request)))
        what = f"Table {table_of(request['options'])} cannot be read"
        return {"function": encoded(function), "columnar": self.columnar, "what": what}


def _schema(request: dict[str, Any]) -> st.StructType:
    return st.StructType.fromJson(json.loads(request["schema"]))


def _stream(request: dict[str, Any]) -> LakerootStream:
    schema = _schema(request)
    names = schema.fieldNames()
    stream = LakerootStream(request["options"], schema)
    stream.options = replace(
        stream.options, with_row_id="_rowid" in names, with_row_address="_rowaddr" in names
    )
    return stream


def _fitting(wanted: st.StructType, found: st.StructType, ref: TableRef) -> st.StructType:
    """Check the schema that a user gives: it chooses columns, and cannot change them."""
    known = {field.name: field for field in found.fields}
    for field in wanted.fields:
        if field.name not in known:
            raise missing_column(field.name, ref, list(known))
        kind = known[field.name].dataType.simpleString()
        if field.dataType.simpleString() != kind:
            raise InvalidInputError(
                f"Column {field.name!r} of table {ref} is {kind}",
                f"the schema that was given says {field.dataType.simpleString()}",
                "Read it as it is, and cast it",
            )
    return wanted
