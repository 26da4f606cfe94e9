"""Between the records of a catalog and those of the metastore. Pure functions."""

from collections.abc import Mapping
from typing import Any, Final

from lakeroot.metastore import Delta, DeltaType, ManifestEntry, ManifestMeta, manifest_of
from lakeroot.metastore import Namespace as StoredNamespace
from lakeroot.metastore import Partition as StoredPartition
from lakeroot.metastore import Table as StoredTable
from lakeroot.metastore.locators import DeltaLocator, digest
from lakeroot.metastore.states import ContentType
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Namespace, Table, TableVersion

ROOT_NAMESPACE: Final = "$root"
"""The namespace of the tables that are in none; no other can have this name."""

MANAGES_VERSIONS: Final = "table_version_management"
"""The property that says whether the catalog keeps versions of its tables."""

OWN: Final = "lakeroot"
"""The property under which everything is kept that is not the user's."""

AUTHOR: Final = {"name": "lakeroot", "version": "1"}


def stored_name(identifier: Identifier) -> tuple[str, str] | None:
    """Give the namespace and the name of a table in the metastore; nothing if it is too deep."""
    match identifier:
        case (name,):
            return ROOT_NAMESPACE, name
        case (namespace, name):
            return namespace, name
        case _:
            return None


def table_name(identifier: Identifier) -> tuple[str, str]:
    """Give the namespace and the name of a table in the metastore, or refuse it."""
    name = stored_name(identifier)
    if name is None or name == (ROOT_NAMESPACE, ROOT_NAMESPACE):
        raise too_deep(identifier)
    return name


def too_deep(identifier: Identifier) -> UnsupportedOperationError:
    """Say that an identifier has more levels than this catalog."""
    return UnsupportedOperationError(
        f"{show(identifier)} is too deep",
        "this catalog has one level of namespaces",
        "Use a name of one namespace and one table, or a directory catalog",
    )


def identifier_in(namespace: str, table: str) -> Identifier:
    """Give the identifier of a table of the metastore."""
    return (table,) if namespace == ROOT_NAMESPACE else (namespace, table)


def location_directory(location: str) -> str:
    """Give the private name directory that makes sure that a location has one owner."""
    return f"_location/{digest(location)}"


def read_namespace(record: StoredNamespace) -> Namespace:
    """Show a namespace of the metastore as one of the catalog."""
    properties, own = _split(record.properties)
    identifier = () if record.name == ROOT_NAMESPACE else (record.name,)
    return Namespace(identifier, properties, own.get("created_at_ms"))


def namespace_properties(properties: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, Any]:
    """Write the properties of a namespace, with what is ours beside them."""
    return {**properties, OWN: dict(own)}


def own_facts(record: StoredNamespace | StoredTable | None) -> dict[str, Any]:
    """Read what is ours from the properties of a namespace or table."""
    return {} if record is None else _split(record.properties)[1]


def is_lance(record: StoredTable) -> bool:
    """Tell whether a table of the metastore is a Lance table of this catalog."""
    return "location" in _split(record.properties)[1]


def read_table(record: StoredTable) -> Table:
    """Show a table of the metastore as one of the catalog."""
    own = own_facts(record)
    return Table(
        identifier_in(record.namespace, record.name),
        own["location"],
        own.get("properties", {}),
        own.get("created_at_ms"),
    )


def table_properties(
    location: str, properties: Mapping[str, str], created_at_ms: int | None
) -> dict[str, Any]:
    """Write what a catalog knows of a table as properties of the metastore's table."""
    own = {"location": location, "created_at_ms": created_at_ms, "properties": dict(properties)}
    return {OWN: own}


def write_version(partition: StoredPartition, version: TableVersion) -> Delta:
    """Write a version of a Lance table as the delta at the position of its number."""
    meta = ManifestMeta(content_length=version.manifest_size, content_type=ContentType.BINARY.value)
    facts = {
        "e_tag": version.e_tag,
        "timestamp_ms": version.timestamp_ms,
        "metadata": dict(version.metadata),
    }
    manifest = manifest_of([ManifestEntry(version.manifest_path, meta)], AUTHOR)
    return Delta(
        DeltaLocator(partition.locator, version.version),
        DeltaType.APPEND,
        manifest,
        manifest.meta,
        {OWN: facts},
        version.version - 1,
        ancestor_ids=(*partition.ancestor_ids, partition.id),
    )


def read_version(delta: Delta) -> TableVersion:
    """Read a version of a Lance table from its delta."""
    facts = _split(delta.properties)[1]
    entry = delta.manifest.entries[0] if delta.manifest and delta.manifest.entries else None
    return TableVersion(
        delta.stream_position,
        "" if entry is None else entry.url,
        None if entry is None else entry.meta.content_length,
        facts.get("e_tag"),
        facts.get("timestamp_ms"),
        facts.get("metadata") or {},
    )


def _split(properties: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, Any]]:
    given = dict(properties or {})
    own = given.pop(OWN, None)
    # Other writers keep numbers and more in properties; a Lance catalog has texts only.
    texts = {str(k): v if isinstance(v, str) else str(v) for k, v in given.items() if v is not None}
    return texts, own if isinstance(own, dict) else {}
