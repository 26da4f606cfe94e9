"""Rows are chosen by their times as the table has them: all nanoseconds, or a clear refusal."""

import itertools

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError
from tests.spark.conftest import put

_names = (f"moments{number}" for number in itertools.count())
NANOS = pa.timestamp("ns")
# 2020-09-13 12:26:40.123456, and no nanosecond more.
WHOLE = 1_600_000_000_123_456_000
TIMES = [WHOLE, WHOLE + 789, WHOLE + 1000, None, 0]
WHEN = "TIMESTAMP_NTZ '2020-09-13 12:26:40.123456'"

# Conditions that Lance evaluates, and the rows for which they hold.
EXACT = [
    (f"ns = {WHEN}", [0]),
    ("ns = '2020-09-13 12:26:40.123456'", [0]),
    ("zoned = TIMESTAMP '2020-09-13 12:26:40.123456Z'", [0]),
    (f"inside.n = {WHEN}", [0]),
    (f"ns > {WHEN}", [1, 2]),
    (f"ns <= {WHEN}", [0, 4]),
    (f"ns <> {WHEN} AND id < 4", [1, 2]),
    (f"ns IS NULL OR ns IN ({WHEN}, TIMESTAMP_NTZ '1970-01-01 00:00:00')", [0, 3, 4]),
    ("CAST(ns AS DATE) = DATE '2020-09-13'", [0, 1, 2]),
    # Years that no column of nanoseconds has.
    ("ns < '9999-12-31'", [0, 1, 2, 4]),
    ("NOT (zoned > TIMESTAMP '0001-01-01 00:00:00Z') OR ns IS NULL", [3]),
]
# Conditions for which Spark would have to see the column.
SEEN = ["date_trunc('MINUTE', ns) < current_timestamp()", "second(inside.n) = 40", "ns = zoned"]


def moments() -> pa.Table:
    inside = pa.struct([("n", NANOS), ("u", pa.int32())])
    return pa.table(
        {
            "id": pa.array(range(5), pa.int64()),
            "x": pa.array([0] * 5, pa.int32()),
            "ns": pa.array(TIMES, NANOS),
            "zoned": pa.array(TIMES, pa.timestamp("ns", "Europe/Oslo")),
            "inside": pa.array([{"n": n, "u": i} for i, n in enumerate(TIMES)], inside),
        }
    )


@pytest.fixture
def place(catalog):
    return put(catalog, "shop.t", moments(), max_rows_per_file=2)


@pytest.fixture
def lake(spark, root):
    name = next(_names)
    lakeroot.spark.use_catalog(spark, name, root=root)
    return name


def rows(location: str, where: str = "true") -> list[int]:
    return sorted(lance.dataset(location).to_table(["id"], filter=where)["id"].to_pylist())


@pytest.mark.parametrize(("condition", "chosen"), EXACT)
def test_every_way_of_changing_rows_compares_all_nanoseconds(
    spark, root, lake, place, condition, chosen
):
    found = spark.sql(f"SELECT id FROM {lake}.shop.t WHERE {condition}").collect()
    assert sorted(row.id for row in found) == chosen
    lakeroot.spark.update(spark, "shop.t", root=root, set={"x": "1"}, where=condition)
    assert rows(place, "x = 1") == chosen
    rest = [each for each in range(5) if each not in chosen]
    statements = (lambda text: lakeroot.spark.sql(spark, text), spark.sql)
    for run in statements:
        run(f"DELETE FROM {lake}.shop.t WHERE {condition}")
        assert rows(place) == rest
        lance.dataset(place, version=1).restore()


@pytest.mark.parametrize("condition", SEEN)
def test_a_condition_that_needs_the_column_in_spark_is_refused(spark, root, lake, place, condition):
    with pytest.raises(InvalidInputError, match="with the nanoseconds of column"):
        lakeroot.spark.update(spark, "shop.t", root=root, set={"x": "1"}, where=condition)
    with pytest.raises(InvalidInputError, match="with the nanoseconds of column"):
        lakeroot.spark.update(
            spark, "shop.t", root=root, set={"x": "1"}, where=condition, dry_run=True
        )
    with pytest.raises(InvalidInputError, match=r"WITH \(truncateNanos = true\)"):
        lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t WHERE {condition}")
    with pytest.raises(Exception, match=r"cannot translate|lakeroot\.spark\.sql"):
        spark.sql(f"DELETE FROM {lake}.shop.t WHERE {condition}")
    assert lance.dataset(place).version == 1


def test_a_value_computed_of_nanoseconds_is_refused_unless_they_may_be_cut(spark, lake, place):
    with pytest.raises(InvalidInputError, match="with the nanoseconds of column 'ns'"):
        lakeroot.spark.sql(spark, f"UPDATE {lake}.shop.t SET x = year(ns)")
    cut = f"UPDATE {lake}.shop.t WITH (truncateNanos = true) AS o SET o.x = year(o.ns)"
    lakeroot.spark.sql(spark, cut)
    assert rows(place, "x = 2020") == [0, 1, 2]


def merge(lake: str, more: str = "", *, on: str = "t.id = s.id", then: str = "") -> str:
    return (
        f"MERGE INTO {lake}.shop.t {more} t USING"
        f" (SELECT id, timestampadd(MICROSECOND, greatest(id, 1) - 1, {WHEN}) AS at"
        " FROM range(4)) s"
        f" ON {on} WHEN MATCHED {then} THEN DELETE"
    )


def test_a_merge_compares_all_nanoseconds_or_is_refused(spark, lake, place):
    for bad in (merge(lake, on="t.ns = s.at"), merge(lake, then="AND minute(t.ns) = 26")):
        with pytest.raises(InvalidInputError, match="with the nanoseconds of column 'ns'"):
            lakeroot.spark.sql(spark, bad)
    assert lance.dataset(place).version == 1
    lakeroot.spark.sql(spark, merge(lake, on=f"t.id = s.id AND t.ns = {WHEN}"))
    assert rows(place) == [1, 2, 3, 4]


def test_a_statement_that_may_cut_nanoseconds_compares_without_them(spark, lake, place):
    cut = "WITH (truncateNanos = true)"
    lakeroot.spark.sql(spark, merge(lake, cut, on="t.id = s.id AND t.ns = s.at"))
    assert rows(place) == [3, 4]
    lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t {cut} WHERE year(ns) = 1970")
    assert rows(place) == [3]
    with pytest.raises(InvalidInputError, match="no option 'version'"):
        lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t WITH (version = 1) WHERE id = 3")


def test_a_merge_takes_rows_from_a_table_whose_nanoseconds_may_be_cut(spark, lake, place):
    lakeroot.spark.sql(
        spark,
        f"MERGE INTO {lake}.shop.t USING {lake}.shop.t WITH (truncateNanos = true) AS s"
        " ON t.id = s.id AND minute(s.ns) = 26 WHEN MATCHED THEN DELETE",
    )
    assert rows(place) == [3, 4]


def test_a_dry_run_of_a_merge_counts_no_keys_that_spark_would_cut(spark, root, place):
    source = spark.sql(f"SELECT {WHEN} AS ns, 7 AS x")
    with pytest.raises(InvalidInputError, match="by the column 'ns'"):
        lakeroot.spark.merge(source, "shop.t", on="ns", root=root, dry_run=True)
