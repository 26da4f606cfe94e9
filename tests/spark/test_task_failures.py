"""What a user of Spark's own reads and writes is told when a task of theirs fails."""

import functools
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import lance_namespace
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import lakeroot.spark
from lakeroot.spark import write_tasks
from lakeroot.spark.catalogs import DIRECTORY, TableRef
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.spark_sql import tasks
from lakeroot.spark.writing import prepare
from tests.spark.conftest import put

ROWS = pa.table({"id": list(range(1000))})
KILLED = "a Python worker was killed, ran out of memory, or crashed in a library"
Write = Callable[[DataFrame, str], None]


@pytest.fixture
def writes(spark: SparkSession, root: str, catalog: Any) -> dict[str, Write]:
    """Spark's own ways to write a table of the catalog."""
    lakeroot.spark.use_catalog(spark, "failing", root=root)

    def save(frame: DataFrame, table: str) -> None:
        frame.write.format("lakeroot").options(root=root, table=table).mode("append").save()

    def insert(frame: DataFrame, table: str) -> None:
        frame.writeTo(f"failing.{table}").append()

    return {"save": save, "insert": insert}


@pytest.fixture
def reads(spark: SparkSession, root: str, catalog: Any) -> list[Callable[[str], DataFrame]]:
    """Spark's own ways to read a table of the catalog."""
    lakeroot.spark.use_catalog(spark, "failing", root=root)
    source = spark.read.format("lakeroot").option("root", root)
    return [
        lambda table: source.option("table", table).load(),
        lambda table: spark.sql(f"SELECT * FROM failing.{table}"),
    ]


def said(run: Callable[[], Any]) -> str:
    """Give what a failure says, which must be one line."""
    with pytest.raises(PySparkException) as raised:
        run()
    lines = str(raised.value).splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def files_of(place: str) -> set[Path]:
    return {path for path in Path(place).rglob("*") if path.is_file()}


@pytest.mark.parametrize("way", ["save", "insert"])
def test_a_killed_worker_of_a_write_is_one_line_and_leaves_nothing(spark, catalog, writes, way):
    place = put(catalog, "shop.t", ROWS)
    before = files_of(place)
    # A function of its own, or Spark would look for this module in the worker.
    die = sf.udf(lambda _: os.kill(os.getpid(), signal.SIGKILL), "long")
    dying = spark.range(1).select(die("id").alias("id"))
    line = said(lambda: writes[way](dying, "shop.t"))
    assert f"InternalError: Table shop.t cannot be written. {KILLED}" in line
    assert files_of(place) == before


def test_a_killed_worker_of_a_read_is_one_line(monkeypatch, catalog, reads):
    put(catalog, "shop.t", ROWS)

    def dying(*_: Any) -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from ()

    monkeypatch.setattr(tasks, "batches", dying)
    for read in reads:
        line = said(read("shop.t").collect)
        assert "Failed to read Python data source lakeroot: InternalError: Table shop.t" in line
        assert KILLED in line


def test_a_damaged_file_is_one_line_also_for_whoever_writes_its_rows(catalog, reads, writes):
    damaged = next(Path(put(catalog, "shop.t", ROWS)).glob("data/*.lance"))
    damaged.write_bytes(damaged.read_bytes()[:40])
    place = put(catalog, "shop.other", ROWS)
    before = files_of(place)
    for read in reads:
        line = said(read("shop.t").collect)
        assert "InvalidTableStateError" in line
        assert "a file of the table is damaged" in line
        assert "Restore the file" in line
    line = said(functools.partial(writes["insert"], reads[0]("shop.t"), "shop.other"))
    assert "Failed to read" in line
    assert files_of(place) == before


def test_streams_say_it_in_their_first_line(spark, root, catalog, reads, tmp_path):
    next(Path(put(catalog, "shop.t", ROWS)).glob("data/*.lance")).unlink()
    place = put(catalog, "shop.other", ROWS)
    before = files_of(place)
    rows = spark.readStream.format("lakeroot").options(root=root, table="shop.t").load()
    sink = rows.writeStream.format("lakeroot").options(root=root, table="shop.other")
    query = sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    with pytest.raises(PySparkException) as raised:
        query.start().awaitTermination()
    first, *rest = str(raised.value).splitlines()
    assert "InvalidTableStateError" in first
    assert "is missing" in first
    # Spark appends the offsets of the query and the plan of the micro-batch.
    assert "\tat " not in str(rest)
    assert files_of(place) == before


@pytest.mark.parametrize("way", ["save", "insert"])
def test_a_table_that_is_dropped_while_it_is_written_is_called_that(
    spark, root, catalog, writes, way
):
    put(catalog, "shop.t", ROWS)

    def drops(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        client = lance_namespace.connect(DIRECTORY, {"root": root})
        names = ["shop", "t"]
        if client.list_tables(lance_namespace.ListTablesRequest(id=["shop"])).tables:
            client.drop_table(lance_namespace.DropTableRequest(id=names))
        yield from batches

    frame = spark.range(3).coalesce(1)
    dropping = frame.mapInArrow(drops, frame.schema)
    line = said(lambda: writes[way](dropping, "shop.t"))
    assert "Table shop.t was dropped while the job ran. nothing was written" in line
    assert files_of(root) == {path for path in files_of(root) if "shop$t" not in str(path)}


def test_a_table_that_is_dropped_while_it_is_read_is_called_that(catalog, reads):
    for read in reads:
        put(catalog, "shop.t", ROWS)
        frame = read("shop.t")
        catalog.drop_table(lance_namespace.DropTableRequest(id=["shop", "t"]))
        assert "Table shop.t was dropped while it was read" in said(frame.collect)


def test_what_a_users_own_function_raises_keeps_its_trace(spark, catalog, writes):
    put(catalog, "shop.t", ROWS)
    fails = sf.udf(lambda number: number // 0, "long")
    frame = spark.range(1).select(fails("id").alias("id"))
    for write in writes.values():
        with pytest.raises(PySparkException, match="ZeroDivisionError") as raised:
            write(frame, "shop.t")
        assert "<lambda>" in str(raised.value)


def test_a_full_disk_is_named_by_the_task(monkeypatch, spark, root, catalog):
    put(catalog, "shop.t", ROWS)
    text = "LanceError(IO): No space left on device (os error 28), /rust/lance-io/src/x.rs:1:2"
    ref = TableRef(lakeroot.spark.catalogs.Catalog.at(root), ("shop", "t"))
    plan = prepare(ref, spark.range(1).schema, WriteOptions(mode="append"))
    monkeypatch.setattr(write_tasks, "write_fragments", functools.partial(_raise, OSError(text)))
    with pytest.raises(Exception, match=r"Table shop.t cannot be written. The disk .* is full"):
        write_tasks.write_rows(plan, ROWS.to_batches())


def _raise(error: Exception, *_: Any, **__: Any) -> Any:
    raise error
