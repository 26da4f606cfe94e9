"""Changes of streams, partitions and deltas."""

from dataclasses import dataclass, field, replace
from typing import Any

from lakeroot.metastore.locators import (
    DeltaLocator,
    PartitionLocator,
    PartitionValues,
    StreamLocator,
    checked_id,
    digest,
    new_id,
    partition_alias,
)
from lakeroot.metastore.manifests import Manifest
from lakeroot.metastore.records import Delta, Partition, Properties, Stream, TableVersion
from lakeroot.metastore.staging import Staging
from lakeroot.metastore.states import (
    LAST_ORDERED_POSITION,
    NATIVE_FORMAT,
    CommitState,
    DeltaType,
)
from lakeroot.metastore.values import partition_value
from lakeroot.metastore.view import directory_of
from lakeroot.model.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    InvalidInputError,
    NotFoundError,
)


@dataclass(slots=True)
class Append:
    """A delta to be put at the end of a partition, wherever the end is when it commits."""

    stream: Stream
    values: PartitionValues
    scheme_id: str | None
    type: DeltaType
    manifest: Manifest | None
    properties: Properties
    partition: str = ""
    touched: set[str] = field(default_factory=set)


class StreamChanges(Staging):
    """Changes of streams, partitions and deltas."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.appends: list[Append] = []

    def create_stream(
        self,
        version: TableVersion,
        stream_format: str = NATIVE_FORMAT,
        *,
        stream_id: str | None = None,
    ) -> Stream:
        """Create the stream of a table version in a format."""
        if self.find_stream(version, stream_format) is not None:
            raise AlreadyExistsError(f"There is already a stream of {stream_format!r}")
        staged = self.stage_stream(version, stream_format, stream_id=stream_id)
        return self.commit_stream(staged)

    def stage_stream(
        self,
        version: TableVersion,
        stream_format: str = NATIVE_FORMAT,
        *,
        stream_id: str | None = None,
    ) -> Stream:
        """Prepare a stream that no reader sees until it is committed."""
        current = self.find_stream(version, stream_format)
        own_id = checked_id(stream_id or new_id(), "stream")
        record = Stream(
            StreamLocator(version.locator, own_id, stream_format),
            version.partition_scheme,
            CommitState.STAGED,
            None if current is None else current.id,
            ancestor_ids=(*version.ancestor_ids, version.id),
        )
        if self.record_at(directory_of(record)) is not None:
            raise AlreadyExistsError(f"There is already a stream {own_id!r}")
        self.stage(record)
        return record

    def commit_stream(self, staged: Stream) -> Stream:
        """Make a staged stream the current one; it replaces the one it was staged over."""
        version = "/".join(staged.ancestor_ids)
        alias = f"{version}/{digest(staged.format)}"
        current = self.target_of(alias)
        if current != staged.previous_stream_id:
            raise _replaced("stream", staged.id)
        record = replace(staged, state=CommitState.COMMITTED)
        self.stage(record, is_replacement=current is not None)
        self.stage_name(alias, record.id)
        if current is not None:
            self._retire(f"{version}/{current}")
        return record

    def delete_stream(self, stream: Stream) -> None:
        """Delete a stream."""
        alias = f"{'/'.join(stream.ancestor_ids)}/{digest(stream.format)}"
        if self.target_of(alias) == stream.id:
            self.stage_name(alias, None)
        self.stage_delete(stream)

    def stage_partition(
        self,
        stream: Stream,
        values: PartitionValues = None,
        scheme_id: str | None = None,
        *,
        partition_id: str | None = None,
    ) -> Partition:
        """Prepare a partition that no reader sees until it is committed."""
        values = None if not values else tuple(partition_value(value) for value in values)
        current = self.find_partition(stream, values, scheme_id)
        scheme = stream.partition_scheme
        record = Partition(
            PartitionLocator(
                stream.locator, values, checked_id(partition_id or new_id(), "partition")
            ),
            state=CommitState.STAGED,
            previous_partition_id=None if current is None else current.id,
            partition_scheme_id=scheme_id or (None if scheme is None else scheme.id),
            ancestor_ids=(*stream.ancestor_ids, stream.id),
        )
        if self.record_at(directory_of(record)) is not None:
            raise AlreadyExistsError(f"There is already a partition {record.id!r}")
        self.stage(record)
        return record

    def commit_partition(self, staged: Partition) -> Partition:
        """Make a staged partition the current one; it replaces the one it was staged over."""
        latest = self.record_at(directory_of(staged))
        if not isinstance(latest, Partition):
            raise NotFoundError(f"There is no staged partition {staged.id!r}")
        stream = "/".join(staged.ancestor_ids)
        alias = f"{stream}/{digest(partition_alias(staged.values, staged.partition_scheme_id))}"
        current = self.target_of(alias)
        if current != staged.previous_partition_id:
            raise _replaced("partition", staged.id)
        record = replace(
            staged, stream_position=latest.stream_position, state=CommitState.COMMITTED
        )
        self.stage(record, is_replacement=current is not None)
        self.stage_name(alias, record.id)
        if current is not None:
            # Rows without a place in the order change nothing of a partition but add to it: they
            # would go with the one that they were added to.
            self.changes.footprint.childless.add(f"{stream}/{current}")
            self._retire(f"{stream}/{current}")
        return record

    def delete_partition(self, partition: Partition) -> None:
        """Delete a partition: its rows are gone."""
        alias = digest(partition_alias(partition.values, partition.partition_scheme_id))
        path = f"{'/'.join(partition.ancestor_ids)}/{alias}"
        if self.target_of(path) == partition.id:
            self.stage_name(path, None)
        self.stage_delete(partition)

    def append_delta(
        self,
        stream: Stream,
        manifest: Manifest | None,
        *,
        delta_type: DeltaType = DeltaType.APPEND,
        values: PartitionValues = None,
        scheme_id: str | None = None,
        properties: Properties = None,
    ) -> Delta:
        """Put a delta at the end of a partition, which is created if it is not there.

        Its position is where the end is when the transaction commits: two writers that append to
        one partition at once both succeed.
        """
        values = None if not values else tuple(partition_value(value) for value in values)
        append = Append(stream, values, scheme_id, delta_type, manifest, properties)
        self.appends.append(append)
        return self._place(append)

    def put_delta(
        self,
        partition: Partition,
        position: int,
        manifest: Manifest | None,
        *,
        delta_type: DeltaType = DeltaType.APPEND,
        properties: Properties = None,
    ) -> Delta:
        """Put a delta at a position that the caller has chosen."""
        latest = self.record_at(directory_of(partition))
        if not isinstance(latest, Partition):
            raise NotFoundError(f"The partition {partition.id} does not exist")
        last = latest.stream_position or 0
        is_ordered = delta_type is not DeltaType.ADD
        if position < 1 or (is_ordered and not last < position <= LAST_ORDERED_POSITION):
            raise InvalidInputError(
                f"A delta cannot be put at the position {position}",
                f"the last one of the partition is {last}",
                "Positions only grow",
            )
        if self.find_delta(partition, position) is not None:
            raise AlreadyExistsError(f"There is already a delta at the position {position}")
        delta = Delta(
            DeltaLocator(partition.locator, position),
            delta_type,
            manifest,
            None if manifest is None else manifest.meta,
            properties,
            last if is_ordered else None,
            ancestor_ids=(*partition.ancestor_ids, partition.id),
        )
        self.stage(delta)
        if is_ordered:
            self.stage(replace(latest, stream_position=position))
        return delta

    def delete_delta(self, partition: Partition, position: int) -> None:
        """Delete one delta of a partition."""
        self.stage_delete(self.delta(partition, position))

    def rebase_appends(self) -> None:
        """Put the deltas at what is now the end of their partitions."""
        for append in self.appends:
            for path in append.touched:
                self.changes.objects.pop(path, None)
                self.changes.names.pop(path, None)
        for append in self.appends:
            append.touched.clear()
            self._place(append)

    def _place(self, append: Append) -> Delta:
        known = {*self.changes.objects, *self.changes.names}
        partition = self.find_partition(append.stream, append.values, append.scheme_id)
        if partition is None:
            staged = self.stage_partition(append.stream, append.values, append.scheme_id)
            partition = self.commit_partition(staged)
        append.partition = directory_of(partition)
        position = (partition.stream_position or 0) + 1
        if append.type is DeltaType.ADD:
            # Anywhere beyond the ordered positions: adds never meet, so they never conflict.
            position = LAST_ORDERED_POSITION + 1 + int(new_id().replace("-", "")[:15], 16)
        delta = self.put_delta(
            partition,
            position,
            append.manifest,
            delta_type=append.type,
            properties=append.properties,
        )
        append.touched |= {*self.changes.objects, *self.changes.names} - known
        return delta

    def _retire(self, directory: str) -> None:
        record = self.record_at(directory)
        if record is not None:
            self.stage_delete(record)


def _replaced(kind: str, own_id: str) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"The {kind} {own_id} cannot be committed",
        f"the {kind} it was to replace has been replaced by another",
        "Stage it again over the current one",
    )
