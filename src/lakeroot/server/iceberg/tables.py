"""Tables as Iceberg clients see them: listed, loaded, created, renamed, dropped."""

import hashlib
import uuid
from typing import Any

import pyarrow as pa
from lance_namespace import (
    CreateTableRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DropTableRequest,
    ListTablesRequest,
    RegisterTableRequest,
    RenameTableRequest,
)
from lance_namespace.errors import LanceNamespaceError

from lakeroot.server.iceberg import lance_tables, mirror, ordinary
from lakeroot.server.iceberg.calls import Call, table_in
from lakeroot.server.iceberg.catalog import MIRROR, SCAN_PLANNING, Catalog, as_uri
from lakeroot.server.iceberg.credentials import config_of, credentials_of
from lakeroot.server.iceberg.errors import (
    bad_request,
    no_such_namespace,
    no_such_table,
    table_exists,
    unsupported,
)
from lakeroot.server.iceberg.lance_tables import TABLE_UUID, FoundTable, Mode
from lakeroot.server.iceberg.properties import kept
from lakeroot.server.listing import tables_for, whole
from lakeroot.server.wire import Response, json_response
from lakeroot.tables.iceberg import RESERVED_PROPERTIES, arrow_schema, is_lance


def list_tables(catalog: Catalog, call: Call) -> Response:
    """The tables of a namespace."""
    if not catalog.has_namespace(call.namespace):
        raise no_such_namespace(call.namespace)
    after, limit = call.page()
    names, token = whole(
        lambda at, size: tables_for(
            catalog.namespace,
            ListTablesRequest(id=list(call.namespace), page_token=at, limit=size),
            call.request.access,
        ),
        after,
        limit,
    )
    view = catalog.view()
    found = [
        {"namespace": list(call.namespace), "name": name, **lance_tables.kind_of(view, table)}
        for name, table in ((name, (*call.namespace, name)) for name in names)
    ]
    return json_response({"identifiers": found, "next-page-token": token})


def load_table(catalog: Catalog, call: Call) -> Response:
    """A table: its schema, its versions, its tags, never where its metadata is."""
    mode = call.request.one("snapshots") or "all"
    if mode not in ("all", "refs"):
        raise bad_request("snapshots is 'all' or 'refs'")
    table = lance_tables.find(catalog, call.identifier)
    response = loaded(catalog, call, table, "refs" if mode == "refs" else "all")
    tag = f'W/"{hashlib.sha256(mode.encode() + response.body).hexdigest()[:32]}"'
    if call.request.headers.get("if-none-match") == tag:
        response = Response(304)
    response.headers["ETag"] = tag
    return response


def loaded(catalog: Catalog, call: Call, table: FoundTable, mode: Mode = "all") -> Response:
    """Answer with a table."""
    if table.is_ordinary:
        return json_response(ordinary.loaded(catalog, call, table))
    config = config_of(catalog, table, writes=call.writes)
    return json_response({"metadata": metadata(catalog, table, mode), "config": config})


def metadata(catalog: Catalog, table: FoundTable, mode: Mode = "all") -> dict[str, Any]:
    """The TableMetadata of a Lance table, mirrored first if it wants to be."""
    found = lance_tables.metadata_of(catalog, table, mode)
    wanted = any(
        catalog.opted_in(table.identifier, table.properties, key) for key in (MIRROR, SCAN_PLANNING)
    )
    return mirror.mirrored(catalog, table, found) if wanted else found


def table_is_there(catalog: Catalog, call: Call) -> Response:
    """No answer but the status."""
    if not catalog.has_table(call.identifier):
        raise no_such_table(call.identifier)
    return Response(204)


def create_table(catalog: Catalog, call: Call) -> Response:
    """Make a table from an Iceberg schema: a Lance table if it says so, else an ordinary one."""
    call.table = call.text("name")
    properties = call.strings("properties")
    if not catalog.has_namespace(call.namespace):
        raise no_such_namespace(call.namespace)
    if catalog.has_table(call.identifier):
        raise table_exists(call.identifier)
    if not is_lance(properties):
        return json_response(ordinary.created(catalog, call, properties))
    if call.body.get("stage-create"):
        raise unsupported("A Lance table cannot be staged; create it, then commit to it")
    _refuse_layout(call)
    schema = arrow_schema(call.body.get("schema"))
    if str(properties.get("managed_by", "")).lower() == "impl" and not catalog.manages_versions():
        raise bad_request("This catalog does not manage versions; leave out managed_by=impl")
    own = kept({k: v for k, v in properties.items() if k not in RESERVED_PROPERTIES})
    properties = {**own, TABLE_UUID: str(uuid.uuid4())}
    return _made(catalog, call, _create_lance(catalog, call, schema, properties), properties)


def _made(
    catalog: Catalog, call: Call, answer: Any, properties: dict[str, str] | None = None
) -> Response:
    """Answer with a table that was made just now, also if somebody has dropped it already.

    Whoever is told that there is no such table would take it for never made.
    """
    try:
        return loaded(catalog, call, lance_tables.find(catalog, call.identifier))
    except (LanceNamespaceError, OSError, ValueError):
        if catalog.has_table(call.identifier):
            raise
        gone = FoundTable(
            call.identifier,
            as_uri(answer.location),
            properties or dict(answer.properties or {}),
            {},
            managed=False,
            declared_only=True,
        )
        return loaded(catalog, call, gone)


def _create_lance(
    catalog: Catalog, call: Call, schema: pa.Schema, properties: dict[str, str]
) -> Any:
    """Declare the table, where the client wants it if it says so; then give it its columns."""
    identifier = call.identifier
    location = call.text("location") if call.body.get("location") is not None else None
    if location is not None or not schema.names:
        declared = catalog.namespace.declare_table(
            DeclareTableRequest(id=list(identifier), properties=properties, location=location)
        )
    if not schema.names:
        return declared
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        # One empty batch: the reference takes a stream without any for a missing body.
        writer.write_batch(pa.RecordBatch.from_pylist([], schema))
    return catalog.namespace.create_table(
        CreateTableRequest(id=list(identifier), properties=properties), bytes(sink.getvalue())
    )


def _refuse_layout(call: Call) -> None:
    for name in ("partition-spec", "write-order"):
        given = call.body.get(name)
        if isinstance(given, dict) and given.get("fields"):
            raise bad_request(f"A Lance table has no {name}")


def register_table(catalog: Catalog, call: Call) -> Response:
    """Give a name to a Lance table that is already there; its root stands for its metadata."""
    call.table = call.text("name")
    location = call.text("metadata-location")
    if not catalog.has_namespace(call.namespace):
        raise no_such_namespace(call.namespace)
    if catalog.has_table(call.identifier) and not call.body.get("overwrite"):
        raise table_exists(call.identifier)
    if location.endswith(".metadata.json"):
        return json_response(ordinary.registered(catalog, call, location))
    registered = catalog.namespace.register_table(
        RegisterTableRequest(
            id=list(call.identifier),
            location=location,
            mode="Overwrite" if call.body.get("overwrite") else "Create",
        )
    )
    return _made(catalog, call, registered)


def drop_table(catalog: Catalog, call: Call) -> Response:
    """Forget a table; delete its data only if that is asked for."""
    if call.flag("purgeRequested"):
        catalog.namespace.drop_table(DropTableRequest(id=list(call.identifier)))
    else:
        catalog.namespace.deregister_table(DeregisterTableRequest(id=list(call.identifier)))
    return Response(204)


def rename_table(catalog: Catalog, call: Call) -> Response:
    """Give a table another name, in the same namespace or another."""
    source = table_in(call.body.get("source"), "source")
    destination = table_in(call.body.get("destination"), "destination")
    if not catalog.has_table(source):
        raise no_such_table(source)
    if not catalog.has_namespace(destination[:-1]):
        raise no_such_namespace(destination[:-1])
    if catalog.has_table(destination):
        raise table_exists(destination)
    catalog.namespace.rename_table(
        RenameTableRequest(
            id=list(source),
            new_table_name=destination[-1],
            new_namespace_id=list(destination[:-1]),
        )
    )
    return Response(204)


def report_metrics(catalog: Catalog, call: Call) -> Response:
    """Accept what an engine measured; nobody here needs it."""
    return table_is_there(catalog, call)


def load_credentials(catalog: Catalog, call: Call) -> Response:
    """Fresh credentials for the storage of a table."""
    table = lance_tables.find(catalog, call.identifier)
    return json_response(
        {"storage-credentials": credentials_of(catalog, table, writes=call.writes)}
    )
