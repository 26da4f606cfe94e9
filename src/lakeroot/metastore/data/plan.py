"""Plans: which files make up a table, and in which order they apply. Pure functions.

A plan holds no data and touches no storage, so any engine can carry it out: `merge` does it with
Arrow on one machine, a cluster can do it with a shuffle on the keys.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakeroot.metastore.locators import PartitionValues
from lakeroot.metastore.manifests import ManifestEntry
from lakeroot.metastore.records import Delta, Partition, Stream, TableVersion
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.states import ContentType, DeltaType, EntryType
from lakeroot.metastore.view import View
from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError

COLUMNS: Final = "lakeroot.columns"
"""The delta property that lists the columns of a partial upsert."""


class StepKind(StrEnum):
    """What the rows of a step do to the rows of the steps before it."""

    INSERT = "insert"
    UPSERT = "upsert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of rows."""

    url: str
    content_type: str
    schema_id: int | None
    record_count: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """The files of one or more deltas that do the same.

    ``keys`` are the columns on which an upsert or delete matches earlier rows, null equal to null.
    ``columns`` are those an upsert brings if it does not bring all: the others keep their values.
    """

    kind: StepKind
    files: tuple[DataFile, ...]
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """How to make the rows of one partition: the steps, in order."""

    values: PartitionValues
    steps: tuple[Step, ...]

    @property
    def needs_merge(self) -> bool:
        """Whether the rows are more than the files one after the other."""
        return any(step.kind is not StepKind.INSERT for step in self.steps)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Every file of the partition."""
        return tuple(file for step in self.steps for file in step.files)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How to make the rows of a table."""

    schema: Schema | None
    schemas: tuple[Schema, ...]
    partitions: tuple[PartitionPlan, ...]


def plan_table(
    view: View,
    version: TableVersion,
    stream: Stream,
    *,
    keep: Callable[[PartitionValues], bool] | None = None,
) -> TablePlan:
    """Plan the reading of a table version; ``keep`` chooses partitions by their values."""
    chosen = [p for p in view.partitions(stream) if keep is None or keep(p.values)]
    plans = tuple(plan_partition(p, view.deltas(p), version) for p in chosen)
    return TablePlan(version.schema, version.schemas or (), plans)


def plan_partition(
    partition: Partition, deltas: Iterable[Delta], version: TableVersion
) -> PartitionPlan:
    """Plan the rows of a partition from its deltas. Adds come last: they have no place."""
    ordered = sorted(deltas, key=lambda delta: delta.stream_position)
    steps: list[Step] = []
    for delta in ordered:
        step = plan_delta(delta, version)
        if not step.files:
            continue
        last = steps[-1] if steps else None
        if last is not None and last.kind is step.kind is StepKind.INSERT:
            steps[-1] = Step(StepKind.INSERT, (*last.files, *step.files))
        else:
            steps.append(step)
    return PartitionPlan(partition.values, tuple(steps))


def plan_delta(delta: Delta, version: TableVersion) -> Step:
    """Plan what one delta does, with the names that its columns have now."""
    entries = () if delta.manifest is None else delta.manifest.entries
    files = tuple(_file(entry) for entry in entries)
    if delta.type in (DeltaType.ADD, DeltaType.APPEND):
        return Step(StepKind.INSERT, files)
    now = _present_names(version, entries[0].meta.schema_id) if entries else {}
    keys = tuple(now.get(n, n) for n in entries[0].meta.equality_fields) if entries else ()
    merge_keys = () if version.schema is None else version.schema.merge_keys
    kind = StepKind.DELETE if delta.type is DeltaType.DELETE else StepKind.UPSERT
    columns = (delta.properties or {}).get(COLUMNS)
    named = keys or merge_keys
    if files and not named:
        raise InvalidInputError(
            f"The delta at {delta.stream_position} cannot be applied",
            "neither it nor the table says on which columns rows are equal",
        )
    present = None if columns is None else tuple(now.get(name, name) for name in columns)
    return Step(kind, files, named, present)


def _present_names(version: TableVersion, schema_id: int | None) -> dict[str, str]:
    # A delta calls its columns as the schema did that it was written with; ids do not change.
    current = version.schema
    written = next((s for s in version.schemas or () if s.schema_id == schema_id), None)
    if current is None or written is None or written.schema_id == current.schema_id:
        return {}
    names = {field.id: field.name for field in current.fields if field.id is not None}
    return {f.name: names[f.id] for f in written.fields if f.id is not None and f.id in names}


def _file(entry: ManifestEntry) -> DataFile:
    meta = entry.meta
    if meta.entry_type == EntryType.POSITIONAL_DELETE:
        raise UnsupportedOperationError(
            f"The file {entry.url} cannot be applied", "it deletes rows by their position"
        )
    content_type = meta.content_type or ContentType.PARQUET.value
    return DataFile(entry.url, content_type, meta.schema_id, meta.record_count, meta.content_length)
