"""Tables that SQL makes, replaces and alters: all of a statement or nothing, and no clause lost."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types as st

import lakeroot.spark
from lakeroot.model.errors import TableAlreadyExistsError, TableSchemaValidationError
from lakeroot.spark.catalogs import Catalog, TableRef, locate
from lakeroot.spark.commits import MESSAGE
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.writing import WriteResult, finish, prepare
from tests.spark.conftest import MANAGED, put
from tests.spark.test_sql import ask
from tests.spark.test_writing import where

_numbers = itertools.count()
_SOURCE, _CATALOG = "PYTHON_DATA_SOURCE_ERROR", "UNSUPPORTED_FEATURE.CATALOG_OPERATION"
# In one task: what a task beside it still writes is removed later, when it finds the job over.
FAILS = "SELECT if(id = 1, raise_error('bad row'), id) AS x FROM range(0, 2, 1, 1)"


@pytest.fixture(params=[None, MANAGED], ids=["plain", "managed"])
def shop(spark, root, catalog, request):
    """A namespace with a table of three rows; a name in a session stays taken."""
    name = f"tables{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, name, root=root, properties=request.param)
    spark.sql(f"CREATE TABLE {name}.shop.t AS SELECT id FROM range(3)")
    return f"{name}.shop"


@pytest.fixture
def plain(spark, root, catalog):
    """The same without version management, and with no table."""
    name = f"tables{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, name, root=root)
    return f"{name}.shop"


def columns(spark, table):
    return [row[0] for row in ask(spark, f"DESCRIBE {table}")]


def version(spark, table):
    return dict(ask(spark, f"SHOW TBLPROPERTIES {table}"))["version"]


def files(catalog, table="t"):
    return sorted(Path(where(catalog, "shop", table)).glob("data/*"))


@pytest.mark.parametrize(
    "statement",
    [
        lambda spark, t: spark.sql(f"CREATE OR REPLACE TABLE {t} AS {FAILS}"),
        lambda spark, t: spark.sql(f"REPLACE TABLE {t} AS {FAILS}"),
        lambda spark, t: spark.sql(FAILS).writeTo(t).createOrReplace(),
        lambda spark, t: spark.sql(FAILS).writeTo(t).replace(),
        lambda spark, t: spark.sql(FAILS).write.mode("overwrite").saveAsTable(t),
    ],
    ids=["create or replace", "replace", "createOrReplace", "replace of a frame", "saveAsTable"],
)
def test_a_replacement_that_fails_leaves_the_table_as_it_was(spark, shop, catalog, statement):
    before = files(catalog)
    with pytest.raises(Exception, match="bad row"):
        statement(spark, f"{shop}.t")
    assert ask(spark, f"SELECT id FROM {shop}.t ORDER BY id") == [(0,), (1,), (2,)]
    assert version(spark, f"{shop}.t") == "1"
    assert files(catalog) == before


def test_a_replacement_is_one_new_version_and_may_read_the_table_itself(spark, shop):
    spark.sql(f"CREATE OR REPLACE TABLE {shop}.t AS SELECT id + 1 AS id, 'a' AS n FROM {shop}.t")
    assert ask(spark, f"SELECT * FROM {shop}.t ORDER BY id") == [(1, "a"), (2, "a"), (3, "a")]
    spark.table(f"{shop}.t").selectExpr("id * 10 AS id").writeTo(f"{shop}.t").replace()
    assert ask(spark, f"SELECT * FROM {shop}.t ORDER BY id") == [(10,), (20,), (30,)]
    assert version(spark, f"{shop}.t") == "3"
    assert ask(spark, f"SELECT * FROM {shop}.t VERSION AS OF 1 ORDER BY id") == [(0,), (1,), (2,)]


def test_a_replacement_without_a_query_is_an_empty_version_with_the_new_columns(spark, shop):
    spark.sql(f"CREATE OR REPLACE TABLE {shop}.t (a INT NOT NULL, b STRING COMMENT 'words')")
    assert ask(spark, f"DESCRIBE {shop}.t") == [("a", "int", None), ("b", "string", "words")]
    assert ask(spark, f"SELECT * FROM {shop}.t") == []
    assert ask(spark, f"SELECT count(*) FROM {shop}.t VERSION AS OF 1") == [(3,)]
    spark.sql(f"REPLACE TABLE {shop}.t (c INT)")
    assert (columns(spark, f"{shop}.t"), version(spark, f"{shop}.t")) == (["c"], "3")


def test_a_table_that_cannot_be_made_is_not_even_declared(spark, shop, catalog):
    for words in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        with pytest.raises(Exception, match="bad row"):
            spark.sql(f"{words} {shop}.new AS {FAILS}")
        with pytest.raises(AnalysisException, match="Cast it"):
            spark.sql(f"{words} {shop}.new AS SELECT parse_json('1') AS v")
    listed = catalog.list_tables(lance_namespace.ListTablesRequest(id=["shop"]))
    assert listed.tables == ["t"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"REPLACE TABLE {shop}.new AS SELECT 1 AS a")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql(f"CREATE OR REPLACE TABLE {shop}.nowhere.new AS SELECT 1 AS a")


def test_a_new_table_has_its_rows_in_its_first_version_and_its_properties(spark, plain, catalog):
    spark.sql(
        f"CREATE TABLE {plain}.v TBLPROPERTIES (vectors = 'e:2') AS SELECT array(1D, 2D) AS e"
    )
    spark.sql(f"CREATE OR REPLACE TABLE {plain}.w AS SELECT * FROM {plain}.v")
    spark.range(2).write.saveAsTable(f"{plain}.saved")
    for name in ("v", "w"):
        table = lance.dataset(where(catalog, "shop", name))
        assert (table.version, table.schema.field("e").type.list_size) == (1, 2)
    assert ask(spark, f"SELECT count(*) FROM {plain}.saved") == [(2,)]


def test_a_table_without_rows_has_files_of_the_version_that_is_asked_for(spark, shop, catalog):
    told = "TBLPROPERTIES (storageVersion = '2.0', stableRowIds = 'true', message = 'why')"
    spark.sql(f"CREATE TABLE {shop}.a (id INT NOT NULL COMMENT 'a key') {told}")
    spark.sql(f"CREATE TABLE {shop}.b LIKE {shop}.a TBLPROPERTIES (storageVersion = '2.1')")
    spark.sql(f"CREATE OR REPLACE TABLE {shop}.c (id INT) {told}")
    spark.sql(f"CREATE TABLE {shop}.d {told} AS SELECT 1 AS id WHERE false")
    spark.sql(f"CREATE OR REPLACE TABLE {shop}.t (id INT) TBLPROPERTIES (storageVersion = '2.1')")
    found = {name: lance.dataset(where(catalog, "shop", name)) for name in "abcdt"}
    versions = {name: (each.version, each.data_storage_version) for name, each in found.items()}
    assert versions.pop("t") == (2, "2.1")
    assert version(spark, f"{shop}.t") == "2"
    assert versions.pop("b") == (1, "2.1")
    assert set(versions.values()) == {(1, "2.0")}
    for name in "acd":
        said = found[name].read_transaction(1).transaction_properties
        assert (found[name].has_stable_row_ids, said[MESSAGE]) == (True, "why")
    assert not found["a"].schema.field("id").nullable
    spark.sql(f"INSERT INTO {shop}.a VALUES (1)")
    (file,) = lance.dataset(where(catalog, "shop", "a")).get_fragments()[0].metadata.files
    assert (file.file_major_version, file.file_minor_version) == (2, 0)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {shop}.a (id INT) {told}")


def test_of_several_who_make_a_table_without_rows_one_does(managed, root):
    """Lance's own writer would replace the table of whoever was a moment faster."""
    schema = st.StructType([st.StructField("id", st.LongType())])
    for properties in ({}, MANAGED):
        ref = TableRef(Catalog.at(root, properties), ("shop", f"t{len(properties)}"))
        options = WriteOptions(mode="create", storage_version="2.0")
        plans = [prepare(ref, schema, options) for _ in range(4)]
        with ThreadPoolExecutor(4) as threads:
            done = list(threads.map(lambda plan: raised(finish, plan, []), plans))
        assert sorted(map(type, done), key=str) == [TableAlreadyExistsError] * 3 + [WriteResult]
        table = open_table(locate(ref))
        assert (table.version, table.data_storage_version) == (1, "2.0")


def raised(act, *arguments):
    try:
        return act(*arguments)
    except Exception as error:
        return error


@pytest.mark.parametrize(
    "option", ["maxRowsPerFile = '10'", "mergeSchema = 'true'", "branch = 'b'"]
)
def test_an_option_that_a_table_without_rows_cannot_keep_is_refused(spark, plain, option):
    name = option.partition(" ")[0]
    for words in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        with pytest.raises(AnalysisException, match=name):
            spark.sql(f"{words} {plain}.r (a INT) TBLPROPERTIES ({option})")
    assert ask(spark, f"SHOW TABLES IN {plain}") == []


@pytest.mark.parametrize(
    ("change", "condition", "words"),
    [
        ("REPLACE COLUMNS (a INT)", _CATALOG, "CREATE OR REPLACE TABLE"),
        ("ADD COLUMNS (d INT, e VARIANT)", _SOURCE, "Cast it"),
        ("ADD COLUMNS (d INT, `_rowid` INT)", _SOURCE, "Lance keeps it"),
        ("ADD COLUMNS (d INT, e INT NOT NULL)", _CATALOG, "Leave NOT NULL out"),
        ("ADD COLUMNS (d INT, e INT FIRST)", _CATALOG, "Leave FIRST and AFTER out"),
        ("ADD COLUMN d INT AFTER a", _CATALOG, "Leave FIRST and AFTER out"),
        ("ADD COLUMNS (d INT, c.z INT)", _CATALOG, "inside of another column"),
        ("DROP COLUMNS (a, b, c)", _CATALOG, "cannot lose all its columns"),
        ("DROP COLUMNS (a, c.x, c.y)", _CATALOG, "cannot lose all its fields"),
        ("RENAME COLUMN a TO `x.y`", _SOURCE, "a dot"),
        ("ALTER COLUMN a COMMENT 'x'", _CATALOG, "ADD COLUMN"),
    ],
)
def test_an_alteration_that_cannot_be_whole_changes_nothing(spark, shop, change, condition, words):
    table = f"{shop}.al"
    spark.sql(f"CREATE TABLE {table} AS SELECT 1 AS a, 2 AS b, struct(3 AS x, 4 AS y) AS c")
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"ALTER TABLE {table} {change}")
    assert caught.value.getCondition() == condition
    assert words in str(caught.value)
    assert "InternalError" not in str(caught.value)
    assert (columns(spark, table), version(spark, table)) == (["a", "b", "c"], "1")


def test_several_columns_come_or_go_in_one_version(spark, shop):
    table = f"{shop}.al"
    spark.sql(f"CREATE TABLE {table} AS SELECT 1 AS a, 2 AS b, struct(3 AS x, 4 AS y) AS c")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (d INT COMMENT 'new', e STRING)")
    assert ("d", "int", "new") in ask(spark, f"DESCRIBE {table}")
    assert version(spark, table) == "2"
    spark.sql(f"ALTER TABLE {table} DROP COLUMNS (a, b, c.x, d)")
    spark.sql(f"ALTER TABLE {table} DROP COLUMNS IF EXISTS (a, b)")
    assert version(spark, table) == "3"
    assert [tuple(row) for row in ask(spark, f"SELECT * FROM {table}")] == [((4,), None)]


def test_the_only_column_with_values_stays(spark, shop):
    table = f"{shop}.al"
    spark.sql(f"CREATE TABLE {table} AS SELECT 1 AS a")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN b INT")
    with pytest.raises(AnalysisException, match="nobody could read them"):
        spark.sql(f"ALTER TABLE {table} DROP COLUMN a")
    assert ask(spark, f"SELECT * FROM {table}") == [(1, None)]


def test_not_null_is_kept_whoever_writes(spark, plain, root, catalog):
    table = f"{plain}.n"
    spark.sql(f"CREATE TABLE {table} (id INT NOT NULL, city STRING)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    spark.sql(f"INSERT OVERWRITE {table} VALUES (2, 'b')")
    with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
        spark.sql(f"INSERT INTO {table} VALUES (NULL, 'x')")
    with pytest.raises(TableSchemaValidationError, match="no nulls"):
        lakeroot.spark.sql(spark, f"UPDATE {table} SET id = NULL")
    frame = spark.sql("SELECT CAST(NULL AS INT) AS id, 'x' AS city")
    with pytest.raises(TableSchemaValidationError, match="no nulls"):
        lakeroot.spark.write(frame, "shop.n", root=root)
    assert ask(spark, f"SELECT * FROM {table}") == [(2, "b")]
    assert not lance.dataset(where(catalog, "shop", "n")).schema.field("id").nullable
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id DROP NOT NULL")
    spark.sql(f"INSERT INTO {table} VALUES (NULL, 'x')")
    assert ask(spark, f"SELECT count(*) FROM {table}") == [(2,)]


def test_comments_of_columns_are_kept_and_shown(spark, plain):
    spark.sql(f"CREATE TABLE {plain}.c (id INT COMMENT 'a key', city STRING)")
    spark.sql(f"INSERT OVERWRITE {plain}.c VALUES (1, 'a')")
    spark.sql(f"CREATE TABLE {plain}.d AS SELECT * FROM {plain}.c")
    for name in ("c", "d"):
        shown = ask(spark, f"DESCRIBE {plain}.{name}")
        assert shown == [("id", "int", "a key"), ("city", "string", None)]


def test_comments_of_fields_inside_of_columns_are_kept_and_shown(spark, plain):
    inner = "STRUCT<x: INT COMMENT 'across', y: STRUCT<z: INT COMMENT 'deep'>>"
    spark.sql(f"CREATE TABLE {plain}.c (s {inner} COMMENT 'all', l ARRAY<{inner}>)")
    row = "named_struct('x', 1, 'y', named_struct('z', 2))"
    spark.sql(f"INSERT OVERWRITE {plain}.c SELECT {row}, array({row})")
    spark.sql(f"INSERT INTO {plain}.c SELECT {row}, array({row})")
    spark.sql(f"ALTER TABLE {plain}.c ADD COLUMN more STRUCT<w: INT COMMENT 'wide'>")
    spark.sql(f"CREATE TABLE {plain}.d AS SELECT * FROM {plain}.c")
    for name in ("c", "d"):
        frame = spark.table(f"{plain}.{name}")
        schema = frame.schema
        for kind in (schema["s"].dataType, schema["l"].dataType.elementType):
            assert kind["x"].metadata["comment"] == "across"
            assert kind["y"].dataType["z"].metadata["comment"] == "deep"
        assert schema["s"].metadata["comment"] == "all"
        assert schema["more"].dataType["w"].metadata["comment"] == "wide"
        read = frame.where("s.x = 1").selectExpr("s.y.z", "l[0].x", "more", "s").collect()
        assert read == [(2, 1, None, (1, (2,)))] * 2


def test_a_table_like_another_has_its_very_columns_and_no_rows(spark, plain, root, catalog):
    kind = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"comment": "a key"}),
            pa.field("at", pa.timestamp("ns")),
            pa.field("e", pa.list_(pa.float32(), 2)),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            pa.field("u", pa.uint16()),
        ]
    )
    put(catalog, "shop.c", pa.table([[1], [1], [[1, 2]], [b"x"], [1]], schema=kind))
    spark.sql(f"CREATE TABLE {plain}.d LIKE {plain}.c")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {plain}.d LIKE {plain}.c")
    made = lance.dataset(where(catalog, "shop", "d"))
    assert made.count_rows() == 0
    assert made.schema.equals(
        lance.dataset(where(catalog, "shop", "c")).schema, check_metadata=True
    )
    spark.sql(f"INSERT INTO {plain}.d (id, e, b) SELECT 2, array(1D, 2D), X'0102'")
    assert ask(spark, f"SELECT id, b, u FROM {plain}.d") == [(2, b"\1\2", None)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {plain}.d LIKE {plain}.c")
    with pytest.raises(AnalysisException, match="cannot be a table of"):
        spark.sql(f"CREATE TABLE {plain}.p LIKE {plain}.c USING parquet")
    spark.range(3).createOrReplaceTempView("alike")
    spark.sql(f"CREATE TABLE {plain}.v LIKE alike")
    assert columns(spark, f"{plain}.v") == ["id"]


def test_another_format_is_refused_where_it_can_be_told_from_none(spark, plain):
    """Spark gives a frame that is saved with no format the default, which is parquet."""
    for saved in (
        lambda: spark.range(2).writeTo(f"{plain}.p").using("parquet").create(),
        lambda: spark.range(2).writeTo(f"{plain}.p").using("parquet").createOrReplace(),
        lambda: spark.range(2).write.format("orc").saveAsTable(f"{plain}.p"),
    ):
        with pytest.raises(AnalysisException, match="cannot be a table of"):
            saved()
    assert ask(spark, f"SHOW TABLES IN {plain}") == []


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("USING parquet", "USING lance"),
        ("LOCATION '/tmp/elsewhere'", "Leave LOCATION"),
        ("COMMENT 'a table'", "comments to columns"),
    ],
)
def test_a_clause_that_cannot_be_kept_is_refused(spark, plain, clause, words):
    for text in (
        f"CREATE TABLE {plain}.r (a INT) {clause}",
        f"CREATE TABLE {plain}.r {clause} AS SELECT 1 AS a",
        f"CREATE OR REPLACE TABLE {plain}.r (a INT) {clause}",
    ):
        with pytest.raises(AnalysisException, match=words) as caught:
            spark.sql(text)
        assert caught.value.getCondition() == _CATALOG
    assert ask(spark, f"SHOW TABLES IN {plain}") == []
    spark.sql(f"CREATE TABLE {plain}.r (a INT) USING lance")


def test_a_frame_is_saved_as_a_table_without_naming_a_format(spark, plain):
    with pytest.raises(AnalysisException, match="csv"):
        spark.range(2).write.format("csv").saveAsTable(f"{plain}.saved")
    spark.range(2).write.saveAsTable(f"{plain}.saved")
    spark.range(3).write.mode("overwrite").format("lakeroot").saveAsTable(f"{plain}.saved")
    assert ask(spark, f"SELECT count(*) FROM {plain}.saved") == [(3,)]


def test_a_lookup_by_key_sees_the_columns_of_a_replaced_table(spark, plain, root):
    table = f"{plain}.k"
    spark.sql(f"CREATE TABLE {table} AS SELECT id FROM range(100)")
    lakeroot.spark.index(spark, "shop.k", root=root, column="id", kind="BTREE")
    for key in (1, 2, 3):
        assert ask(spark, f"SELECT * FROM {table} WHERE id = {key}") == [(key,)]
    spark.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 'a' AS n, id FROM {table} WHERE id > 1")
    for key, rows in ((1, []), (2, [("a", 2)]), (3, [("a", 3)])):
        assert ask(spark, f"SELECT * FROM {table} WHERE id = {key}") == rows


@pytest.mark.parametrize(
    "write",
    [
        lambda spark, t: spark.sql(f"INSERT INTO {t} WITH (jobId = 'j') SELECT 7L"),
        lambda spark, t: spark.sql(f"INSERT OVERWRITE {t} WITH (jobId = 'j') SELECT 7L"),
        lambda spark, t: spark.range(7, 8).writeTo(t).option("jobId", "j").append(),
        lambda spark, t: spark.range(7, 8).write.option("jobId", "j").insertInto(t),
        lambda spark, t: spark.range(7, 8).writeTo(t).option("jobId", "j").createOrReplace(),
        lambda spark, t: spark.sql(
            f"CREATE OR REPLACE TABLE {t} TBLPROPERTIES (jobId = 'j') AS SELECT 7L AS id"
        ),
        lambda spark, t: spark.sql(
            f"CREATE OR REPLACE TABLE {t} (id LONG) TBLPROPERTIES (jobId = 'j')"
        ),
    ],
    ids=["insert", "overwrite", "append", "insertInto", "replace", "ctas", "empty"],
)
def test_a_write_that_is_named_happens_once_through_sql(spark, shop, write):
    table = f"{shop}.t"
    write(spark, table)
    once, rows = version(spark, table), ask(spark, f"SELECT id FROM {table} ORDER BY id")
    write(spark, table)
    assert ask(spark, f"SELECT id FROM {table} ORDER BY id") == rows
    assert version(spark, table) == once
    spark.sql(f"INSERT INTO {table} WITH (jobId = 'k') SELECT 8L")
    assert ask(spark, f"SELECT count(*) FROM {table}") == [(len(rows) + 1,)]


def test_no_mode_is_taken_where_the_statement_is_the_mode(spark, shop):
    rows, table = spark.range(7, 8), f"{shop}.t"
    for write in (
        lambda: rows.writeTo(table).option("mode", "create").append(),
        lambda: spark.sql(f"INSERT OVERWRITE {table} WITH (mode = 'append') SELECT 7L"),
        lambda: spark.sql(f"CREATE TABLE {shop}.s (id LONG) TBLPROPERTIES (mode = 'ignore')"),
    ):
        with pytest.raises(Exception, match="The option 'mode' is not for tables of a catalog"):
            write()
    assert ask(spark, f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,), (2,)]
