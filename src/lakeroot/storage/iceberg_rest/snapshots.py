"""Versions of a Lance table as snapshots of an Iceberg table, both ways. Pure."""

import time
from collections.abc import Mapping
from typing import Any, Final

from lakeroot.model.records import TableVersion
from lakeroot.storage.iceberg_rest.client import Json
from lakeroot.storage.iceberg_rest.entries import Entry
from lakeroot.tables.iceberg import not_mirrored
from lakeroot.tables.versions import VERSIONS, manifest_name, object_key, parse_staging_name

MANIFEST: Final = "lance.manifest"
STAGED: Final = "lance.staging-manifest"
NAMING: Final = "lance.naming-scheme"
SIZE: Final = "lance.manifest-size"
E_TAG: Final = "lance.e-tag"
METADATA: Final = "lance.metadata."
REQUEST_ID: Final = "lance.request-id"


def snapshot(
    location: str,
    version: int,
    timestamp_ms: int,
    summary: Mapping[str, str],
    *,
    sequence: int | None = None,
) -> Json:
    """Tell a version as a snapshot: its number is the id."""
    return {
        "snapshot-id": version,
        "sequence-number": version if sequence is None else sequence,
        "timestamp-ms": timestamp_ms,
        "manifest-list": not_mirrored(location, version),
        "summary": {"operation": "append", **summary},
    }


def new_snapshot(
    entry: Entry, version: TableVersion, sequence: int, time_ms: int, request_id: str
) -> Json:
    """Tell a version that is being committed as a snapshot."""
    path = version.manifest_path.removeprefix("/").removeprefix(f"{object_key(entry.location)}/")
    is_staged = parse_staging_name(path.rpartition("/")[2]) is not None
    summary = {STAGED if is_staged else MANIFEST: path, REQUEST_ID: request_id}
    summary[NAMING] = version.metadata.get("naming_scheme", "V2")
    if version.manifest_size is not None:
        summary[SIZE] = str(version.manifest_size)
    if version.e_tag is not None:
        summary[E_TAG] = version.e_tag
    summary |= {f"{METADATA}{key}": value for key, value in version.metadata.items()}
    told = snapshot(entry.location, version.version, time_ms, summary, sequence=sequence)
    told["schema-id"] = entry.definition.schema_id
    if version.version - 1 in entry.definition.snapshots:
        told["parent-snapshot-id"] = version.version - 1
    return told


def as_table_version(entry: Entry, version: int) -> TableVersion:
    """Tell a snapshot as a version of a Lance table."""
    summary = summary_of(entry, version)
    size = str(summary.get(SIZE, ""))
    timestamp = entry.definition.snapshots[version].get("timestamp-ms")
    path = str(
        summary.get(STAGED) or summary.get(MANIFEST) or f"{VERSIONS}/{manifest_name(version)}"
    )
    return TableVersion(
        version,
        f"{object_key(entry.location)}/{path}",
        manifest_size=int(size) if size.isdigit() else None,
        e_tag=summary.get(E_TAG),
        timestamp_ms=timestamp if isinstance(timestamp, int) else None,
        metadata={
            key.removeprefix(METADATA): str(value)
            for key, value in summary.items()
            if key.startswith(METADATA)
        },
    )


def requires_main(current: int | None) -> Json:
    """Require that a version is still the current one; nothing means that there is none."""
    return {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current}


def summary_of(entry: Entry, version: int) -> Mapping[str, Any]:
    """Give what the snapshot of a version says besides its number."""
    summary = entry.definition.snapshots.get(version, {}).get("summary")
    return summary if isinstance(summary, Mapping) else {}


def now_ms() -> int:
    """Tell the time."""
    return int(time.time() * 1000)
