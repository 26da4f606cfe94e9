"""Few rows that the driver has read already, as a frame.

To make a frame in Java and to collect it again takes several times as long as finding rows by an
index. Who only collects them gets them as they are; Spark hears of them when there is more to do.
"""

import logging
import weakref
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as st
from pyspark.sql.classic.dataframe import DataFrame

from lakeroot.spark.spark_sql.reads import stream_of

_log = logging.getLogger(__name__)

# One Java object per session makes all frames of few rows: making it takes as long as a search.
_MAKERS: "weakref.WeakKeyDictionary[SparkSession, Any]" = weakref.WeakKeyDictionary()


class FewRows(DataFrame):  # type: ignore[misc]
    """A frame whose rows are here, and whose half in Java is made when it is asked for."""

    def __init__(self, spark: SparkSession, rows: pa.Table, schema: st.StructType) -> None:
        self._java: Any = None
        self._rows = rows
        super().__init__(None, spark)
        # Where the parent keeps what it would ask Java for.
        self.__dict__["schema"] = schema

    @property
    def _jdf(self) -> Any:
        if self._java is None:
            self._java = _in_java(self.sparkSession, self._rows, self.schema)
        return self._java

    @_jdf.setter
    def _jdf(self, value: Any) -> None:
        self._java = value

    def collect(self) -> list[Row]:
        """Return the rows; through Spark, if it may write a value otherwise than Arrow does."""
        if not all(_same_in_python(field.dataType) for field in self.schema.fields):
            through_spark: list[Row] = super().collect()
            return through_spark
        columns = [column.to_pylist() for column in self._rows.columns]
        make = Row(*self.schema.fieldNames())
        return [make(*values) for values in zip(*columns, strict=True)]


def _same_in_python(kind: st.DataType) -> bool:
    """Tell whether Arrow and Spark make the same object of a value, whatever the session says."""
    if isinstance(kind, st.ArrayType):
        return _same_in_python(kind.elementType)
    plain = (st.IntegralType, st.FractionalType, st.BooleanType, st.DateType)
    return isinstance(kind, plain) or type(kind) is st.StringType


def _in_java(spark: SparkSession, rows: pa.Table, schema: st.StructType) -> Any:
    from lakeroot.spark.spark_sql.installing import check_version, plugin

    try:
        if spark not in _MAKERS:
            check_version()
            _MAKERS[spark] = plugin(spark, "local", None, columnar=False)
        session: Any = spark._jsparkSession  # noqa: SLF001
        return _MAKERS[spark].local(session, schema.json(), stream_of(rows))
    except Exception as error:  # noqa: BLE001  # whatever it is, there is another way
        _log.warning("Spark takes few rows the slow way, because: %s", str(error)[:300])
        made: Any = spark.createDataFrame(rows, schema)
        return made._jdf  # noqa: SLF001
