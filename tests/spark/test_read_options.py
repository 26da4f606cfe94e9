"""Options of a read mean the same through every door: searches, columns, nanoseconds."""

import itertools

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError, TableColumnNotFoundError
from lakeroot.spark.options import ReadOptions, parse, table_of
from lakeroot.spark.planning import with_limit
from lakeroot.spark.spark_sql.few_rows import FewRows
from lakeroot.spark.spark_sql.sourcing import COLUMNAR
from tests.spark.conftest import put

_numbers = itertools.count()
ROWS = 1200


@pytest.fixture
def texts(catalog):
    """Two words: one in all rows, which are more than the driver reads, one in half of them."""
    words = ["common" if number % 2 else "common odd" for number in range(ROWS)]
    location = put(catalog, "shop.texts", pa.table({"id": range(ROWS), "text": words}))
    lance.dataset(location).create_scalar_index("text", "INVERTED")
    return location


@pytest.fixture
def lake(spark, root):
    name = f"options{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, name, root=root)
    return name


def through_doors(spark, root, lake, table, **options):
    """Read a table in each way that takes options."""
    yield lakeroot.spark.read(spark, table, root=root, **options)
    source = spark.read.format("lakeroot").option("root", root).options(**options)
    yield source.load(table)
    spark.conf.set(COLUMNAR, "false")
    try:
        yield source.load(table)
    finally:
        spark.conf.unset(COLUMNAR)
    yield spark.read.options(**options).table(f"{lake}.{table}")


def test_a_search_for_words_finds_all_that_match(spark, root, lake, texts):
    for frame in through_doors(spark, root, lake, "shop.texts", fullTextQuery="common"):
        assert frame.count() == ROWS
        assert len({row.id for row in frame.select("id").collect()}) == ROWS
    for frame in through_doors(spark, root, lake, "shop.texts", fullTextQuery="odd"):
        assert len(frame.collect()) == ROWS // 2
        assert frame.where("id < 10").count() == 5
        assert frame.limit(3).count() == 3


def test_a_search_for_words_finds_no_more_than_it_is_asked_for(spark, root, lake, texts):
    for bound in ({"k": 7}, {"limit": 7}, {"k": 100, "limit": 7}):
        options = {"fullTextQuery": "common", **bound}
        for frame in through_doors(spark, root, lake, "shop.texts", **options):
            assert frame.count() == len(frame.collect()) == 7


def test_few_rows_that_words_match_need_no_job(spark, root, texts):
    few = lakeroot.spark.read(spark, "shop.texts", root=root, full_text_query="odd")
    many = lakeroot.spark.read(spark, "shop.texts", root=root, full_text_query="common")
    assert isinstance(few, FewRows)
    assert not isinstance(many, FewRows)


@pytest.mark.parametrize("prefilter", [True, False])
def test_a_search_for_words_with_a_filter_finds_all_that_match_both(
    spark, root, lake, texts, prefilter
):
    options = {"fullTextQuery": "common", "filter": "id % 10 = 3", "prefilter": prefilter}
    for frame in through_doors(spark, root, lake, "shop.texts", **options):
        assert frame.count() == ROWS // 10
        assert sorted(row.id for row in frame.collect()) == list(range(3, ROWS, 10))
        assert len(frame.limit(50).collect()) == 50


def test_a_search_for_the_best_rows_filters_before_it_searches_unless_told_not_to(
    spark, root, lake, texts
):
    options = {"fullTextQuery": "odd", "filter": "id >= 1000", "k": 7}
    for frame in through_doors(spark, root, lake, "shop.texts", **options):
        assert {row.id >= 1000 for row in frame.collect()} == {True}
        assert frame.count() == 7
    ranked = lance.dataset(texts).scanner(full_text_query="odd", limit=7).to_table()
    for frame in through_doors(spark, root, lake, "shop.texts", **options, prefilter=False):
        assert frame.count() == sum(number >= 1000 for number in ranked["id"].to_pylist())


def test_a_limit_of_a_query_does_not_bound_a_search_whose_rows_are_filtered_after_it(
    spark, root, lake, catalog
):
    points = pa.array([[float(number), 0.0] for number in range(100)], pa.list_(pa.float32(), 2))
    put(catalog, "shop.points", pa.table({"id": range(100), "at": points}))
    options = {"vector": "[0, 0]", "k": 20, "filter": "id % 2 = 1", "prefilter": "false"}
    for frame in through_doors(spark, root, lake, "shop.points", **options):
        assert len(frame.limit(8).collect()) == 8


def test_sql_tells_how_well_a_search_has_found_its_rows(spark, root, lake, texts, catalog):
    points = pa.array([[float(number), 0.0] for number in range(100)], pa.list_(pa.float32(), 2))
    put(catalog, "shop.scored", pa.table({"id": range(100), "at": points}))
    near = f"{lake}.shop.scored WITH (vector = '[0, 0]', k = 3)"
    words = f"{lake}.shop.texts WITH (fullTextQuery = 'odd', k = 3)"
    for sql in (spark.sql, lambda text: lakeroot.spark.sql(spark, text)):
        rows = sql(f"SELECT id, _distance FROM {near} ORDER BY _distance DESC").collect()
        assert [(row.id, row._distance) for row in rows] == [(2, 4.0), (1, 1.0), (0, 0.0)]
        assert sql(f"SELECT * FROM {near}").columns == ["id", "at"]
        assert sql(f"SELECT id FROM {near} WHERE _distance < 2").count() == 2
        assert {row._score > 0 for row in sql(f"SELECT _score FROM {words}").collect()} == {True}
    with pytest.raises(AnalysisException, match="has no column '_distance'"):
        spark.sql(f"SELECT _distance FROM {lake}.shop.texts").collect()


def test_only_a_search_by_a_vector_is_bounded_by_itself():
    near, words = ReadOptions(vector=(1.0,)), ReadOptions(full_text_query="w")
    assert near.ranked == near.k == 10
    assert words.ranked is None
    assert [with_limit(each, 20).limit for each in (near, words, ReadOptions())] == [10, 20, 20]
    assert with_limit(ReadOptions(full_text_query="w", k=3), 20).limit == 3


def test_a_search_for_no_rows_is_refused(spark, root, texts):
    with pytest.raises(InvalidInputError, match="above 0"):
        lakeroot.spark.read(spark, "shop.texts", root=root, full_text_query="odd", k=0)
    with pytest.raises(InvalidInputError, match="above 0"):
        lakeroot.spark.read(spark, "shop.texts", root=root, full_text_query="odd", limit=0)


@pytest.mark.parametrize("none", ["", " , ", "[]", [], ()])
def test_no_columns_at_all_are_refused(none):
    with pytest.raises(InvalidInputError, match=r"'columns'.*column names"):
        parse(ReadOptions, {"columns": none})


def test_no_columns_are_refused_before_any_job(spark, root, texts):
    with pytest.raises(InvalidInputError, match="'columns'"):
        lakeroot.spark.read(spark, "shop.texts", root=root, columns=[])
    source = spark.read.format("lakeroot").option("root", root).option("columns", "")
    with pytest.raises(Exception, match="'columns'"):
        source.load("shop.texts")


@pytest.fixture
def moments(catalog):
    kind = pa.timestamp("ns")
    inside = pa.array([{"at": 1_001}, {"at": None}], pa.struct([("at", kind)]))
    data = pa.table({"id": [1, 2], "at": pa.array([1_001, 2_002], kind), "inside": inside})
    location = put(catalog, "shop.moments", data)
    lance.dataset(location).create_scalar_index("id", "BTREE")
    return location


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT * FROM {}.shop.moments",
        "SELECT id, at FROM {}.shop.moments WHERE id = 1",
        "SELECT max(at) FROM {}.shop.moments",
        "SELECT id FROM {}.shop.moments WHERE year(at) = 1970",
        "SELECT inside.at FROM {}.shop.moments",
    ],
)
def test_sql_refuses_nanoseconds_unless_they_may_be_cut(spark, lake, moments, asked):
    for _ in range(3):  # the second might be answered as Spark has understood the first
        with pytest.raises(Exception, match=r"WITH \(truncateNanos = true\)"):
            spark.sql(asked.format(lake)).collect()
    cut = asked.replace("shop.moments", "shop.moments WITH (truncateNanos = true)")
    assert spark.sql(cut.format(lake)).collect()


def test_sql_reads_the_other_columns_beside_nanoseconds(spark, lake, moments):
    table = f"{lake}.shop.moments"
    for _ in range(2):
        assert spark.sql(f"SELECT id FROM {table} WHERE id = 2").collect() == [(2,)]
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == 2
    assert spark.sql(f"SELECT 1 FROM {table} LIMIT 1").collect() == [(1,)]
    assert spark.read.option("truncateNanos", "true").table(table).orderBy("id").first().at


@pytest.mark.parametrize("place", [{"root": "lake"}, {"location": "./t.lance"}])
def test_a_relative_path_is_refused_in_a_directory_that_goes_with_the_session(
    tmp_path, monkeypatch, place
):
    own = tmp_path / "9f6df2ca"
    own.mkdir()
    monkeypatch.chdir(own)
    table_of({**place, "table": "t"})
    monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", own.name)
    with pytest.raises(InvalidInputError, match="is not a whole path"):
        table_of({**place, "table": "t"})
    table_of({"root": str(tmp_path), "table": "t"})
    table_of({"root": "s3://bucket/lake", "table": "t"})
    monkeypatch.chdir(tmp_path)
    table_of({**place, "table": "t"})


def test_properties_of_a_catalog_are_given_together_or_one_by_one():
    named = {"table": "shop.t", "impl": "rest"}
    together = table_of({**named, "properties": {"uri": "http://here", "token": "a"}})
    alone = table_of({**named, "property.uri": "http://here", "property.token": "a"})
    assert together == alone
    with pytest.raises(InvalidInputError, match=r"it takes a dictionary.*`property.uri`"):
        table_of({**named, "properties": "uri=http://here"})


@pytest.fixture
def points(catalog):
    """Points on a line, in two files: the nearest to 0 are the first."""
    flat = pa.array([float(number) for number in range(40)], pa.float32())
    data = pa.table({"id": range(20), "v": pa.FixedSizeListArray.from_arrays(flat, 2)})
    return put(catalog, "shop.points", data, max_rows_per_file=10)


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.parametrize("tasks", [{}, {"partitions": 2}], ids=["driver", "tasks"])
def test_a_filter_comes_before_a_search_unless_it_is_told_to_come_after(
    spark, root, lake, points, tasks
):
    options = {"vector": "[0, 0]", "k": 5, **tasks}
    for where, before, after in (
        ("id >= 10", [10, 11, 12, 13, 14], []),
        ("id % 2 = 1", [1, 3, 5, 7, 9], [1, 3]),
    ):
        asked = {**options, "filter": where}
        for frame in through_doors(spark, root, lake, "shop.points", **asked):
            assert ids(frame) == before
        for frame in through_doors(spark, root, lake, "shop.points", **asked, prefilter="false"):
            assert ids(frame) == after


def test_a_search_looks_at_all_rows_when_it_may_not_use_the_index(spark, root, lake, points):
    lance.dataset(points).create_index("v", "IVF_FLAT", metric="l2", num_partitions=2)
    near = {"vector": "[0, 0]", "k": 20, "nprobes": 1}
    for frame in through_doors(spark, root, lake, "shop.points", **near):
        assert 0 < frame.count() < 20, "one part of the index has not all rows"
    for frame in through_doors(spark, root, lake, "shop.points", **near, useIndex="false"):
        assert ids(frame) == list(range(20))


def test_the_metric_says_what_is_near(spark, root, lake, catalog):
    vectors = [[2.0, 0.1], [1.0, 0.5], [9.0, 9.0]]
    kind = pa.list_(pa.float32(), 2)
    put(
        catalog, "shop.t", pa.table({"id": ["along", "close", "far"], "v": pa.array(vectors, kind)})
    )
    orders = {
        "l2": ["close", "along", "far"],
        "cosine": ["along", "close", "far"],
        "dot": ["far", "along", "close"],
    }
    for metric, order in orders.items():
        for k in (1, 2):
            near = {"vector": "[1, 0]", "k": k, "metric": metric}
            for frame in through_doors(spark, root, lake, "shop.t", **near):
                assert ids(frame) == sorted(order[:k])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("k", 3),
        ("vectorColumn", "v"),
        ("metric", "l2"),
        ("nprobes", 1),
        ("refineFactor", 2),
        ("fullTextColumns", "text"),
    ],
)
def test_what_says_how_to_search_is_refused_without_a_search(option, value):
    with pytest.raises(InvalidInputError, match=f"{option!r} is of a search, and there is none"):
        parse(ReadOptions, {option: value})
    if option != "k":
        other = {"fullTextQuery": "w"} if option != "fullTextColumns" else {"vector": [1.0]}
        with pytest.raises(InvalidInputError, match="there is none"):
            parse(ReadOptions, {option: value, **other})


def test_options_of_a_search_that_mean_nothing_are_refused(spark, root, texts):
    for metric in ("L2", "Euclidean", "cosine", "dot", "hamming"):
        assert parse(ReadOptions, {"vector": "[1]", "metric": metric}).metric == metric.lower()
    with pytest.raises(InvalidInputError, match="it takes l2, cosine, dot or hamming"):
        parse(ReadOptions, {"vector": "[1]", "metric": "l3"})
    for none in ("[1, NaN]", [float("inf")]):
        with pytest.raises(InvalidInputError, match="'vector' cannot be"):
            parse(ReadOptions, {"vector": none})
    words = {"full_text_query": "odd", "root": root}
    with pytest.raises(TableColumnNotFoundError, match=r"no column 'txt'\. Did you mean 'text'"):
        lakeroot.spark.read(spark, "shop.texts", full_text_columns="txt", **words)
