"""Bring Arrow data into exactly the schema the other side wants: Spark's, or a table's."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakeroot.model.errors import TableSchemaValidationError


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give Spark a batch in its exchange schema; nanoseconds below a microsecond are cut off."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(
        [_cast(batch.column(field.name), field.type, safe=False) for field in schema],
        schema=schema,
    )


def to_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Turn Spark's batches into batches of the table's schema, or say which value does not fit."""
    for batch in batches:
        arrays = []
        for field in schema:
            column = _column(batch, field)
            if not field.nullable and column.null_count:
                raise TableSchemaValidationError(
                    f"Column {field.name!r} of the table takes no nulls",
                    f"the data holds {column.null_count} of them",
                )
            arrays.append(fitted(column, field))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def fitted(column: pa.Array, field: pa.Field) -> pa.Array:
    """Give values the type of a column of the table, or say which of them does not fit."""
    try:
        return _aligned(_cast(_aligned(column), field.type, safe=True))
    except pa.ArrowInvalid as error:
        raise TableSchemaValidationError(
            f"A value does not fit column {field.name!r} of type {field.type}", str(error)
        ) from None


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Take a column; one that the data does not have is null, as the planner has allowed."""
    if field.name in batch.schema.names:
        return batch.column(field.name)
    return pa.nulls(batch.num_rows, field.type)


def _aligned(column: pa.Array) -> pa.Array:
    """Copy a column with decimals: Spark aligns to 8 bytes, and Lance insists on 16 for them."""
    if not _holds_decimals(column.type):
        return column
    return pa.concat_arrays([column, column.slice(0, 0)])  # two arrays are always copied


def _holds_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return True
    return any(_holds_decimals(kind.field(each).type) for each in range(kind.num_fields))


def _cast(column: pa.Array, kind: pa.DataType, *, safe: bool) -> pa.Array:
    if column.type.equals(kind) and str(column.type) == str(kind):
        return column
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _cast(column, kind.storage_type, safe=safe))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _cast_struct(column, kind, safe=safe)
    if pa.types.is_list(column.type) and pa.types.is_list(kind):
        return _cast_list(column, kind, safe=safe)
    if pa.types.is_map(column.type) and pa.types.is_map(kind):
        return _cast_map(column, kind, safe=safe)
    if pa.types.is_list(column.type) and pa.types.is_fixed_size_list(kind):
        return _cast_vectors(column, kind, safe=safe)
    return pc.cast(column, kind, safe=safe)


def _cast_struct(column: pa.Array, kind: pa.DataType, *, safe: bool) -> pa.Array:
    children = [
        _cast(pc.struct_field(column, [field.name]), field.type, safe=safe) for field in kind
    ]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _cast_list(column: pa.Array, kind: pa.DataType, *, safe: bool) -> pa.Array:
    values = _cast(column.values, kind.value_type, safe=safe)
    return pa.Array.from_buffers(
        kind,
        len(column),
        column.buffers()[:2],
        column.null_count,
        column.offset,
        [values],
    )


def _cast_vectors(column: pa.Array, kind: pa.DataType, *, safe: bool) -> pa.Array:
    if column.null_count == len(column):
        # Spark sends no values at all then, and Arrow dies of reading them.
        return pa.nulls(len(column), kind)
    if column.values.null_count and column.flatten().null_count:
        # Nothing could search such a vector, and Spark could not read it back.
        raise pa.ArrowInvalid("a number of a vector is null; make the whole vector null instead")
    return pc.cast(column, kind, safe=safe)


def _cast_map(column: pa.Array, kind: pa.DataType, *, safe: bool) -> pa.Array:
    entries = pa.StructArray.from_arrays(
        [
            _cast(column.keys, kind.key_type, safe=safe),
            _cast(column.items, kind.item_type, safe=safe),
        ],
        fields=[kind.key_field, kind.item_field],
    )
    if column.offset or len(column.keys) != len(column.values):  # a slice: rebuild its offsets
        return pc.cast(column, kind, safe=safe)
    return pa.Array.from_buffers(
        kind, len(column), column.buffers()[:2], column.null_count, 0, [entries]
    )
