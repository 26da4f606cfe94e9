"""What Spark believes of the size of a table: its joins are planned by it."""

import re

import numpy as np
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data import TableWriter
from lakeroot.spark import metastore, planning
from lakeroot.spark.merge_clauses import INSERT, UPDATE, Merge, merge_changes, same_keys
from lakeroot.spark.options import ReadOptions, WriteOptions, table_of
from lakeroot.spark.planning import plan_read
from lakeroot.spark.reading import frame, task_numbers
from lakeroot.spark.spark_sql import frames
from lakeroot.spark.writing import prepare
from tests.spark.conftest import put

ROWS = 50_000
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


def believed(rows):
    return int(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


@pytest.fixture
def table(catalog):
    ids = np.random.default_rng(1).permutation(ROWS)
    data = pa.table({"id": ids, "k": ids, "word": [f"w{number}" for number in range(ROWS)]})
    return put(catalog, "shop.t", data, max_rows_per_file=ROWS // 3)


@pytest.fixture
def small_broadcasts(spark):
    before = spark.conf.get(THRESHOLD)
    spark.conf.set(THRESHOLD, "50000")
    yield
    spark.conf.set(THRESHOLD, before)


@pytest.mark.parametrize(("tasks", "size"), [(1, 0), (3, 7), (3, 24), (5, 123_456), (2, 1 << 60)])
def test_every_task_has_its_number_whatever_the_size(spark, tasks, size):
    numbers = task_numbers(spark, tasks, size)
    assert believed(numbers) >= min(size, 1 << 30)
    parts = numbers.rdd.glom().collect()
    assert [[row.id for row in part] for part in parts] == [[number] for number in range(tasks)]


def test_a_frame_of_tasks_is_as_large_as_what_it_reads(spark, root, table):
    plan = plan_read(table_of({"root": root, "table": "shop.t"}), ReadOptions(partitions=3))
    rows = frame(spark, plan)
    assert believed(rows) >= plan.bytes > ROWS
    assert rows.selectExpr("count(*)", "sum(id)").first() == (ROWS, ROWS * (ROWS - 1) // 2)


@pytest.mark.parametrize(
    ("parallelism", "share", "tasks"),
    [(2, 3, 4), (4, 3, 4), (4, 5, 8), (None, 3, 3), (1, 3, 3), (64, 5, 10)],
)
def test_tasks_run_in_whole_rounds(catalog, root, monkeypatch, parallelism, share, tasks):
    data = pa.table({"id": range(ROWS)})
    put(catalog, "shop.many", data, max_rows_per_file=ROWS // 20)
    table, options = table_of({"root": root, "table": "shop.many"}), ReadOptions(filter="id >= 0")
    size = plan_read(table, options).bytes
    monkeypatch.setattr(planning, "_SMALL_TABLE", size - 1)
    monkeypatch.setattr(planning, "_LEAST_PER_TASK", size // 10 + 1)
    monkeypatch.setattr(planning, "BYTES_PER_TASK", size // share + 1)
    assert len(plan_read(table, options, parallelism=parallelism).tasks) == tasks
    monkeypatch.setattr(planning, "_SMALL_TABLE", size)
    assert len(plan_read(table, options, parallelism=parallelism).tasks) == 1


def test_rows_of_a_metastore_are_as_large_as_their_files(spark, root):
    data = pa.table({"r": np.random.default_rng(1).random(ROWS)})
    with Metastore.open(root).transaction() as txn:
        txn.create_namespace("n")
        txn.create_table("n", "t", schema=schema_of(data.schema))
        TableWriter(txn, "n", "t").append(data)
    rows = metastore.read(spark, "n.t", root=root)
    assert believed(rows) >= 4 * ROWS  # numbers at random cannot be made much smaller
    assert rows.count() == ROWS


@pytest.mark.parametrize("plain", [False, True], ids=["vectors", "mapInArrow"])
@pytest.mark.usefixtures("table", "small_broadcasts")
def test_a_merge_does_not_send_the_whole_table_to_every_task(spark, root, plain, monkeypatch):
    if plain:  # as over Connect
        monkeypatch.setattr(frames, "relation", lambda *_, **__: None)
    source = spark.range(ROWS // 2, ROWS * 2).selectExpr("id", "0L AS k", "'x' AS word")
    plan = prepare(
        table_of({"root": root, "table": "shop.t"}), source.schema, WriteOptions(mode="append")
    )
    changes, _ = merge_changes(source, plan, Merge(same_keys(["id"]), [UPDATE], [INSERT], []))
    text = changes._jdf.queryExecution().executedPlan().toString()
    assert "SortMergeJoin" in text
    assert "Broadcast" not in text


@pytest.mark.usefixtures("table", "small_broadcasts")
def test_a_merge_reads_no_column_that_it_replaces(spark, root):
    ref = table_of({"root": root, "table": "shop.t"})
    source = spark.range(10).selectExpr("id", "0L AS k", "'x' AS word")
    for given, read in ((source, "id, _rowaddr"), (source.drop("k"), "id, k, _rowaddr")):
        plan = prepare(ref, given.schema, WriteOptions(mode="append"))
        changes, _ = merge_changes(given, plan, Merge(same_keys(["id"]), [UPDATE], [INSERT], []))
        text = changes._jdf.queryExecution().executedPlan().toString()
        assert re.findall(r"columns \[([^\]]*)\]", text) == [read]


@pytest.mark.usefixtures("table", "small_broadcasts")
def test_a_large_merge_changes_every_row_it_should(spark, root):
    source = spark.range(ROWS // 2, ROWS * 2).selectExpr("id", "id + 1 AS k", "'x' AS word")
    done = lakeroot.spark.merge(source, "shop.t", root=root, on="id", strategy="spark")
    assert (done.updated, done.inserted, done.deleted) == (ROWS // 2, ROWS, 0)
    rows = lakeroot.spark.read(spark, "shop.t", root=root)
    assert rows.selectExpr("count(*)", "count(DISTINCT id)", "sum(k - id)").first() == (
        ROWS * 2,
        ROWS * 2,
        ROWS * 3 // 2,
    )
