"""Bring data in from other formats, take it out, and move tables between catalogs."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeroot.model.errors import InternalError, InvalidInputError, TableAlreadyExistsError
from lakeroot.spark.catalogs import Located, TableRef, exists
from lakeroot.spark.failures import nearest, translated
from lakeroot.spark.fitting import check_encodings, fit, minds_case, new_columns, refuse_alike
from lakeroot.spark.iceberg_exports import (
    IGNORE,
    export_iceberg,
    find_target,
    foretold_iceberg,
)
from lakeroot.spark.iceberg_imports import iceberg_frame
from lakeroot.spark.opening import newest_at, open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, parse, table_of
from lakeroot.spark.reading import read
from lakeroot.spark.source_files import require_files
from lakeroot.spark.types import table_schema
from lakeroot.spark.writing import (
    APPEND,
    CREATE,
    WriteResult,
    already_done,
    check_columns,
    mode_of,
    write,
)

FORMATS = ("parquet", "csv", "json", "orc", "text", "binaryFile", "avro", "iceberg")
EXPORTS = ("parquet", "csv", "json", "orc", "iceberg")
MODES = ("error", "errorifexists", "append", "overwrite", "ignore")
# The first line of a CSV file names its columns; with a schema, Spark checks that it names those.
_CSV = {"header": "true", "inferSchema": "true", "enforceSchema": "false"}
_OTHER_HEADER = "CSV header does not conform"
_CORRUPT = "_corrupt_record"
_NO_AVRO = "[AVRO_DATA_SOURCE_NOT_ENABLED]"
# Spark 4 is compiled for this Scala alone, and names its modules after it.
_SCALA = "2.13"
_EXISTS = "[PATH_ALREADY_EXISTS]"
# What Spark says of a file that it cannot read, and of what its readers and writers do not take.
_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S+?)\.\s"
)
_REFUSED = re.compile(
    r"FAILED_READ_FILE|FileFormatException|is not a Parquet file|IllegalArgumentException"
    r"|NumberFormatException|For input string|SQLSTATE: (?:0A000|56038)"
)


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
    parse(WriteOptions, options, "format", "reader", "schema", "dry_run")
    if dry_run:
        given: dict[str, Any] = {"format": format, "reader": reader, "schema": schema}
        return foretold_ingest(spark, source, table, **given, **options)[0]
    before = look_first(table, **options)
    if before is not None:
        return before
    frame = source_frame(spark, source, format=format, reader=reader, schema=schema)
    with files_blamed():
        return write(frame, table, **_with_blobs(format, options))


def foretold_ingest(
    spark: SparkSession,
    source: str,
    table: str | None = None,
    *,
    format: str = "parquet",  # noqa: A002
    reader: Mapping[str, str] | None = None,
    schema: str | None = None,
    **options: Any,
) -> tuple[WriteResult, list[tuple[str, str]]]:
    """Say what an ingest would do, and which columns of which types the source has.

    Nothing is read for a job that was done before, and then there are no columns.
    """
    before = look_first(table, **options)
    if before is not None:
        return before, []
    frame = source_frame(spark, source, format=format, reader=reader, schema=schema)
    with files_blamed():
        return foretold(frame, table, **_with_blobs(format, options)), frame.dtypes


def _with_blobs(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    if kind.lower() == "binaryfile" and "blobs" not in options:
        return {**options, "blobs": ["content"]}
    return options


def look_first(table: str | None = None, **options: Any) -> WriteResult | None:
    """Find out before any row is read, and without Spark, that there is nothing to write.

    What can be seen to fail is refused: there is no such namespace, or the name is taken.
    """
    ref, settings = _target(table, options)
    before = already_done(ref, settings)
    if before is None:
        _refuse_taken(ref, exists(ref), mode_of(settings))
    return before


def _target(table: str | None, options: Mapping[str, Any]) -> tuple[TableRef, WriteOptions]:
    given = {**options, "table": table} if table is not None else options
    settings = parse(WriteOptions, given)
    return table_of(given), settings


def _refuse_taken(ref: TableRef, found: Located | None, mode: str) -> None:
    if found is not None and mode == CREATE:
        raise TableAlreadyExistsError(
            f"Table {ref} already exists", fix="Use mode 'append', 'overwrite' or 'ignore'"
        )


def foretold(frame: DataFrame, table: str | None = None, **options: Any) -> WriteResult:
    """Check that a frame could be written, and count its rows; nothing is written."""
    ref, settings = _target(table, options)
    before, mode = already_done(ref, settings), mode_of(settings)
    if before is not None:
        return before
    check_columns(frame.schema, ref)
    exact = minds_case(frame.sparkSession)
    found = exists(ref)
    if found is None or mode != APPEND:
        _refuse_taken(ref, found, mode)
        table_schema(frame.schema, vectors=settings.vectors, blobs=frozenset(settings.blobs))
        old = None if found is None else open_table(found)
        if not exact:
            refuse_alike(frame.schema, [] if old is None else old.schema.names, ref, replaces=True)
        version = 0 if old is None else old.version
    else:
        dataset = newest_at(found, settings.branch)
        names = new_columns(frame.schema, dataset.schema) if settings.merge_schema else []
        if names and not exact:
            refuse_alike(frame.schema, dataset.schema.names, ref)
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
    word = _read_as(format, schema)
    if word == "iceberg":
        return iceberg_frame(spark, source, reader or {})
    given = {**(_CSV if word == "csv" else {}), **(reader or {})}
    with _said_of_files(f"{source} cannot be read as {word}"), _module_named(spark):
        loader = spark.read.format(word).options(**given)
        frame = (loader if schema is None else loader.schema(schema)).load(source)
        # Over Connect nothing is looked at before the columns are asked for.
        columns = frame.columns
    if columns == [_CORRUPT]:
        raise InvalidInputError(
            f"{source} cannot be read as {word}", "not one record of that format was found in it"
        )
    return (
        frame.withColumnRenamed("modificationTime", "modified") if word == "binaryFile" else frame
    )


def check_source(source: str, kind: str, schema: str | None = None) -> None:
    """Refuse a source that cannot be opened, as far as that can be seen without Spark."""
    _read_as(kind, schema)
    require_files(source, kind)


def _read_as(kind: str, schema: str | None) -> str:
    """Find the format that is meant, as Spark writes it."""
    word = {each.lower(): each for each in FORMATS}.get(kind.lower())
    if word is None:
        raise InvalidInputError(f"There is no format {kind!r}", fix=nearest(kind, FORMATS))
    if word == "iceberg" and schema is not None:
        raise InvalidInputError("`schema` is not for the format iceberg, which has its own")
    return word


@contextmanager
def files_blamed() -> Iterator[None]:
    """Say which file of Spark's own formats it is, if a job fails because one cannot be read."""
    try:
        yield
    except InternalError as error:
        found = _UNREADABLE.search(str(error.__cause__))
        if found is None:
            raise
        is_header = _OTHER_HEADER in str(error.__cause__)
        raise InvalidInputError(
            f"The file {found[1]} cannot be read",
            error.why,
            "Name the columns in its first line as the schema does, or say `header: false`"
            if is_header
            else "Check that it is whole, and of the format that was named",
        ) from error


@contextmanager
def _said_of_files(what: str) -> Iterator[None]:
    """Call it bad input if Spark's readers and writers refuse a file, a type or an option."""
    try:
        with translated(what):
            yield
    except InternalError as error:
        if _REFUSED.search(str(error.__cause__)) is None:
            raise
        raise InvalidInputError(what, error.why) from error


@contextmanager
def _module_named(spark: SparkSession) -> Iterator[None]:
    """Name the module that Spark must be given first: its own error speaks of a guide."""
    try:
        yield
    except Exception as error:
        if _NO_AVRO not in str(error):
            raise
        module = f"org.apache.spark:spark-avro_{_SCALA}:{spark.version}"
        raise InvalidInputError(
            "Avro files cannot be read",
            "Spark reads them with a module that it has not been given",
            f"Start it with `spark.jars.packages={module}` in its configuration, for a command"
            f" with PYSPARK_SUBMIT_ARGS='--packages {module} pyspark-shell'; or write the files"
            " as Parquet",
        ) from error


def check_export(kind: str, mode: str, target: str, writer: Mapping[str, str]) -> None:
    """Refuse an export that cannot be, as far as that can be seen without Spark."""
    _check_words(kind, mode)
    if kind.lower() == "iceberg":
        find_target(target, mode, writer)


def _check_words(kind: str, mode: str) -> None:
    if kind.lower() not in EXPORTS:
        raise InvalidInputError(f"There is no format {kind!r}", fix=nearest(kind, EXPORTS))
    if mode not in MODES:
        raise InvalidInputError(f"There is no mode {mode!r}", fix=nearest(mode, MODES))


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

    A dry run counts them and writes nothing. With the mode `ignore`, none are written where
    something is.

    With the format `iceberg`, `target` is a table of the Iceberg catalog that `writer` describes
    in the words of pyiceberg (`uri`, `warehouse`, `token` and so on).
    """
    _check_words(format, mode)
    parse(ReadOptions, options, "format", "mode", "writer", "dry_run")
    frame, told = read(spark, table, **options), dict(writer or {})
    if format.lower() == "iceberg":
        way = foretold_iceberg if dry_run else export_iceberg
        return way(frame, target, mode, told)
    if dry_run:
        with translated("The rows cannot be counted"):
            return int(frame.count())
    # Spark does not say whether it has ignored the rows.
    said = "error" if mode == IGNORE else mode
    try:
        with _said_of_files(f"{target} cannot be written"):
            frame.write.format(format.lower()).mode(said).options(**told).save(target)
            return int(frame.count())
    except InvalidInputError as error:
        if mode == IGNORE and _EXISTS in error.why:
            return 0
        raise


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
