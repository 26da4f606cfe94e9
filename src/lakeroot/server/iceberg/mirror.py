"""The Parquet mirror: a Lance table that every Iceberg tool can really read.

For each version that is shown there is a manifest list over Parquet files, one for each state of
a fragment, written on the first load and used again by every later version that still has the
fragment as it was. Everything lies in `_iceberg/` inside the table and goes with it. A version's
record is published with one put-if-absent: whoever comes second takes what is there.
"""

import hashlib
import json
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import (
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from lakeroot.objects import Objects, open_root, parse_root
from lakeroot.server.iceberg.catalog import Catalog
from lakeroot.server.iceberg.credentials import iceberg_names
from lakeroot.server.iceberg.lance_tables import FoundTable, dataset_of
from lakeroot.server.iceberg.mirror_schema import MirrorSchema, schema_for

Json = dict[str, Any]
_FOLDER: Final = "_iceberg"
_ROWS_AT_ONCE: Final = 64_000


@dataclass(frozen=True, slots=True)
class MirrorFile:
    """One Parquet file: the rows of a fragment in one of its states."""

    path: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class MirroredVersion:
    """A version of the table as the mirror holds it."""

    version: int
    manifest_list: str
    schema: Json
    ids: dict[str, int]
    last: int
    files: dict[str, MirrorFile] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Write the record, with a checksum: what it says is taken on trust."""
        record = asdict(self)
        return json.dumps({**record, "crc32": _checksum(record)}).encode()


def _checksum(record: Json) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())


def _from_json(data: bytes) -> MirroredVersion | None:
    """Read a record; nothing if it is damaged, as everything in a mirror can be made again."""
    try:
        found = json.loads(data)
        # Records of earlier releases have none.
        if found.pop("crc32", None) not in (None, _checksum(found)):
            return None
        files = {key: MirrorFile(**entry) for key, entry in found.pop("files").items()}
        return MirroredVersion(**found, files=files)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def mirrored(catalog: Catalog, table: FoundTable, metadata: Json) -> Json:
    """Give the metadata of a table real manifest lists, and the schemas its versions had."""
    mirror = Mirror(catalog, table)
    versions = [snapshot["snapshot-id"] for snapshot in metadata.get("snapshots", [])]
    records = {version: mirror.version(version) for version in sorted(versions)}
    if not records:
        return metadata
    current = records[metadata["current-snapshot-id"]]
    schemas = [{**current.schema, "schema-id": 1}]
    snapshots = []
    for snapshot in metadata["snapshots"]:
        record = records[snapshot["snapshot-id"]]
        number = _schema_number(schemas, record.schema)
        where = {"schema-id": number, "manifest-list": record.manifest_list}
        snapshots.append({**snapshot, **where})
    last = max(record.last for record in records.values())
    return {**metadata, "schemas": schemas, "snapshots": snapshots, "last-column-id": last}


def _schema_number(schemas: list[Json], schema: Json) -> int:
    for known in schemas:
        if known["fields"] == schema["fields"]:
            return int(known["schema-id"])
    schemas.append({**schema, "schema-id": len(schemas) + 1})
    return len(schemas)


class Mirror:
    """The mirror of one table."""

    def __init__(self, catalog: Catalog, table: FoundTable) -> None:
        self._catalog = catalog
        self._table = table
        options = {**catalog.storage_options, **table.storage_options}
        self._objects: Objects = open_root(parse_root(table.location, options))
        self._io: FileIO = load_file_io(iceberg_names(options), table.location)

    def version(self, version: int) -> MirroredVersion:
        """One version, made now if nobody made it before."""
        found = self._read(version)
        if found is not None:
            return found
        with self._catalog.committing(("mirror of", *self._table.identifier)):
            found = self._read(version)
            if found is not None:
                return found
            made = self._make(version)
            if self._objects.put_if_absent(_record_path(version), made.to_json()):
                return made
            theirs = self._read(version)
            if theirs is None:  # It was there all the time, damaged.
                self._objects.put(_record_path(version), made.to_json())
        return theirs or made

    def _read(self, version: int) -> MirroredVersion | None:
        data = self._objects.get(_record_path(version))
        return _from_json(data) if data is not None else None

    def _make(self, version: int) -> MirroredVersion:
        known = sorted(self._known())
        before = [number for number in known if number < version]
        nearest = self._first_whole([*reversed(before), *known])
        newest = self._first_whole(list(reversed(known)))
        dataset = dataset_of(self._catalog, self._table, version)
        schema = schema_for(dataset, nearest.ids if nearest else {}, newest.last if newest else 0)
        reusable = dict(nearest.files) if nearest else {}
        files = {
            key: reusable.get(key) or self._write_fragment(fragment, schema)
            for key, fragment in _states(dataset, schema)
        }
        manifest_list = self._write_manifests(version, schema, list(files.values()))
        return MirroredVersion(
            version, manifest_list, schema.schema, schema.ids, schema.last, files
        )

    def _first_whole(self, versions: list[int]) -> MirroredVersion | None:
        """The first of these records that can be read."""
        return next((found for one in versions if (found := self._read(one)) is not None), None)

    def _known(self) -> Iterator[int]:
        for found in self._objects.list(f"{_FOLDER}/versions/"):
            name = found.path.rpartition("/")[2].removesuffix(".json")
            if name.isdecimal():
                yield int(name)

    def _write_fragment(self, fragment: Any, schema: MirrorSchema) -> MirrorFile:
        path = f"{self._table.location}/{_FOLDER}/data/{uuid.uuid4().hex}.parquet"
        target = schema.arrow()
        rows = 0
        output = self._io.new_output(path)
        with output.create() as sink, pq.ParquetWriter(sink, target, compression="zstd") as writer:
            for batch in fragment.to_batches(columns=target.names, batch_size=_ROWS_AT_ONCE):
                table = pa.Table.from_batches([batch]).select(target.names)
                writer.write_table(table.cast(target, safe=False))
                rows += batch.num_rows
        return MirrorFile(path, rows, len(output))

    def _write_manifests(self, version: int, schema: MirrorSchema, files: list[MirrorFile]) -> str:
        metadata = _plain_metadata(self._table, schema)
        name = f"{self._table.location}/{_FOLDER}/metadata/{version}-{uuid.uuid4().hex}"
        manifests = []
        if files:
            with write_manifest(
                2,
                metadata.spec(),
                metadata.schema(),
                self._io.new_output(f"{name}-m0.avro"),
                version,
                "deflate",
            ) as writer:
                for file in files:
                    writer.add_entry(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=version,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=parquet_file_to_data_file(self._io, metadata, file.path),
                        )
                    )
            manifests.append(writer.to_manifest_file())
        where = f"{name}.avro"
        with write_manifest_list(
            2, self._io.new_output(where), version, None, version, "deflate"
        ) as listing:
            listing.add_manifests(manifests)
        return where


def _record_path(version: int) -> str:
    return f"{_FOLDER}/versions/{version}.json"


def _states(dataset: Any, schema: MirrorSchema) -> Iterator[tuple[str, Any]]:
    """Every fragment with a name for its state: its files, deletions and columns' ids."""
    for fragment in dataset.get_fragments():
        if fragment.count_rows() == 0:
            continue
        state = json.dumps([fragment.metadata.to_json(), schema.schema["fields"]], sort_keys=True)
        yield hashlib.sha256(state.encode()).hexdigest(), fragment


def _plain_metadata(table: FoundTable, schema: MirrorSchema) -> TableMetadata:
    """As much metadata as PyIceberg needs to write manifests."""
    return TableMetadataUtil.parse_obj(
        {
            "format-version": 2,
            "table-uuid": table.uuid,
            "location": table.location,
            "last-column-id": schema.last,
            "schemas": [{**schema.schema, "schema-id": 1}],
            "current-schema-id": 1,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
        }
    )
