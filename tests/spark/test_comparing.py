"""Conditions on columns that Spark has wider types for: it finds what it would without Lance."""

import itertools
import operator
from collections.abc import Callable

import lance
import numpy as np
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.spark.spark_sql.predicates import predicate
from lakeroot.spark.types import comparable
from tests.spark.conftest import put
from tests.spark.test_columnar import explained

_numbers = itertools.count()
_HALVES = np.array([0.1, 2048, -0.0, np.nan, np.inf, 65504], np.float16)
DATA = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "u8": pa.array([0, 255, 127, None, 5, 5], pa.uint8()),
        "u16": pa.array([0, 65535, 127, None, 5, 5], pa.uint16()),
        "u32": pa.array([0, 2**32 - 1, 2**31, None, 5, 5], pa.uint32()),
        "u64": pa.array([0, 2**64 - 1, 2**63, None, 5, 5], pa.uint64()),
        "half": pa.array(_HALVES, mask=np.arange(6) == 4),
        "inside": pa.StructArray.from_arrays(
            [pa.array([0, 255, 127, None, 5, 5], pa.uint8()), pa.array(_HALVES)], ["u", "h"]
        ),
    }
)
VALUES = {
    "u8": ["-1", "0", "5", "255", "256", "300", "32767", "40000"],
    "u16": ["-1", "5", "65535", "65536", "2147483647"],
    "u32": ["-1", "5", "4294967295", "4294967296", "-9223372036854775808"],
    "u64": ["-1", "5", "18446744073709551615", "18446744073709551616", "99999999999999999999"],
    "half": ["0.1F", "0.1D", "2049F", "2048.5F", "65505F", "100000F", "-100000F", "1e-10F", "5"],
    "inside.u": ["-1", "5", "300"],
    "inside.h": ["0.1F", "2049F", "100000F"],
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": operator.eq,
    "IN": lambda time, other: time in (other, 0),
}
SHAPES = (
    *("{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} <=> {}", "NOT ({} > {})"),
    *("{} IN ({}, 127)", "{} NOT IN ({}, 127)", "{} = {} OR id = 0"),
)


@pytest.fixture(params=["plain", "indexed"])
def place(request, catalog):
    location = put(catalog, "shop.t", DATA, max_rows_per_file=4)
    if request.param == "indexed":
        for column in ("u8", "u32", "u64", "half"):
            lance.dataset(location).create_scalar_index(column, "BTREE")
    return location


@pytest.mark.parametrize("column", VALUES)
def test_a_value_that_the_column_cannot_hold_is_compared_as_spark_does(spark, root, place, column):
    lake = f"compared{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, lake, root=root)
    asked = [shape.format(column, value) for shape in SHAPES for value in VALUES[column]]
    asked += [f"{column} IS NULL", f"{column} IS NOT NULL"]
    frame = lakeroot.spark.read(spark, "shop.t", root=root)
    # The same rows without Lance, for all conditions at once.
    alone = spark.createDataFrame(frame.collect(), frame.schema)
    sums = [f"sort_array(collect_list(if({each}, id, null)))" for each in asked]
    expected = dict(zip(asked, alone.selectExpr(*sums).first(), strict=True))
    for some in (asked[start : start + 16] for start in range(0, len(asked), 16)):
        # Every condition is a scan of its own, whatever others are asked with it.
        scans = (
            f"SELECT {number} AS asked, id FROM {lake}.shop.t WHERE {condition}"
            for number, condition in enumerate(some)
        )
        rows = spark.sql(" UNION ALL ".join(scans)).collect()
        for number, condition in enumerate(some):
            found = sorted(row.id for row in rows if row.asked == number)
            assert found == expected[condition], condition


def test_a_value_that_the_column_can_hold_still_reaches_lance(spark, root, place):
    frame = lakeroot.spark.read(spark, "shop.t", root=root)
    source = spark.read.format("lakeroot").option("root", root).load("shop.t")
    for each in (frame, source):
        assert "Filter (" not in explained(each.where("u8 < 200 AND u64 IN (5, 6)"))
        assert "Filter (" in explained(each.where("u8 < 300"))
        assert sorted(row.id for row in each.where("u8 < 300").collect()) == [0, 1, 2, 4, 5]
        assert [row.id for row in each.where("half < 0.1F").orderBy("id").collect()] == [0, 2]


def test_a_lookup_of_a_key_that_the_column_cannot_hold_finds_nothing(spark, root, place):
    lake = f"compared{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, lake, root=root)
    # The second is answered as Spark has understood the first, if it can be.
    for column, value, expected in (
        ("u32", 4294967295, [1]),
        ("u32", 5000000000, []),
        ("u32", 5, [4, 5]),
        ("u32", -1, []),
        ("u8", 5, [4, 5]),
        ("u8", 300, []),
        ("u64", 5, [4, 5]),
    ):
        for _ in range(2):
            rows = spark.sql(f"SELECT id FROM {lake}.shop.t WHERE {column} = {value}").collect()
            assert sorted(row.id for row in rows) == expected, (column, value)


def test_rows_are_deleted_by_a_value_that_the_column_cannot_hold(spark, root, place):
    lake = f"compared{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, lake, root=root)
    with pytest.raises(Exception, match=r"lakeroot\.spark\.sql"):
        spark.sql(f"DELETE FROM {lake}.shop.t WHERE u8 <= 300")
    lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t WHERE u8 <= 300")
    lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t WHERE half < 0.1F")
    assert lance.dataset(place).to_table(columns=["id"])["id"].to_pylist() == [3]


def test_what_lance_compares_otherwise_is_told_by_path():
    nanos, words = pa.timestamp("ns"), pa.dictionary(pa.int8(), pa.uint16())
    inside = pa.struct([("u", pa.uint8()), ("deep", pa.struct([("t", nanos)])), ("x", pa.int8())])
    schema = pa.schema([("i", pa.int64()), ("h", pa.float16()), ("w", words), ("s", inside)])
    assert comparable(schema) == {"h": None, "w": 65535, "s.u": 255, "s.deep.t": "ns"}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("zone", [None, "Europe/Oslo"])
@pytest.mark.parametrize("year", [-5000, 1600, 1970, 2300, 9999])
def test_a_time_that_no_column_of_nanoseconds_holds_is_compared_like_any_other(
    tmp_path, year, zone, indexed
):
    kept = [0, 1, 1_600_000_000_123_456_789, None, 2**63 - 1, 1 - 2**63]
    times = pa.array(kept, pa.timestamp("ns", zone))
    dataset = lance.write_dataset(pa.table({"id": range(len(kept)), "t": times}), tmp_path / "t")
    if indexed:
        dataset.create_scalar_index("t", "BTREE")
    micros = (year - 1970) * 31_556_952_000_000
    nanos, kind = micros * 1000, "timestamp_ntz" if zone is None else "timestamp"

    def asked(name, *values):
        parts = [{"type": kind, "value": str(value)} for value in values]
        return {"name": name, "children": [{"field": ["t"]}, *parts]}

    def chosen(tree):
        where = predicate(tree, {"t": "ns"})
        return sorted(dataset.to_table(["id"], filter=where)["id"].to_pylist())

    for name, compare in _COMPARISONS.items():
        # 0 is in the list of IN beside a time that may be beyond.
        tree = asked(name, micros, 0) if name == "IN" else asked(name, micros)
        holds = [
            (False if name == "<=>" else None) if time is None else compare(time, nanos)
            for time in kept
        ]
        either = {"name": "OR", "children": [tree, asked("IS_NULL")]}
        neither = {"name": "NOT", "children": [either]}
        assert chosen(tree) == [n for n, held in enumerate(holds) if held], name
        opposite = {"name": "NOT", "children": [tree]}
        assert chosen(opposite) == [n for n, held in enumerate(holds) if held is False], name
        assert chosen(either) == [n for n, held in enumerate(holds) if held or n == 3], name
        assert chosen(neither) == [n for n, held in enumerate(holds) if not held and n != 3], name
    beyond = predicate(asked("IN", 2**62, -(2**62)), {"t": "ns"})
    assert dataset.count_rows(beyond) == dataset.count_rows(f"NOT ({beyond})") - 5 == 0


def test_of_a_column_that_lance_compares_otherwise_it_still_finds_nulls():
    def asked(name, *values):
        parts = [{"type": "smallint", "value": value} for value in values]
        return {"name": name, "children": [{"field": ["s", "a"]}, *parts]}

    for cut in (None, 5, "ns"):
        assert predicate(asked("IS_NULL"), {"s.a": cut}) == "`s`.`a` IS NULL"
    assert predicate(asked("=", "5"), {"s.a": None}) is None
    assert predicate(asked("=", "5"), {"s.a": 5}) == "`s`.`a` = 5"
    for text in ("6", "-1", None):
        assert predicate(asked("IN", "5", text), {"s.a": 5}) is None
