"""Arrow schemas as JSON: the specification's JsonArrowSchema, and back to Arrow types.

Type names are those the reference writes (``utf8``, ``float32``, ``fixed_size_list``). Reading is
more generous: pyarrow's own names and units in brackets (``timestamp[us, tz=UTC]``) work too.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeroot.model.errors import InvalidInputError

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_NAMES: Final = {kind: name for name, kind in _PLAIN.items()}
_OTHER_NAMES: Final = {
    "boolean": "bool",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "string": "utf8",
    "large_string": "large_utf8",
    "largeutf8": "large_utf8",
    "largebinary": "large_binary",
    "date32[day]": "date32",
    "date64[ms]": "date64",
}
_UNITS: Final[Mapping[str, tuple[Callable[..., pa.DataType], str]]] = {
    "time32": (pa.time32, "ms"),
    "time64": (pa.time64, "us"),
    "timestamp": (pa.timestamp, "us"),
    "duration": (pa.duration, "us"),
}
_WITH_UNIT: Final = re.compile(r"(\w+)\[(\w+)(?:,\s*(?:tz=)?([^\]]+))?\]")
_DECIMAL: Final = re.compile(r"(decimal128|decimal256)\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_SCALE: Final = 1000
"""The specification's shape has one number for a decimal: precision * 1000 + scale."""


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Write a schema in the shape of JsonArrowSchema."""
    written: dict[str, Any] = {"fields": [_field_to_json(field) for field in schema]}
    if schema.metadata:
        written["metadata"] = _text(schema.metadata)
    return written


def type_from_json(written: Any) -> pa.DataType:
    """Read a type from the shape of JsonArrowDataType, or from its bare name."""
    if isinstance(written, str):
        written = {"type": written}
    if not isinstance(written, Mapping) or not isinstance(written.get("type"), str):
        raise InvalidInputError(
            f"{written!r} is not an Arrow type", fix='Write it as {"type": "int64"}'
        )
    name = written["type"].strip()
    lower = _OTHER_NAMES.get(name.lower(), name.lower())
    if lower in _PLAIN:
        return _PLAIN[lower]
    try:
        return _parametric(lower, name, written)
    except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"{name!r} is not an Arrow type", str(error)) from error


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    metadata = _text(field.metadata or {})
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        metadata["ARROW:extension:name"] = kind.extension_name
        metadata["ARROW:extension:metadata"] = _extension_metadata(kind)
        kind = kind.storage_type
    written: dict[str, Any] = {
        "name": field.name,
        "nullable": field.nullable,
        "type": _type_to_json(kind),
    }
    if metadata:
        written["metadata"] = metadata
    return written


def _extension_metadata(kind: Any) -> str:
    if isinstance(kind, pa.FixedShapeTensorType):
        # pyarrow's own extension types do not tell their serialised form.
        parts = {"shape": kind.shape, "permutation": kind.permutation, "dim_names": kind.dim_names}
        return json.dumps({k: v for k, v in parts.items() if v}, separators=(",", ":"))
    serialize = getattr(kind, "__arrow_ext_serialize__", None)
    return "" if serialize is None else str(serialize().decode(errors="replace"))


def _type_to_json(kind: pa.DataType) -> dict[str, Any]:
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    types = pa.types
    if types.is_dictionary(kind):
        return _type_to_json(kind.value_type)
    if types.is_decimal(kind):
        name = "decimal128" if types.is_decimal128(kind) else "decimal256"
        return {"type": name, "length": kind.precision * _SCALE + kind.scale}
    if types.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    if types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return {"type": "map", "fields": [_field_to_json(entries)]}
    if types.is_struct(kind):
        return {"type": "struct", "fields": [_field_to_json(kind[i]) for i in range(len(kind))]}
    for test, name in _LISTS:
        if test(kind):
            length = {"length": kind.list_size} if name == "fixed_size_list" else {}
            return {"type": name, **length, "fields": [_field_to_json(kind.value_field)]}
    # Units and time zones have no place in the specification's shape.
    return {"type": re.sub(r"\[.*", "", str(kind))}


_LISTS: Final = (
    (pa.types.is_fixed_size_list, "fixed_size_list"),
    (pa.types.is_large_list, "large_list"),
    (pa.types.is_list, "list"),
)


def _parametric(lower: str, name: str, written: Mapping[str, Any]) -> pa.DataType:
    with_unit = _WITH_UNIT.fullmatch(name)
    base = with_unit[1].lower() if with_unit else lower
    if base in _UNITS:
        make, unit = _UNITS[base]
        if with_unit is None:
            return make(unit)
        zone = with_unit[3]
        return make(with_unit[2], zone) if zone else make(with_unit[2])
    decimal = _DECIMAL.fullmatch(lower)
    if decimal is not None:
        return getattr(pa, decimal[1])(int(decimal[2]), int(decimal[3]))
    if lower in ("decimal128", "decimal256"):
        return getattr(pa, lower)(*divmod(int(written["length"]), _SCALE))
    if lower == "fixed_size_binary":
        return pa.binary(int(written["length"]))
    return _nested(lower, written)


def _nested(lower: str, written: Mapping[str, Any]) -> pa.DataType:
    fields = [_field_from_json(one) for one in _fields(written)]
    if lower == "struct":
        return pa.struct(fields)
    [inner] = fields
    match lower:
        case "list":
            return pa.list_(inner)
        case "large_list":
            return pa.large_list(inner)
        case "fixed_size_list":
            return pa.list_(inner, int(written["length"]))
        case "map":
            key, value = inner.type
            return pa.map_(key, value)
        case _:
            raise InvalidInputError(f"{written['type']!r} is not an Arrow type")


def _fields(written: Mapping[str, Any]) -> Sequence[Any]:
    fields = written.get("fields")
    if not isinstance(fields, Sequence) or isinstance(fields, str):
        raise InvalidInputError(f"{written['type']!r} is not an Arrow type")
    return fields


def _field_from_json(written: Any) -> pa.Field:
    if not isinstance(written, Mapping) or not isinstance(written.get("name"), str):
        raise InvalidInputError(f"{written!r} is not an Arrow field")
    return pa.field(
        written["name"],
        type_from_json(written.get("type")),
        nullable=bool(written.get("nullable", True)),
        metadata=written.get("metadata") or None,
    )


def _text(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    return {key.decode(): value.decode(errors="replace") for key, value in metadata.items()}
