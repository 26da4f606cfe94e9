"""Write a table into an Iceberg catalog: tasks write Parquet files, the driver commits once."""

import contextlib
import functools
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakeroot.model.errors import (
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableSchemaValidationError,
)
from lakeroot.spark.commits import JOB
from lakeroot.spark.failures import translated
from lakeroot.spark.iceberg_failures import CATALOG, first_line, iceberg_asked
from lakeroot.spark.row_tasks import over_rows
from lakeroot.spark.types import exchange_schema

ERROR, IGNORE = ("error", "errorifexists"), "ignore"
_ROWS_PER_FILE = 1 << 20


def export_iceberg(frame: DataFrame, target: str, mode: str, properties: Mapping[str, str]) -> int:
    """Write a frame into the table `target` of an Iceberg catalog; return how many rows.

    `properties` are those of `load_catalog` of pyiceberg, its name under `catalog`. All rows come
    with one commit, and a new table comes with its rows: an export that dies leaves no table that
    would look like one that was exported. The files of a commit that failed are deleted.
    """
    rows = _widened(frame)
    catalog, table = find_target(target, mode, properties)
    if table is not None and mode == IGNORE:
        return 0
    with iceberg_asked(f"The Iceberg table {target} cannot be written"):
        if table is None:
            changes = _staged(catalog, target, exchange_schema(rows.schema))
            table = changes._table  # noqa: SLF001  # only its transaction knows a staged table
        else:
            changes = table.transaction()
        place = table.location().rstrip("/")
        io = dict(table.io.properties)  # its credentials among them, for the tasks
        parts = over_rows(rows, functools.partial(_write, place, io))
        counts = {path: count for part in parts for path, count in part.items()}
        job = uuid.uuid4().hex
        try:
            with changes:
                if mode == "overwrite" and table.current_snapshot() is not None:
                    changes.delete("true")
                if counts:
                    note = {JOB: job}  # in the summary of the snapshot
                    changes.add_files(list(counts), note, check_duplicate_files=False)
        except Exception as error:
            if not counts or not _arrived(catalog, target, job, error):
                _remove(place, io, list(counts))
                raise
    return sum(counts.values())


def _arrived(catalog: Any, target: str, job: str, error: Exception) -> bool:
    """Find out whether a commit happened although it raised: its answer may have been lost.

    Files that the table may refer to must stay, so if nobody can tell, that is said instead.
    """
    from pyiceberg.exceptions import NoSuchTableError

    try:
        snapshots = catalog.load_table(target).metadata.snapshots
    except NoSuchTableError:
        return False
    except Exception:  # noqa: BLE001  # whatever it is, the catalog did not tell
        raise ServiceUnavailableError(
            f"It is not known whether the rows came into the Iceberg table {target}",
            "the catalog could not be asked after the commit failed: " + first_line(error),
            f"Look for a snapshot with `{JOB}` {job} before the export is repeated",
        ) from error
    return any(each.summary is not None and each.summary.get(JOB) == job for each in snapshots)


def _widened(frame: DataFrame) -> DataFrame:
    """Give columns of the small integers, which Iceberg does not have, as the next larger."""
    small = (st.ByteType, st.ShortType)
    return frame.select(
        [
            sf.col(f"`{field.name}`").cast("int").alias(field.name)
            if isinstance(field.dataType, small)
            else sf.col(f"`{field.name}`")
            for field in frame.schema.fields
        ]
    )


def foretold_iceberg(
    frame: DataFrame, target: str, mode: str, properties: Mapping[str, str]
) -> int:
    """Look at the table that rows would go into, and count the rows; nothing is written."""
    _, table = find_target(target, mode, properties)
    if table is not None and mode == IGNORE:
        return 0
    with translated("The rows cannot be counted"):
        return int(frame.count())


def find_target(target: str, mode: str, properties: Mapping[str, str]) -> tuple[Any, Any]:
    """Open the catalog, and the table if there is one; refuse one that must not be there."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchTableError

    given = dict(properties)
    with iceberg_asked(f"The Iceberg table {target} cannot be written", CATALOG):
        catalog = load_catalog(given.pop("catalog", "target"), **given)
        try:
            found = catalog.load_table(target)
        except NoSuchTableError:
            return catalog, None
    if mode in ERROR:
        raise TableAlreadyExistsError(
            f"The Iceberg table {target} exists", fix="Set the mode to append or overwrite"
        )
    return catalog, found


def _staged(catalog: Any, target: str, schema: pa.Schema) -> Any:
    """Begin a table that nobody sees before its commit."""
    from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

    try:
        return catalog.create_table_transaction(target, schema)
    except (UnsupportedPyArrowTypeException, TypeError) as error:
        raise TableSchemaValidationError(
            f"Iceberg cannot hold the columns of {target}", str(error)
        ) from None


def _write(place: str, io: dict[str, str], batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Write the rows of one task, a file for each million; a task that fails leaves none.

    Returns how many rows are in which file.
    """
    from pyiceberg.io import load_file_io

    files = load_file_io(io, place)
    written: list[str] = []
    counts: list[int] = []
    writer: pq.ParquetWriter | None = None
    with contextlib.ExitStack() as stack:
        try:
            for batch in batches:
                if writer is None:
                    written.append(f"{place}/data/{uuid.uuid4()}.parquet")
                    counts.append(0)
                    stream = stack.enter_context(files.new_output(written[-1]).create())
                    writer = stack.enter_context(pq.ParquetWriter(stream, batch.schema))
                writer.write_batch(batch)
                counts[-1] += batch.num_rows
                if counts[-1] >= _ROWS_PER_FILE:
                    stack.pop_all().close()
                    writer = None
        except Exception:
            _remove(place, io, written)
            raise
    return dict(zip(written, counts, strict=True))


def _remove(place: str, io: dict[str, str], paths: list[str]) -> None:
    from pyiceberg.io import load_file_io

    files = load_file_io(io, place)
    for path in paths:
        with contextlib.suppress(OSError):
            files.delete(path)
