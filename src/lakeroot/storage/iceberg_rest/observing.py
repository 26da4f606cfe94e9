"""What storage says of a table: its newest version and schema, in the words of Iceberg."""

import contextlib
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeroot.model.errors import TableNotFoundError
from lakeroot.objects import Objects, open_root, parse_root
from lakeroot.storage.iceberg_rest.snapshots import MANIFEST, SIZE, snapshot
from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.version_file import FIELDS, FOOTER
from lakeroot.tables.handle import TableHandle, working_on
from lakeroot.tables.iceberg import iceberg_schema, lance_field_ids
from lakeroot.tables.versions import VERSIONS, parse_manifest_name

_MOST_TOLD: Final = 1000


@dataclass(frozen=True, slots=True)
class Observation:
    """The newest version of a table, as its own files tell it."""

    version: int
    timestamp_ms: int
    schema: Mapping[str, Any]
    total_rows: int
    total_fragments: int


def observe(location: str, options: Mapping[str, str]) -> Observation | None:
    """Open the table at a location and look; nothing if there is no table yet."""
    handle = TableHandle(location, dict(options))
    with contextlib.suppress(TableNotFoundError), working_on(handle, "Reading the table") as bench:
        dataset = bench.open()
        latest = dataset.versions()[-1]
        return Observation(
            version=dataset.version,
            timestamp_ms=int(latest["timestamp"].timestamp() * 1000),
            schema=iceberg_schema(dataset.schema, lance_field_ids(dataset.lance_schema.fields())),
            total_rows=dataset.count_rows(),
            total_fragments=len(dataset.get_fragments()),
        )
    return None


def files_of(location: str, options: Mapping[str, str]) -> Objects:
    """Open the files of a table."""
    return open_root(parse_root(location, options))


def manifest_snapshots(
    location: str, files: Objects, *, after: int, not_before_ms: int = 0
) -> list[dict[str, Any]]:
    """Tell the versions after one that have a manifest in storage as snapshots, oldest first."""
    level = files.list_directory(VERSIONS).objects
    named = ((parse_manifest_name(found.path.rpartition("/")[2]), found) for found in level)
    newer = {name: found for name, found in named if name is not None and name.version > after}
    told = []
    for name in sorted(newer, key=lambda name: name.version)[-_MOST_TOLD:]:
        found = newer[name]
        # Time must not go back from one snapshot to the next; clocks of storage may.
        not_before_ms = max(not_before_ms, found.modified_ms)
        summary = {MANIFEST: f"{VERSIONS}/{name}", SIZE: str(found.size)}
        told.append(snapshot(location, name.version, not_before_ms, summary))
    return told


def observed_snapshot(
    location: str, seen: Observation, *, not_before_ms: int = 0
) -> dict[str, Any]:
    """Tell the newest version of a table as a snapshot."""
    summary = {
        "total-records": str(seen.total_rows),
        "total-data-files": str(seen.total_fragments),
    }
    return snapshot(location, seen.version, max(seen.timestamp_ms, not_before_ms), summary)


def schema_mark(manifest: bytes) -> str:
    """Give a mark that differs between manifests whose schemas differ; empty for no schema."""
    try:
        position, *_ = FOOTER.unpack(manifest[-FOOTER.size :])
        found = protobuf.fields(protobuf.unframed(manifest, position))
        columns = [value for number, _, value in found if number == FIELDS]
    except (protobuf.MalformedError, struct.error):
        return ""
    return hashlib.sha256(repr(columns).encode()).hexdigest() if columns else ""
