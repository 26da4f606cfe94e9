"""Rows are put into partitions, and sorted in them, as the schemes of their table say."""

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data.buckets import bucket_of, iceberg_bucket_of, murmur3
from lakeroot.metastore.schemes import (
    PartitionKey,
    PartitionScheme,
    SortKey,
    SortScheme,
    Transform,
)
from lakeroot.metastore.states import SortOrder
from lakeroot.model.errors import InvalidInputError

from .memory import MemoryObjects
from .test_rows import KEYED, PLAIN, by_key, change, row, rows, table_in

MOMENT = datetime.datetime.fromisoformat("2024-05-17T03:04:05")
HOUR_27 = datetime.datetime.fromisoformat("1970-01-02T03:30:00")
EVENING = datetime.datetime(2024, 5, 18, 1, tzinfo=datetime.UTC)
NEW_YEAR = datetime.datetime(2024, 1, 1, 1, tzinfo=datetime.UTC)
PARTITIONS: list[tuple[Any, Transform, Any, Any]] = [
    (pa.date32(), Transform(), datetime.date(2024, 5, 17), "2024-05-17"),
    (
        pa.timestamp("us"),
        Transform(),
        MOMENT,
        "2024-05-17T03:04:05.000000",
    ),
    (pa.decimal128(6, 2), Transform(), decimal.Decimal("12.30"), "12.30"),
    (pa.date32(), Transform("year"), datetime.date(2024, 5, 17), 54),
    (pa.date32(), Transform("month"), datetime.date(2024, 5, 17), 54 * 12 + 4),
    (pa.date32(), Transform("day"), datetime.date(1970, 1, 11), 10),
    (pa.timestamp("us"), Transform("hour"), HOUR_27, 27),
    (pa.int64(), Transform("truncate", {"width": 10}), -7, -10),
    (pa.string(), Transform("truncate", {"width": 3}), "abcdef", "abc"),
    (pa.int64(), Transform("bucket", {"numBuckets": 4}), 34, bucket_of(34, 4)),
    (
        pa.int64(),
        Transform("bucket", {"numBuckets": 16, "bucketingStrategy": "iceberg"}),
        34,
        iceberg_bucket_of(34, 16),
    ),
    (pa.decimal128(6, 2), Transform("truncate", {"width": 50}), decimal.Decimal("10.65"), "10.50"),
    (pa.decimal128(6, 2), Transform("truncate", {"width": 50}), decimal.Decimal("-0.01"), "-0.50"),
    (pa.timestamp("us", "America/New_York"), Transform("day"), EVENING, 19861),
    (pa.timestamp("us", "America/New_York"), Transform("hour"), EVENING, 19861 * 24 + 1),
    (pa.timestamp("us", "America/New_York"), Transform("month"), NEW_YEAR, 54 * 12),
    (pa.timestamp("us", "America/New_York"), Transform("year"), NEW_YEAR, 54),
    (pa.timestamp("us"), Transform("day"), datetime.datetime(1969, 12, 31, 23), -1),  # noqa: DTZ001
    (pa.int64(), Transform("void"), 34, None),
    (pa.string(), Transform(), None, None),
    (pa.binary(), Transform(), b"\x00\xff", b"\x00\xff"),
    (pa.bool_(), Transform(), True, True),
]


@pytest.mark.parametrize(("kind", "transform", "value", "expected"), PARTITIONS)
def test_partition_values_are_computed_stored_and_found(
    metastore: Metastore,
    another: Callable[[], Metastore],
    kind: Any,
    transform: Transform,
    value: Any,
    expected: Any,
) -> None:
    schema = schema_of(pa.schema([("p", kind), ("v", pa.int64())]))
    scheme = PartitionScheme((PartitionKey(("p",), transform),), "by p", "scheme-1")
    table_in(metastore, schema, partition_scheme=scheme)
    for number in range(2):
        change(metastore, "append", pa.table({"p": pa.array([value], kind), "v": [number]}))
    view = another().view()
    partitions = view.partitions(view.stream("n", "t"))

    assert [partition.values for partition in partitions] == [(expected,)]
    assert [partition.stream_position for partition in partitions] == [2]
    assert [one["v"] for one in rows(another())] == [0, 1]


@pytest.mark.parametrize(
    ("value", "signed_hash"),
    [
        # From the appendix of Iceberg's specification.
        (34, 2017239379),
        (decimal.Decimal("14.20"), -500754589),
        (datetime.date(2017, 11, 16), -653330422),
        (datetime.time(22, 31, 8), -662762989),
        (datetime.datetime.fromisoformat("2017-11-16T22:31:08"), -2047944441),
        (datetime.datetime.fromisoformat("2017-11-16T14:31:08-08:00"), -2047944441),
        ("iceberg", 1210000089),
        (b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_buckets_of_iceberg_are_those_of_its_specification(value: Any, signed_hash: int) -> None:
    assert iceberg_bucket_of(value, 2**31) == signed_hash & 0x7FFFFFFF


def test_murmur3_takes_any_length() -> None:
    hashes = [murmur3(b"abcde"[:length]) for length in range(6)]
    assert hashes == [0, 0x3C2569B2, 0x9BBFD75F, 0xB3DD93FA, 0x43ED676A, 0xE89B9AF6]


@pytest.mark.parametrize(
    ("kind", "transform"),
    [
        (pa.int64(), Transform("year")),
        (pa.string(), Transform("day")),
        (pa.date32(), Transform("truncate", {"width": 2})),
        (pa.int64(), Transform("truncate", {"width": 0})),
        (pa.int64(), Transform("bucket")),
        (pa.int64(), Transform("bucket", {"numBuckets": 4, "bucketingStrategy": "other"})),
        (pa.float64(), Transform("bucket", {"numBuckets": 4, "bucketingStrategy": "iceberg"})),
        (pa.int64(), Transform("strange")),
    ],
)
def test_a_transform_that_does_not_suit_its_column_is_refused(
    metastore: Metastore, kind: Any, transform: Transform
) -> None:
    scheme = PartitionScheme((PartitionKey(("p",), transform),), "by p", "scheme-1")
    table_in(metastore, schema_of(pa.schema([("p", kind)])), partition_scheme=scheme)
    value = pa.array([1], pa.int32()).cast(kind) if kind != pa.string() else pa.array(["x"])

    with pytest.raises(InvalidInputError):
        change(metastore, "append", pa.table({"p": value}))
    assert rows(metastore) == []


def test_schemes_name_columns_that_exist(metastore: Metastore) -> None:
    by_nothing = PartitionScheme((PartitionKey(("nothing",)),), "p", "p")
    with pytest.raises(InvalidInputError, match="partition by"):
        table_in(metastore, PLAIN, partition_scheme=by_nothing)
    with pytest.raises(InvalidInputError, match="sort by"):
        table_in(metastore, PLAIN, sort_scheme=SortScheme((SortKey(("nothing",)),), "s", "s"))


def test_each_partition_is_changed_on_its_own(metastore: Metastore) -> None:
    scheme = PartitionScheme((PartitionKey(("b",), Transform()),), "by b", "s")
    table_in(metastore, KEYED, partition_scheme=scheme)
    change(metastore, "upsert", [row(n, b, n) for n in range(4) for b in ("x", "y", None)])
    change(metastore, "upsert", [row(1, "x", 100)])
    change(metastore, "delete", [{"a": 3}], on=["a"])
    change(metastore, "delete", [{"a": 0, "b": "y"}])
    found = by_key(rows(metastore))

    assert len(found) == 12 - 3 - 1
    assert found[1, "x"]["v"] == 100
    assert found[1, "y"]["v"] == 1
    kept = rows(metastore, keep=lambda values: values == ("y",))
    assert {one["b"] for one in kept} == {"y"}


def test_rows_are_sorted_within_a_file(metastore: Metastore, objects: MemoryObjects) -> None:
    order = SortScheme((SortKey(("v",), SortOrder.DESCENDING), SortKey(("a",))), "by v", "ss")
    table_in(metastore, PLAIN, sort_scheme=order)
    change(metastore, "append", [row(n, "x", v) for n, v in [(3, 1), (1, 2), (2, 1), (4, None)]])

    assert [one["a"] for one in rows(metastore)] == [1, 2, 3, 4]
