"""Queries over Spark Connect: every table of a Lakeroot catalog is put in as a frame."""

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeroot.spark.options import ReadOptions, parse
from lakeroot.spark.reading import planned
from lakeroot.spark.spark_sql.answers import chosen_version
from lakeroot.spark.spark_sql.installing import catalogs_of, table_in
from lakeroot.spark.spark_sql.scanning import settings

_ASIDE = r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | --[^\n]* | /\*.*?\*/"""
_TRAVEL = r"""
    \s+ (?: FOR \s+ )? (?:
        (?: VERSION | SYSTEM_VERSION ) \s+ AS \s+ OF \s+ (?P<version> \d+ | '[^']*' )
      | (?: TIMESTAMP | SYSTEM_TIME ) \s+ AS \s+ OF \s+
        (?P<time> (?: TIMESTAMP \s* )? '[^']*' | \w+ \s* \( [^()]* \) )
    )"""
_OPTIONS = r"\s+ WITH \s* \( (?P<options> [^()]* ) \)"


def _names(spark: SparkSession) -> str:
    return "|".join(re.escape(name) for name in catalogs_of(spark)) or "(?!)"


def mentions_catalog(spark: SparkSession, text: str) -> bool:
    """Tell whether a statement names a Lakeroot catalog, outside of quotes and comments."""
    found = re.compile(rf"{_ASIDE} | (?P<name> \b(?:{_names(spark)})\b )", re.VERBOSE | re.DOTALL)
    return any(match["name"] for match in found.finditer(text))


def query(spark: SparkSession, text: str) -> DataFrame:
    """Run a query, of the newest versions or of those that it asks for."""
    frames: dict[str, DataFrame] = {}
    ours = _names(spark)
    name = rf"(?: \b(?:{ours}) | `(?:{ours})` ) (?: \.(?:`(?:[^`]|``)+`|\w+) )+"
    table = rf"(?P<name> {name} ) (?i:{_TRAVEL})? (?i:{_OPTIONS})?"
    found = re.compile(rf"{_ASIDE} | {table}", re.VERBOSE | re.DOTALL)

    def put_in(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match.group()
        key = f"table{len(frames)}"
        given = {**settings(match["options"] or ""), **_version(spark, match)}
        options = parse(ReadOptions, given)
        frames[key], _ = planned(spark, table_in(spark, match["name"]), options)
        return "{" + key + "}"

    escaped = text.replace("{", "{{").replace("}", "}}")
    replaced = found.sub(put_in, escaped)
    return spark.sql(replaced, **frames) if frames else spark.sql(text)


def _version(spark: SparkSession, match: re.Match[str]) -> dict[str, Any]:
    if match["version"] is not None:
        return chosen_version({"version": match["version"].strip("'")})
    if match["time"] is None:
        return {}
    # Spark knows the time zone of the session, and what such a text means.
    moment = spark.sql(f"SELECT unix_micros(CAST({match['time']} AS TIMESTAMP))").first()
    return chosen_version({"micros": moment[0]}) if moment else {}
