"""Jobs on tables of a metastore: tried, run, run again; from Python, a shell and a pipeline."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data import TableWriter, read_rows
from lakeroot.metastore.jobs import JOB
from lakeroot.metastore.schemes import PartitionKey, PartitionScheme, Transform
from lakeroot.model.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from lakeroot.spark import metastore as on_spark

ARROW = pa.schema([("id", pa.int64()), ("city", pa.string()), ("price", pa.int64())])
COLUMNS = "id long, city string, price long"
BY_CITY = PartitionScheme((PartitionKey(("city",), Transform()),), "by city", "by-city")
ROWS = [(1, "Oslo", 10), (2, "Bern", 20), (3, "Oslo", 30)]


@pytest.fixture
def store(root: str) -> Metastore:
    """A metastore with a table of each kind, and three rows in them."""
    return made_in(root, "spec")


@pytest.fixture
def of_deltacat(root: str) -> Metastore:
    """The same in the layout that released deltacat reads."""
    return made_in(root, "deltacat-2")


def made_in(root: str, layout: str) -> Metastore:
    made = Metastore.open(root, layout=layout)
    rows = pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in ROWS], ARROW)
    with made.transaction() as txn:
        txn.create_namespace("shop")
        for name, keys, properties in (
            ("plain", (), {}),
            ("orders", ("id", "city"), {}),
            ("lazy", ("id", "city"), {"read_optimization_level": "none"}),
        ):
            schema = schema_of(ARROW, merge_keys=keys)
            options: dict[str, Any] = {"schema": schema, "properties": properties}
            txn.create_table("shop", name, partition_scheme=BY_CITY, **options)
            writer = TableWriter(txn, "shop", name)
            (writer.upsert if keys else writer.append)(rows)
    return made


def of(root: str, table: str) -> list[tuple[Any, ...]]:
    rows = read_rows(Metastore.open(root).view(), "shop", table).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def files(root: str) -> list[tuple[str, int]]:
    found = (path for path in Path(root).rglob("*") if path.is_file())
    return sorted((str(path), path.stat().st_mtime_ns) for path in found)


def deltas(store: Metastore, table: str) -> list[Any]:
    view = store.view()
    stream = view.stream("shop", table)
    return [delta for part in view.partitions(stream) for delta in view.deltas(part)]


def test_a_dry_run_counts_what_the_job_changes_and_changes_nothing(spark, root, store):
    two = spark.createDataFrame([(3, "Oslo", 33), (4, "Rome", 40)], COLUMNS)
    oslo = two.select("city").limit(1)
    calls: list[tuple[Callable[..., Any], Any, str, dict[str, Any], tuple[int, int, int]]] = [
        (on_spark.append, two, "plain", {}, (2, 2, 2)),
        (on_spark.add, two, "plain", {}, (2, 2, 2)),
        (on_spark.upsert, two, "orders", {}, (2, 2, 0)),
        (on_spark.upsert, two, "lazy", {}, (2, 2, 2)),
        (on_spark.delete, two, "lazy", {}, (2, 2, 2)),
        (on_spark.delete, oslo, "orders", {"on": ["city"]}, (1, 1, 0)),
        (on_spark.replace, two, "orders", {}, (2, 2, 2)),
    ]
    for change, frame, table, options, counts in calls:
        given: dict[str, Any] = {"root": root, **options}
        before = files(root), of(root, table)
        would = change(frame, f"shop.{table}", dry_run=True, **given)
        assert (would.rows, would.partitions, would.deltas) == counts
        assert (would.transaction, would.files, would.already_done) == (None, 0, False)
        assert (files(root), of(root, table)) == before
        done = change(frame, f"shop.{table}", **given)
        assert (done.rows, done.partitions, done.deltas) == counts
        assert done.transaction in Metastore.open(root).log.index.sequences
    assert of(root, "plain") == sorted([*ROWS, *[(3, "Oslo", 33), (4, "Rome", 40)] * 2])
    assert of(root, "lazy") == [(1, "Oslo", 10), (2, "Bern", 20)]
    assert of(root, "orders") == [(3, "Oslo", 33), (4, "Rome", 40)]


def test_a_dry_run_refuses_what_the_job_would(spark, root, store):
    wrong = spark.createDataFrame([("x", "Oslo", 1)], "id string, city string, price long")
    right = spark.createDataFrame(ROWS, COLUMNS)
    for verb, frame, table, error in (
        ("append", wrong, "shop.plain", InvalidInputError),
        ("append", right, "shop.orders", InvalidInputError),
        ("upsert", right, "shop.plain", InvalidInputError),
        ("append", right, "shop.plane", TableNotFoundError),
        ("append", right, "shoop.plain", NamespaceNotFoundError),
    ):
        messages = []
        for dry_run in (True, False):
            with pytest.raises(error) as raised:
                getattr(on_spark, verb)(frame, table, root=root, dry_run=dry_run)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


def test_a_job_that_is_run_again_does_nothing_and_says_so(spark, root, of_deltacat):
    frame = spark.createDataFrame([(4, "Rome", 40), (5, "Oslo", 50)], COLUMNS)
    for verb, table in (
        ("append", "plain"),
        ("upsert", "orders"),
        ("upsert", "lazy"),
        ("delete", "lazy"),
        ("replace", "orders"),
    ):
        change, job = getattr(on_spark, verb), f"{verb}-{table}"
        given: dict[str, Any] = {"root": root, "job_id": job}
        done = change(frame, f"shop.{table}", **given)
        assert {(delta.properties or {}).get(JOB) for delta in deltas(of_deltacat, table)} >= {job}
        left = files(root)
        again = change(frame, f"shop.{table}", **given)
        assert again.already_done
        assert (again.transaction, again.rows, again.partitions, again.files) == (
            *(done.transaction, done.rows, done.partitions, done.files),
        )
        assert change(frame, f"shop.{table}", dry_run=True, **given) == again
        kind = on_spark.RowsResult
        assert on_spark.look_first(f"shop.{table}", kind=kind, **given) == again
        assert files(root) == left
    assert len(of(root, "plain")) == 5
    # The id is of one table: under the same, another one can have a job of its own.
    other = on_spark.upsert(frame, "shop.orders", root=root, job_id="append-plain")
    assert not other.already_done


def test_a_compaction_can_be_tried_and_is_done_once(spark, root, store):
    frame = spark.createDataFrame([(1, "Oslo", 11), (9, "Oslo", 90)], COLUMNS)
    for _ in range(2):
        on_spark.upsert(frame, "shop.lazy", root=root)
    before, rows = files(root), of(root, "lazy")
    nothing: Any = None

    would = on_spark.compact(nothing, "shop.lazy", root=root, dry_run=True)
    assert files(root) == before
    done = on_spark.compact(spark, "shop.lazy", root=root, job_id="compact")
    again = on_spark.compact(nothing, "shop.lazy", root=root, job_id="compact")
    idle = on_spark.compact(nothing, "shop.lazy", root=root, job_id="another")

    assert (would.partitions, would.files_before, would.files) == (2, 4, 2)
    assert (done.partitions, done.files_before, done.files) == (2, 4, 2)
    assert (again.already_done, again.files_before, again.files) == (True, 4, 2)
    assert (idle.transaction, idle.partitions, idle.already_done) == (None, 0, False)
    assert of(root, "lazy") == rows


def test_two_attempts_at_one_job_at_the_same_moment_write_one_delta(spark, root, of_deltacat):
    frame = spark.createDataFrame([(7, "Oslo", 70)], COLUMNS)
    together, done = threading.Barrier(2), []

    def attempt() -> None:
        together.wait()
        done.append(on_spark.append(frame, "shop.plain", root=root, job_id="both"))

    racing = [threading.Thread(target=attempt) for _ in range(2)]
    for each in racing:
        each.start()
    for each in racing:
        each.join()

    assert sorted(each.already_done for each in done) == [False, True]
    assert done[0].transaction == done[1].transaction
    assert of(root, "plain") == sorted([*ROWS, (7, "Oslo", 70)])
