"""Reading the definition of a Lance table out of the TableMetadata that a catalog returned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeroot.model.errors import InternalError, TableNotFoundError
from lakeroot.tables.iceberg.metadata import (
    MAIN,
    MANAGED_BY,
    RESERVED_PROPERTIES,
    TABLE_TYPE,
    ManagedBy,
)

_NO_SNAPSHOT: Final = -1  # Java servers write this where others leave the key out


@dataclass(frozen=True, slots=True)
class Definition:
    """A Lance table as an Iceberg REST catalog knows it.

    `version` is the current snapshot: authoritative only when the catalog manages the commits.
    `managed_by` is nothing if the table names a manager that the specification does not know.
    """

    location: str
    uuid: str | None
    managed_by: ManagedBy | None
    version: int | None
    schema_id: int
    schema: Mapping[str, Any] | None
    snapshots: Mapping[int, Mapping[str, Any]]
    properties: Mapping[str, str]
    last_sequence_number: int
    last_updated_ms: int

    @property
    def user_properties(self) -> dict[str, str]:
        """Return the properties without those that only mark and guard the table."""
        return {k: v for k, v in self.properties.items() if k not in RESERVED_PROPERTIES}


def is_lance(properties: object) -> bool:
    """Tell whether the properties of a table say that it is a Lance table."""
    return (
        isinstance(properties, Mapping) and str(properties.get(TABLE_TYPE, "")).lower() == "lance"
    )


def read_definition(metadata: object, name: str) -> Definition:
    """Read the metadata of the table called `name`; say clearly what is wrong with it if it is."""
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("location"), str):
        raise InternalError(
            f"The catalog's answer about table {name} is not the metadata of a table",
            "it has no `location`",
            "Check that the endpoint is an Iceberg REST catalog",
        )
    properties = _strings(metadata.get("properties"))
    if not is_lance(properties):
        raise TableNotFoundError(
            f"No Lance table is called {name}",
            "a table of that name exists, but its property `table_type` is not `lance`",
            "Open it with an Iceberg reader, or use another name",
        )
    snapshots = {
        snapshot["snapshot-id"]: snapshot
        for snapshot in metadata.get("snapshots") or ()
        if isinstance(snapshot, Mapping) and isinstance(snapshot.get("snapshot-id"), int)
    }
    schema_id = _whole(metadata.get("current-schema-id"))
    return Definition(
        location=metadata["location"].rstrip("/"),
        uuid=metadata.get("table-uuid"),
        managed_by=_managed_by(properties),
        version=_current(metadata),
        schema_id=schema_id,
        schema=_schema(metadata, schema_id),
        snapshots=snapshots,
        properties=properties,
        last_sequence_number=_whole(metadata.get("last-sequence-number")),
        last_updated_ms=_whole(metadata.get("last-updated-ms")),
    )


def _managed_by(properties: Mapping[str, str]) -> ManagedBy | None:
    value = properties.get(MANAGED_BY, ManagedBy.STORAGE.value).lower()
    return ManagedBy(value) if value in tuple(ManagedBy) else None


def _current(metadata: Mapping[str, Any]) -> int | None:
    current = metadata.get("current-snapshot-id")
    if not isinstance(current, int):
        refs = metadata.get("refs")
        main = refs.get(MAIN) if isinstance(refs, Mapping) else None
        current = main.get("snapshot-id") if isinstance(main, Mapping) else None
    return current if isinstance(current, int) and current != _NO_SNAPSHOT else None


def _schema(metadata: Mapping[str, Any], schema_id: int) -> Mapping[str, Any] | None:
    schemas = [s for s in metadata.get("schemas") or () if isinstance(s, Mapping)]
    return next((s for s in schemas if s.get("schema-id") == schema_id), None)


def _strings(properties: object) -> dict[str, str]:
    if not isinstance(properties, Mapping):
        return {}
    return {str(k): v if isinstance(v, str) else str(v) for k, v in properties.items()}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
