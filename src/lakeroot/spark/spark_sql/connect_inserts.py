"""INSERT over Spark Connect: rows get the columns of the table, as Spark would assign them."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakeroot.model.errors import InvalidInputError, TableSchemaValidationError
from lakeroot.spark.catalogs import TableRef, locate
from lakeroot.spark.failures import nearest
from lakeroot.spark.fitting import fit, holds
from lakeroot.spark.opening import open_table
from lakeroot.spark.spark_sql import creating
from lakeroot.spark.types import spark_schema
from lakeroot.spark.writing import WriteResult, fill


def insert_rows(
    frame: DataFrame,
    ref: TableRef,
    given: Mapping[str, str],
    *,
    names: list[str] | None,
    by_name: bool,
    overwrite: bool,
) -> WriteResult:
    """Add rows to a table or replace all that it has; they are for its columns or for these."""
    columns = spark_schema(open_table(locate(ref)).schema, truncate_nanos=True)
    if not by_name:
        frame = _by_position(frame, names or columns.fieldNames())
    rows = _fitted(frame, columns, ref)
    return fill(rows, creating.insertion(ref, rows.schema, given, overwrite=overwrite))


def _by_position(frame: DataFrame, names: list[str]) -> DataFrame:
    if len(frame.columns) != len(names):
        raise InvalidInputError(
            f"INSERT is for {len(names)} columns and gives {len(frame.columns)} values"
        )
    return frame.toDF(*names)


def _fitted(frame: DataFrame, table: st.StructType, ref: TableRef) -> DataFrame:
    """Give rows the columns of the table, with their types where Spark would assign the values."""
    known = {name.lower(): name for name in table.fieldNames()}
    frame = frame.toDF(*(known.get(name.lower(), name) for name in frame.columns))
    have = {field.name: field.dataType for field in frame.schema.fields}
    unknown = [name for name in have if name not in table.fieldNames()]
    if unknown:
        raise TableSchemaValidationError(
            f"Table {ref} has no column {unknown[0]!r}", fix=nearest(unknown[0], known.values())
        )
    chosen: list[Column] = []
    for field in table.fields:
        if field.name not in have:
            chosen.append(sf.lit(None).cast(field.dataType).alias(field.name))
        elif _assignable(have[field.name], field.dataType):
            column = frame[f"`{field.name}`"].cast(field.dataType)
            chosen.append(column.alias(field.name))
        else:
            chosen.append(frame[f"`{field.name}`"])
    fitted = frame.select(*chosen)
    # What Spark would not assign is told in one sentence.
    fit(fitted.schema, open_table(locate(ref)).schema, str(ref))
    return fitted


def _assignable(have: st.DataType, want: st.DataType) -> bool:
    """Tell whether Spark would store a value of one type in a column of another."""
    if holds(want, have, vector=True):
        return True
    times = st.DateType | st.TimestampType | st.TimestampNTZType
    return (
        (isinstance(have, st.NumericType) and isinstance(want, st.NumericType))
        or (isinstance(have, times) and isinstance(want, times))
        or (isinstance(have, st.AtomicType) and isinstance(want, st.StringType))
    )
