"""Scans of the SQL catalog as batches of vectors: the same values as rows, of every type."""

import datetime as dt
import decimal
import itertools

import lance
import pyarrow as pa
import pytest
from pyspark.sql.classic.dataframe import DataFrame

import lakeroot.spark
from lakeroot.spark.spark_sql.few_rows import FewRows
from tests.spark.conftest import put

_numbers = itertools.count()
_TIMES = [-1, None, 1_772_240_523_000_000]  # microseconds around 1970
_WIDE = [decimal.Decimal("-12345678901234567890123456789.123"), None, decimal.Decimal("1.500")]
_NARROW = [decimal.Decimal("-99999999999999.99"), decimal.Decimal("0.01"), None]

EVERYTHING = pa.table(
    {
        "id": pa.array([0, 1, 2], pa.int64()),
        "flag": pa.array([True, None, False]),
        "tiny": pa.array([-128, 127, None], pa.int8()),
        "small": pa.array([None, -32768, 32767], pa.int16()),
        "int": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
        "unsigned": pa.array([0, None, 2**64 - 1], pa.uint64()),
        "float": pa.array([1.5, None, float("-inf")], pa.float32()),
        "double": pa.array([None, -0.0, 1e308], pa.float64()),
        "narrow": pa.array(_NARROW, pa.decimal128(16, 2)),
        "wide": pa.array(_WIDE, pa.decimal128(38, 3)),
        "text": pa.array(["", None, "blåbær 🫐"]),
        "large": pa.array(["a", "bb", None], pa.large_string()),
        "bytes": pa.array([b"\0\xff", b"", None]),
        "day": pa.array([dt.date(1600, 1, 1), None, dt.date(2026, 1, 31)]),
        "zoned": pa.array(_TIMES, pa.timestamp("us", "UTC")),
        "plain": pa.array(_TIMES, pa.timestamp("us")),
        "vector": pa.array([[1.0, 2.0], [3.0, 4.0], [-0.5, 0.5]], pa.list_(pa.float32(), 2)),
        "words": pa.array([["a", None], [], None], pa.list_(pa.string())),
        "deep": pa.array([[[1], []], None, [[2, 3]]], pa.list_(pa.list_(pa.int64()))),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
        "structs": pa.array([[{"a": 1}], [], None]),
    }
)


@pytest.fixture
def names(spark, root, catalog):
    """The same catalog twice: once with batches of vectors, once with rows."""
    number = next(_numbers)
    lakeroot.spark.use_catalog(spark, f"vectors{number}", root=root)
    lakeroot.spark.use_catalog(spark, f"rows{number}", root=root, columnar=False)
    return f"vectors{number}", f"rows{number}"


def physical(spark, text):
    frame = spark.sql(text)
    return frame.collect(), frame._jdf.queryExecution().executedPlan().toString()


def test_vectors_and_rows_give_the_same_values_of_every_type(spark, catalog, names):
    put(catalog, "shop.t", EVERYTHING, max_rows_per_file=2)
    vectors, rows = (physical(spark, f"SELECT * FROM {name}.shop.t ORDER BY id") for name in names)
    assert "ColumnarToRow" in vectors[1]
    assert "ColumnarToRow" not in rows[1]
    assert vectors[0] == rows[0]
    assert [row.text for row in vectors[0]] == ["", None, "blåbær 🫐"]
    assert [row.narrow for row in vectors[0]] == _NARROW
    assert [row.wide for row in vectors[0]] == _WIDE
    assert [row.deep for row in vectors[0]] == [[[1], []], None, [[2, 3]]]


def test_a_vector_with_a_null_inside_is_read_as_it_is(spark, root, catalog, names):
    """Another writer may leave one; here it would be refused."""
    values = [[1.0, None], None, [None, 4.0]]
    columns = {
        kind: pa.array(values, pa.list_(getattr(pa, kind)(), 2)) for kind in ("float32", "float64")
    }
    columns["inside"] = pa.array([{"v": each} for each in values])
    location = put(catalog, "shop.holes", pa.table({"id": [0, 1, 2], **columns}))
    lance.dataset(location).create_scalar_index("id", "BTREE")
    expected = [(number, each, each, (each,)) for number, each in enumerate(values)]
    for name in names:
        rows, plan = physical(spark, f"SELECT * FROM {name}.shop.holes ORDER BY id")
        assert rows == expected
        few, plan = physical(spark, f"SELECT * FROM {name}.shop.holes WHERE id >= 0 AND id < 9")
        assert "LocalTableScan" in plan
        assert sorted(few) == expected
    found = lakeroot.spark.read(spark, "shop.holes", root=root, filter="id = 0")
    assert found.collect() == DataFrame.collect(found) == expected[:1]


def test_few_rows_are_those_that_spark_would_collect(spark, root, catalog):
    location = put(catalog, "shop.t", EVERYTHING)
    lance.dataset(location).create_scalar_index("id", "BTREE")
    for columns in (None, *([name] for name in EVERYTHING.schema.names)):
        rows = lakeroot.spark.read(spark, "shop.t", root=root, filter="id >= 1", columns=columns)
        assert isinstance(rows, FewRows)
        assert rows.columns == (columns or EVERYTHING.schema.names)
        found, through_spark = rows.collect(), DataFrame.collect(rows)
        assert found == through_spark
        assert repr(found) == repr(through_spark)
        assert rows.schema == DataFrame(rows._jdf, spark).schema
        assert rows.toArrow().num_rows == rows.count() == 2


def test_values_outlive_the_batch_they_came_in(spark, catalog, names):
    # Small batches: the memory of each is used again while Spark still holds groups and a sort.
    count = 4000
    data = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "word": [f"word {number % 97}" for number in range(count)],
            "maybe": [None if number % 3 else number for number in range(count)],
        }
    )
    put(catalog, "shop.t", data, max_rows_per_file=1500)
    answers = [
        (
            spark.sql(
                f"SELECT word, count(*) n, sum(id) s, max(word) m, count(maybe) c, "
                f"collect_list(word)[0] f FROM {name}.shop.t WITH (batchSize = 64) "
                "GROUP BY word ORDER BY word"
            ).collect(),
            spark.sql(
                f"SELECT word, id FROM {name}.shop.t WITH (batchSize = 64) ORDER BY word DESC, id"
            ).collect(),
        )
        for name in names
    ]
    assert answers[0] == answers[1]
    assert sum(row.n for row in answers[0][0]) == count
    assert all(row.m == row.f == row.word for row in answers[0][0])


def test_an_error_in_a_task_reaches_the_driver_in_its_own_words(spark, catalog, names, tmp_path):
    location = put(catalog, "shop.t", EVERYTHING.select(["id", "text"]))
    spark.sql(f"SELECT sum(id) FROM {names[0]}.shop.t").collect()
    for file in (tmp_path / location).glob("data/*.lance"):
        file.unlink()
    with pytest.raises(Exception, match=r"the file .*\.lance is missing"):
        spark.sql(f"SELECT max(text) FROM {names[0]}.shop.t").collect()


def explained(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_spark_prunes_filters_and_counts_what_a_function_reads(spark, root, catalog):
    put(catalog, "shop.t", EVERYTHING.select(["id", "text", "double"]))
    frame = lakeroot.spark.read(spark, "shop.t", root=root)
    plan = explained(frame.where("id = 1 OR text = ''").select("double"))
    assert "columns [double], filter [" in plan
    assert "LocalTableScan" in explained(frame.where("id > 0").groupBy().count())
    assert frame.where("id > 0").count() == 2
    narrowed = lakeroot.spark.read(spark, "shop.t", root=root, filter="id > 0", columns=["text"])
    assert narrowed.count() == 2
    assert [row.text for row in narrowed.where("text IS NOT NULL").collect()] == ["blåbær 🫐"]


def test_a_frame_keeps_the_version_it_was_made_of(spark, root, catalog):
    put(catalog, "shop.t", EVERYTHING.select(["id"]))
    frame = lakeroot.spark.read(spark, "shop.t", root=root)
    lakeroot.spark.delete(spark, "shop.t", root=root, where="id = 1")
    assert frame.count() == 3
    assert sorted(row.id for row in frame.collect()) == [0, 1, 2]


def test_few_rows_that_an_index_finds_need_no_job(spark, root, catalog, names):
    put(catalog, "shop.t", EVERYTHING, max_rows_per_file=2)
    lakeroot.spark.index(spark, "shop.t", root=root, column="id", kind="BTREE")
    name = names[0]
    found, plan = physical(spark, f"SELECT * FROM {name}.shop.t WHERE id = 2")
    assert "LocalTableScan" in plan
    assert found == spark.sql(f"SELECT * FROM {name}.shop.t WHERE id + 0 = 2").collect()
    by_function = lakeroot.spark.read(spark, "shop.t", root=root).where("id = 2")
    assert by_function.collect() == found
    nothing, plan = physical(spark, f"SELECT text FROM {name}.shop.t WHERE id = 77")
    assert nothing == []
    some, plan = physical(spark, f"SELECT id FROM {name}.shop.t WHERE id >= 1 AND text = ''")
    assert some == []
    assert "LocalTableScan" not in plan


def test_what_no_index_knows_is_read_by_tasks_unless_it_is_little(spark, root, catalog):
    count = 300_000
    data = pa.table({"word": [f"w{number}" for number in range(count)], "near": range(count)})
    location = put(catalog, "shop.words", data)
    lance.dataset(location).create_scalar_index("word", "BTREE")
    lance.dataset(location).create_scalar_index("near", "ZONEMAP")

    def looked_up(where):
        rows = lakeroot.spark.read(spark, "shop.words", root=root).where(where)
        assert rows.select("near").collect() == [(5,)]
        return "LocalTableScan" in explained(rows)

    assert looked_up("word = 'w5'")
    # An index of zones may know as little as that the value can be anywhere.
    assert not looked_up("near = 5")
    little = pa.table({"word": ["x1"], "near": [-1]})
    lance.write_dataset(little, location, mode="append")
    assert looked_up("word = 'w5'")
    much = pa.table({"word": [f"x{number}" for number in range(count)], "near": [-1] * count})
    lance.write_dataset(much, location, mode="append")
    assert not looked_up("word = 'w5'")


def test_a_condition_comes_after_a_limit_or_a_search(spark, root, catalog, names):
    put(catalog, "shop.t", EVERYTHING.select(["id", "vector"]))
    query = f"SELECT id FROM {names[0]}.shop.t WITH (%s) WHERE id > 0"
    assert spark.sql(query % "limit = 1").collect() == []
    assert spark.sql(query % "vector = '[1, 2]', k = 1").collect() == []
    assert lakeroot.spark.read(spark, "shop.t", root=root, limit=1).where("id > 0").count() == 0
    nearest = lakeroot.spark.read(spark, "shop.t", root=root, vector=[1.0, 2.0], k=2)
    assert [row.id for row in nearest.where("_distance > 0").collect()] == [2]
