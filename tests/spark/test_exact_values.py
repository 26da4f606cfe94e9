"""Values that Spark cannot hold stay exactly what they are in rows that a job changes."""

import datetime as dt
from typing import Any

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError
from tests.spark.conftest import put

NANOS = pa.timestamp("ns")
ROWS = 40


def exact_rows() -> pa.Table:
    """Rows of which no column but the first two comes back from Spark as it went."""
    when = [None if i % 7 == 3 else 1_000_000_000 * i + 123_456_789 for i in range(ROWS)]
    inside = pa.struct([("n", NANOS), ("u", pa.uint32())])
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "x": pa.array([0] * ROWS, pa.int32()),
            "ns": pa.array(when, NANOS),
            "zoned": pa.array(when, pa.timestamp("ns", "Europe/Oslo")),
            "inside": pa.array(
                [None if i % 5 == 1 else {"n": each, "u": i} for i, each in enumerate(when)], inside
            ),
            "many": pa.array([[each] * (i % 3) for i, each in enumerate(when)], pa.list_(NANOS)),
            "pair": pa.array([[i, i + 1] for i in range(ROWS)], pa.list_(NANOS, 2)),
            "time": pa.array([i * 1_000_001 for i in range(ROWS)], pa.time64("us")),
            "short": pa.array(list(range(ROWS)), pa.time32("s")),
        }
    )


@pytest.fixture
def place(catalog):
    """A table of several fragments, with deleted rows before and between the others."""
    location = put(catalog, "shop.t", exact_rows(), max_rows_per_file=13)
    lance.dataset(location).delete("id IN (0, 5, 14, 39)")
    return location


def left(location: str) -> pa.Table:
    return lance.dataset(location).to_table().sort_by("id").combine_chunks()


def same(one: pa.Table, other: pa.Table) -> bool:
    return bool(one.schema.types == other.schema.types and one.equals(other))


def update(spark, root):
    lakeroot.spark.update(spark, "shop.t", root=root, set={"x": "x + 1"}, where="id % 2 = 0")


def update_by_sql(spark, root):
    lakeroot.spark.use_catalog(spark, "exact", root=root)
    lakeroot.spark.sql(spark, "UPDATE exact.shop.t SET x = x + 1 WHERE id % 2 = 0")


def merged_by(strategy):
    def merge(spark, root):
        source = spark.range(0, ROWS, 2).selectExpr("id", "1 AS x").where("id NOT IN (0, 14)")
        given = {"on": "id", "strategy": strategy, "root": root}
        lakeroot.spark.merge(source, "shop.t", **given)

    return merge


def merge_by_sql(spark, root):
    lakeroot.spark.use_catalog(spark, "exact", root=root)
    lakeroot.spark.sql(
        spark,
        "MERGE INTO exact.shop.t t USING (SELECT id FROM range(0, 20, 2)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET x = t.x + 1"
        " WHEN NOT MATCHED BY SOURCE AND t.id % 2 = 0 THEN UPDATE SET x = 1",
    )


@pytest.mark.parametrize(
    "job", [update, update_by_sql, merged_by("auto"), merged_by("spark"), merge_by_sql]
)
def test_columns_that_a_job_does_not_set_keep_every_digit(spark, root, place, job):
    before = left(place)
    job(spark, root)
    even = pa.array([1 - i % 2 for i in before["id"].to_pylist()], pa.int32())
    assert same(left(place), before.set_column(1, "x", even))


@pytest.mark.parametrize("stable", [False, True])
def test_rows_with_stable_ids_and_rows_of_a_branch_keep_every_digit(spark, root, catalog, stable):
    location = put(catalog, "shop.t", exact_rows(), enable_stable_row_ids=stable)
    lance.dataset(location).delete("id < 3")
    branch = lance.dataset(location).create_branch("try")
    source = spark.range(3, 6).selectExpr("id", "1 AS x")
    lakeroot.spark.update(spark, "shop.t", root=root, set={"x": "1"}, where="id > 30")
    lakeroot.spark.merge(source, "shop.t", on="id", root=root, branch="try")
    expected = exact_rows().slice(3).drop_columns(["x"]).combine_chunks()
    assert same(left(location).drop_columns(["x"]), expected)
    changed = branch.checkout_version(("try", None)).to_table().sort_by("id").combine_chunks()
    assert same(changed.drop_columns(["x"]), expected)
    assert changed["x"].to_pylist()[:4] == [1, 1, 1, 0]


def test_a_merge_sets_some_rows_and_keeps_the_digits_of_others(spark, root, place):
    """One clause sets the column, another keeps it, a third inserts a row without it."""
    lakeroot.spark.use_catalog(spark, "exact", root=root)
    before = dict(zip(*left(place).select(["id", "ns"]).to_pydict().values(), strict=True))
    lakeroot.spark.sql(
        spark,
        "MERGE INTO exact.shop.t t USING (SELECT explode(array(1, 2, 4, 100)) AS id) s"
        " ON t.id = s.id"
        " WHEN MATCHED AND t.id = 1 THEN UPDATE SET ns = TIMESTAMP_NTZ '2020-01-01 00:00:00.5'"
        " WHEN MATCHED THEN UPDATE SET x = 7"
        " WHEN NOT MATCHED THEN INSERT (id, x) VALUES (s.id, 8)",
    )
    after = left(place)
    now = dict(zip(*after.select(["id", "ns"]).to_pydict().values(), strict=True))
    assert now.pop(1).isoformat() == "2020-01-01T00:00:00.500000"
    assert now.pop(100) is None
    before.pop(1)
    assert now == before
    assert after["time"].to_pylist()[-1] is None


def test_a_value_that_would_lose_its_nanoseconds_is_refused(spark, root, place):
    new = {"ns": "coalesce(ns, current_timestamp())"}
    with pytest.raises(InvalidInputError, match=r"'ns' of table .* would lose its nanoseconds"):
        lakeroot.spark.update(spark, "shop.t", root=root, set=new, dry_run=True)
    lakeroot.spark.use_catalog(spark, "exact", root=root)
    with pytest.raises(InvalidInputError, match=r"'ns' of table .* would lose its nanoseconds"):
        lakeroot.spark.sql(
            spark,
            "MERGE INTO exact.shop.t t USING (SELECT 1 AS id) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET ns = t.zoned",
        )
    assert lance.dataset(place).version == 2


def test_a_column_with_nanoseconds_is_set_to_what_does_not_come_of_one(spark, root, place):
    new = {"ns": "timestamp_ntz '2020-01-01 00:00:00' + make_interval(0, 0, 0, id)"}
    lakeroot.spark.update(spark, "shop.t", root=root, set=new, where="ns IS NULL")
    assert left(place)["ns"].null_count == 0


def test_nanoseconds_are_cut_off_where_that_is_allowed(spark, root, place):
    cut: dict[str, Any] = {"set": {"ns": "coalesce(ns, ns)"}, "truncate_nanos": True}
    lakeroot.spark.update(spark, "shop.t", root=root, **cut)
    assert {n % 1000 for n in left(place)["ns"].cast(pa.int64()).drop_null().to_pylist()} == {0}


def test_keys_with_nanoseconds_are_not_joined_by_spark(spark, root, place):
    source = spark.sql("SELECT TIMESTAMP_NTZ '1970-01-01 00:00:02.123456' AS ns, 7 AS x")
    with pytest.raises(InvalidInputError, match="by the column 'ns'"):
        lakeroot.spark.merge(source, "shop.t", on="ns", root=root)
    assert lance.dataset(place).version == 2


def test_a_merge_that_sets_times_of_day_says_what_spark_needs(spark, root, place):
    source = spark.sql("SELECT 2L AS id, TIME '12:00:00' AS time")
    with pytest.raises(InvalidInputError, match=r"spark\.sql\.timeType"):
        lakeroot.spark.merge(source, "shop.t", on="id", root=root)
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        lakeroot.spark.merge(source, "shop.t", on="id", root=root)
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")
    assert left(place)["time"].to_pylist()[1] == dt.time(12)
