"""Spark: looking after a catalog of many tables with two tasks at once, beside one process."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa

import lakeroot.spark
from benchmarks.report import Row
from benchmarks.sparks import measured, spark_and_directory
from lakeroot.spark.spark_sql.installing import catalog_of
from lakeroot.storage.spans import GRACE, RETENTION

TITLE = "Spark: fsck and gc of a directory catalog"
PEER = "one process"


def run(*, quick: bool) -> Iterator[Row]:
    tables = 200 if quick else 2_000
    with spark_and_directory() as (spark, directory):
        root = str(directory / "lake")
        _fill(root, tables)
        yield from _measure(spark, root, tables, 2 if quick else 3)


def _measure(spark: Any, root: str, tables: int, repeats: int) -> Iterator[Row]:
    here: Any = catalog_of(root, None, None, None).connect()
    assert lakeroot.spark.fsck(spark, root=root) == here.check(GRACE) == []
    rows = [
        measured(
            f"fsck, {tables:,} tables",
            lambda: lakeroot.spark.fsck(spark, root=root),
            lambda: here.check(GRACE),
            repeats,
            1.0,
        ),
        measured(
            f"gc --old-versions (dry run), {tables:,} tables",
            lambda: lakeroot.spark.gc(spark, root=root, dry_run=True, old_versions=True),
            lambda: here.gc(RETENTION, dry_run=True, old_versions=True, keep=1),
            repeats,
            1.0,
        ),
    ]
    # There is no bar: tasks are for catalogs whose looking takes one process too long.
    for row in rows:
        yield replace(row, bar=None, note="")


def _fill(root: str, tables: int) -> None:
    """Make tables of a few rows, every tenth with a past of three versions."""
    client = ln.connect("lakeroot.DirectoryNamespace", {"root": root})
    client.create_namespace(ln.CreateNamespaceRequest(id=["n"]))
    rows = pa.table({"id": range(10)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    data = sink.getvalue().to_pybytes()
    for number in range(tables):
        name = ["n", f"t{number}"]
        location = client.create_table(ln.CreateTableRequest(id=name), data).location
        if number % 10 == 0:
            for _ in range(2):
                lance.write_dataset(rows, Path(location), mode="append")
