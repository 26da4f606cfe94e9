"""Ordinary Iceberg tables: their metadata is made by PyIceberg and kept beside their data.

The catalog keeps one property, the location of the newest metadata file. A commit writes a new
file and then changes that property only if it is still what the commit was built on, so several
tables are committed together in one step of the catalog.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from lakeroot.model.identifiers import Identifier
from lakeroot.server.iceberg.calls import Call
from lakeroot.server.iceberg.catalog import Catalog
from lakeroot.server.iceberg.credentials import config_of, iceberg_names
from lakeroot.server.iceberg.errors import (
    bad_request,
    commit_failed,
    no_such_namespace,
    no_such_table,
    unsupported,
)
from lakeroot.server.iceberg.lance_tables import (
    METADATA_LOCATION,
    TABLE_TYPE,
    FoundTable,
    find,
)
from lakeroot.server.iceberg.mirror import MirrorFile
from lakeroot.server.iceberg.staged import first_metadata

Json = dict[str, Any]
# PyIceberg's model wants these said, the specification lets clients leave them out.
_LEFT_OUT: Final = {"location": None, "partition-spec": None, "write-order": None}
_REQUIREMENTS: Final[TypeAdapter[Any]] = TypeAdapter(tuple[TableRequirement, ...])
_UPDATES: Final[TypeAdapter[Any]] = TypeAdapter(tuple[TableUpdate, ...])


def created(catalog: Catalog, call: Call, properties: dict[str, str]) -> Json:
    """Make an ordinary table, or stage one that the client will commit."""
    if call.body.get("location"):
        raise bad_request("The catalog chooses where a table is; leave the location out")
    try:
        request = CreateTableRequest.model_validate({**_LEFT_OUT, **call.body})
        metadata = new_table_metadata(
            schema=request.table_schema,
            partition_spec=request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            sort_order=request.write_order or UNSORTED_SORT_ORDER,
            location=catalog.place(call.identifier),
            properties=dict(properties),
        )
    except (ValidationError, ValueError, TypeError) as problem:
        raise bad_request(f"Cannot create the table: {_why(problem)}") from problem
    if call.body.get("stage-create"):
        return {"metadata": _json(metadata), "config": {}}
    return _publish_new(catalog, call, metadata)


def loaded(catalog: Catalog, call: Call, table: FoundTable) -> Json:
    """An ordinary table, with the place of its metadata."""
    where = table.properties[METADATA_LOCATION]
    return {
        "metadata-location": where,
        "metadata": _json(_read(_io(catalog, table.location), where)),
        "config": config_of(catalog, table, writes=call.writes),
    }


def registered(catalog: Catalog, call: Call, location: str) -> Json:
    """Give a name to an ordinary table by the place of its metadata, inside the catalog's root."""
    if call.body.get("overwrite"):
        raise unsupported("Registering over an existing table is not supported; drop it first")
    catalog.require_inside(location)
    metadata = _read(_io(catalog, location), location)
    catalog.require_inside(metadata.location)
    catalog.declare(call.identifier, metadata.location, _pointer(location))
    return loaded(catalog, call, find(catalog, call.identifier))


def committed(catalog: Catalog, table: FoundTable, body: Json) -> Json:
    """Commit to an ordinary table."""
    change = _prepare(catalog, table, body)
    change.publish(catalog)
    return {"metadata-location": change.location, "metadata": _json(change.metadata)}


def commit_together(catalog: Catalog, members: list[tuple[FoundTable, Json]]) -> None:
    """Commit to several ordinary tables in one step of the catalog."""
    changes = [_prepare(catalog, table, body) for table, body in members]
    catalog.alter_tables(*(change.altered() for change in changes))


def committed_new(catalog: Catalog, call: Call) -> Json:
    """The commit that makes a staged table."""
    requirements, updates = _parsed(call.body)
    if not any(r.type == "assert-create" for r in requirements):
        raise no_such_table(call.identifier)
    if not catalog.has_namespace(call.namespace):
        raise no_such_namespace(call.namespace)
    try:
        metadata = first_metadata(updates)
    except (ValidationError, ValueError, TypeError) as problem:
        raise bad_request(f"Cannot create the table: {_why(problem)}") from problem
    catalog.require_inside(metadata.location)
    return _publish_new(catalog, call, metadata)


def files_of(catalog: Catalog, table: FoundTable, version: int | None) -> list[MirrorFile]:
    """The data files of an ordinary table, for scan planning; refuses one with delete files."""
    where = table.properties[METADATA_LOCATION]
    static = StaticTable.from_metadata(where, iceberg_names(catalog.storage_options))
    files = []
    for task in static.scan(AlwaysTrue(), snapshot_id=version).plan_files():
        if task.delete_files:
            raise unsupported("Scans of tables with delete files are planned by the client")
        file = task.file
        files.append(MirrorFile(file.file_path, file.record_count, file.file_size_in_bytes))
    return files


@dataclass(frozen=True, slots=True)
class _Change:
    """New metadata of a table, written but not yet pointed to."""

    identifier: Identifier
    record: Any
    location: str
    metadata: TableMetadata

    def altered(self) -> tuple[Any, Json]:
        return self.record, {**self.record.properties, METADATA_LOCATION: self.location}

    def publish(self, catalog: Catalog) -> None:
        catalog.alter_tables(self.altered())


def _prepare(catalog: Catalog, table: FoundTable, body: Json) -> _Change:
    requirements, updates = _parsed(body)
    record = catalog.record_of(table.identifier)
    where = record.properties[METADATA_LOCATION]
    io = _io(catalog, table.location)
    base = _read(io, where)
    try:
        for requirement in requirements:
            requirement.validate(base)
        metadata = update_table_metadata(
            base, updates, enforce_validation=True, metadata_location=where
        )
    except CommitFailedException as problem:
        raise commit_failed(str(problem)) from problem
    except (ValidationError, ValueError, TypeError) as problem:
        raise bad_request(f"Cannot apply the updates: {_why(problem)}") from problem
    if metadata.location.rstrip("/") != base.location.rstrip("/"):
        raise bad_request("The location of a table cannot be changed")
    number = int(where.rpartition("/")[2].partition("-")[0]) + 1
    return _Change(table.identifier, record, _write(io, metadata, number), metadata)


def _publish_new(catalog: Catalog, call: Call, metadata: TableMetadata) -> Json:
    where = _write(_io(catalog, metadata.location), metadata, 0)
    catalog.declare(call.identifier, metadata.location, _pointer(where))
    table = find(catalog, call.identifier)
    return {
        "metadata-location": where,
        "metadata": _json(metadata),
        "config": config_of(catalog, table, writes=call.writes),
    }


def _pointer(where: str) -> dict[str, str]:
    return {TABLE_TYPE: "iceberg", METADATA_LOCATION: where}


def _parsed(body: Json) -> tuple[Any, Any]:
    try:
        return (
            _REQUIREMENTS.validate_python(body.get("requirements", ())),
            _UPDATES.validate_python(body.get("updates", ())),
        )
    except (ValidationError, ValueError, TypeError) as problem:
        raise bad_request(f"Cannot parse request: {_why(problem)}") from problem


def _io(catalog: Catalog, location: str) -> FileIO:
    return load_file_io(iceberg_names(catalog.storage_options), location)


def _read(io: FileIO, where: str) -> TableMetadata:
    return FromInputFile.table_metadata(io.new_input(where))


def _write(io: FileIO, metadata: TableMetadata, number: int) -> str:
    name = f"{number:05d}-{uuid.uuid4()}.metadata.json"
    where = f"{metadata.location.rstrip('/')}/metadata/{name}"
    ToOutputFile.table_metadata(metadata, io.new_output(where))
    return where


def _json(metadata: TableMetadata) -> Any:
    return json.loads(metadata.model_dump_json())


def _why(problem: Exception) -> str:
    if isinstance(problem, ValidationError):
        return str(problem.errors(include_url=False, include_input=False)[0]["msg"])
    return str(problem).splitlines()[0][:300] if str(problem) else type(problem).__name__
