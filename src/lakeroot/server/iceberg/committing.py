"""Carrying out the commits of Iceberg clients, one table at a time or several at once."""

from dataclasses import dataclass
from typing import Any

from lance_namespace import (
    BatchCreateTableVersionsRequest,
    CreateTableTagRequest,
    DeleteTableTagRequest,
    RestoreTableRequest,
    UpdateTableTagRequest,
)

from lakeroot.model.identifiers import Identifier
from lakeroot.server.iceberg import lance_tables, ordinary, requirements
from lakeroot.server.iceberg.calls import Call, table_in
from lakeroot.server.iceberg.catalog import Catalog
from lakeroot.server.iceberg.commits import Effects, effects_of, known
from lakeroot.server.iceberg.errors import bad_request, no_such_table, unsupported
from lakeroot.server.iceberg.lance_tables import FoundTable
from lakeroot.server.iceberg.properties import kept, kept_name
from lakeroot.server.wire import Response, json_response


@dataclass(frozen=True, slots=True)
class Planned:
    """A commit to one Lance table that has been read and whose requirements hold."""

    table: FoundTable
    metadata: dict[str, Any]
    effects: Effects


def update_table(catalog: Catalog, call: Call) -> Response:
    """Commit to one table; the answer shows what it is now, and where."""
    identifier = call.identifier
    with catalog.committing(identifier):
        if not catalog.has_table(identifier):
            return json_response(ordinary.committed_new(catalog, call))
        table = lance_tables.find(catalog, identifier)
        if table.is_ordinary:
            return json_response(ordinary.committed(catalog, table, call.body))
        planned = _plan(catalog, table, call.body)
        _apply(catalog, planned)
        return json_response(_now(catalog, planned))


def commit_transaction(catalog: Catalog, call: Call) -> Response:
    """Commit to several tables, all or none."""
    changes: list[dict[str, Any]] = call.body["table-changes"]
    identifiers = [table_in(change.get("identifier"), "identifier") for change in changes]
    if len(set(identifiers)) != len(identifiers):
        raise bad_request("A transaction has at most one commit for each table")
    with catalog.committing(*identifiers):
        tables = [_existing(catalog, identifier) for identifier in identifiers]
        if tables and all(table.is_ordinary for table in tables):
            ordinary.commit_together(catalog, list(zip(tables, changes, strict=True)))
            return Response(204)
        if any(table.is_ordinary for table in tables):
            raise unsupported("Lance tables and Iceberg tables cannot be committed together")
        planned = [_plan(catalog, t, c) for t, c in zip(tables, changes, strict=True)]
        if len(planned) == 1:
            _apply(catalog, planned[0])
        elif planned:
            _apply_together(catalog, planned)
    return Response(204)


def _existing(catalog: Catalog, identifier: Identifier) -> FoundTable:
    if not catalog.has_table(identifier):
        raise no_such_table(identifier)
    return lance_tables.find(catalog, identifier)


def _plan(catalog: Catalog, table: FoundTable, body: dict[str, Any]) -> Planned:
    metadata = lance_tables.metadata_of(catalog, table)
    updates = known(body.get("updates"))
    # Before the updates are held against the table: whoever lost a race must hear that they lost
    # it, and try again, not that their version has the wrong number.
    requirements.check(body.get("requirements"), metadata)
    effects = effects_of(table.identifier, updates, metadata)
    adds = effects.version is not None
    if adds and not table.managed:
        raise bad_request("The storage manages the versions of this Lance table, not the catalog")
    if (adds or effects.main is not None) and not requirements.asserts_main(
        body.get("requirements")
    ):
        raise bad_request("A commit to a Lance table must assert-ref-snapshot-id of main")
    return Planned(table, metadata, effects)


def _apply(catalog: Catalog, planned: Planned) -> None:
    effects, namespace = planned.effects, catalog.namespace
    identifier = list(planned.table.identifier)
    current = planned.metadata.get("current-snapshot-id")
    refs = planned.metadata.get("refs", {})
    if effects.version is not None:
        request: Any = effects.version  # a plain dict: pylance's namespaces refuse a model here
        namespace.create_table_version(request)
    elif effects.main is not None and effects.main != current:
        namespace.restore_table(RestoreTableRequest(id=identifier, version=effects.main))
    for name, version in effects.tags.items():
        kind = UpdateTableTagRequest if name in refs else CreateTableTagRequest
        verb = namespace.update_table_tag if name in refs else namespace.create_table_tag
        verb(kind(id=identifier, tag=name, version=version))
    for name in effects.untagged:
        namespace.delete_table_tag(DeleteTableTagRequest(id=identifier, tag=name))
    if effects.forgotten:
        ranges = [{"start_version": v, "end_version": v + 1} for v in effects.forgotten]
        forgotten: Any = {"id": identifier, "ranges": ranges}
        namespace.batch_delete_table_versions(forgotten)
    if effects.updates or effects.removals:
        record = catalog.record_of(planned.table.identifier)
        catalog.alter_tables((record, _altered(record.properties, effects)))


def _apply_together(catalog: Catalog, planned: list[Planned]) -> None:
    if all(p.effects.version is not None for p in planned):
        entries = [p.effects.version for p in planned]
        catalog.namespace.batch_create_table_versions(
            BatchCreateTableVersionsRequest.model_validate({"entries": entries})
        )
    elif all(p.effects.kinds() == ["properties"] for p in planned):
        records = [catalog.record_of(p.table.identifier) for p in planned]
        catalog.alter_tables(
            *(
                (record, _altered(record.properties, p.effects))
                for record, p in zip(records, planned, strict=True)
            )
        )
    else:
        raise unsupported(
            "A transaction over Lance tables adds a version to each, or sets properties of each"
        )


def _altered(before: Any, effects: Effects) -> dict[str, str]:
    removed = {kept_name(name) for name in effects.removals}
    return {k: v for k, v in before.items() if k not in removed} | kept(effects.updates)


def _now(catalog: Catalog, planned: Planned) -> dict[str, Any]:
    table = lance_tables.find(catalog, planned.table.identifier)
    metadata = lance_tables.metadata_of(catalog, table)
    version = metadata.get("current-snapshot-id")
    where = (
        lance_tables.manifest_of(catalog.namespace, table.identifier, version) if version else ""
    )
    # A client takes a commit without a location for a failed one.
    return {"metadata-location": where or table.location, "metadata": metadata}
