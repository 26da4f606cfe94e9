"""Arrow types of Lance tables as Spark types, and back.

Spark holds fewer types than Arrow. A type is either held exactly, or widened to one that holds
every value of it (unsigned integers, half floats), or refused before any job runs. That a list is
a vector, and of which size, is kept in the metadata of fields, so that a table written from a
frame that was read from a table has the same vectors again. What was widened stays so there.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lakeroot.model.errors import InvalidInputError, TableSchemaValidationError

VECTOR_KEY = "lakeroot.vector"
BLOB_KEY = "lance-encoding:blob"
ROW_COLUMNS = ("_rowid", "_rowaddr")
RESERVED = (
    *ROW_COLUMNS,
    "_rowoffset",
    "_row_last_updated_at_version",
    "_row_created_at_version",
)
_LARGEST_PRECISION = 38

_SIMPLE: Mapping[pa.DataType, st.DataType] = {
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
    pa.float16(): st.FloatType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.large_string(): st.StringType(),
    pa.string_view(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.large_binary(): st.BinaryType(),
    pa.binary_view(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.date64(): st.DateType(),
    pa.time32("s"): st.TimeType(6),
    pa.time32("ms"): st.TimeType(6),
    pa.time64("us"): st.TimeType(6),
    pa.duration("s"): st.DayTimeIntervalType(),
    pa.duration("ms"): st.DayTimeIntervalType(),
    pa.duration("us"): st.DayTimeIntervalType(),
    pa.null(): st.NullType(),
}


def spark_schema(schema: pa.Schema, *, truncate_nanos: bool = False) -> st.StructType:
    """Return the Spark schema of a table, or refuse a column that Spark cannot hold."""
    return st.StructType(
        [_spark_field(field, field.name, truncate_nanos=truncate_nanos) for field in schema]
    )


def held(schema: pa.Schema) -> list[str]:
    """Name the columns that Spark can hold, were it without nanoseconds."""
    return [field.name for field in schema if is_held(field)]


def is_held(field: pa.Field) -> bool:
    """Tell whether Spark can hold a column, were it without nanoseconds."""
    try:
        _spark_field(field, field.name, truncate_nanos=True)
    except InvalidInputError:
        return False
    return True


def _spark_field(field: pa.Field, path: str, *, truncate_nanos: bool) -> st.StructField:
    kind = _spark_type(field.type, path, truncate_nanos=truncate_nanos)
    metadata: dict[str, Any] = _vectors(field.type, VECTOR_KEY)
    if is_blob(field):
        metadata[BLOB_KEY] = "true"
    return st.StructField(field.name, kind, field.nullable, metadata)


def _vectors(kind: pa.DataType, key: str) -> dict[str, str]:
    """Name the vectors of a field: itself, and those in lists and maps, which keep no metadata."""
    if not isinstance(kind, pa.BaseExtensionType) and _is_list(kind):
        inside = _vectors(kind.value_type, f"{key}.element")
        if not pa.types.is_fixed_size_list(kind):
            return inside
        return {key: f"{kind.value_type}[{kind.list_size}]", **inside}
    if pa.types.is_map(kind):
        return {**_vectors(kind.key_type, f"{key}.key"), **_vectors(kind.item_type, f"{key}.value")}
    return {}


def _spark_type(kind: pa.DataType, path: str, *, truncate_nanos: bool) -> st.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        if is_blob_type(kind):
            return st.BinaryType()
        return _spark_type(kind.storage_type, path, truncate_nanos=truncate_nanos)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if pa.types.is_fixed_size_binary(kind):
        return st.BinaryType()
    return _nested_type(kind, path, truncate_nanos=truncate_nanos)


def _nested_type(kind: pa.DataType, path: str, *, truncate_nanos: bool) -> st.DataType:
    if pa.types.is_decimal(kind) and kind.precision <= _LARGEST_PRECISION and kind.scale >= 0:
        return st.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and (kind.unit != "ns" or truncate_nanos):
        return st.TimestampType() if kind.tz else st.TimestampNTZType()
    if _is_list(kind):
        element = _spark_type(kind.value_type, f"{path}.element", truncate_nanos=truncate_nanos)
        return st.ArrayType(element, kind.value_field.nullable)
    if pa.types.is_map(kind):
        return st.MapType(
            _spark_type(kind.key_type, f"{path}.key", truncate_nanos=truncate_nanos),
            _spark_type(kind.item_type, f"{path}.value", truncate_nanos=truncate_nanos),
            kind.item_field.nullable,
        )
    if pa.types.is_struct(kind):
        return st.StructType(
            [_spark_field(f, f"{path}.{f.name}", truncate_nanos=truncate_nanos) for f in kind]
        )
    raise _cannot_hold(kind, path)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _cannot_hold(kind: pa.DataType, path: str) -> InvalidInputError:
    if pa.types.is_timestamp(kind):
        return InvalidInputError(
            f"Column {path!r} has the type {kind}, which Spark cannot hold",
            "Spark's timestamps end at microseconds",
            "Set the option `truncateNanos` to true to lose the nanoseconds (in SQL:"
            " `FROM t WITH (truncateNanos = true)`), or leave the column out: compared with a"
            " value, it need not be read",
        )
    return InvalidInputError(
        f"Column {path!r} has the type {kind}, which Spark cannot hold",
        fix="Leave the column out with the option `columns`",
    )


Comparable = Mapping[str, int | str | None]
NANOS = "ns"
# Spark has wider types for these. Above 2**63 Lance takes no number as it is written.
_LARGEST: Mapping[pa.DataType, int] = {
    pa.uint8(): 2**8 - 1,
    pa.uint16(): 2**16 - 1,
    pa.uint32(): 2**32 - 1,
    pa.uint64(): 2**63 - 1,
}


def comparable(fields: Iterable[pa.Field], within: str = "") -> Comparable:
    """Return the columns whose values Spark compares otherwise than Lance, by path.

    To each belongs the largest number that Lance takes for it, the smallest being 0; the word for
    nanoseconds, which Lance compares and Spark does not get; or nothing, where Lance must not be
    asked: it would round a value to a half before it compares.
    """
    found: dict[str, int | str | None] = {}
    for field in fields:
        path, kind = within + field.name, _plain(field.type)
        if kind in _LARGEST:
            found[path] = _LARGEST[kind]
        elif pa.types.is_float16(kind):
            found[path] = None
        elif is_nanos(kind):
            found[path] = NANOS
        elif pa.types.is_struct(kind):
            found |= comparable(kind, f"{path}.")
    return found


def is_nanos(kind: pa.DataType) -> bool:
    """Tell whether a type is a time with nanoseconds."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values themselves."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    return _plain(kind.value_type) if pa.types.is_dictionary(kind) else kind


def is_blob(field: pa.Field) -> bool:
    """Tell whether a column keeps its bytes outside the rows."""
    return is_blob_type(field.type) or (field.metadata or {}).get(BLOB_KEY.encode()) == b"true"


def is_blob_type(kind: pa.DataType) -> bool:
    """Tell whether a type is the blob of the newer file versions: a struct that leads to bytes."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "lance.blob.v2"


def input_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which a table takes rows: plain bytes for blobs, else its own."""
    return pa.schema(
        [
            pa.field(f.name, pa.large_binary(), f.nullable, {BLOB_KEY: "true"}) if is_blob(f) else f
            for f in schema
        ]
    )


def exchange_schema(schema: st.StructType) -> pa.Schema:
    """Return the one Arrow schema in which Spark takes batches of a Spark schema."""
    return to_arrow_schema(schema, timezone="UTC")


def table_schema(
    schema: st.StructType,
    *,
    vectors: Mapping[str, int] | None = None,
    blobs: frozenset[str] = frozenset(),
) -> pa.Schema:
    """Return the Arrow schema for a new table that is to hold a Spark schema.

    Vectors are the columns named in `vectors` with their size, and those that were read as vectors,
    inside of other columns too.
    """
    asked = dict(vectors or {})
    unknown = (set(asked) | set(blobs)) - set(schema.fieldNames())
    if unknown:
        raise InvalidInputError(f"There is no column {min(unknown)!r} to encode")
    refuse_names(schema.fieldNames())
    for field in schema.fields:
        _refuse_unwritable(field.dataType, field.name)
    fields = []
    for field, arrow in zip(schema.fields, exchange_schema(schema), strict=True):
        kind = _storage_type(arrow.type)
        metadata = {}
        if field.name in asked:
            kind = _vector_type(field.name, kind, asked[field.name])
        else:
            kind = _remembered(kind, field.dataType, field.metadata)
        if field.name in blobs or BLOB_KEY in field.metadata:
            kind, metadata = _blob_type(field.name, kind), {BLOB_KEY: "true"}
        # Spark calls a column without nulls what an expression cannot make null; as a promise
        # for all rows to come that would be a surprise.
        fields.append(pa.field(field.name, kind, nullable=True, metadata=metadata))
    return pa.schema(fields)


def refuse_names(names: Sequence[str]) -> None:
    """Refuse names that Lance would not write, or write and never find again."""
    for name in names:
        why = "Lance keeps it for itself" if name in RESERVED else ""
        if not name or any(sign in name for sign in ".`"):
            why = "the name is empty" if not name else "a dot or a backtick is no part of a name"
        if name == "*":
            why = "Lance reads it as all columns"
        if names.count(name) > 1:
            why = "there are two columns of that name"
        if why:
            raise TableSchemaValidationError(
                f"A table cannot have a column {name!r}", why, "Rename it or drop it first"
            )


def _refuse_unwritable(kind: st.DataType, path: str) -> None:
    if isinstance(kind, st.ArrayType):
        _refuse_unwritable(kind.elementType, f"{path}.element")
    elif isinstance(kind, st.MapType):
        if isinstance(kind.keyType, st.NullType):
            raise TableSchemaValidationError(
                f"Column {path!r} is a map whose keys have no type, as map() makes it",
                fix="Cast it to the map that is meant: CAST(map() AS MAP<STRING, STRING>)",
            )
        _refuse_unwritable(kind.keyType, f"{path}.key")
        _refuse_unwritable(kind.valueType, f"{path}.value")
    elif isinstance(kind, st.StructType):
        for field in kind.fields:
            _refuse_unwritable(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, st.DecimalType) and kind.scale < 0:
        whole = kind.precision - kind.scale
        fits = f"DECIMAL({whole}, 0)" if whole <= _LARGEST_PRECISION else "DOUBLE or STRING"
        raise TableSchemaValidationError(
            f"Column {path!r} has the Spark type {kind.simpleString()}, with a scale below zero",
            "Spark could not read it from a table again",
            f"Cast it to {fits}",
        )
    elif isinstance(kind, st.VariantType | st.CalendarIntervalType | st.YearMonthIntervalType):
        raise TableSchemaValidationError(
            f"Column {path!r} has the Spark type {kind.simpleString()}, which Lance cannot hold",
            fix="Cast it (for example to string) or drop it before the write",
        )
    elif isinstance(kind, st.CharType | st.VarcharType):
        raise TableSchemaValidationError(
            f"Column {path!r} has the Spark type {kind.simpleString()}, which Lance cannot hold",
            "it keeps strings of any length",
            "Use STRING (in a query: CAST(... AS STRING))",
        )
    elif isinstance(kind, st.StringType) and not kind.isUTF8BinaryCollation():
        raise TableSchemaValidationError(
            f"Column {path!r} is a {kind.simpleString()}, which Lance cannot hold",
            "a table keeps the letters, and would compare them otherwise",
            "Use STRING (in a query: CAST(... AS STRING)), and say COLLATE where you compare",
        )


def _storage_type(kind: pa.DataType) -> pa.DataType:
    """Name the items of lists as Lance and Arrow do, not as Spark does."""
    if pa.types.is_list(kind):
        item = kind.value_field
        return pa.list_(pa.field("item", _storage_type(item.type), item.nullable))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _storage_type(f.type), f.nullable) for f in kind])
    if pa.types.is_time64(kind):
        return pa.time64("us")
    return kind


def _vector_type(name: str, kind: pa.DataType, size: int) -> pa.DataType:
    if not pa.types.is_list(kind):
        raise TableSchemaValidationError(
            f"Column {name!r} cannot be a vector", f"it holds {kind}, not a list"
        )
    if size < 1:
        raise InvalidInputError(f"A vector of size {size} is not possible for column {name!r}")
    # Doubles are what Python floats become in Spark; models and indexes work on 32 bits.
    item = pa.float32() if pa.types.is_float64(kind.value_type) else kind.value_type
    return pa.list_(pa.field("item", item), size)


def _remembered(
    kind: pa.DataType, said: st.DataType, notes: Mapping[str, Any], key: str = VECTOR_KEY
) -> pa.DataType:
    """Make vectors of the lists that were read as such, by the metadata of the field around them.

    Fields of structs have metadata of their own.
    """
    if isinstance(said, st.StructType):
        return pa.struct(
            [
                arrow.with_type(_remembered(arrow.type, field.dataType, field.metadata))
                for arrow, field in zip(kind, said.fields, strict=True)
            ]
        )
    if isinstance(said, st.ArrayType):
        item = _remembered(kind.value_type, said.elementType, notes, f"{key}.element")
        if key in notes:
            return _remembered_vector(notes[key], item)
        return pa.list_(kind.value_field.with_type(item))
    if isinstance(said, st.MapType):
        return pa.map_(
            kind.key_field.with_type(_remembered(kind.key_type, said.keyType, notes, f"{key}.key")),
            kind.item_field.with_type(
                _remembered(kind.item_type, said.valueType, notes, f"{key}.value")
            ),
        )
    return kind


def _remembered_vector(text: str, item: pa.DataType) -> pa.DataType:
    """Read what was written of a vector; items that are no plain numbers are what Spark holds."""
    name, _, size = text.removesuffix("]").rpartition("[")
    with contextlib.suppress(ValueError):
        item = pa.type_for_alias(name)
    return pa.list_(pa.field("item", item), int(size))


def _blob_type(name: str, kind: pa.DataType) -> pa.DataType:
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise TableSchemaValidationError(
            f"Column {name!r} cannot be a blob", f"it holds {kind}, not binary"
        )
    return pa.large_binary()
