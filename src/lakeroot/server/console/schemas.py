"""Schemas for people: nested fields on lines of their own, vectors by their size."""

from typing import Any, Final

import pyarrow as pa

_DEEPEST: Final = 12
_TIMES: Final = "\N{MULTIPLICATION SIGN}"


def field_lines(schema: pa.Schema) -> list[dict[str, Any]]:
    """Write a schema as lines, each with its depth."""
    lines: list[dict[str, Any]] = []
    for field in schema:
        _add(lines, field, 0)
    return lines


def kind_of(kind: pa.DataType) -> str:
    """How values of a type are shown: number, text, time, vector, bytes, nested or other."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if is_vector(kind):
        return "vector"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_temporal(kind):
        return "time"
    return "nested" if pa.types.is_nested(kind) else "text"


def is_vector(kind: pa.DataType) -> bool:
    """Tell whether a type holds vectors: lists of one length of numbers."""
    if not pa.types.is_fixed_size_list(kind):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def short_type(kind: pa.DataType) -> str:
    """Name a type in a few characters; what is inside has lines of its own."""
    if is_vector(kind):
        return f"vector {kind.list_size} {_TIMES} {_plain(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_map(kind):
        return f"map {_plain(kind.key_type)} → {short_type(kind.item_type)}"
    if pa.types.is_fixed_size_list(kind):
        return f"list {kind.list_size} {_TIMES} {short_type(kind.value_type)}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {short_type(kind.value_type)}"
    return _plain(kind)


def _add(lines: list[dict[str, Any]], field: pa.Field, depth: int) -> None:
    metadata = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (field.metadata or {}).items()
    }
    lines.append(
        {
            "name": field.name,
            "depth": depth,
            "type": short_type(field.type),
            "arrow": str(field.type),
            "kind": kind_of(field.type),
            "nullable": field.nullable,
            "metadata": metadata,
        }
    )
    for child in _children(field.type) if depth < _DEEPEST else ():
        _add(lines, child, depth + 1)


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return _children(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _children(kind.value_type)
    return []


def _plain(kind: pa.DataType) -> str:
    names = {"float": "float32", "double": "float64", "halffloat": "float16"}
    text = str(kind)
    return names.get(text, text)
