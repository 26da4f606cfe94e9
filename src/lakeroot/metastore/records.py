"""The six kinds of object of the storage model, as frozen values.

A record holds its whole place (`locator`) with the names its ancestors have in the snapshot it was
read from, the ids of those ancestors, and in `extra` the keys of its file that are not known here:
they are written back as they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakeroot.metastore.locators import (
    DeltaLocator,
    NamespaceLocator,
    PartitionLocator,
    PartitionValues,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from lakeroot.metastore.manifests import Manifest, ManifestMeta
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.schemes import UNPARTITIONED, UNSORTED, PartitionScheme, SortScheme, nothing
from lakeroot.metastore.states import CommitState, DeltaType, LifecycleState

ALIASES: Final = "lakeroot.aliases"

Properties = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace: a name for a group of tables."""

    locator: NamespaceLocator
    id: str
    properties: Properties = None
    ancestor_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def name(self) -> str:
        """The present name."""
        return self.locator.namespace


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a name for its versions."""

    locator: TableLocator
    id: str
    description: str | None = None
    properties: Properties = None
    latest_active_table_version: str | None = None
    latest_table_version: str | None = None
    native_object: Any = None
    ancestor_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def name(self) -> str:
        """The present name."""
        return self.locator.table_name

    @property
    def aliases(self) -> tuple[str, ...]:
        """The other names that lead to the table."""
        return tuple(self.extra.get(ALIASES, ()))

    @property
    def namespace(self) -> str:
        """The present name of the namespace."""
        return self.locator.parent.namespace


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table: a schema with its history, a way to divide and to sort."""

    locator: TableVersionLocator
    schema: Schema | None = None
    schemas: tuple[Schema, ...] | None = None
    partition_scheme: PartitionScheme | None = UNPARTITIONED
    partition_schemes: tuple[PartitionScheme, ...] | None = (UNPARTITIONED,)
    sort_scheme: SortScheme | None = UNSORTED
    sort_schemes: tuple[SortScheme, ...] | None = (UNSORTED,)
    description: str | None = None
    properties: Properties = None
    content_types: tuple[str, ...] | None = None
    watermark: int | None = None
    state: LifecycleState | None = LifecycleState.CREATED
    previous_table_version: str | None = None
    native_object: Any = None
    ancestor_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def id(self) -> str:
        """The immutable id: the version itself."""
        return self.locator.table_version


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: the deltas of one table version in one format."""

    locator: StreamLocator
    partition_scheme: PartitionScheme | None = UNPARTITIONED
    state: CommitState | None = CommitState.COMMITTED
    previous_stream_id: str | None = None
    watermark: int | None = None
    native_object: Any = None
    ancestor_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def id(self) -> str:
        """The immutable id."""
        return self.locator.stream_id

    @property
    def format(self) -> str:
        """The format of the deltas."""
        return self.locator.format


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: the deltas of the rows that share partition values."""

    locator: PartitionLocator
    content_types: tuple[str, ...] | None = None
    state: CommitState | None = CommitState.COMMITTED
    previous_stream_position: int | None = None
    previous_partition_id: str | None = None
    stream_position: int | None = None
    partition_scheme_id: str | None = None
    compaction_round_completion_info: Mapping[str, Any] | None = None
    ancestor_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def id(self) -> str:
        """The immutable id."""
        return self.locator.partition_id

    @property
    def values(self) -> PartitionValues:
        """The values its rows share."""
        return self.locator.partition_values


@dataclass(frozen=True, slots=True)
class Delta:
    """A delta: one change of a partition, and the files that hold it."""

    locator: DeltaLocator
    type: DeltaType
    manifest: Manifest | None
    meta: ManifestMeta | None = None
    properties: Properties = None
    previous_stream_position: int | None = None
    ancestor_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def id(self) -> str:
        """The immutable id: the position in the stream."""
        return str(self.locator.stream_position)

    @property
    def stream_position(self) -> int:
        """The position in the stream."""
        return self.locator.stream_position


Record = Namespace | Table | TableVersion | Stream | Partition | Delta
