"""Arrow schemas as Iceberg schemas (format version 2): every column gets a type, none fails.

A column whose Arrow type has no equal in Iceberg gets the nearest type that loses the least, and
its Arrow type is written in the column's `doc`. Where PyIceberg converts without loss we agree
with it; unsigned integers are widened, because Iceberg has none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.types as pt

SCHEMA_ID: Final = 1
SYNTHESISED_IDS: Final = 1_000_000
_MOST_DIGITS: Final = 38
_EXTENSION_NAME: Final = b"ARROW:extension:name"
_DOC: Final = b"doc"

JsonValue = Any
Json = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class LanceFieldId:
    """The number Lance gave to a field, and those of the fields inside it."""

    id: int
    children: tuple["LanceFieldId", ...] = ()


class LanceField(Protocol):
    """The part of `lance.schema.LanceField` that is read here."""

    def id(self) -> int:
        """Return the number of the field."""

    def children(self) -> Sequence["LanceField"]:
        """Return the fields inside the field."""


def lance_field_ids(fields: Iterable[LanceField]) -> tuple[LanceFieldId, ...]:
    """Read the numbers out of `dataset.lance_schema.fields()`."""
    return tuple(LanceFieldId(f.id(), lance_field_ids(f.children())) for f in fields)


def iceberg_schema(
    schema: pa.Schema,
    ids: Sequence[LanceFieldId] | None = None,
    *,
    schema_id: int = SCHEMA_ID,
) -> Json:
    """Turn an Arrow schema into an Iceberg schema.

    With the ids of Lance, a field keeps its number plus one (Iceberg counts from 1) and the inside
    of a vector, which Lance does not number, gets 1,000,000 plus the number of the vector.
    Without them, fields are counted from 1, each before what is inside it.
    """
    conversion = _Conversion(by_lance_ids=ids is not None)
    return {
        "type": "struct",
        "schema-id": schema_id,
        "fields": conversion.fields(list(schema), tuple(ids or ()), 0),
    }


def last_column_id(schema: Json) -> int:
    """Return the highest field number used anywhere in an Iceberg schema, 0 if it has no fields."""
    return max(_ids_in(schema), default=0)


def _ids_in(node: JsonValue) -> Iterable[int]:
    if isinstance(node, dict):
        for key in ("id", "element-id", "key-id", "value-id"):
            if key in node:
                yield node[key]
        for value in node.values():
            yield from _ids_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from _ids_in(value)


@dataclass(frozen=True, slots=True)
class _Converted:
    """An Iceberg type, and whether it says everything that the Arrow type said."""

    type: JsonValue
    exact: bool = True


class _Conversion:
    """One walk over a schema; it remembers which numbers are taken."""

    def __init__(self, *, by_lance_ids: bool) -> None:
        self._by_lance_ids = by_lance_ids
        self._taken: set[int] = set()

    def fields(
        self, fields: Sequence[pa.Field], ids: tuple[LanceFieldId, ...], parent: int
    ) -> list[Json]:
        return [self._field(f, _nth(ids, i), parent) for i, f in enumerate(fields)]

    def _field(self, field: pa.Field, lance: LanceFieldId | None, parent: int) -> Json:
        number = self._number(lance, parent)
        try:
            converted = self._type(field, lance, number)
        except (pa.ArrowException, AttributeError, NotImplementedError, ValueError, TypeError):
            # A type from a newer Arrow, or a broken extension, must not hide the whole table.
            converted = _Converted("binary", exact=False)
        result: Json = {
            "id": number,
            "name": field.name,
            "required": not field.nullable,
            "type": converted.type,
        }
        doc = _doc(field, exact=converted.exact)
        return result | {"doc": doc} if doc else result

    def _number(self, lance: LanceFieldId | None, parent: int) -> int:
        if not self._by_lance_ids:
            number = len(self._taken) + 1
        elif lance is not None and lance.id >= 0:
            number = lance.id + 1
        else:
            number = SYNTHESISED_IDS + parent
        while number in self._taken:
            number += SYNTHESISED_IDS
        self._taken.add(number)
        return number

    def _type(self, field: pa.Field, lance: LanceFieldId | None, number: int) -> _Converted:
        name, arrow = _see_through(field)
        special = _EXTENSIONS.get(name)
        if special is not None:
            return special
        converted = self._storage(arrow, lance, number)
        return replace(converted, exact=False) if name else converted

    def _storage(self, arrow: pa.DataType, lance: LanceFieldId | None, number: int) -> _Converted:
        if pt.is_struct(arrow):
            children = lance.children if lance else ()
            return _Converted(
                {"type": "struct", "fields": self.fields(list(arrow), children, number)}
            )
        if pt.is_map(arrow):
            return self._map(arrow, lance, number)
        if _is_list(arrow):
            return self._list(arrow, lance, number)
        return _primitive(arrow)

    def _list(self, arrow: pa.ListType, lance: LanceFieldId | None, number: int) -> _Converted:
        child = _nth(lance.children, 0) if lance else None
        element_id = self._number(child, number)
        element = self._type(arrow.value_field, child, element_id)
        vector = pt.is_fixed_size_list(arrow)
        return _Converted(
            {
                "type": "list",
                "element-id": element_id,
                "element": element.type,
                "element-required": not arrow.value_field.nullable,
            },
            exact=element.exact and not vector,
        )

    def _map(self, arrow: pa.MapType, lance: LanceFieldId | None, number: int) -> _Converted:
        entries = _nth(lance.children, 0) if lance else None
        inside = entries.children if entries else ()
        key_id = self._number(_nth(inside, 0), number)
        key = self._type(arrow.key_field, _nth(inside, 0), key_id)
        value_id = self._number(_nth(inside, 1), number)
        value = self._type(arrow.item_field, _nth(inside, 1), value_id)
        return _Converted(
            {
                "type": "map",
                "key-id": key_id,
                "key": key.type,
                "value-id": value_id,
                "value": value.type,
                "value-required": not arrow.item_field.nullable,
            },
            exact=key.exact and value.exact,
        )


def _see_through(field: pa.Field) -> tuple[str, pa.DataType]:
    """Return the name of a field's extension type, if it has one, and the type it is stored as."""
    arrow = field.type
    if isinstance(arrow, pa.BaseExtensionType):
        name, arrow = arrow.extension_name, arrow.storage_type
    else:
        # An extension that nobody registered comes as its storage, named in the metadata.
        name = (field.metadata or {}).get(_EXTENSION_NAME, b"").decode(errors="replace")
    while pt.is_dictionary(arrow):
        arrow = arrow.value_type
    return name, arrow


def _is_list(arrow: pa.DataType) -> bool:
    return bool(
        pt.is_list(arrow)
        or pt.is_large_list(arrow)
        or pt.is_fixed_size_list(arrow)
        or pt.is_list_view(arrow)
        or pt.is_large_list_view(arrow)
    )


# Extensions whose values mean something else than the type they are stored as.
_EXTENSIONS: Final[dict[str, _Converted]] = {
    "arrow.uuid": _Converted("uuid"),
    "arrow.bool8": _Converted("boolean", exact=False),
    "arrow.json": _Converted("string", exact=False),
    "lance.json": _Converted("string", exact=False),
    "lance.blob.v2": _Converted("binary", exact=False),
}

_PLAIN: Final[dict[pa.DataType, _Converted]] = {
    pa.bool_(): _Converted("boolean"),
    pa.int8(): _Converted("int"),
    pa.int16(): _Converted("int"),
    pa.int32(): _Converted("int"),
    pa.int64(): _Converted("long"),
    pa.uint8(): _Converted("int"),
    pa.uint16(): _Converted("int"),
    pa.uint32(): _Converted("long", exact=False),
    pa.uint64(): _Converted("decimal(20, 0)", exact=False),
    pa.float16(): _Converted("float", exact=False),
    pa.float32(): _Converted("float"),
    pa.float64(): _Converted("double"),
    pa.string(): _Converted("string"),
    pa.large_string(): _Converted("string"),
    pa.string_view(): _Converted("string"),
    pa.binary(): _Converted("binary"),
    pa.large_binary(): _Converted("binary"),
    pa.binary_view(): _Converted("binary"),
    pa.date32(): _Converted("date"),
    pa.date64(): _Converted("date", exact=False),
    pa.time64("us"): _Converted("time"),
    pa.null(): _Converted("string", exact=False),
}


def _primitive(arrow: pa.DataType) -> _Converted:
    plain = _PLAIN.get(arrow)
    if plain is not None:
        return plain
    if pt.is_decimal(arrow):
        return _decimal(arrow)
    if pt.is_timestamp(arrow):
        return _timestamp(arrow)
    if pt.is_fixed_size_binary(arrow):
        return _Converted(f"fixed[{arrow.byte_width}]")
    if pt.is_time(arrow):
        return _Converted("time", exact=False)
    if pt.is_duration(arrow):
        return _Converted("long", exact=False)
    return _Converted("binary", exact=False)


def _decimal(arrow: pa.DataType) -> _Converted:
    if 0 <= arrow.scale <= arrow.precision <= _MOST_DIGITS:
        return _Converted(f"decimal({arrow.precision}, {arrow.scale})")
    return _Converted("string", exact=False)


def _timestamp(arrow: pa.DataType) -> _Converted:
    if arrow.tz is None:
        return _Converted("timestamp", exact=arrow.unit != "ns")
    utc = arrow.tz in ("UTC", "+00:00", "Etc/UTC", "Z")
    return _Converted("timestamptz", exact=utc and arrow.unit != "ns")


def _doc(field: pa.Field, *, exact: bool) -> str:
    """Write the owner's own words, if any, and the Arrow type if Iceberg cannot say it."""
    own = (field.metadata or {}).get(_DOC, b"").decode(errors="replace")
    note = "" if exact else f"Arrow type: {_type_name(field)}"
    return f"{own} ({note})" if own and note else own or note


def _type_name(field: pa.Field) -> str:
    name = (field.metadata or {}).get(_EXTENSION_NAME)
    return f"extension<{name.decode(errors='replace')}>" if name else str(field.type)


def _nth(items: Sequence[LanceFieldId], index: int) -> LanceFieldId | None:
    return items[index] if index < len(items) else None
