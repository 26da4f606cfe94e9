"""Queries over Spark Connect: every table of a Lakeroot catalog is put in as a frame."""

import re
import uuid
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeroot.spark.options import ReadOptions, parse
from lakeroot.spark.reading import planned
from lakeroot.spark.spark_sql.answers import chosen_version
from lakeroot.spark.spark_sql.installing import catalogs_of, table_in
from lakeroot.spark.spark_sql.scanning import settings
from lakeroot.spark.spark_sql.table_names import NamedTable, parted

_ASIDE = r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | --[^\n]* | /\*.*?\*/"""


def mentions_catalog(spark: SparkSession, text: str) -> bool:
    """Tell whether a statement names a Lakeroot catalog, outside of quotes and comments."""
    names = "|".join(re.escape(name) for name in catalogs_of(spark)) or "(?!)"
    found = re.compile(rf"{_ASIDE} | (?P<name> \b(?:{names})\b )", re.VERBOSE | re.DOTALL)
    return any(match["name"] for match in found.finditer(text))


def query(spark: SparkSession, text: str) -> DataFrame:
    """Run a query, of the newest versions or of those that it asks for."""
    keys: dict[tuple[str, ...], str] = {}
    frames: dict[str, DataFrame] = {}
    asked = ""
    for part in parted(text, catalogs_of(spark)):
        if isinstance(part, str):
            asked += part.replace("{", "{{").replace("}", "}}")
            continue
        # A table that is named twice is read once, at one version.
        key = keys.setdefault(part.same, f"table{len(keys)}")
        if key not in frames:
            frames[key] = _frame(spark, part)
        asked += part.put_in("{" + key + "}")
    return spark.sql(asked, **frames) if frames else spark.sql(text)


class Subqueries:
    """The tables of our catalogs that the subqueries of a MERGE, UPDATE or DELETE read.

    Over Spark Connect they are temporary views while the statement runs; a classic session finds
    them itself.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_classic = hasattr(spark, "_jsparkSession")
        self._views: dict[tuple[str, ...], tuple[str, NamedTable]] = {}

    def __enter__(self) -> "Subqueries":
        """Begin a statement."""
        return self

    def put_in(self, text: str) -> str:
        """Name views in the place of tables inside of parentheses: those outside are changed."""
        return "".join(
            part if isinstance(part, str) else self._named(part)
            for part in parted(text, catalogs_of(self._spark))
        )

    def _named(self, table: NamedTable) -> str:
        if self._is_classic or not table.depth:
            return table.text
        name = f"__lakeroot_{uuid.uuid4().hex}"
        return table.put_in(self._views.setdefault(table.same, (name, table))[0])

    def look(self) -> None:
        """Let the views show what the tables hold now.

        It is called when the version is known that the statement changes: what its subqueries read
        must not be older, or an attempt would decide by rows that the last one lost against.
        """
        for name, table in self._views.values():
            _frame(self._spark, table).createOrReplaceTempView(name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the statement, and with it the views."""
        for name, _ in self._views.values():
            self._spark.catalog.dropTempView(name)


def _frame(spark: SparkSession, table: NamedTable) -> DataFrame:
    options = parse(ReadOptions, {**settings(table.options), **_version(spark, table)})
    return planned(spark, table_in(spark, table.name), options)[0]


def _version(spark: SparkSession, table: NamedTable) -> dict[str, Any]:
    if table.version is not None:
        return chosen_version({"version": table.version.strip("'")})
    if table.time is None:
        return {}
    # Spark knows the time zone of the session, and what such a text means.
    moment = spark.sql(f"SELECT unix_micros(CAST({table.time} AS TIMESTAMP))").first()
    return chosen_version({"micros": moment[0]}) if moment else {}
