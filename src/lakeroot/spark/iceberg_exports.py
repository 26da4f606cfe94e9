"""Write a table into an Iceberg catalog: tasks write Parquet files, the driver commits once."""

import functools
import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
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
from lakeroot.spark.iceberg_failures import CATALOG, first_line, iceberg_asked, is_refused
from lakeroot.spark.iceberg_files import remove_files, write_files
from lakeroot.spark.row_tasks import over_rows
from lakeroot.spark.types import exchange_schema

ERROR, IGNORE = ("error", "errorifexists"), "ignore"


def export_iceberg(frame: DataFrame, target: str, mode: str, properties: Mapping[str, str]) -> int:
    """Write a frame into the table `target` of an Iceberg catalog; return how many rows.

    `properties` are those of `load_catalog` of pyiceberg, its name under `catalog`. All rows come
    with one commit, and a new table comes with its rows: an export that dies leaves no table that
    would look like one that was exported. The files of an export that failed are deleted, unless
    its commit may still happen.
    """
    rows = _widened(frame)
    catalog, table = find_target(target, mode, properties)
    if table is not None and mode == IGNORE:
        return 0
    with iceberg_asked(f"The Iceberg table {target} cannot be written"):
        if table is None:
            changes = _staged(catalog, target, exchange_schema(rows.schema))
            # Nothing public gives a staged table, and it alone has the keys of its storage.
            table = changes._table  # noqa: SLF001
        else:
            changes = table.transaction()
        job = uuid.uuid4().hex
        place = f"{table.location().rstrip('/')}/data/{job}"
        io = dict(table.io.properties)  # its credentials among them, for the tasks
        note = {JOB: job}  # in the summary of the snapshot
        counts: dict[str, int] = {}
        try:
            for part in over_rows(rows, functools.partial(write_files, place, io)):
                counts |= part
            if mode == "overwrite" and table.current_snapshot() is not None:
                changes.delete("true", note)
            if counts:
                changes.add_files(list(counts), note, check_duplicate_files=False)
        except Exception:
            remove_files(place, io, counts)
            raise
        try:
            changes.commit_transaction()
        except Exception as error:
            if not _arrived(catalog, target, job, place, error):
                remove_files(place, io, counts)
                raise
    return sum(counts.values())


def _arrived(catalog: Any, target: str, job: str, place: str, error: Exception) -> bool:
    """Find out whether a commit happened although it raised: its answer may have been lost.

    Files that the table names, now or when the catalog is done with the commit, must stay. So if
    nobody can tell yet, that is said instead.
    """
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

    is_known = is_refused(error)
    try:
        snapshots = catalog.load_table(target).metadata.snapshots
    except NoSuchTableError:
        snapshots = []
    except Exception:  # noqa: BLE001  # whatever it is, the catalog did not tell
        snapshots = []
        # It may be in conflict with itself: a gateway whose answer was lost sends a commit again.
        is_known = is_known and not isinstance(error, CommitFailedException)
    if any(each.summary is not None and each.summary.get(JOB) == job for each in snapshots):
        return True
    if is_known:
        return False
    raise ServiceUnavailableError(
        f"It is not known whether the rows came into the Iceberg table {target}, or still will",
        f"the catalog did not say what became of the commit ({first_line(error)}), so the files"
        f" in {place} are kept",
        f"Look for a snapshot with `{JOB}` {job} after a while: if there is one, the export is"
        " done; if not, repeat it, and leave these files to the catalog's removal of orphans",
    ) from error


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
