"""Streams into and out of tables, exactly once, with the driver killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.spark.streaming import STREAM, last_batch
from tests.spark.conftest import put
from tests.spark.test_flights import real_flights
from tests.spark.test_writing import frame, orphans, rows, where


def pump(spark, root, checkpoint, source, target, **options):
    """Run one query from table to table until everything there is has passed."""
    stream = spark.readStream.format("lakeroot").options(root=root, **options).load(source)
    query = (
        stream.writeStream.format("lakeroot")
        .option("root", root)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination()
    return query


def batches_of(checkpoint):
    """Number the micro-batches that a query has finished."""
    return sorted(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name[0] != ".")


def test_rows_pass_once_however_often_the_query_is_restarted(spark, root, catalog, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")
    lakeroot.spark.write(frame(spark, 0, 10), "shop.a", root=root)
    pump(spark, root, checkpoint, "shop.a", "shop.b")
    pump(spark, root, checkpoint, "shop.a", "shop.b")
    lakeroot.spark.write(frame(spark, 10, 15), "shop.a", root=root)
    source = lance.dataset(where(catalog, "shop", "a"))
    source.optimize.compact_files()
    source.create_scalar_index("id", "BTREE")
    lakeroot.spark.write(frame(spark, 15, 20), "shop.a", root=root)
    pump(spark, root, checkpoint, "shop.a", "shop.b")
    assert rows(where(catalog, "shop", "b")) == list(range(20))


@pytest.mark.parametrize("columnar", [True, False])
def test_a_stream_may_name_a_table_of_a_catalog(spark, root, catalog, tmp_path, columnar):
    """The table is made by the stream: it hears its options, and no refusal leaves one behind."""
    name = f"streams{columnar}"
    lakeroot.spark.use_catalog(spark, name, root=root, columnar=columnar)

    def run(checkpoint, table, **options):
        stream = spark.readStream.format("lakeroot").option("root", root).load("shop.a")
        writer = stream.selectExpr("id", "array(1D, 2D) AS e").writeStream.options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).toTable(f"{name}.{table}").awaitTermination()

    for start in (0, 10):
        lakeroot.spark.write(frame(spark, start, start + 10), "shop.a", root=root)
        run("c", "shop.b", vectors="e:2", storageVersion="2.1")
    target = lance.dataset(where(catalog, "shop", "b"))
    assert rows(where(catalog, "shop", "b")) == list(range(20))
    assert (target.schema.field("e").type.list_size, target.data_storage_version) == (2, "2.1")
    (stream,) = {
        said[STREAM]
        for version in range(2, target.version + 1)
        if (said := target.read_transaction(version).transaction_properties)
    }
    assert last_batch(target, stream) == 1
    run("other", "shop.b")
    assert lance.dataset(where(catalog, "shop", "b")).count_rows() == 40
    lakeroot.spark.write(frame(spark, 20, 21), "shop.a", root=root)
    with pytest.raises(Exception, match="which is not there"):
        run("c", "shop.elsewhere")
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
        run("new", "nowhere.t")
    with pytest.raises(Exception, match="There is no option 'vektors'"):
        run("new", "shop.elsewhere", vektors="e:2")
    assert lakeroot.open(root).tables("shop") == ["shop.a", "shop.b"]


def test_a_replayed_batch_is_recognised_and_leaves_nothing(spark, root, catalog, tmp_path):
    """Removing the commit log makes Spark run the last batch again, as after a crash."""
    checkpoint = tmp_path / "checkpoint"
    lakeroot.spark.write(frame(spark, 0, 10), "shop.a", root=root)
    pump(spark, root, str(checkpoint), "shop.a", "shop.b")
    target = where(catalog, "shop", "b")
    before = lance.dataset(target).version
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    pump(spark, root, str(checkpoint), "shop.a", "shop.b")
    assert rows(target) == list(range(10))
    assert lance.dataset(target).version == before
    assert orphans(target) == set()
    stream = json.loads((checkpoint / "metadata").read_text())["id"]
    assert last_batch(lance.dataset(target), stream) == 0


def test_a_new_checkpoint_is_a_new_stream(spark, root, catalog, tmp_path):
    lakeroot.spark.write(frame(spark, 0, 3), "shop.a", root=root)
    pump(spark, root, str(tmp_path / "one"), "shop.a", "shop.b")
    pump(spark, root, str(tmp_path / "two"), "shop.a", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 0, 1, 1, 2, 2]


def test_a_rate_limit_cuts_the_backlog_into_batches(spark, root, catalog, tmp_path):
    for start in range(0, 8, 2):
        lakeroot.spark.write(frame(spark, start, start + 2), "shop.a", root=root)
    bound = {"startingVersion": "0", "maxVersionsPerTrigger": "1"}
    pump(spark, root, str(tmp_path / "c"), "shop.a", "shop.b", **bound)
    assert rows(where(catalog, "shop", "b")) == list(range(8))
    assert batches_of(tmp_path / "c") == [0, 1, 2, 3]


def test_a_stream_refuses_changed_rows_unless_told_to_skip_them(spark, root, catalog, tmp_path):
    lakeroot.spark.write(frame(spark, 0, 4), "shop.a", root=root)
    checkpoint = str(tmp_path / "c")
    pump(spark, root, checkpoint, "shop.a", "shop.b")
    lance.dataset(where(catalog, "shop", "a")).delete("id = 1")
    lakeroot.spark.write(frame(spark, 4, 6), "shop.a", root=root)
    with pytest.raises(Exception, match="skipChanges"):
        pump(spark, root, checkpoint, "shop.a", "shop.b")
    pump(spark, root, checkpoint, "shop.a", "shop.b", skipChanges="true")
    assert rows(where(catalog, "shop", "b")) == list(range(6))


def test_a_sink_without_a_checkpoint_of_its_own_is_refused(spark, root, catalog, tmp_path):
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        stream = spark.readStream.format("rate").load()
        writer = stream.writeStream.format("lakeroot").option("root", root)
        with pytest.raises(Exception, match="streamId"):
            writer.trigger(availableNow=True).start("shop.b").awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


DRIVER = """
import sys
import lakeroot.spark
root, checkpoint = sys.argv[1:]
spark = lakeroot.spark.session(
    master="local[2]", fast_start=True, config={"spark.sql.shuffle.partitions": "2"}
)
spark.sparkContext.setLogLevel("OFF")
stream = (
    spark.readStream.format("lakeroot")
    .options(root=root, startingVersion="0", maxVersionsPerTrigger="1")
    .load("shop.a")
)
stream.writeStream.format("lakeroot").option("root", root).option(
    "checkpointLocation", checkpoint
).trigger(availableNow=True).start("shop.b").awaitTermination()
print("finished", flush=True)
"""


@pytest.mark.timeout(1800)  # three drivers, on whatever machine
def test_a_driver_that_is_killed_twice_loses_and_repeats_no_flight(root, catalog, tmp_path):
    """A year of real flights, two months in a batch; the target is exact all the same."""
    flights = real_flights()
    for number, batch in flights.groupby((flights.month - 1) // 2):
        data = pa.Table.from_pandas(batch, preserve_index=False)
        if number == 0:
            location = put(catalog, "shop.a", data)
        else:
            lance.write_dataset(data, location, mode="append")
    command = [sys.executable, "-c", DRIVER, root, str(tmp_path / "c")]
    for wait_for in (2, 4):
        driver = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while driver.poll() is None and committed(catalog) < wait_for:
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "finished" in answer.stdout
    target = lance.dataset(where(catalog, "shop", "b"))
    read = target.to_table().to_pandas()
    assert len(read) == len(flights)
    by = ["month", "carrier"]
    assert read.groupby(by).distance.sum().equals(flights.groupby(by).distance.sum())


def committed(catalog):
    try:
        return len(list((Path(where(catalog, "shop", "b")) / "_versions").glob("*.manifest")))
    except Exception:
        return 0
