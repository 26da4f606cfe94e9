"""The TableMetadata that stands for a Lance table in an Iceberg REST catalog.

The specification of the Iceberg namespace asks for little; real clients (PyIceberg, and everything
built on the Java library) refuse a table without the rest, so the rest is always there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from lakeroot.tables.iceberg.arrow_types import SCHEMA_ID, Json, last_column_id

TABLE_TYPE: Final = "table_type"
MANAGED_BY: Final = "managed_by"
GC_ENABLED: Final = "gc.enabled"
DATA_PATH: Final = "write.data.path"
METADATA_PATH: Final = "write.metadata.path"
RESERVED_PROPERTIES: Final = frozenset(
    {TABLE_TYPE, MANAGED_BY, GC_ENABLED, DATA_PATH, METADATA_PATH}
)
MAIN: Final = "main"
NEWEST_SHOWN: Final = 100
NO_SCHEMA: Final[Mapping[str, Any]] = {"type": "struct", "schema-id": SCHEMA_ID, "fields": []}


class ManagedBy(StrEnum):
    """Who arbitrates the commits of a table: the storage alone, or the catalog."""

    STORAGE = "storage"
    IMPL = "impl"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a Lance table, as Iceberg tells it.

    `manifest_list` is a real Avro manifest list where somebody wrote one; otherwise it is a path
    that explains itself when an Iceberg reader fails to open it.
    """

    version: int
    timestamp_ms: int
    operation: Literal["append", "overwrite", "delete", "replace"] = "append"
    manifest_list: str | None = None
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Description:
    """Everything the metadata is built from. No snapshots: the table is only declared."""

    location: str
    uuid: str
    managed_by: ManagedBy = ManagedBy.STORAGE
    schema: Mapping[str, Any] = field(default_factory=lambda: dict(NO_SCHEMA))
    snapshots: Sequence[Snapshot] = ()
    tags: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    last_updated_ms: int = 0


def not_mirrored(location: str, version: int) -> str:
    """Name a manifest list that does not exist, so that the reader's error says why."""
    return f"{location.rstrip('/')}/_iceberg/NOT-MIRRORED-lance-version-{version}.avro"


def guard_properties(location: str, managed_by: ManagedBy) -> dict[str, str]:
    """Return the properties that mark a Lance table and keep Iceberg engines off its files.

    `gc.enabled` stops orphan cleaners, to whom every Lance file is an orphan; the write paths keep
    what a mistaken Iceberg writer leaves behind out of Lance's own `data` directory.
    """
    rejected = f"{location.rstrip('/')}/_iceberg/rejected"
    return {
        TABLE_TYPE: "lance",
        MANAGED_BY: managed_by.value,
        GC_ENABLED: "false",
        DATA_PATH: f"{rejected}/data",
        METADATA_PATH: f"{rejected}/metadata",
    }


def table_metadata(
    table: Description,
    *,
    mode: Literal["all", "refs"] = "all",
    newest: int = NEWEST_SHOWN,
) -> Json:
    """Build the full TableMetadata (format version 2) of a Lance table.

    `all` shows the newest versions and every tagged one; `refs` the current and the tagged ones.
    """
    known = {snapshot.version: snapshot for snapshot in table.snapshots}
    current = max(known, default=None)
    tags = {name: version for name, version in table.tags.items() if version in known}
    newest_versions = sorted(known)[-max(newest, 1) :] if mode == "all" else [current]
    shown = sorted(({*newest_versions, *tags.values()} - {None}) & known.keys())
    log = _snapshot_log([known[version] for version in shown])
    schema = {**table.schema, "schema-id": SCHEMA_ID}
    metadata: Json = {
        "format-version": 2,
        "table-uuid": table.uuid,
        "location": table.location.rstrip("/"),
        "last-updated-ms": max([table.last_updated_ms, *(e["timestamp-ms"] for e in log)]),
        "last-sequence-number": current or 0,
        "last-column-id": last_column_id(schema),
        "schemas": [schema],
        "current-schema-id": SCHEMA_ID,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {
            **table.properties,
            **guard_properties(table.location, table.managed_by),
        },
        "snapshot-log": log,
        "metadata-log": [],
    }
    if current is None:
        return metadata
    return metadata | {
        "current-snapshot-id": current,
        "snapshots": [_snapshot(table, known[version], shown) for version in shown],
        "refs": _refs(current, tags),
    }


def _snapshot(table: Description, snapshot: Snapshot, shown: Sequence[int]) -> Json:
    result: Json = {
        "snapshot-id": snapshot.version,
        "sequence-number": snapshot.version,
        "timestamp-ms": snapshot.timestamp_ms,
        "schema-id": SCHEMA_ID,
        "manifest-list": snapshot.manifest_list or not_mirrored(table.location, snapshot.version),
        "summary": {**snapshot.summary, "operation": snapshot.operation},
    }
    if snapshot.version - 1 in shown:
        result["parent-snapshot-id"] = snapshot.version - 1
    return result


def _snapshot_log(snapshots: Sequence[Snapshot]) -> list[Json]:
    """Write the log in order of time: a reader refuses one that goes back, clocks may do so."""
    log: list[Json] = []
    latest = 0
    for snapshot in snapshots:
        latest = max(latest, snapshot.timestamp_ms)
        log.append({"snapshot-id": snapshot.version, "timestamp-ms": latest})
    return log


def _refs(current: int, tags: Mapping[str, int]) -> Json:
    refs: Json = {
        name: {"type": "tag", "snapshot-id": version} for name, version in sorted(tags.items())
    }
    return refs | {MAIN: {"type": "branch", "snapshot-id": current}}
