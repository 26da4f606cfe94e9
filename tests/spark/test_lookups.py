"""Lookups by key through ``spark.sql``: Spark understands a statement once, for every key."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import lance
import lance_namespace as ln
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException

import lakeroot.spark
from lakeroot.spark.spark_sql.few_rows import FewRows
from lakeroot.spark.spark_sql.lookups import Lookups, cut
from tests.spark.conftest import put
from tests.spark.test_columnar import EVERYTHING, explained

_numbers = itertools.count()
ROWS = 5000
KEYS = ("id", "half", "hash", "name", "group")
PEOPLE = pa.table(
    {
        "id": pa.array([*range(ROWS - 1), None], pa.int64()),
        "half": pa.array([number // 2 for number in range(ROWS)], pa.int32()),
        "hash": pa.array([(-7919) ** (number % 4) * number for number in range(ROWS)], pa.int64()),
        "name": pa.array([None if number % 10 == 9 else f"n{number}" for number in range(ROWS)]),
        "group": pa.array([number % 3 for number in range(ROWS)], pa.int32()),
        "Mixed": pa.array([float(number) for number in range(ROWS)]),
    }
)


def indexed(catalog, name, data, *columns):
    location = put(catalog, name, data, max_rows_per_file=ROWS // 3)
    for column in columns:
        lance.dataset(location).create_scalar_index(column, "BTREE")
    return location


@pytest.fixture
def table(catalog):
    """The table as pylance alone sees it."""
    location = indexed(catalog, "shop.t", PEOPLE, *KEYS)
    return lambda: lance.dataset(location)


@pytest.fixture
def lake(spark, root, table):
    name = f"keyed{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, name, root=root)
    return name


def by_spark(spark, text):
    """What Spark alone finds."""
    return spark.sql.plain(text).collect()


def remembered(spark, text):
    """The rows of a statement that Spark is not asked about."""
    frame = spark.sql(text)
    assert isinstance(frame, FewRows), text
    return frame.collect()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT * FROM {}.shop.t WHERE id = {}", [3, 4, 0, ROWS - 2, ROWS - 1, 2**31 - 1]),
        ("SELECT name, id FROM {}.shop.t WHERE half = {}", [1, 0, 7, 10**6]),
        ("select p.name from {}.shop.t p where p.id = {}", [1, 9, 10]),
        ("SELECT id\nFROM {}.shop.t\n WHERE\tname = '{}'", ["n1", "n2", "", "blåbær 🫐", "N1"]),
        ("SELECT id, hash FROM {}.shop.t WHERE hash = {}", [0, 1, 4]),
        ("SELECT id, hash FROM {}.shop.t WHERE hash = {}", [-7919, -39595, -1]),
        ("SELECT id, hash FROM {}.shop.t WHERE hash = {}", [-1489868679177, -(2**40)]),
        ("SELECT Mixed FROM {}.shop.t WHERE id = {}", [1, 2]),
        ("SELECT id FROM {}.shop.t WHERE id IN ({}, 7, 70)", [1, 8, 7]),
        ("SELECT id FROM {}.shop.t WHERE name IN ('n1', '{}')", ["n2", "n3"]),
        ("SELECT id FROM {}.shop.t WHERE half = 4 AND name = '{}'", ["n8", "n7", "n9"]),
        ("SELECT id FROM {}.shop.t WHERE (id = {}) AND (half = 2)", [4, 5, 6]),
    ],
)
def test_the_same_statement_with_another_key_needs_no_spark(spark, lake, text, values):
    first, *others = [text.format(lake, value) for value in values]
    assert spark.sql(first).collect() == by_spark(spark, first)
    for statement in (*others, first):
        found, expected = spark.sql(statement), spark.sql.plain(statement)
        assert isinstance(found, FewRows)
        assert found.schema == expected.schema
        assert found.collect() == expected.collect()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT id AS key FROM {}.shop.t WHERE id = {}", [1, 2]),
        ("SELECT id, id FROM {}.shop.t WHERE id = {}", [1, 2]),
        ("SELECT id + 1 FROM {}.shop.t WHERE id = {}", [1, 2]),
        ("SELECT id, {1} FROM {0}.shop.t WHERE id = 3", [1, 2]),
        ("SELECT ID FROM {}.shop.t WHERE Id = {}", [1, 2]),
        ("SELECT mixed FROM {}.shop.t WHERE id = {}", [1, 2]),
        ("SELECT count(*) FROM {}.shop.t WHERE id = {}", [1, 2]),
        ("SELECT DISTINCT name FROM {}.shop.t WHERE id = {}", [1, 2]),
        ("SELECT id FROM {}.shop.t WHERE id = {} LIMIT 1", [1, 2]),
        ("SELECT id FROM {}.shop.t WHERE half = 3 ORDER BY id LIMIT {}", [1, 2]),
        ("SELECT id FROM {}.shop.t WHERE half = {} ORDER BY id DESC", [1, 2]),
        ("SELECT id FROM {}.shop.t WHERE id = {} OR half = 7", [1, 2]),
        ("SELECT id FROM {}.shop.t WHERE NOT id = {} AND id < 4", [1, 2]),
        ("SELECT id FROM {}.shop.t WHERE id = {} -1", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE id - {} = 1", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE id -{} = 1", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE {} = id", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE id = '{}'", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE id = {}.0", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE id = {}L", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE half = {}", [2**31, 2**33, -(2**31) - 1]),
        ("SELECT id FROM {}.shop.t WHERE id = {}", [2**63, 2**64, 10**20]),
        ("SELECT id FROM {}.shop.t WHERE hex(name) = hex(X'{}')", ["6E35", "6E36"]),
        ("SELECT id FROM {}.shop.t WHERE name = 'n' '{}'", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE name = 'n{}' -- one", [5, 6]),
        ('SELECT id FROM {}.shop.t WHERE name = "n{}"', [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE name = 'n\\{}'", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE name = 'a''{}'", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE `id` = {}", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE Mixed = {}", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE id = {} AND upper(name) = 'N5'", [5, 6]),
        ("SELECT id FROM {}.shop.t WHERE id <=> {}", [5, 6]),
        ("SELECT id FROM {}.shop.t WITH (limit = 1) WHERE half = {}", [5, 6]),
        ("SELECT id FROM {}.shop.t VERSION AS OF 1 WHERE id = {}", [5, 6]),
        ("SELECT a.id FROM {0}.shop.t a JOIN {0}.shop.t b ON a.id = b.id WHERE a.id = {1}", [5, 6]),
        ("SELECT id FROM {}.shop.t TABLESAMPLE (100 ROWS) WHERE id = {}", [5, 6]),
        ("SELECT _rowid, id FROM {}.shop.t WHERE id = {}", [5, 6]),
        ("SELECT id FROM (SELECT * FROM {}.shop.t WHERE half = 3) WHERE id = {}", [6, 7, 8]),
        ("SELECT id FROM {0}.shop.t WHERE id = 3 UNION ALL SELECT {1}", [6, 7]),
    ],
)
def test_what_is_not_a_lookup_is_left_to_spark(spark, lake, text, values):
    for value in (*values, *values):
        statement = text.format(lake, value)
        found = spark.sql(statement)
        assert not isinstance(found, FewRows)
        assert found.collect() == by_spark(spark, statement)


def test_values_of_every_type_are_those_that_spark_finds(spark, root, catalog):
    name = f"keyed{next(_numbers)}"
    indexed(catalog, "shop.every", EVERYTHING, "id")
    lakeroot.spark.use_catalog(spark, name, root=root)
    for columns in ("*", *EVERYTHING.schema.names):
        for key in (0, 1, 2, 3):
            text = f"SELECT {columns} FROM {name}.shop.every WHERE id = {key}"
            expected = by_spark(spark, text)
            found = spark.sql(text)
            assert isinstance(found, FewRows) == (key > 0)
            assert repr(found.collect()) == repr(expected)
            assert found.schema == spark.sql.plain(text).schema


def test_a_lookup_sees_every_change_that_came_before_it(spark, root, lake, table):
    text = f"SELECT id, name FROM {lake}.shop.t WHERE id = 42"
    assert spark.sql(text).collect() == [(42, "n42")]
    assert remembered(spark, text) == [(42, "n42")]
    spark.sql(f"INSERT INTO {lake}.shop.t SELECT 42, 1, 1, 'new', 1, 1.0")
    assert sorted(remembered(spark, text)) == [(42, "n42"), (42, "new")]
    spark.sql(f"DELETE FROM {lake}.shop.t WHERE name = 'n42'")
    assert remembered(spark, text) == [(42, "new")]
    table().update({"name": "'other'"}, where="id = 42")  # by another process, as it were
    assert remembered(spark, text) == [(42, "other")]
    lakeroot.spark.compact(spark, "shop.t", root=root)
    assert remembered(spark, text) == [(42, "other")]
    table().checkout_version(6).restore()  # all indexes, and nothing else
    assert remembered(spark, text) == [(42, "n42")]


def test_a_frame_keeps_the_version_it_was_asked_in(spark, lake):
    text = f"SELECT id, name FROM {lake}.shop.t WHERE id = 5"
    spark.sql(text)
    frame = spark.sql(text)
    spark.sql(f"DELETE FROM {lake}.shop.t WHERE id = 5")
    assert isinstance(frame, FewRows)
    assert frame.collect() == frame.where("id > 0").collect() == [(5, "n5")]
    assert spark.sql(text).collect() == []


def test_spark_looks_again_at_columns_that_were_changed(spark, lake, table):
    everything = f"SELECT * FROM {lake}.shop.t WHERE id = 5"
    name = f"SELECT name FROM {lake}.shop.t WHERE id = 5"
    for text in (everything, name, everything, name):
        spark.sql(text)
    table().add_columns({"more": "id * 2"})
    assert not isinstance(spark.sql(everything), FewRows)
    assert remembered(spark, everything)[0].more == 10
    table().alter_columns({"path": "name", "name": "called"})
    with pytest.raises(AnalysisException, match="name"):
        spark.sql(name)
    table().drop_columns(["hash"])
    assert "hash" not in spark.sql(everything).columns
    assert "hash" not in spark.sql(everything).columns


def test_a_table_that_went_away_is_not_remembered(spark, lake, catalog):
    text = f"SELECT id, name FROM {lake}.shop.t WHERE id = 5"
    assert spark.sql(text).collect() == remembered(spark, text) == [(5, "n5")]
    catalog.drop_table(ln.DropTableRequest(id=["shop", "t"]))
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(text)
    # As many versions as before, and the same columns.
    other = PEOPLE.set_column(3, "name", pa.array([f"m{number}" for number in range(ROWS)]))
    indexed(catalog, "shop.t", other, *KEYS)
    assert remembered(spark, text) == [(5, "m5")]


def test_without_an_index_spark_looks(spark, lake, table):
    text = f"SELECT id, name FROM {lake}.shop.t WHERE id = 5"
    spark.sql(text)
    assert remembered(spark, text) == [(5, "n5")]
    table().drop_index("id_idx")
    for _ in range(3):
        frame = spark.sql(text)
        assert not isinstance(frame, FewRows)
        assert frame.collect() == [(5, "n5")]
    table().create_scalar_index("id", "BTREE")
    assert remembered(spark, text) == [(5, "n5")]


def test_rows_that_no_index_has_yet_are_found(spark, lake, table):
    text = f"SELECT id, name FROM {lake}.shop.t WHERE id = 9005"
    assert spark.sql(text).collect() == []
    lance.write_dataset(
        PEOPLE.slice(5, 1).set_column(0, "id", pa.array([9005])), table().uri, mode="append"
    )
    assert spark.sql(text).collect() == by_spark(spark, text) == [(9005, "n5")]


def test_many_rows_and_wide_rows_are_read_by_tasks(spark, root, lake, catalog):
    text = f"SELECT half FROM {lake}.shop.t WHERE group = 1"
    wide = np.random.default_rng(1).random((400, 4000)).astype("float32")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(wide.reshape(-1)), 4000)
    data = pa.table({"id": pa.array(np.arange(400) // 100), "vector": vectors})
    indexed(catalog, "shop.wide", data, "id")
    for _ in range(3):
        many = spark.sql(text)
        assert "BatchScan" in explained(many)
        assert sorted(row.half for row in many.collect()) == [n // 2 for n in range(1, ROWS, 3)]
        long = spark.sql(f"SELECT * FROM {lake}.shop.wide WHERE id = 2")
        assert "BatchScan" in explained(long)
        assert long.count() == 100
        narrow = spark.sql(f"SELECT id FROM {lake}.shop.wide WHERE id = 2")
        assert "LocalTableScan" in explained(narrow)
        assert narrow.count() == 100


def test_the_rows_are_a_frame_like_any_other(spark, lake):
    text = f"SELECT id, name, half FROM {lake}.shop.t WHERE half = 21"
    spark.sql(text)
    frame = spark.sql(text)
    assert isinstance(frame, FewRows)
    assert "LocalTableScan" in explained(frame)
    assert frame.where("id = 43").select("name").collect() == [("n43",)]
    assert frame.count() == len(frame.toPandas()) == 2
    frame.createOrReplaceTempView("looked_up")
    joined = "SELECT t.name FROM looked_up l JOIN {}.shop.t t ON t.id = l.id + 1 ORDER BY t.id"
    assert spark.sql(joined.format(lake)).collect() == [("n43",), ("n44",)]


def test_a_name_means_the_catalog_that_it_was_given_to_last(spark, root, lake, tmp_path):
    text = f"SELECT id, name FROM {lake}.shop.t WHERE id = 5"
    assert spark.sql(text).collect() == remembered(spark, text) == [(5, "n5")]
    other = str(tmp_path / "other")
    lakeroot.spark.use_catalog(spark, lake, root=other)
    with pytest.raises(AnalysisException):
        spark.sql(text)
    own = spark.newSession()
    lakeroot.spark.use_catalog(own, "here", root=root)
    text = "SELECT id, name FROM here.shop.t WHERE id = 5"
    assert own.sql(text).collect() == remembered(own, text) == [(5, "n5")]
    own.conf.set("spark.lakeroot.lookups", "false")
    lakeroot.spark.use_catalog(own, "here", root=other)
    with pytest.raises(AnalysisException):
        own.sql(text)


def test_names_that_depend_on_the_current_catalog_are_not_remembered(spark, root, lake):
    own = spark.newSession()
    lakeroot.spark.use_catalog(own, "here", root=root)
    own.catalog.setCurrentCatalog("here")
    text = "SELECT id FROM shop.t WHERE name = '%s' AND name = '%s'"
    feint = text % ("n5", " FROM here.shop.t WHERE ")
    for _ in range(3):
        assert own.sql(text % ("n5", "n5")).collect() == [(5,)]
        assert own.sql(feint).collect() == []
    assert not own.sql.known
    own.catalog.setCurrentCatalog("spark_catalog")
    for statement in (text % ("n5", "n5"), feint):
        with pytest.raises(AnalysisException):
            own.sql(statement)


def test_columns_that_differ_in_case_alone_are_left_to_spark(spark, root, catalog):
    own = spark.newSession()
    data = pa.table({"id": [1, 2], "a": [1, 2], "A": [3, 4]})
    indexed(catalog, "shop.cases", data, "id")
    lakeroot.spark.use_catalog(own, "here", root=root)
    own.conf.set("spark.sql.caseSensitive", "true")
    text = "SELECT A FROM here.shop.cases WHERE id = 2"
    assert [own.sql(text).collect() for _ in range(3)] == [[(4,)]] * 3
    own.conf.set("spark.sql.caseSensitive", "false")
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        own.sql(text)


def test_a_session_may_want_spark_to_look_always(spark, root, lake):
    own = spark.newSession()
    own.conf.set("spark.lakeroot.lookups", "false")
    lakeroot.spark.use_catalog(own, "here", root=root)
    assert not isinstance(own.sql, Lookups)
    for _ in range(2):
        assert own.sql("SELECT name FROM here.shop.t WHERE id = 5").collect() == [("n5",)]


@pytest.mark.parametrize(
    ("watcher", "value"),
    [
        ("spark.sql.extensions", "some.Class"),
        ("spark.sql.queryExecutionListeners", "some.Class"),
        ("spark.extraListeners", "some.Class"),
        ("spark.eventLog.enabled", "true"),
    ],
)
def test_whoever_watches_all_queries_of_a_session_sees_them(spark, root, lake, watcher, value):
    own = spark.newSession()
    own._jsparkSession.sessionState().conf().setConfString(watcher, value)
    lakeroot.spark.use_catalog(own, "here", root=root)
    assert not isinstance(own.sql, Lookups)


def test_whoever_gives_arguments_gets_them(spark, lake):
    text = f"SELECT name FROM {lake}.shop.t WHERE id = "
    for key in (5, 6):
        assert spark.sql(text + ":key", {"key": key}).collect() == [(f"n{key}",)]
        assert spark.sql(text + "?", args=[key]).collect() == [(f"n{key}",)]
        assert spark.sql(text + "{key}", key=key).collect() == [(f"n{key}",)]


def test_errors_are_those_of_spark(spark, lake):
    for _ in range(2):
        with pytest.raises(ParseException):
            spark.sql(f"SELECT name FROM {lake}.shop.t WHERE id = 5 5")
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            spark.sql(f"SELECT nam FROM {lake}.shop.t WHERE id = 5")
        with pytest.raises(ParseException):
            spark.sql(f"SELECT name FROM {lake}.shop.t WHERE id = \u0665")


def test_threads_look_up_beside_each_other(spark, lake):
    def look(key):
        return spark.sql(f"SELECT id, name FROM {lake}.shop.t WHERE id = {key}").collect()

    keys = [number for number in range(0, 400, 7) if number % 10 != 9]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(look, keys))
    assert found == [[(key, f"n{key}")] for key in keys]


def shape(text):
    parts = cut(text)
    assert parts is not None
    return parts.shape


def test_a_shape_is_a_statement_without_its_values():
    parts = cut("SELECT * FROM lake.t WHERE id = 5 AND name IN ('a b', '') AND big = -5000000000")
    assert parts is not None
    assert parts.catalog == "lake"
    assert parts.values == (5, "a b", "", -5_000_000_000)
    assert parts.places == ((32, 32), (47, 51), (54, 55), (68, 78))
    kinds = [
        shape(f"SELECT * FROM lake.t WHERE id = {value}")
        for value in (5, 6, -5, 2**31 - 1, 2**31, 2**63, -(2**63), "'5'", "'a'")
    ]
    groups = {kind: [n for n, each in enumerate(kinds) if each == kind] for kind in kinds}
    assert list(groups.values()) == [[0, 1, 3], [2], [4], [5], [6], [7, 8]]
    for text in (
        "SELECT 5",
        "SELECT * FROM t WHERE id = 5",
        "INSERT INTO lake.t SELECT * FROM lake.t WHERE id = 5",
        "SELECT * FROM lake.t WHERE id = ${id}",
        "SELECT /* */ * FROM lake.t WHERE id = 5",
        "SELECT * FROM lake.t WHERE id = 5" + " " * 4_000,
    ):
        assert cut(text) is None
