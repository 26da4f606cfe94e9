"""The schema of a mirrored table: columns that Parquet can hold, under ids that are never reused.

Lance gives the number of a dropped column to the next new one; Iceberg forbids that. So the mirror
numbers columns itself: a column keeps its id while it stays the same column from one mirrored
version to the next, and a new column gets an id that no column had before.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from lakeroot.tables.iceberg import iceberg_schema, lance_field_ids

Json = dict[str, Any]
_BLOB = (b"lance-encoding:blob", b"true")
_ID_KEYS = ("id", "element-id", "key-id", "value-id")


@dataclass(frozen=True, slots=True)
class MirrorSchema:
    """An Iceberg schema with ids of our own, and what is needed to number the next version."""

    schema: Json
    ids: dict[str, int]
    last: int

    def arrow(self) -> pa.Schema:
        """The schema of the Parquet files: every field carries its id."""
        return schema_to_pyarrow(Schema.model_validate(self.schema))


def schema_for(dataset: Any, before: dict[str, int], last: int) -> MirrorSchema:
    """Number the columns of a version, given the ids of the version before and the last id used."""
    lance_ids = lance_field_ids(dataset.lance_schema.fields())
    described = iceberg_schema(dataset.schema, lance_ids)
    kept = [
        (field, column)
        for field, column in zip(described["fields"], dataset.schema, strict=True)
        if _can_be_mirrored(field, column)
    ]
    numbering = _Numbering(before, last)
    fields = [numbering.field(field, "") for field, _ in kept]
    schema = {"type": "struct", "schema-id": 1, "fields": fields}
    return MirrorSchema(schema, numbering.ids, numbering.last)


def _can_be_mirrored(field: Json, column: pa.Field) -> bool:
    if (column.metadata or {}).get(_BLOB[0]) == _BLOB[1]:
        return False  # blobs stay where they are; copying them is not what anybody asked for
    try:
        target = schema_to_pyarrow(Schema.model_validate({"type": "struct", "fields": [field]}))
        pa.schema([column]).empty_table().cast(target)
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError):
        return False
    return True


class _Numbering:
    """One walk over a schema that replaces the ids of Lance by ids of our own."""

    def __init__(self, before: dict[str, int], last: int) -> None:
        self._before = before
        self.ids: dict[str, int] = {}
        self.last = last

    def field(self, field: Json, path: str) -> Json:
        here = f"{path}/{field['id']}:{field['name']}"
        number = self._number(here, field["type"])
        return {**field, "id": number, "type": self._type(field["type"], here)}

    def _type(self, kind: Any, path: str) -> Any:
        if not isinstance(kind, dict):
            return kind
        result = dict(kind)
        for key in _ID_KEYS[1:]:
            if key in kind:
                part = key.removesuffix("-id")
                result[key] = self._number(f"{path}/{part}", kind[part])
                result[part] = self._type(kind[part], f"{path}/{part}")
        if kind.get("type") == "struct":
            result["fields"] = [self.field(field, path) for field in kind["fields"]]
        return result

    def _number(self, path: str, kind: Any) -> int:
        key = f"{path} {kind if isinstance(kind, str) else kind['type']}"
        number = self._before.get(key)
        if number is None:
            self.last += 1
            number = self.last
        self.ids[key] = number
        return number
