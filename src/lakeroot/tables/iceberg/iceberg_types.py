"""Iceberg schemas as Arrow schemas: what a table gets when an Iceberg client creates it."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from lakeroot.model.errors import InvalidInputError

_DEEPEST: Final = 64
_PLAIN: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "binary": pa.binary(),
    "unknown": pa.null(),
}
_FIXED: Final = re.compile(r"fixed\s*\[\s*(\d{1,9})\s*\]")
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def arrow_schema(schema: object) -> pa.Schema:
    """Turn an Iceberg schema, as parsed JSON, into an Arrow schema; refuse what is not one."""
    return pa.schema(_fields(schema, 0))


def _fields(struct: object, depth: int) -> list[pa.Field]:
    if not isinstance(struct, Mapping) or not isinstance(struct.get("fields"), list):
        raise _invalid("a struct has a list of `fields`", struct)
    return [_field(field, depth) for field in struct["fields"]]


def _field(field: object, depth: int) -> pa.Field:
    if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
        raise _invalid("a field has a `name` and a `type`", field)
    doc = field.get("doc")
    return pa.field(
        field["name"],
        _type(field.get("type"), depth),
        nullable=not field.get("required", False),
        metadata={"doc": doc} if isinstance(doc, str) and doc else None,
    )


def _type(iceberg: object, depth: int) -> pa.DataType:
    if depth > _DEEPEST:
        raise _invalid(f"types nest at most {_DEEPEST} deep", "a type nested deeper")
    if isinstance(iceberg, str):
        return _primitive(iceberg)
    if isinstance(iceberg, Mapping):
        nested = _NESTED.get(str(iceberg.get("type")))
        if nested is not None:
            return nested(iceberg, depth + 1)
    raise _invalid("this type is not known", iceberg)


def _primitive(name: str) -> pa.DataType:
    plain = _PLAIN.get(name)
    if plain is not None:
        return plain
    if fixed := _FIXED.fullmatch(name):
        return pa.binary(int(fixed[1]))
    if decimal := _DECIMAL.fullmatch(name):
        precision, scale = int(decimal[1]), int(decimal[2])
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    raise _invalid("this type is not known", name)


def _struct(iceberg: Mapping[str, Any], depth: int) -> pa.DataType:
    return pa.struct(_fields(iceberg, depth))


def _list(iceberg: Mapping[str, Any], depth: int) -> pa.DataType:
    element = _type(iceberg.get("element"), depth)
    nullable = not iceberg.get("element-required", False)
    return pa.list_(pa.field("item", element, nullable=nullable))


def _map(iceberg: Mapping[str, Any], depth: int) -> pa.DataType:
    value = _type(iceberg.get("value"), depth)
    nullable = not iceberg.get("value-required", False)
    return pa.map_(_type(iceberg.get("key"), depth), pa.field("value", value, nullable=nullable))


_NESTED: Final[dict[str, Callable[[Mapping[str, Any], int], pa.DataType]]] = {
    "struct": _struct,
    "list": _list,
    "map": _map,
}


def _invalid(why: str, what: object) -> InvalidInputError:
    shown = repr(what)
    return InvalidInputError(
        "The Iceberg schema cannot be read",
        f"{why}; found {shown[:200]}",
        "Send a schema with the types of Iceberg's format version 2 or 3",
    )
