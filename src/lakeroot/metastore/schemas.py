"""Schemas: Arrow schemas with field ids, merge keys and defaults, kept as Arrow IPC messages.

A schema keeps the very bytes it was read from, so that writing it back changes nothing. Everything
a field says beyond its type is in its metadata, under the keys the storage model gives it.
"""

import base64
import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgpack
import pyarrow as pa

from lakeroot.metastore.states import SchemaConsistency
from lakeroot.metastore.values import partition_value
from lakeroot.model.errors import InvalidInputError, TableSchemaValidationError

FIELD_ID: Final = b"PARQUET:field_id"
SCHEMA_ID: Final = b"DELTACAT:schema_id"
SUBSCHEMAS: Final = b"DELTACAT:subschemas"
MERGE_KEY: Final = b"DELTACAT:merge_key"
MERGE_ORDER: Final = b"DELTACAT:merge_order"
EVENT_TIME: Final = b"DELTACAT:event_time"
PAST_DEFAULT: Final = b"DELTACAT:past_default"
FUTURE_DEFAULT: Final = b"DELTACAT:future_default"
CONSISTENCY: Final = b"DELTACAT:consistency_type"
DOC: Final = b"DELTACAT:doc"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a schema, with what its metadata says in plain values."""

    arrow: Any

    @property
    def name(self) -> str:
        """The name of the column."""
        return str(self.arrow.name)

    @property
    def id(self) -> int | None:
        """The number that stays when the name changes."""
        text = self._metadata.get(FIELD_ID)
        return None if text is None else int(text)

    @property
    def is_merge_key(self) -> bool:
        """Whether rows with the same value here (and in the other merge keys) are one row."""
        return self._metadata.get(MERGE_KEY) == b"True"

    @property
    def is_event_time(self) -> bool:
        """Whether this column says which of two rows with the same key is the later one."""
        return self._metadata.get(EVENT_TIME) == b"True"

    @property
    def merge_order(self) -> tuple[str, str] | None:
        """The order in which the first of several rows with the same key survives."""
        value = self._packed(MERGE_ORDER)
        if value is None:
            return None
        parts = [value] if isinstance(value, str) else list(value)
        order = str(parts[0]).lower()
        nulls = str(parts[1]).lower() if len(parts) > 1 else "at_end"
        return order, nulls

    @property
    def past_default(self) -> Any:
        """The value for rows written before the field existed."""
        return self._packed(PAST_DEFAULT)

    @property
    def future_default(self) -> Any:
        """The value for rows that are written without the field."""
        return self._packed(FUTURE_DEFAULT)

    @property
    def consistency(self) -> SchemaConsistency | None:
        """What happens to values of another type; nothing if the table decides."""
        text = self._metadata.get(CONSISTENCY)
        return None if text is None else SchemaConsistency(text.decode())

    @property
    def _metadata(self) -> Mapping[bytes, bytes]:
        return self.arrow.metadata or {}

    def _packed(self, key: bytes) -> Any:
        value = self._metadata.get(key)
        return None if value is None else unpack_value(value)


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it is kept: the bytes of an Arrow IPC message."""

    serialized: bytes

    @property
    def arrow(self) -> Any:
        """The Arrow schema."""
        return _parsed(self.serialized)

    @property
    def schema_id(self) -> int:
        """The number of this schema in the history of its table version."""
        return int((self.arrow.metadata or {}).get(SCHEMA_ID, b"0"))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in the order of the table."""
        return tuple(Field(field) for field in self.arrow)

    @property
    def merge_keys(self) -> tuple[str, ...]:
        """The names of the columns that make two rows the same row."""
        return tuple(field.name for field in self.fields if field.is_merge_key)

    def field(self, name: str) -> Field | None:
        """Find a field by its name."""
        return next((field for field in self.fields if field.name == name), None)


def schema_of(
    arrow: Any,
    *,
    merge_keys: Iterable[str] = (),
    merge_order: Mapping[str, str] | None = None,
    event_time: str | None = None,
    past_defaults: Mapping[str, Any] | None = None,
    future_defaults: Mapping[str, Any] | None = None,
    schema_id: int = 0,
) -> Schema:
    """Make the first schema of a table: every field, nested ones too, gets an id."""
    keys = tuple(merge_keys)
    orders, past, future = merge_order or {}, past_defaults or {}, future_defaults or {}
    named = {*keys, *orders, *past, *future, *([event_time] if event_time else [])}
    unknown = named - set(arrow.names)
    if unknown:
        raise InvalidInputError(f"The schema has no field {min(unknown)!r}")
    _refuse_twins(arrow)
    fields = []
    for field in arrow:
        metadata = dict(field.metadata or {})
        if field.name in keys:
            _check_merge_key(field)
            metadata |= {MERGE_KEY: b"True", CONSISTENCY: b"validate"}
        if field.name in orders:
            packed = pack_value([orders[field.name], "at_end"])
            metadata |= {MERGE_ORDER: packed, CONSISTENCY: b"validate"}
        if field.name == event_time:
            metadata |= {EVENT_TIME: b"True", CONSISTENCY: b"validate"}
        if field.name in past:
            metadata[PAST_DEFAULT] = pack_default(past[field.name], field.type)
        if field.name in future:
            metadata[FUTURE_DEFAULT] = pack_default(future[field.name], field.type)
        fields.append(field.with_metadata(metadata))
    return numbered(fields, dict(arrow.metadata or {}), schema_id, first_id=0)


def numbered(
    fields: Iterable[Any], metadata: dict[bytes, bytes], schema_id: int, first_id: int
) -> Schema:
    """Make a schema of fields, giving an id to each field that has none, from ``first_id`` up."""
    given = list(fields)
    counter = max([first_id, *(1 + used for used in map(_largest_id, given))])

    def next_id() -> int:
        nonlocal counter
        counter += 1
        return counter - 1

    finished = [_with_ids(field, next_id) for field in given]
    text = {**metadata, SCHEMA_ID: str(schema_id).encode()}
    text.setdefault(SUBSCHEMAS, pack_value({}))
    return Schema(pa.schema(finished, metadata=text).serialize().to_pybytes())


def largest_field_id(schemas: Iterable[Schema]) -> int:
    """Find the largest field id ever used; an id is never given twice. -1 if there is none."""
    return max((_largest_id(field) for schema in schemas for field in schema.arrow), default=-1)


def pack_value(value: Any) -> bytes:
    """Write a value as field metadata keeps it."""
    try:
        return base64.b64encode(msgpack.packb(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{value!r} cannot be stored in a schema", str(error)) from error


def pack_default(value: Any, kind: Any) -> bytes:
    """Write the default of a column of a type; dates, times and decimals are kept as text."""
    is_special = isinstance(value, datetime.date | datetime.time | decimal.Decimal)
    stored = partition_value(value) if is_special else value
    default_scalar(stored, kind)
    return pack_value(stored)


def default_scalar(value: Any, kind: Any) -> Any:
    """Read a stored default as a value of a column's type."""
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    try:
        return pa.scalar(value).cast(kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TableSchemaValidationError(
            f"{value!r} cannot be the default of a column", f"it is not a value of type {kind}"
        ) from error


def unpack_value(data: bytes) -> Any:
    """Read a value from field metadata; older writers left out the base64."""
    try:
        return msgpack.unpackb(base64.b64decode(data, validate=True), strict_map_key=False)
    except ValueError:
        return msgpack.unpackb(data, strict_map_key=False)


@lru_cache(maxsize=4096)
def _parsed(serialized: bytes) -> Any:
    try:
        return pa.ipc.read_schema(pa.BufferReader(serialized))
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInputError(
            "A stored schema cannot be read", "its bytes are not an Arrow schema"
        ) from error


def _refuse_twins(arrow: Any) -> None:
    folded = [name.casefold() for name in arrow.names]
    twins = sorted({name for name in arrow.names if folded.count(name.casefold()) > 1})
    if twins:
        raise InvalidInputError(
            f"The schema has more than one field {twins[0]!r}", "names are unique in any case"
        )


def _check_merge_key(field: Any) -> None:
    if pa.types.is_floating(field.type) or pa.types.is_nested(field.type):
        raise TableSchemaValidationError(
            f"The field {field.name!r} cannot be a merge key",
            f"values of type {field.type} cannot be compared for equality",
        )


def _largest_id(field: Any) -> int:
    own = int((field.metadata or {}).get(FIELD_ID, b"-1"))
    return max([own, *(_largest_id(child) for child in _children(field.type))])


def _children(arrow_type: Any) -> list[Any]:
    return [arrow_type.field(position) for position in range(arrow_type.num_fields)]


def _with_ids(field: Any, next_id: Callable[[], int]) -> Any:
    metadata = dict(field.metadata or {})
    if FIELD_ID not in metadata:
        metadata[FIELD_ID] = str(next_id()).encode()
    return field.with_type(_type_with_ids(field.type, next_id)).with_metadata(metadata)


def _type_with_ids(kind: Any, next_id: Callable[[], int]) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([_with_ids(child, next_id) for child in _children(kind)])
    if pa.types.is_map(kind):
        return pa.map_(_with_ids(kind.key_field, next_id), _with_ids(kind.item_field, next_id))
    if pa.types.is_large_list(kind):
        return pa.large_list(_with_ids(kind.value_field, next_id))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_with_ids(kind.value_field, next_id), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_with_ids(kind.value_field, next_id))
    return kind
