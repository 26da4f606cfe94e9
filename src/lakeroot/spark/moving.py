"""Bring data in from other formats, take it out, and move tables between catalogs."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeroot.model.errors import InvalidInputError, TableAlreadyExistsError
from lakeroot.spark.catalogs import exists
from lakeroot.spark.failures import nearest, translated
from lakeroot.spark.fitting import check_encodings, fit, new_columns
from lakeroot.spark.iceberg_exports import export_iceberg
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import WriteOptions, parse, table_of
from lakeroot.spark.reading import read
from lakeroot.spark.types import table_schema
from lakeroot.spark.writing import (
    APPEND,
    CREATE,
    WriteResult,
    already_done,
    check_columns,
    mode_of,
    newest_at,
    write,
)

FORMATS = ("parquet", "csv", "json", "orc", "text", "binaryFile", "avro", "iceberg")
EXPORTS = ("parquet", "csv", "json", "orc", "iceberg")
MODES = ("error", "errorifexists", "append", "overwrite", "ignore")


def ingest(
    spark: SparkSession,
    source: str,
    table: str | None = None,
    *,
    format: str = "parquet",  # noqa: A002  # Spark's word
    reader: Mapping[str, str] | None = None,
    schema: str | None = None,
    dry_run: bool = False,
    **options: Any,
) -> WriteResult:
    """Load files, or an Iceberg table, into a table.

    `reader` holds options for Spark's reader. Folders of images and other files are the format
    `binaryFile`: their `content` is stored as a blob. A dry run checks that the table takes the
    rows, and counts them.
    """
    frame = source_frame(spark, source, format=format, reader=reader, schema=schema)
    if format.lower() == "binaryfile" and "blobs" not in options:
        options = {**options, "blobs": ["content"]}
    return foretold(frame, table, **options) if dry_run else write(frame, table, **options)


def foretold(frame: DataFrame, table: str | None = None, **options: Any) -> WriteResult:
    """Check that a frame could be written, and count its rows; nothing is written."""
    given = {**options, "table": table} if table is not None else options
    ref, settings = table_of(given), parse(WriteOptions, given)
    before, mode = already_done(ref, settings), mode_of(settings)
    if before is not None:
        return before
    check_columns(frame.schema, ref)
    found = exists(ref)
    if found is None or mode != APPEND:
        if found is not None and mode == CREATE:
            raise TableAlreadyExistsError(f"Table {ref} already exists")
        table_schema(frame.schema, vectors=settings.vectors, blobs=frozenset(settings.blobs))
        version = 0 if found is None else open_table(found).version
    else:
        dataset = newest_at(found, settings.branch)
        names = new_columns(frame.schema, dataset.schema) if settings.merge_schema else []
        fit(frame.drop(*names).schema, dataset.schema, str(ref))
        if not names:
            check_encodings(dataset.schema, settings, ref)
        version = dataset.version
    with translated(f"The rows for table {ref} cannot be counted"):
        return WriteResult(ref, version, frame.count(), 0, settings.job_id or "")


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
    dry_run: bool = False,
    **options: Any,
) -> int:
    """Write a table, or what the read options choose of it, as files; return how many rows.

    A dry run counts them and writes nothing.

    With the format `iceberg`, `target` is a table of the Iceberg catalog that `writer` describes
    in the words of pyiceberg (`uri`, `warehouse`, `token` and so on).
    """
    if format.lower() not in EXPORTS:
        raise InvalidInputError(f"There is no format {format!r}", fix=nearest(format, EXPORTS))
    if mode not in MODES:
        raise InvalidInputError(f"There is no mode {mode!r}", fix=nearest(mode, MODES))
    frame = read(spark, table, **options)
    if dry_run:
        with translated("The rows cannot be counted"):
            return int(frame.count())
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
    dry_run: bool = False,
) -> WriteResult:
    """Copy a table into another catalog: `source` and `target` are the options of the two."""
    rows, options = read(spark, table, **source), {**target, "mode": mode}
    return foretold(rows, to, **options) if dry_run else write(rows, to, **options)
