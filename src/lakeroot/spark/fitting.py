"""Decide, before any job runs, whether rows of a Spark schema fit a table."""

import pyarrow as pa
from pyspark.sql import types as st

from lakeroot.model.errors import TableSchemaValidationError
from lakeroot.spark.failures import nearest
from lakeroot.spark.types import input_schema, spark_schema

_WIDENS: dict[type, tuple[type, ...]] = {
    st.ByteType: (st.ShortType, st.IntegerType, st.LongType),
    st.ShortType: (st.IntegerType, st.LongType),
    st.IntegerType: (st.LongType, st.DoubleType),
    st.FloatType: (st.DoubleType,),
    st.DateType: (st.TimestampNTZType,),
}


def fit(schema: st.StructType, table: pa.Schema, name: str) -> pa.Schema:
    """Return the schema to write rows with, or say why the table does not take them.

    Columns that the rows lack become null. Types may widen; nothing is cut off or guessed.
    """
    known = spark_schema(table, truncate_nanos=True)
    given = {field.name: field for field in schema.fields}
    for field in schema.fields:
        if field.name not in known.fieldNames():
            raise TableSchemaValidationError(
                f"Table {name} has no column {field.name!r}",
                fix=f"{nearest(field.name, known.fieldNames())}"
                " Set `mergeSchema` to true to add new columns",
            )
        have, want = field.dataType, known[field.name].dataType
        vector = pa.types.is_fixed_size_list(table.field(field.name).type)
        if not holds(want, have, vector=vector):
            raise TableSchemaValidationError(
                f"Column {field.name!r} of table {name} has the type {want.simpleString()}",
                f"the rows hold {have.simpleString()}",
                f"Cast it first: col({field.name!r}).cast({want.simpleString()!r})",
            )
    for field in table:
        if field.name not in given and not field.nullable:
            raise TableSchemaValidationError(
                f"Column {field.name!r} of table {name} takes no nulls, and the rows lack it"
            )
    return input_schema(table)


def holds(want: st.DataType, have: st.DataType, *, vector: bool = False) -> bool:
    """Tell whether a column of one type takes every value of another."""
    if isinstance(want, st.ArrayType) and isinstance(have, st.ArrayType):
        # Python's floats are doubles; a vector of singles takes them, as every model library does.
        if vector and isinstance(have.elementType, st.DoubleType):
            return isinstance(want.elementType, st.FloatType | st.DoubleType)
        return holds(want.elementType, have.elementType)
    if isinstance(want, st.MapType) and isinstance(have, st.MapType):
        return holds(want.keyType, have.keyType) and holds(want.valueType, have.valueType)
    if isinstance(want, st.StructType) and isinstance(have, st.StructType):
        return want.fieldNames() == have.fieldNames() and all(
            holds(w.dataType, h.dataType) for w, h in zip(want.fields, have.fields, strict=True)
        )
    if isinstance(want, st.DecimalType):
        return _decimal_holds(want, have)
    if isinstance(have, st.NullType) or type(want) is type(have):
        return True
    return type(want) in _WIDENS.get(type(have), ())


def _decimal_holds(want: st.DecimalType, have: st.DataType) -> bool:
    if isinstance(have, st.DecimalType):
        room = want.precision - want.scale >= have.precision - have.scale
        return bool(room and want.scale >= have.scale)
    # Unsigned 64-bit columns are decimal(20,0) in Spark; plain integers may go into them.
    return isinstance(have, st.NullType | st.IntegerType | st.LongType) and want.precision >= 19


def new_columns(schema: st.StructType, table: pa.Schema) -> list[str]:
    """List the columns of the rows that the table does not have."""
    return [name for name in schema.fieldNames() if name not in table.names]
