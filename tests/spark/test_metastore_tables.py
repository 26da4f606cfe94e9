"""Tables of a metastore changed and read with Spark, compared with one machine doing the same."""

from typing import Any

import pyarrow as pa
import pytest

from lakeroot.metastore import Metastore, Schema, schema_of
from lakeroot.metastore.data import TableWriter, read_rows
from lakeroot.metastore.schemes import PartitionKey, PartitionScheme, SortKey, SortScheme, Transform
from lakeroot.metastore.states import SortOrder
from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    TableColumnNotFoundError,
    TableSchemaValidationError,
)
from lakeroot.spark import metastore as on_spark
from lakeroot.spark.metastore import tasks
from lakeroot.spark.short_frames import brought
from tests.spark.conftest import fails_last

ARROW = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.int64()), ("w", pa.string())])
KEYED = schema_of(ARROW, merge_keys=["a", "b"])
PLAIN = schema_of(ARROW)
NO_MERGE = {"read_optimization_level": "none"}
BY_B = PartitionScheme((PartitionKey(("b",), Transform()),), "by b", "by-b")
COLUMNS = "a long, b string, v long, w string"


@pytest.fixture
def store(root: str) -> Metastore:
    return Metastore.open(root)


def table_in(store: Metastore, schema: Schema, name: str, **options: Any) -> None:
    with store.transaction() as txn:
        if txn.find_namespace("n") is None:
            txn.create_namespace("n")
        txn.create_table("n", name, schema=schema, **options)


def alone(store: Metastore, verb: str, rows: Any, **named: Any) -> None:
    with store.transaction() as txn:
        getattr(TableWriter(txn, "n", "alone"), verb)(rows, **named)


def ordered(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = [tuple(row.get(name) for name in ARROW.names) for row in rows]
    return sorted(found, key=lambda row: tuple((value is not None, value) for value in row))


def of(store: Metastore, name: str) -> list[tuple[Any, ...]]:
    return ordered(read_rows(store.view(), "n", name).to_pylist())


def spread(spark, root, name="t", **options):
    return ordered(
        [row.asDict() for row in on_spark.read(spark, f"n.{name}", root=root, **options).collect()]
    )


def rows_of(numbers, version, key="b"):
    return [
        {"a": n, "b": f"{key}{n % 3}", "v": version, "w": None if n % 4 == 0 else f"w{n}"}
        for n in numbers
    ]


CHANGES = [
    ("upsert", rows_of(range(30), 1), ["a", "b", "v", "w"], {}),
    ("upsert", rows_of(range(20, 40), 2), ["a", "b", "v", "w"], {}),
    ("delete", rows_of(range(0, 40, 5), 0), ["a", "b"], {}),
    ("upsert", rows_of(range(4, 12), 3), ["a", "b", "v"], {}),
    ("delete", [{"v": 2}], ["v"], {"on": ["v"]}),
    ("upsert", rows_of(range(6), 4), ["a", "b", "v", "w"], {}),
]


@pytest.mark.parametrize(
    "properties",
    [NO_MERGE, {}, {"records_per_compacted_file": 4}],
    ids=["merged on read", "merged on write", "in small files"],
)
@pytest.mark.parametrize("scheme", [None, BY_B], ids=["whole", "partitioned"])
def test_changes_leave_the_rows_that_one_machine_leaves(spark, root, store, scheme, properties):
    options = {"properties": properties} | ({} if scheme is None else {"partition_scheme": scheme})
    for name in ("t", "alone"):
        table_in(store, KEYED, name, **options)
    for verb, rows, names, named in CHANGES:
        given = [{name: row[name] for name in names} for row in rows]
        data = pa.Table.from_pylist(given, pa.schema([ARROW.field(name) for name in names]))
        alone(store, verb, data, **named)
        frame = spark.createDataFrame(data).repartition(2)
        getattr(on_spark, verb)(frame, "n.t", root=root, **named)
        assert of(Metastore.open(root), "t") == of(Metastore.open(root), "alone")
    assert spread(spark, root) == of(Metastore.open(root), "alone")
    assert len(spread(spark, root)) == 19
    narrow = on_spark.read(spark, "n.t", root=root, columns=["v"]).groupBy().sum("v").first()[0]
    assert narrow == sum(row[2] for row in of(Metastore.open(root), "alone"))
    on_spark.compact(spark, "n.t", root=root)
    assert spread(spark, root) == of(Metastore.open(root), "alone")


def test_a_delete_copies_the_files_with_its_rows_alone(spark, root, store):
    table_in(store, KEYED, "t", properties={"records_per_compacted_file": 10})
    alone_in = pa.Table.from_pylist(rows_of(range(40), 1), ARROW)
    with store.transaction() as txn:
        TableWriter(txn, "n", "t").upsert(alone_in)
    before = files_of(store)
    # Keys that Spark holds in a plan come to the driver; those that it computes stay in tasks.
    short, long = spark.range(12, 14).toDF("a"), spark.range(33, 34).toDF("a").repartition(2)
    assert number_brought(short) == 2
    assert number_brought(long) is None
    told = [on_spark.delete(frame, "n.t", root=root, on="a") for frame in (short, long)]
    after = files_of(store)
    assert [(one.rows, one.partitions, one.files) for one in told] == [(2, 1, 1), (1, 1, 1)]
    assert (after[0], after[2]) == (before[0], before[2])
    assert not {before[1], before[3]} & set(after)
    assert [row[0] for row in spread(spark, root)] == [
        n for n in range(40) if n not in (12, 13, 33)
    ]


def files_of(store: Metastore) -> list[str]:
    view = store.view()
    (partition,) = view.partitions(view.stream("n", "t"))
    manifests = [delta.manifest for delta in view.deltas(partition)]
    return [entry.url for manifest in manifests if manifest for entry in manifest.entries]


def number_brought(frame: Any) -> int | None:
    rows = brought(frame)
    return None if rows is None else int(rows.num_rows)


def test_a_delete_leaves_the_types_of_columns_as_they_are(spark, root, store):
    table_in(store, PLAIN, "t")
    with store.transaction() as txn:
        TableWriter(txn, "n", "t").append(pa.Table.from_pylist(rows_of(range(4), 1), ARROW))
    frames = [
        spark.createDataFrame([(1.0,), (1.5,), (None,)], "a double"),
        spark.range(2, 3).selectExpr("id + 0.5D AS a").repartition(2),
    ]
    for frame in frames:
        on_spark.delete(frame, "n.t", root=root, on="a")
    table = store.view().table_version("n", "t")
    assert table.schema is not None
    assert table.schema.arrow.field("a").type == pa.int64()
    assert [row[0] for row in spread(spark, root)] == [0, 2, 3]


def test_only_rows_that_are_sure_to_be_few_come_to_the_driver(spark):
    numbers = spark.range(100)
    assert number_brought(numbers.where("id < 10").selectExpr("id", "id * 2 AS n")) == 10
    values = spark.sql("SELECT * FROM VALUES (1, true), (2, null) AS t(a, b)")
    assert number_brought(values) == 2
    for many in (
        numbers.selectExpr("repeat('x', 1000000) AS text"),
        numbers.selectExpr("explode(sequence(1, 1000000)) AS n"),
        numbers.mapInArrow(lambda batches: batches, "id long"),
        spark.range(1_000_000),
        numbers.crossJoin(numbers.toDF("other")),
    ):
        assert number_brought(many) is None


def test_rows_are_appended_sorted_and_replaced(spark, root, store):
    sort = SortScheme((SortKey(("v",), SortOrder.DESCENDING),), "by v", "by-v")
    table_in(store, PLAIN, "t", partition_scheme=BY_B, sort_scheme=sort)
    frame = spark.createDataFrame([tuple(row.values()) for row in rows_of(range(50), 1)], COLUMNS)
    assert on_spark.append(frame, "n.t", root=root).deltas == 3
    on_spark.add(frame.limit(5), "n.t", root=root)
    assert len(spread(spark, root)) == 55
    kept = spread(spark, root, keep=lambda values: values == ("b1",))
    assert {row[1] for row in kept} == {"b1"}
    before = Metastore.open(root).view()
    on_spark.replace(frame.where("a < 7").select("a", "b", "v"), "n.t", root=root)
    assert spread(spark, root) == ordered([{**r, "w": None} for r in rows_of(range(7), 1)])
    assert len(read_rows(before, "n", "t").to_pylist()) == 55


def test_a_new_column_is_taken_in_and_a_wrong_one_refused(spark, root, store):
    table_in(store, PLAIN, "t")
    wide = spark.createDataFrame([(1, "b", 1, "w", 2.5)], COLUMNS + ", x double")
    on_spark.append(wide, "n.t", root=root)
    assert on_spark.read(spark, "n.t", root=root).first().x == 2.5
    with pytest.raises(TableSchemaValidationError):
        on_spark.append(spark.createDataFrame([("one",)], "a string"), "n.t", root=root)
    with pytest.raises(InvalidInputError, match="merge keys"):
        on_spark.upsert(wide, "n.t", root=root)
    with pytest.raises(TableColumnNotFoundError, match="'x'"):
        on_spark.read(spark, "n.t", root=root, columns=["xx"])
    with pytest.raises(InvalidInputError, match=r"namespace\.table"):
        on_spark.read(spark, "t", root=root)


def test_an_option_that_there_is_not_is_refused_with_the_nearest(spark, root):
    frame = spark.range(1)
    for verb, given, wrong, meant in (
        ("read", spark, "colums", "columns"),
        ("read", spark, "asOf", "as_of"),
        ("append", frame, "mesage", "message"),
        ("add", frame, "storageOptions", "storage_options"),
        ("upsert", frame, "rot", "root"),
        ("delete", frame, "onn", "on"),
        ("replace", frame, "storage", "storage_options"),
        ("compact", spark, "messages", "message"),
    ):
        where = {} if meant == "root" else {"root": root}
        with pytest.raises(InvalidInputError, match=f"no option {wrong!r}.*Did you mean '{meant}'"):
            getattr(on_spark, verb)(given, "n.t", **where, **{wrong: "x"})
    for verb, given in (("read", spark), ("append", frame)):
        with pytest.raises(InvalidInputError, match="Set `root`"):
            getattr(on_spark, verb)(given, "n.t")


def test_a_failed_task_changes_nothing_and_vacuum_finds_its_files(spark, root, store):
    table_in(store, PLAIN, "t")
    frame = spark.range(0, 8, 1, 2).selectExpr("id AS a", "'b' AS b", "id AS v", "'w' AS w")
    with pytest.raises(LakerootError, match="bad row"):
        on_spark.append(fails_last(frame, f"{root}/data", "**/*.pq"), "n.t", root=root)
    assert spread(spark, root) == []
    Metastore.open(root).vacuum(retention_ms=0)
    assert [info.path for info in store.objects.list("data/")] == []


@pytest.mark.parametrize("limit", ["ROWS_AT_ONCE", "BYTES_AT_ONCE"])
def test_a_task_holds_so_many_rows_or_bytes_at_once_and_no_more(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    batch = pa.record_batch({"body": [b"x" * 100] * 10})
    monkeypatch.setattr(tasks, limit, 3 * (10 if limit == "ROWS_AT_ONCE" else batch.nbytes))

    found = [table.num_rows for table in tasks._gathered([batch] * 7 + [batch.slice(0, 0)])]

    assert found == [30, 30, 10]
