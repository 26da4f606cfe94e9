"""Comments of columns, and of fields inside of them: kept in the table, and shown to Spark."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import types as st

COMMENT = "comment"


def kept_comments(kind: pa.DataType, said: st.DataType) -> pa.DataType:
    """Return a type of the table with the comments that Spark says of its fields."""
    if pa.types.is_struct(kind) and isinstance(said, st.StructType):
        known = {field.name: field for field in said.fields}
        return pa.struct([with_comment(f, known[f.name]) if f.name in known else f for f in kind])
    if pa.types.is_list(kind) and isinstance(said, st.ArrayType):
        item = kind.value_field
        return pa.list_(item.with_type(kept_comments(item.type, said.elementType)))
    if pa.types.is_map(kind) and isinstance(said, st.MapType):
        key, item = kind.key_field, kind.item_field
        return pa.map_(
            key.with_type(kept_comments(key.type, said.keyType)),
            item.with_type(kept_comments(item.type, said.valueType)),
            keys_sorted=kind.keys_sorted,
        )
    return kind


def with_comment(field: pa.Field, said: st.StructField) -> pa.Field:
    """Give a column of the table the comments that Spark says of it, and of what is inside."""
    comment = said.metadata.get(COMMENT)
    metadata = {**(field.metadata or {}), **({COMMENT: comment} if comment else {})}
    kind = kept_comments(field.type, said.dataType)
    return field.with_type(kind).with_metadata(metadata or None)


def with_comments(schema: st.StructType, table: Iterable[pa.Field]) -> st.StructType:
    """Show Spark the comments of a table."""
    known = {field.name: field for field in table}
    fields = []
    for field in schema.fields:
        kind, metadata = field.dataType, dict(field.metadata)
        if field.name in known:
            kind = _shown(kind, known[field.name].type)
            comment = (known[field.name].metadata or {}).get(COMMENT.encode())
            metadata |= {COMMENT: comment.decode()} if comment else {}
        fields.append(st.StructField(field.name, kind, field.nullable, metadata))
    return st.StructType(fields)


def _shown(kind: st.DataType, table: pa.DataType) -> st.DataType:
    if isinstance(kind, st.StructType) and pa.types.is_struct(table):
        return with_comments(kind, table)
    if isinstance(kind, st.ArrayType) and isinstance(
        table, pa.ListType | pa.LargeListType | pa.FixedSizeListType
    ):
        return st.ArrayType(_shown(kind.elementType, table.value_type), kind.containsNull)
    if isinstance(kind, st.MapType) and pa.types.is_map(table):
        return st.MapType(
            _shown(kind.keyType, table.key_type),
            _shown(kind.valueType, table.item_type),
            kind.valueContainsNull,
        )
    return kind
