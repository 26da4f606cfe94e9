"""Bring data in from other formats, take it out, and move tables between catalogs."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.failures import nearest, translated
from lakeroot.spark.iceberg_exports import export_iceberg
from lakeroot.spark.reading import read
from lakeroot.spark.writing import WriteResult, write

FORMATS = ("parquet", "csv", "json", "orc", "text", "binaryFile", "avro", "iceberg")
EXPORTS = ("parquet", "csv", "json", "orc", "iceberg")


def ingest(
    spark: SparkSession,
    source: str,
    table: str | None = None,
    *,
    format: str = "parquet",  # noqa: A002  # Spark's word
    reader: Mapping[str, str] | None = None,
    schema: str | None = None,
    **options: Any,
) -> WriteResult:
    """Load files, or an Iceberg table, into a table.

    `reader` holds options for Spark's reader. Folders of images and other files are the format
    `binaryFile`: their `content` is stored as a blob.
    """
    frame = source_frame(spark, source, format=format, reader=reader, schema=schema)
    if format.lower() == "binaryfile" and "blobs" not in options:
        options = {**options, "blobs": ["content"]}
    return write(frame, table, **options)


def source_frame(
    spark: SparkSession,
    source: str,
    *,
    format: str,  # noqa: A002
    reader: Mapping[str, str] | None = None,
    schema: str | None = None,
) -> DataFrame:
    """Open files, or an Iceberg table, as a frame."""
    known = {each.lower(): each for each in FORMATS}
    word = known.get(format.lower())
    if word is None:
        raise InvalidInputError(f"There is no format {format!r}", fix=nearest(format, FORMATS))
    if word == "iceberg":
        return _iceberg(spark, source, dict(reader or {}))
    loader = spark.read.format(word).options(**dict(reader or {}))
    if word == "csv" and schema is None:
        loader = loader.option("inferSchema", (reader or {}).get("inferSchema", "true")).option(
            "header", (reader or {}).get("header", "true")
        )
    if schema is not None:
        loader = loader.schema(schema)
    with translated(f"{source} cannot be read as {word}"):
        frame = loader.load(source)
    return (
        frame.withColumnRenamed("modificationTime", "modified") if word == "binaryFile" else frame
    )


def _iceberg(spark: SparkSession, source: str, properties: dict[str, str]) -> DataFrame:
    """Read the data files of an Iceberg table; pyiceberg finds it, by properties."""
    from pyiceberg.catalog import load_catalog

    with translated(f"The Iceberg table {source} cannot be read"):
        found = load_catalog(properties.pop("catalog", "source"), **properties).load_table(source)
        tasks = list(found.scan().plan_files())
        schema = found.schema().as_arrow()
    if any(task.delete_files for task in tasks):
        raise InvalidInputError(
            f"The Iceberg table {source} has delete files", fix="Compact it first"
        )
    from lakeroot.spark.types import spark_schema

    paths = [task.file.file_path for task in tasks]
    kind = spark_schema(schema, truncate_nanos=True)
    if not paths:
        return spark.createDataFrame([], kind)
    return spark.read.schema(kind).parquet(*paths)


def export(
    spark: SparkSession,
    table: str | None,
    target: str,
    *,
    format: str = "parquet",  # noqa: A002
    mode: str = "error",
    writer: Mapping[str, str] | None = None,
    **options: Any,
) -> int:
    """Write a table, or what the read options choose of it, as files; return how many rows.

    With the format `iceberg`, `target` is a table of the Iceberg catalog that `writer` describes
    in the words of pyiceberg (`uri`, `warehouse`, `token` and so on).
    """
    if format.lower() not in EXPORTS:
        raise InvalidInputError(f"There is no format {format!r}", fix=nearest(format, EXPORTS))
    frame = read(spark, table, **options)
    if format.lower() == "iceberg":
        return export_iceberg(frame, target, mode, dict(writer or {}))
    with translated(f"{target} cannot be written"):
        frame.write.format(format.lower()).mode(mode).options(**dict(writer or {})).save(target)
        return int(frame.count())


def convert(
    spark: SparkSession,
    table: str,
    to: str,
    *,
    source: Mapping[str, Any],
    target: Mapping[str, Any],
    mode: str = "create",
) -> WriteResult:
    """Copy a table into another catalog: `source` and `target` are the options of the two."""
    return write(read(spark, table, **source), to, **{**target, "mode": mode})
