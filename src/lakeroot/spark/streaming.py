"""Streams out of and into tables.

Out: the offset is a version and the transaction that made it, by which a checkpoint knows another
table, whatever its name; a micro-batch is the rows that the versions after it have added. The first
one of a new query is all rows there are, unless the user names a version to start after.
In: every micro-batch is one commit that carries the query's id and the batch's number, so a batch
that is replayed after a crash finds itself in the table's history and does nothing.
"""

import dataclasses
import json
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as st
from pyspark.sql.streaming import datasource as limits

from lakeroot.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LakerootError,
    TableVersionNotFoundError,
)
from lakeroot.objects import open_root, parse_root
from lakeroot.spark.catalogs import Located, TableRef, exists, files_of, locate
from lakeroot.spark.commits import JOB, find_commit, properties_of
from lakeroot.spark.distribute import strictly_at_first
from lakeroot.spark.offsets import Offset, offset_at, require_same_table
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, camel, parse, table_of
from lakeroot.spark.planning import ReadTask, Scan, plan_read
from lakeroot.spark.scanning import batches
from lakeroot.spark.source_writing import WrittenMessage
from lakeroot.spark.stream_notes import note_stream, require_beginning, require_stream
from lakeroot.spark.widening import schema_changed
from lakeroot.spark.write_tasks import WritePlan, Written, write_rows
from lakeroot.spark.writing import abort, append_to, finish, newest_of, prepare, properties_of_plan
from lakeroot.tables.made import transaction_of

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
        _refuse_what_streams_have_not(self.options)
        self.schema = schema
        self.last: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Start with all rows, which is before the first version, or where the user wants."""
        first = self.options.starting_version or 0
        newest = self._newest() if first else 0
        if first > newest:
            raise TableVersionNotFoundError(
                f"Table {self.ref} has no version {first} to start after",
                f"its newest is {newest}",
            )
        return {"version": first}

    def getDefaultReadLimit(self) -> limits.ReadLimit:  # noqa: N802
        """Limit a micro-batch to so many versions, if the user wants."""
        most = self.options.max_versions_per_trigger
        return limits.ReadMaxFiles(most) if most else limits.ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: limits.ReadLimit) -> Offset:  # noqa: N802
        """Say up to which version the next micro-batch goes."""
        located = self._located(start)
        newest = self.last if self.last is not None else _newest(located)
        if newest < start["version"]:
            # To wait for the number to come again would leave all rows out until then.
            raise InvalidTableStateError(
                f"The stream has read table {self.ref} up to version {start['version']},"
                f" and its newest is {newest}",
                "another table has its name now, or versions were deleted",
                "Start a new query with a new checkpoint",
            )
        if isinstance(limit, limits.ReadMaxFiles) and not self._is_snapshot(start):
            newest = min(newest, start["version"] + limit.max_files)
        # What differs from the start in any way is a micro-batch to Spark, with rows or without.
        return start if newest == start["version"] else offset_at(located, newest)

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """Say what there is, for the progress display."""
        located = locate(self.ref)
        return offset_at(located, _newest(located))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the version at which this run of the query ends."""
        self.last = self._newest()

    def _newest(self) -> int:
        return _newest(locate(self.ref))

    def _located(self, *offsets: Offset) -> Located:
        """Find the table, which must be the one that the offsets are of."""
        located = locate(self.ref)
        for offset in offsets:
            require_same_table(offset, located)
        return located

    def partitions(self, start: Offset, end: Offset) -> list[TablePartition]:
        """Plan the rows that the versions after `start`, up to `end`, have added."""
        # A batch that is repeated after a crash comes here without having been asked for.
        located = self._located(start, end)
        first, last = start["version"], end["version"]
        if self._is_snapshot(start) and last > 0:
            return self._planned(last, None)
        dataset = open_table(located)
        parts: list[TablePartition] = []
        for version in range(first + 1, last + 1):
            if self._adds_rows(dataset, version):
                before = set() if version == 1 else self._fragments(dataset, version - 1)
                parts += self._planned(version, self._fragments(dataset, version) - before)
        return parts

    def _is_snapshot(self, start: Offset) -> bool:
        """Tell whether a micro-batch is all rows of its version, however they came there.

        So a stream can begin whatever has happened to the table before. Whoever names a version to
        start after wants those behind it one by one, be it from the first.
        """
        return start["version"] == 0 and self.options.starting_version is None

    def _adds_rows(self, dataset: lance.LanceDataset, version: int) -> bool:
        try:
            transaction = transaction_of(dataset, version)
        except (OSError, ValueError):
            raise self._gone(version) from None
        kind = type(transaction.operation).__name__ if transaction is not None else ""
        if kind == "Merge" and version > 1:
            before, after = (self._version(dataset, each) for each in (version - 1, version))
            kind = _what_came_with_columns(before, after)
        if kind in _CHANGES_ROWS and version > 1 and not self.options.skip_changes:
            raise InvalidTableStateError(
                f"Version {version} of table {self.ref} changes rows that the stream has delivered",
                f"it is a {kind}, and a stream can only deliver added rows",
                "Set `skipChanges` to true to leave such versions out",
            )
        return kind in _ADDS_ROWS or version == 1

    def _fragments(self, dataset: lance.LanceDataset, version: int) -> set[int]:
        fragments = self._version(dataset, version).get_fragments()
        return {fragment.fragment_id for fragment in fragments}

    def _version(self, dataset: lance.LanceDataset, version: int) -> lance.LanceDataset:
        try:
            return dataset.checkout_version(version)
        except (OSError, ValueError):
            raise self._gone(version) from None

    def _gone(self, version: int) -> InvalidTableStateError:
        return InvalidTableStateError(
            f"Version {version} of table {self.ref} is gone, and the stream needs it",
            "old versions were cleaned up before the stream had come past them",
            "Start a new query, which begins with all rows, or after another `startingVersion`;"
            " or keep versions longer",
        )

    def _planned(self, version: int, fragments: set[int] | None) -> list[TablePartition]:
        options = dataclasses.replace(self.options, version=version)
        plan = plan_read(self.ref, options, pruned=self.schema.fieldNames())
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

    def commit(self, end: Offset) -> None:
        """Keep nothing: the offset is all there is to a stream."""

    def stop(self) -> None:
        """Stop without anything to release."""


def _newest(located: Located) -> int:
    return int(open_table(located).version)


def _refuse_what_streams_have_not(options: ReadOptions) -> None:
    """Refuse options that choose a version, or some rows of one: a stream has all versions."""
    plain = ReadOptions()
    for name in ("version", "tag", "branch", "as_of", "limit", "vector", "full_text_query"):
        if getattr(options, name) != getattr(plain, name):
            raise InvalidInputError(
                f"The option {camel(name)!r} is not for streams",
                "a stream delivers the rows that are added to the main branch, version by version",
                "Leave it out; `startingVersion` says after which version a stream begins",
            )


def _what_came_with_columns(older: lance.LanceDataset, newer: lance.LanceDataset) -> str:
    """Tell what a version that adds columns does with rows: its first ones come with it."""
    before, after = (
        {each.fragment_id: each.num_deletions for each in at.get_fragments()}
        for at in (older, newer)
    )
    if any(after.get(number) != deleted for number, deleted in before.items()):
        return "Update"
    return "Append" if after.keys() - before.keys() else "Merge"


class LakerootSink(ds.DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Append a stream to a table, every micro-batch exactly once."""

    def __init__(self, plan: WritePlan, stream: str, *, is_named: bool = False) -> None:
        self.plan = plan
        self.stream = stream
        # Whoever names a stream says where it goes on; ids out of checkpoints are looked for.
        self.is_named = is_named

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenMessage:
        """Write the rows of one task."""
        return WrittenMessage(write_rows(self.plan, iterator))

    def commit(self, messages: Sequence[WrittenMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a micro-batch, unless an earlier attempt already has."""
        written = [message.written for message in messages if message is not None]
        fragments = [fragment for part in written for fragment in part.fragments]
        if batchId == 0 and not self.is_named:
            note_stream(self.plan.table, self.stream, self.plan.options.branch)
        if not fragments:
            # No rows, no version: nothing is there that could be repeated.
            return
        # A name for this very attempt: another one, of an old driver, says the rest of it too.
        named = {STREAM: self.stream, BATCH: str(batchId), JOB: uuid.uuid4().hex}
        properties = {**properties_of_plan(self.plan), **named}

        def attempt(*, strict: bool) -> bool | None:
            newest = newest_of(self.plan)
            last = last_batch(newest, self.stream)
            if last is not None and last >= batchId:
                # It may be this very commit, if its answer was lost.
                mine = find_commit(newest, properties, newer_than=self.plan.read_version)
                return mine is not None
            if last is None and batchId > 0 and not self.is_named:
                require_stream(self.plan.table, self.stream, self.plan.options.branch, batchId)
            made = append_to(newest, self.plan, fragments, properties, strict=strict)
            return None if made is None else True

        is_mine = strictly_at_first(partial(attempt, strict=True), partial(attempt, strict=False))
        if is_mine is None:
            raise schema_changed(self.plan)
        if is_mine:
            self._forget_receipts(written)
        else:
            self._discard(written)

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
        files_of(self.plan.table).delete([path for part in written for path in part.files])
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
    ref: TableRef | None = None,
    batch: int | None = None,
) -> LakerootSink:
    """Prepare a stream into a table; a missing table is created empty first.

    The table is the one of `ref`, or of the options. `batch` is the number of the micro-batch that
    comes; where Spark tells it to nobody, it is read in the checkpoint.
    """
    if overwrite:
        raise InvalidInputError(
            "A stream into a table cannot have the output mode complete",
            "every micro-batch is appended",
            "Write with `foreachBatch` and `lakeroot.spark.write(..., mode='overwrite')`",
        )
    lower = {key.lower(): value for key, value in given.items()}
    stream = stream_id(lower, query)
    ref = ref or table_of(given)
    options = parse(WriteOptions, {k: v for k, v in given.items() if k.lower() != "streamid"})
    if options.mode not in (None, "append"):
        raise InvalidInputError(f"A stream cannot write with mode {options.mode!r}")
    if options.job_id is not None:
        raise InvalidInputError(
            "The option 'jobId' is not for streams",
            "a stream is known by its checkpoint, and each of its micro-batches happens once",
            "Leave it out; `streamId` names a stream",
        )
    is_named = bool(lower.get("streamid"))
    if exists(ref) is None:
        if not is_named:
            # The commit would refuse it too, and leave a table behind that nobody wants.
            number = _batch_in(lower) if batch is None and query is None else batch
            require_beginning(ref, stream, number or 0)
        _create_empty(ref, schema, options)
    plan = prepare(ref, schema, dataclasses.replace(options, mode="append"))
    return LakerootSink(plan, stream, is_named=is_named)


def _batch_in(lower: dict[str, Any]) -> int | None:
    """Find the number of the micro-batch that runs: Spark notes its offsets before it begins.

    Spark reads checkpoints in places that only Hadoop knows; there the commit looks.
    """
    try:
        places = open_root(parse_root(str(lower["checkpointlocation"]))).list_names("offsets")
    except LakerootError:
        return None
    return max((int(name) for name in places if name.isdigit()), default=None)


def _create_empty(ref: TableRef, schema: st.StructType, options: WriteOptions) -> None:
    plan = prepare(ref, schema, dataclasses.replace(options, mode="append"))
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
