"""Decide, before any job runs, whether rows of a Spark schema fit a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    TableSchemaValidationError,
)
from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.failures import nearest
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.types import input_schema, is_blob, is_held, spark_schema

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
    known = rows_of(table)
    given = {field.name: field for field in schema.fields}
    for field in schema.fields:
        if field.name not in known.fieldNames():
            raise _unknown(field.name, known.fieldNames(), name)
        if not isinstance(field.dataType, st.NullType):
            refuse_unheld([field.name], table, name)
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


def rows_of(table: pa.Schema) -> st.StructType:
    """Return the Spark schema of rows that are made for a table.

    Of a column that Spark cannot hold, rows have no values.
    """
    known = [
        spark_schema(pa.schema([field]), truncate_nanos=True).fields[0]
        if is_held(field)
        else st.StructField(field.name, st.NullType())
        for field in table
    ]
    return st.StructType(known)


def refuse_unheld(names: Iterable[str], table: pa.Schema, ref: TableRef | str) -> None:
    """Refuse to compute with columns that Spark cannot hold, or to make values of them."""
    for name in names:
        if name in table.names and not is_held(table.field(name)):
            raise InvalidInputError(
                f"Column {name!r} of table {ref} has the type {table.field(name).type}, which Spark"
                " cannot hold",
                fix="Leave the column out, or let Lance compute with it: the predicates of `delete`"
                " and the expressions of `backfill` are in its SQL",
            )


def _unknown(column: str, known: Sequence[str], name: str) -> TableSchemaValidationError:
    what = f"Table {name} has no column {column!r}"
    alike = [other for other in known if other.lower() == column.lower()]
    if alike:
        return TableSchemaValidationError(what, f"it has {alike[0]!r}", _renamed(column, alike[0]))
    near = nearest(column, known)
    near = f"{near} " if near.endswith("?") else f"{near}. " if near else ""
    return TableSchemaValidationError(
        what, fix=f"{near}Set `mergeSchema` to true to add new columns"
    )


def _renamed(column: str, other: str) -> str:
    return f"Rename the column of the rows: withColumnRenamed({column!r}, {other!r})"


def refuse_alike(
    schema: st.StructType, table: Sequence[str], ref: TableRef, *, replaces: bool = False
) -> None:
    """Refuse new columns, or fields in them, whose names differ from others in case alone.

    Spark, as it is by itself, could name neither of the two. A table that has such columns keeps
    them; if its rows are replaced, only the names of the new rows count.
    """
    spellings: dict[str, dict[str, None]] = {}
    for name in (*(() if replaces else table), *schema.fieldNames()):
        spellings.setdefault(name.lower(), {})[name] = None
    for field in schema.fields:
        if field.name in table:
            continue
        first, *others = spellings[field.name.lower()]
        if others and not replaces and first in table:
            raise InvalidInputError(
                f"Table {ref} cannot have a column {field.name!r}",
                f"it has a column {first!r}, and Spark takes the two for one",
                _renamed(field.name, first),
            )
        if others:
            raise _twice(first, others[0], ref)
        _refuse_alike_inside(field.dataType, field.name, ref)


def _refuse_alike_inside(kind: st.DataType, path: str, ref: TableRef) -> None:
    if isinstance(kind, st.ArrayType):
        _refuse_alike_inside(kind.elementType, path, ref)
    elif isinstance(kind, st.MapType):
        _refuse_alike_inside(kind.keyType, path, ref)
        _refuse_alike_inside(kind.valueType, path, ref)
    elif isinstance(kind, st.StructType):
        taken: dict[str, str] = {}
        for field in kind.fields:
            inside = f"{path}.{field.name}"
            if field.name.lower() in taken:
                raise _twice(taken[field.name.lower()], inside, ref)
            taken[field.name.lower()] = inside
            _refuse_alike_inside(field.dataType, inside, ref)


def _twice(one: str, other: str, ref: TableRef) -> InvalidInputError:
    return InvalidInputError(
        f"Table {ref} cannot have the columns {one!r} and {other!r}",
        "Spark takes the two for one",
        "Rename one of them (`withColumnRenamed`), or set `spark.sql.caseSensitive` to true",
    )


def check_encodings(table: pa.Schema, options: WriteOptions, ref: TableRef) -> None:
    """Refuse to keep as vectors or blobs what a table that exists does not keep so."""
    asked = [(name, f"a vector of {size}") for name, size in (options.vectors or {}).items()]
    asked += [(name, "a blob") for name in options.blobs]
    for name, what in asked:
        if name not in table.names:
            raise TableColumnNotFoundError(
                f"Table {ref} has no column {name!r} to encode", fix=nearest(name, table.names)
            )
        column = table.field(name)
        if what == "a blob":
            kept = is_blob(column) or pa.types.is_binary(column.type)
            kept = kept or pa.types.is_large_binary(column.type)
        else:
            kept = pa.types.is_fixed_size_list(column.type)
            kept = kept and column.type.list_size == (options.vectors or {})[name]
        if not kept:
            raise TableSchemaValidationError(
                f"Column {name!r} of table {ref} is not {what}",
                f"it holds {column.type}",
                "Leave the option out, or write the table anew",
            )


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


def kept_apart(schema: pa.Schema) -> list[str]:
    """Name the columns whose values do not go through Spark while a job leaves them as they are.

    Spark's timestamps have no nanoseconds, it computes nothing with times of day by itself, and
    some types it does not know.
    """
    return [field.name for field in schema if _holds(field.type, _is_apart) or not is_held(field)]


def cut_columns(schema: pa.Schema) -> list[str]:
    """Name the columns whose values lose digits in Spark."""
    return [field.name for field in schema if _holds(field.type, _is_cut)]


def _is_cut(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _is_apart(kind: pa.DataType) -> bool:
    return _is_cut(kind) or bool(pa.types.is_time(kind))


def _holds(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """Tell whether a type, or one inside of it, is wanted."""
    if isinstance(kind, pa.BaseExtensionType):
        return _holds(kind.storage_type, wanted)
    if pa.types.is_dictionary(kind):
        return _holds(kind.value_type, wanted)
    inside = (kind.field(number).type for number in range(kind.num_fields))
    return wanted(kind) or any(_holds(each, wanted) for each in inside)


def inexact(cut: Sequence[str], ref: TableRef) -> InvalidInputError:
    """Say that rows would be chosen, or values computed, by times without their nanoseconds."""
    return InvalidInputError(
        f"Spark cannot compute with the nanoseconds of column {cut[0]!r} of table {ref}",
        "its timestamps end at microseconds",
        "Compare the column with a value alone, which Lance does exactly (but not over Connect), or"
        " do without the nanoseconds with `truncateNanos` (in SQL: `UPDATE t WITH"
        " (truncateNanos = true) SET ...`)",
    )


def resolved(
    made: Callable[[DataFrame], DataFrame], rows: DataFrame, table: pa.Schema, ref: TableRef
) -> DataFrame:
    """Make a frame of rows, and have Spark look at it; if it lacks columns, say why it does."""
    whole = rows_of(table)

    def possible(names: Sequence[str]) -> bool:
        nulls = (sf.lit(None).cast(whole[name].dataType).alias(name) for name in names)
        try:
            made(rows.select("*", *nulls)).schema  # noqa: B018
        except AnalysisException:
            return False
        return True

    try:
        frame = made(rows)
        frame.schema  # noqa: B018  # a session over Connect looks at it only now
    except AnalysisException:
        lacks = [name for name in whole.fieldNames() if name not in rows.columns]
        if lacks and possible(lacks):
            needed = [name for name in lacks if not possible([n for n in lacks if n != name])]
            refuse_unheld(needed, table, ref)
            raise inexact(needed, ref) from None
        raise
    return frame


def refuse_cut(
    values: Mapping[str, Column], exact: DataFrame, cut: Sequence[str], ref: TableRef
) -> None:
    """Refuse new values of columns with nanoseconds that are made of such columns.

    `exact` is the frame that the values are computed of, without those columns.
    """
    for name in cut:
        if name not in values:
            continue
        try:
            exact.select(values[name]).schema  # noqa: B018  # a session over Connect looks now
        except AnalysisException as error:
            raise InvalidInputError(
                f"Column {name!r} of table {ref} would lose its nanoseconds",
                f"its new value is computed of {' or '.join(map(repr, cut))},"
                " and Spark's timestamps end at microseconds",
                "Leave the column out, compute it without them, or let `update` cut them off"
                " with `truncateNanos`",
            ) from error


def new_columns(schema: st.StructType, table: pa.Schema) -> list[str]:
    """List the columns of the rows that the table does not have."""
    return [name for name in schema.fieldNames() if name not in table.names]


def minds_case(spark: SparkSession) -> bool:
    """Tell whether the session takes `Name` and `name` for two columns; by itself it does not."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def spelled_as(names: Sequence[str], others: Sequence[str], *, exact: bool) -> dict[str, str]:
    """Give, for each name that is among the others, how it is spelled there.

    Spark does not care about upper and lower case unless it is told to.
    """
    found = {name: name for name in names if name in others}
    if exact:
        return found
    folded = [other.lower() for other in others]
    for name in names:
        if name not in found and folded.count(name.lower()) == 1:
            found[name] = others[folded.index(name.lower())]
    return found
