"""Reading a table into Spark, by function and by format."""

import datetime as dt
import decimal
import re

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from lakeroot.spark.options import ReadOptions, parse, table_of
from lakeroot.spark.planning import plan_read
from tests.spark.conftest import put

ORDERS = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "city": [("Oslo", "Bergen", "Molde", None)[i % 4] for i in range(100)],
        "price": [i * 0.5 for i in range(100)],
        "vector": pa.array([[i, i + 1.0] for i in range(100)], pa.list_(pa.float32(), 2)),
    }
)


@pytest.fixture
def orders(catalog):
    return put(catalog, "shop.orders", ORDERS, max_rows_per_file=30)


def load(spark, root, **options):
    return spark.read.format("lakeroot").options(root=root, **options).load("shop.orders")


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def test_a_table_reads_the_same_through_both_doors(spark, root, orders):
    by_function = lakeroot.spark.read(spark, "shop.orders", root=root)
    by_format = load(spark, root)
    assert by_function.schema == by_format.schema
    expected = ORDERS.sort_by("id").to_pylist()
    for frame in (by_function, by_format):
        assert [row.asDict() for row in frame.orderBy("id").collect()] == expected


def test_a_table_reads_by_location(spark, orders):
    assert lakeroot.spark.read(spark, location=orders).count() == 100
    assert spark.read.format("lakeroot").option("location", orders).load().count() == 100


def test_only_the_named_columns_are_read(spark, root, orders):
    frame = lakeroot.spark.read(spark, "shop.orders", root=root, columns=["price", "id"])
    assert frame.columns == ["price", "id"]
    assert load(spark, root, columns="price,id").columns == ["price", "id"]
    plan = plan_read(
        table_of({"root": root, "table": "shop.orders"}), parse(ReadOptions, {"columns": "id"})
    )
    assert plan.scan.arguments["columns"] == ["id"]


def test_a_filter_string_reaches_lance(spark, root, orders):
    frame = lakeroot.spark.read(spark, "shop.orders", root=root, filter="id > 90 AND city = 'Oslo'")
    assert ids(frame) == [92, 96]
    assert ids(load(spark, root, filter="id > 90 AND city = 'Oslo'")) == [92, 96]


@pytest.mark.parametrize(
    "condition",
    [
        "id = 7",
        "id <=> 7",
        "id >= 95 AND city IS NOT NULL",
        "city IS NULL AND id < 10",
        "NOT id > 3",
        "id IN (1, 5, 200)",
        "city LIKE 'Os%'",
        "city LIKE '%gen'",
        "city LIKE '%old%'",
        "price < 2.5",
        "price = 0.0",
    ],
)
def test_filters_of_spark_keep_exactly_its_rows(spark, root, orders, condition):
    plain = spark.createDataFrame(ORDERS.select(["id", "city", "price"]).to_pandas())
    plain = plain.selectExpr("id", "if(city = 'None', null, city) AS city", "price")
    assert ids(load(spark, root).where(condition)) == ids(plain.where(condition))


def test_a_pushed_filter_is_gone_from_the_plan_of_spark(spark, root, orders):
    plan = load(spark, root).where("id = 7")._jdf.queryExecution().executedPlan().toString()
    assert "BatchScan lakeroot" in plan
    assert "Filter [" not in plan
    assert "Filter (" not in plan
    assert "Filter (" in load(spark, root).where("abs(id) = 7")._jdf.queryExecution().toString()


def test_versions_tags_branches_and_moments_are_read(spark, root, orders):
    table = lance.dataset(orders)
    first = table.version
    table.tags.create("loaded", first)
    moment = dt.datetime.now(dt.UTC)
    lance.write_dataset(ORDERS.slice(0, 5), orders, mode="append")
    branch = lance.dataset(orders).create_branch("trial")
    lance.write_dataset(ORDERS.slice(0, 2), branch, mode="append")

    def count(**options):
        return lakeroot.spark.read(spark, "shop.orders", root=root, **options).count()

    assert count() == 105
    assert count(version=first) == 100
    assert count(tag="loaded") == 100
    assert count(as_of=moment) == 100
    assert count(branch="trial") == 107
    assert load(spark, root, version=str(first)).count() == 100
    assert load(spark, root, asOf=moment.isoformat()).count() == 100
    assert load(spark, root, branch="trial").count() == 107


def test_a_limit_reads_no_more_than_that(spark, root, orders):
    assert lakeroot.spark.read(spark, "shop.orders", root=root, limit=3).count() == 3
    assert load(spark, root, limit="3").count() == 3


def test_row_ids_and_addresses_come_when_asked(spark, root, orders):
    frame = lakeroot.spark.read(
        spark, "shop.orders", root=root, columns=["id"], with_row_id=True, with_row_address=True
    )
    rows = {row.id: row for row in frame.collect()}
    assert rows[31]._rowaddr == (1 << 32) | 1
    assert rows[31]._rowid == rows[31]._rowaddr


def test_the_nearest_vectors_come_with_their_distance(spark, root, orders):
    for frame in (
        lakeroot.spark.read(
            spark, "shop.orders", root=root, vector=[50, 51], k=2, filter="id < 50"
        ),
        load(spark, root, vector="[50, 51]", k="2", filter="id < 50"),
    ):
        rows = frame.orderBy("_distance").collect()
        assert [(row.id, row._distance) for row in rows] == [(49, 2.0), (48, 8.0)]


@pytest.mark.parametrize("filter_", [None, "id % 2 = 0"])
def test_a_search_by_many_tasks_finds_what_one_finds(spark, root, orders, filter_):
    options = {"vector": [50, 51], "k": 7, "filter": filter_, "columns": ["id"]}
    one = lakeroot.spark.read(spark, "shop.orders", root=root, **options)
    many = lakeroot.spark.read(spark, "shop.orders", root=root, partitions=3, **options)
    assert "MapInArrow" in many._jdf.queryExecution().executedPlan().toString()
    found = many.collect()
    assert [row._distance for row in found] == [row._distance for row in one.collect()]
    assert len({row.id for row in found}) == 7


def test_full_text_search_finds_words(spark, root, orders):
    lance.dataset(orders).create_scalar_index("city", "INVERTED")
    frame = lakeroot.spark.read(spark, "shop.orders", root=root, full_text_query="molde", limit=100)
    assert frame.where("city = 'Molde' AND _score > 0").count() == 25


def test_an_empty_table_reads_as_no_rows(spark, root, catalog):
    put(catalog, "shop.empty", ORDERS.slice(0, 0))
    assert lakeroot.spark.read(spark, "shop.empty", root=root).collect() == []
    frame = spark.read.format("lakeroot").option("root", root).load("shop.empty")
    assert frame.count() == 0


def test_every_type_spark_can_hold_arrives_unchanged(spark, root, catalog):
    data = every_type()
    put(catalog, "shop.types", data)
    for frame in (
        lakeroot.spark.read(spark, "shop.types", root=root),
        spark.read.format("lakeroot").option("root", root).load("shop.types"),
    ):
        seen = frame.orderBy("key").toArrow()
        for name in data.column_names:
            assert seen[name].to_pylist() == expected_values(data[name]), name


def expected_values(column):
    if pa.types.is_uint64(column.type):
        return [None if v is None else decimal.Decimal(v) for v in column.to_pylist()]
    if pa.types.is_date64(column.type):
        return column.cast(pa.date32()).to_pylist()
    return column.to_pylist()


def every_type():
    zoned = dt.datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=dt.UTC)
    moment = zoned.replace(tzinfo=None)
    return pa.table(
        {
            "key": pa.array([0, 1, 2], pa.int32()),
            "bool": [True, None, False],
            **{
                str(kind): pa.array([1, None, 100], kind)
                for kind in (pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint16())
            },
            "uint32": pa.array([2**32 - 1, None, 0], pa.uint32()),
            "uint64": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "half": pa.array([1.5, None, -2.0], pa.float16()),
            "float": pa.array([1.25, None, -2.0], pa.float32()),
            "text": ["é'\"", None, ""],
            "large": pa.array(["x", None, "y"], pa.large_string()),
            "bytes": pa.array([b"\0", None, b""], pa.large_binary()),
            "fixed": pa.array([b"abc", None, b"def"], pa.binary(3)),
            "day": pa.array([dt.date(1900, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
            "day64": pa.array([dt.date(1970, 1, 2), None, dt.date(2030, 1, 1)], pa.date64()),
            "time": pa.array([dt.time(1, 2, 3, 4), None, dt.time(0)], pa.time64("us")),
            "moment": pa.array([moment, None, moment], pa.timestamp("us")),
            "zoned": pa.array([zoned, None, zoned], pa.timestamp("ms", "Europe/Oslo")),
            "lapse": pa.array([dt.timedelta(days=1, seconds=2), None, None], pa.duration("ms")),
            "money": pa.array([decimal.Decimal("1.25"), None, None], pa.decimal128(38, 2)),
            "names": pa.array([["a", None], None, []], pa.list_(pa.string())),
            "vector": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2)),
            "deep": pa.array(
                [{"a": [{"b": 1}], "c": None}, None, {"a": [], "c": "x"}],
                pa.struct(
                    [("a", pa.list_(pa.struct([("b", pa.uint8())]))), ("c", pa.large_string())]
                ),
            ),
            "code": pa.array(["x", None, "x"]).dictionary_encode(),
        }
    )


def test_nanoseconds_are_refused_unless_they_may_be_cut(spark, root, catalog):
    put(catalog, "shop.nano", pa.table({"t": pa.array([1_001], pa.timestamp("ns"))}))
    with pytest.raises(InvalidInputError, match="truncateNanos"):
        lakeroot.spark.read(spark, "shop.nano", root=root)
    frame = lakeroot.spark.read(spark, "shop.nano", root=root, truncate_nanos=True)
    assert frame.first().t.isoformat() == "1970-01-01T00:00:00.000001"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"table": "shop.nothing"}, TableNotFoundError, "shop.nothing"),
        ({"columns": ["pric"]}, TableColumnNotFoundError, "'price'"),
        ({"version": 99}, TableVersionNotFoundError, "99"),
        ({"tag": "x"}, TableTagNotFoundError, "'x'"),
        ({"filter": "nothing = 1"}, InvalidInputError, "nothing"),
        ({"filtre": "id = 1"}, InvalidInputError, "'filter'"),
        ({"version": "soon"}, InvalidInputError, "a version number"),
        ({"version": 1, "tag": "x"}, InvalidInputError, "exclude"),
        ({"vector": [1, 2, 3]}, InvalidInputError, "searched"),
        ({"vector": [1, 2], "vectorColumn": "id"}, InvalidInputError, "holds no vectors"),
        ({"location": "/x"}, InvalidInputError, "exclude"),
    ],
)
def test_a_wrong_read_is_refused_before_any_job(spark, root, orders, options, error, words):
    with pytest.raises(error, match=words):
        lakeroot.spark.read(spark, **{"table": "shop.orders", "root": root, **options})


def test_a_filter_on_exact_numbers_reaches_lance(spark, root, catalog):
    amounts = [decimal.Decimal(text) for text in ("-0.05", "0.05", "0.07", "24.00", "1e20")]
    data = pa.table(
        {"id": range(5), "amount": pa.array(amounts, pa.decimal128(38, 2))},
    )
    put(catalog, "shop.money", data)
    lakeroot.spark.use_catalog(spark, "money", root=root)
    source = spark.read.format("lakeroot").option("root", root).load("shop.money")
    for condition, expected in (
        ("amount BETWEEN 0.05 AND 0.07", [1, 2]),
        ("amount < 24", [0, 1, 2]),
        ("amount IN (-0.05BD, 24BD)", [0, 3]),
        ("amount > 99999999999999999999BD", [4]),
        ("amount <> 0.05", [0, 2, 3, 4]),
    ):
        for found in (source, spark.table("money.shop.money")):
            assert sorted(row.id for row in found.where(condition).collect()) == expected
    plan = source.where("amount > 0.06")._jdf.queryExecution().executedPlan().toString()
    # No step of Spark's own filters again.
    assert re.search(r"\bFilter\b", plan) is None, plan
