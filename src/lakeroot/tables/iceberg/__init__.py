"""A Lance table in the words of Iceberg: schemas and table metadata as plain JSON values.

Pure functions, shared by the side that serves an Iceberg REST catalog and the side that calls one.
"""

from lakeroot.tables.iceberg.arrow_types import (
    LanceFieldId,
    iceberg_schema,
    lance_field_ids,
    last_column_id,
)
from lakeroot.tables.iceberg.definition import Definition, is_lance, read_definition
from lakeroot.tables.iceberg.iceberg_types import arrow_schema
from lakeroot.tables.iceberg.metadata import (
    RESERVED_PROPERTIES,
    Description,
    ManagedBy,
    Snapshot,
    guard_properties,
    not_mirrored,
    table_metadata,
)

__all__ = [
    "RESERVED_PROPERTIES",
    "Definition",
    "Description",
    "LanceFieldId",
    "ManagedBy",
    "Snapshot",
    "arrow_schema",
    "guard_properties",
    "iceberg_schema",
    "is_lance",
    "lance_field_ids",
    "last_column_id",
    "not_mirrored",
    "read_definition",
    "table_metadata",
]
