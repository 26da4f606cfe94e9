"""What one table is: its schema, version and statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeroot.tables.arrow_json import schema_to_json
from lakeroot.tables.handle import TableHandle, working_on

SMALL_FRAGMENT_ROWS: Final = 1024 * 1024
"""Compaction aims at fragments of this many rows; smaller ones are counted as small."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """One version of a table: its schema, what its manifest sums up, and basic statistics."""

    version: int
    schema: pa.Schema
    metadata: Mapping[str, str]
    num_deleted_rows: int
    num_fragments: int
    timestamp_ms: int

    @property
    def json_schema(self) -> dict[str, Any]:
        """Give the schema in the shape of the specification's JsonArrowSchema."""
        return schema_to_json(self.schema)


@dataclass(frozen=True, slots=True)
class FragmentSummary:
    """How many rows fragments have: extremes, mean and percentiles."""

    min: int
    max: int
    mean: int
    p25: int
    p50: int
    p75: int
    p99: int


@dataclass(frozen=True, slots=True)
class TableStats:
    """How big a table is, and in how many pieces."""

    total_bytes: int
    num_rows: int
    num_indices: int
    num_fragments: int
    num_small_fragments: int
    lengths: FragmentSummary


def describe(
    handle: TableHandle,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
) -> TableDescription:
    """Describe the latest version of a table, or the one a number, tag or branch names."""
    with working_on(handle, "Describing the table") as table:
        dataset = table.open(version=version, tag=tag, branch=branch)
        found = dataset.get_version()
        stats = dataset.stats.dataset_stats()
        return TableDescription(
            version=dataset.version,
            schema=dataset.schema,
            metadata={key: str(value) for key, value in found["metadata"].items()},
            num_deleted_rows=stats["num_deleted_rows"],
            num_fragments=stats["num_fragments"],
            timestamp_ms=int(found["timestamp"].timestamp() * 1000),
        )


def exists(handle: TableHandle, *, version: int | None = None) -> bool:
    """Tell whether there is a table with rows or a schema here, and that version of it.

    A version that is missing raises its own error; a table that is only declared does not exist.
    """
    with working_on(handle, "Opening the table") as table:
        if not table.exists():
            return False
        table.open(version=version)
        return True


def table_stats(handle: TableHandle, *, branch: str | None = None) -> TableStats:
    """Measure a table: bytes of its data files, rows, indexes and fragments."""
    with working_on(handle, "Measuring the table") as table:
        dataset = table.open(branch=branch)
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        lengths = sorted(fragment.physical_rows - fragment.num_deletions for fragment in fragments)
        return TableStats(
            total_bytes=sum(file.file_size_bytes or 0 for f in fragments for file in f.files),
            num_rows=dataset.count_rows(),
            num_indices=len(dataset.describe_indices()),
            num_fragments=len(lengths),
            num_small_fragments=sum(length < SMALL_FRAGMENT_ROWS for length in lengths),
            lengths=summary(lengths),
        )


def summary(lengths: Sequence[int]) -> FragmentSummary:
    """Sum up sorted lengths; a percentile is the length at or below it, zero if there is none."""
    if not lengths:
        return FragmentSummary(0, 0, 0, 0, 0, 0, 0)
    last = len(lengths) - 1
    p25, p50, p75, p99 = (lengths[last * percent // 100] for percent in (25, 50, 75, 99))
    return FragmentSummary(
        lengths[0], lengths[-1], sum(lengths) // len(lengths), p25, p50, p75, p99
    )
