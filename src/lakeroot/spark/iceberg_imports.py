"""Read an Iceberg table: pyiceberg plans on the driver, and reads in the tasks.

Spark's reader of Parquet finds columns by their names. Those of Iceberg are found by their ids: a
column that was renamed has another name in older files, and one of the same name may be another.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.conform import to_spark
from lakeroot.spark.iceberg_failures import CATALOG, iceberg_asked
from lakeroot.spark.reading import parallelism, task_numbers
from lakeroot.spark.types import exchange_schema, spark_schema
from lakeroot.spark.workers import begin

_TASK_BYTES = 128 << 20
_TRUNCATE = "truncateNanos"


def iceberg_frame(spark: SparkSession, source: str, reader: Mapping[str, str]) -> DataFrame:
    """Open an Iceberg table, as it is now, as a frame.

    `reader` holds what `load_catalog` of pyiceberg takes, its name under `catalog`, and
    `truncateNanos`. Rows that delete files delete are left out.
    """
    from pyiceberg.catalog import load_catalog

    given = dict(reader)
    truncate = given.pop(_TRUNCATE, "false").lower() == "true"
    with iceberg_asked(f"The Iceberg table {source} cannot be read", CATALOG):
        found = load_catalog(given.pop("catalog", "source"), **given).load_table(source)
        files = _planned(found, source)
    kind = spark_schema(found.schema().as_arrow(), truncate_nanos=truncate)
    if not files:
        return spark.createDataFrame([], kind)
    groups, wanted = _groups(files, parallelism(spark)), exchange_schema(kind)
    # Keys of the storage are among the properties: they travel in the function, not in the plan.
    metadata, io, place = found.metadata, dict(found.io.properties), found.location()

    def read_files(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in _rows(metadata, io, place, groups[number]):
                    yield to_spark(rows, wanted)

    size = sum(each.file.file_size_in_bytes for each in files)
    return task_numbers(spark, len(groups), size).mapInArrow(read_files, kind)


def _planned(table: Any, source: str) -> list[Any]:
    try:
        return list(table.scan().plan_files())
    except ValueError as error:  # There are deletions that pyiceberg cannot read.
        raise InvalidInputError(
            f"The Iceberg table {source} cannot be read", str(error), "Compact it first"
        ) from error


def _groups(files: Sequence[Any], tasks: int) -> list[list[Any]]:
    """Put small files together, as long as every core has something to do."""
    most = min(_TASK_BYTES, sum(each.file.file_size_in_bytes for each in files) // tasks)
    groups: list[list[Any]] = []
    room = 0
    for each in files:
        if room <= 0:
            groups.append([])
            room = most
        groups[-1].append(each)
        room -= each.file.file_size_in_bytes
    return groups


def _rows(metadata: Any, io: Any, place: str, files: list[Any]) -> Iterator[pa.RecordBatch]:
    """Read files one after the other, batch by batch."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io import load_file_io
    from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files

    opened = load_file_io(io, place)
    scan = ArrowScan(metadata, opened, metadata.schema(), AlwaysTrue())
    # `to_record_batches`, which is all that is public of it, makes a list of a whole file before it
    # gives the first batch. These two are what it is made of.
    for each in files:
        deleted = _read_all_delete_files(opened, [each])
        found = scan._record_batches_from_scan_tasks_and_deletes([each], deleted)  # noqa: SLF001
        yield from (batch for batch in found if batch.num_rows)
