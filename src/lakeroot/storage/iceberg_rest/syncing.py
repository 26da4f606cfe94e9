"""Keeping what the catalog says of a table in step with the table itself.

The schema of any table, and the current version of a table whose versions live in storage, change
without the catalog's doing. Engines that only read the catalog see them after a sync.
"""

from collections.abc import Mapping
from typing import Any

from lakeroot.storage.iceberg_rest.client import Json
from lakeroot.storage.iceberg_rest.entries import Entries, Entry, schema_updates, set_main
from lakeroot.storage.iceberg_rest.observing import (
    Observation,
    files_of,
    observe,
    observed_snapshot,
)
from lakeroot.storage.iceberg_rest.snapshots import requires_main
from lakeroot.tables.iceberg import last_column_id
from lakeroot.tables.versions import VERSIONS, parse_manifest_name


def sync(entries: Entries, entry: Entry) -> bool:
    """Bring the catalog in step with the table; tell whether anything had to change."""
    seen = observe(entry.location, entry.storage_options)
    if seen is None:
        return False
    updates = [*schema_changes(entry, seen), *version_changes(entry, seen)]
    if updates:
        entries.commit(entry, [requires_main(entry.definition.version)], updates)
    return bool(updates)


def forget_gone(entries: Entries, entry: Entry) -> bool:
    """Take the versions out of the catalog that storage does not have any more.

    Those of a table whose commits the catalog arbitrates are taken out before their files go.
    """
    if entry.is_managed:
        return False
    level = files_of(entry.location, entry.storage_options).list_directory(VERSIONS).objects
    names = (parse_manifest_name(found.path.rpartition("/")[2]) for found in level)
    there = {name.version for name in names if name is not None}
    current = entry.definition.version
    gone = sorted(one for one in entry.definition.snapshots if one not in {*there, current})
    if gone:
        removal = {"action": "remove-snapshots", "snapshot-ids": gone}
        entries.commit(entry, [requires_main(current)], [removal])
    return bool(gone)


def schema_changes(entry: Entry, seen: Observation) -> list[Json]:
    """Say how the catalog gets the schema that the table has."""
    known = entry.definition.schema or {}
    if _plain(known.get("fields")) == _plain(seen.schema["fields"]):
        return []
    return schema_updates(seen.schema, last_column_id(dict(known)))


def version_changes(entry: Entry, seen: Observation) -> list[Json]:
    """Say how the catalog gets to show the newest version of a table that storage arbitrates."""
    definition = entry.definition
    if entry.is_managed or definition.version == seen.version:
        return []
    if seen.version in definition.snapshots:
        return [set_main(seen.version)]
    told = observed_snapshot(entry.location, seen, not_before_ms=definition.last_updated_ms)
    told["sequence-number"] = max(definition.last_sequence_number + 1, seen.version)
    return [{"action": "add-snapshot", "snapshot": told}, set_main(seen.version)]


def _plain(node: Any) -> Any:
    """Write a schema so that two that mean the same are equal; servers differ in spaces."""
    if isinstance(node, Mapping):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node.replace(", ", ",") if isinstance(node, str) else node
