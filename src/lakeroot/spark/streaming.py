"""Streams out of and into tables.

Out: the offset is a version; a micro-batch is the rows that the versions after it have added.
In: every micro-batch is one commit that carries the query's id and the batch's number, so a batch
that is replayed after a crash finds itself in the table's history and does nothing.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as st
from pyspark.sql.streaming import datasource as limits

from lakeroot.model.errors import InvalidInputError, InvalidTableStateError, LakerootError
from lakeroot.objects import open_root, parse_root
from lakeroot.spark.catalogs import exists, locate
from lakeroot.spark.commits import files_of, properties_of
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, parse, table_of
from lakeroot.spark.planning import ReadTask, Scan, plan_read
from lakeroot.spark.scanning import batches
from lakeroot.spark.source_writing import WrittenMessage
from lakeroot.spark.write_tasks import WritePlan, Written, write_rows
from lakeroot.spark.writing import abort, append_fragments, finish, newest_of, prepare

STREAM = "lakeroot.stream"
BATCH = "lakeroot.batch"
_ADDS_ROWS = ("Append",)
_CHANGES_ROWS = ("Overwrite", "Update", "Delete", "Restore", "DataReplacement", "DataOverlay")


class TablePartition(ds.InputPartition):  # type: ignore[misc]
    """Some fragments of one version."""

    def __init__(self, scan: Scan, task: ReadTask) -> None:
        super().__init__(task)
        self.scan = scan


class LakerootStream(ds.DataSourceStreamReader, limits.SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read a table as a stream of the rows added to it."""

    def __init__(self, options: dict[str, str], schema: st.StructType) -> None:
        self.given = options
        self.ref = table_of(options)
        self.options = parse(ReadOptions, options)
        self.schema = schema
        self.last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Start before the first version, or where the user wants."""
        return {"version": self.options.starting_version or 0}

    def getDefaultReadLimit(self) -> limits.ReadLimit:  # noqa: N802
        """Limit a micro-batch to so many versions, if the user wants."""
        most = self.options.max_versions_per_trigger
        return limits.ReadMaxFiles(most) if most else limits.ReadAllAvailable()

    def latestOffset(  # noqa: N802
        self, start: dict[str, int], limit: limits.ReadLimit
    ) -> dict[str, int]:
        """Say up to which version the next micro-batch goes."""
        newest = self.last if self.last is not None else self._newest()
        if isinstance(limit, limits.ReadMaxFiles):
            newest = min(newest, max(start["version"], 0) + limit.max_files)
        return {"version": max(newest, start["version"])}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Say what there is, for the progress display."""
        return {"version": self._newest()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the version at which this run of the query ends."""
        self.last = self._newest()

    def _newest(self) -> int:
        return int(open_table(locate(self.ref)).version)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[TablePartition]:
        """Plan the rows that the versions after `start`, up to `end`, have added."""
        first, last = start["version"], end["version"]
        if first == 0 and last > 0 and not self.options.max_versions_per_trigger:
            return self._planned(last, None)
        dataset = open_table(locate(self.ref))
        parts: list[TablePartition] = []
        for version in range(first + 1, last + 1):
            if self._adds_rows(dataset, version):
                before = set() if version == 1 else _fragments(dataset, version - 1)
                parts += self._planned(version, _fragments(dataset, version) - before)
        return parts

    def _adds_rows(self, dataset: lance.LanceDataset, version: int) -> bool:
        try:
            transaction = dataset.read_transaction(version)
        except (OSError, ValueError):
            raise InvalidTableStateError(
                f"Version {version} of table {self.ref} is gone, and the stream has not read it",
                "old versions were cleaned up before the stream came to them",
                "Start a new query with `startingVersion`, or keep versions longer",
            ) from None
        kind = type(transaction.operation).__name__ if transaction is not None else ""
        if kind in _CHANGES_ROWS and version > 1 and not self.options.skip_changes:
            raise InvalidTableStateError(
                f"Version {version} of table {self.ref} changes rows that the stream has delivered",
                f"it is a {kind}, and a stream can only deliver added rows",
                "Set `skipChanges` to true to leave such versions out",
            )
        return kind in _ADDS_ROWS or version == 1

    def _planned(self, version: int, fragments: set[int] | None) -> list[TablePartition]:
        options = dataclasses.replace(self.options, version=version)
        plan = plan_read(self.ref, options, pruned=self.schema)
        if fragments is None:
            return [TablePartition(plan.scan, task) for task in plan.tasks]
        if not fragments:
            return []
        return [TablePartition(plan.scan, ReadTask(tuple(sorted(fragments))))]

    def read(self, partition: TablePartition) -> Iterator[pa.RecordBatch]:
        """Read one task."""
        if partition.value is None:
            return iter(())
        return batches(partition.scan, partition.value)

    def commit(self, end: dict[str, int]) -> None:
        """Keep nothing: the offset is all there is to a stream."""

    def stop(self) -> None:
        """Stop without anything to release."""


def _fragments(dataset: lance.LanceDataset, version: int) -> set[int]:
    fragments = dataset.checkout_version(version).get_fragments()
    return {fragment.fragment_id for fragment in fragments}


class LakerootSink(ds.DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Append a stream to a table, every micro-batch exactly once."""

    def __init__(self, plan: WritePlan, stream: str) -> None:
        self.plan = plan
        self.stream = stream

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenMessage:
        """Write the rows of one task."""
        return WrittenMessage(write_rows(self.plan, iterator))

    def commit(self, messages: Sequence[WrittenMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a micro-batch, unless an earlier attempt already has."""
        written = [message.written for message in messages if message is not None]
        fragments = [fragment for part in written for fragment in part.fragments]
        if not fragments:
            # No rows, no version: nothing is there that could be repeated.
            return
        newest = newest_of(self.plan)
        last = last_batch(newest, self.stream)
        if last is not None and last >= batchId:
            self._discard(written)
            return
        properties = {STREAM: self.stream, BATCH: str(batchId)}
        append_fragments(self.plan, fragments, properties, newest)
        self._forget_receipts(written)

    def abort(self, messages: Sequence[WrittenMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks of a failed micro-batch have written.

        Spark also comes here when the answer of a commit was lost; then the files may be the
        table's, and stay.
        """
        try:
            last = last_batch(newest_of(self.plan), self.stream)
        except LakerootError:
            return
        if last is None or last < batchId:
            self._discard([message.written for message in messages if message is not None])

    def _discard(self, written: Sequence[Written]) -> None:
        names = [name for part in written for name in part.files]
        files_of(self.plan.table).delete([f"data/{name}" for name in names])
        self._forget_receipts(written)

    def _forget_receipts(self, written: Sequence[Written]) -> None:
        """Remove the receipts of these tasks only: older ones may be of committed files."""
        paths = [part.receipt for part in written if part.receipt is not None]
        files_of(self.plan.table).delete(paths)


def last_batch(dataset: lance.LanceDataset, stream: str) -> int | None:
    """Find the newest micro-batch of a stream in the history of a table."""
    for version in range(dataset.version, 0, -1):
        properties = properties_of(dataset, version)
        if properties is None:
            return None
        if properties.get(STREAM) == stream:
            return int(properties[BATCH])
    return None


def stream_sink(
    given: dict[str, str],
    schema: st.StructType,
    *,
    overwrite: bool = False,
    query: str | None = None,
) -> LakerootSink:
    """Prepare a stream into a table; a missing table is created empty first."""
    if overwrite:
        raise InvalidInputError(
            "A stream into a table cannot have the output mode complete",
            "every micro-batch is appended",
            "Write with `foreachBatch` and `lakeroot.spark.write(..., mode='overwrite')`",
        )
    lower = {key.lower(): value for key, value in given.items()}
    stream = stream_id(lower, query)
    ref = table_of(given)
    options = parse(WriteOptions, {k: v for k, v in given.items() if k.lower() != "streamid"})
    if options.mode not in (None, "append"):
        raise InvalidInputError(f"A stream cannot write with mode {options.mode!r}")
    if exists(ref) is None:
        _create_empty(given, schema, options)
    plan = prepare(ref, schema, dataclasses.replace(options, mode="append", job_id=None))
    return LakerootSink(plan, stream)


def _create_empty(given: dict[str, str], schema: st.StructType, options: WriteOptions) -> None:
    ref = table_of(given)
    plan = prepare(ref, schema, dataclasses.replace(options, mode="append", job_id=None))
    if plan.dataset is not None:
        return
    try:
        finish(plan, [])
    except LakerootError:
        if exists(ref) is None:
            abort(plan)
            raise


def stream_id(lower: dict[str, Any], query: str | None = None) -> str:
    """Name the query for good: by the id inside its checkpoint, which outlives every restart.

    The path of the checkpoint would not do: one that was deleted and made anew counts its batches
    from zero again, and they would be taken for replays.
    """
    if lower.get("streamid"):
        return str(lower["streamid"])
    checkpoint = lower.get("checkpointlocation")
    if not checkpoint:
        raise InvalidInputError(
            "A stream into a table needs a name that outlives a restart",
            fix="Set the option `checkpointLocation` on this query, or `streamId`",
        )
    if query is not None:
        # Spark has read the same file, wherever it lies.
        return query
    metadata = open_root(parse_root(checkpoint)).get("metadata")
    if metadata is None:
        raise InvalidInputError(
            f"The checkpoint at {checkpoint} cannot be read from here",
            fix="Set the option `streamId` to a name that is unique to this query",
        )
    return str(json.loads(metadata)["id"])
