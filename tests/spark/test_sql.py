"""SQL over a catalog: what plain Spark runs, and MERGE and UPDATE."""

import itertools

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError, TableNotFoundError, UnsupportedOperationError
from tests.spark.test_writing import where

_numbers = itertools.count()
# Spark's own names for what is wrong with a source, and for what a catalog does not do.
_SOURCE, _CATALOG = "PYTHON_DATA_SOURCE_ERROR", "UNSUPPORTED_FEATURE.CATALOG_OPERATION"


@pytest.fixture
def lake(spark, root, catalog):
    """A catalog of this test alone; a name in a session stays taken."""
    name = f"lake{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, name, root=root)
    spark.sql(f"CREATE TABLE {name}.shop.t (id BIGINT, city STRING, day DATE, price DOUBLE)")
    spark.sql(
        f"INSERT INTO {name}.shop.t SELECT id, if(id % 3 = 0, 'Oslo', 'Molde'), "
        "date_add(DATE'2026-01-01', int(id)), id / 2 FROM range(12)"
    )
    return name


def ask(spark, text):
    return [tuple(row) for row in spark.sql(text).collect()]


def test_a_query_reads_only_what_it_needs(spark, lake):
    text = f"SELECT city FROM {lake}.shop.t WHERE NOT (id = 3 OR city = 'Molde') AND id IN (3, 6)"
    assert ask(spark, text) == [("Oslo",)]
    plan = ask(spark, "EXPLAIN " + text)[0][0]
    assert "columns [city]" in plan
    assert "OR" not in plan or "filter [" in plan
    assert "Filter (" not in plan


@pytest.mark.parametrize(
    "condition",
    [
        "id = 3 OR id > 10",
        "city LIKE 'Os%' AND NOT id = 0",
        "day >= DATE'2026-01-09'",
        "day BETWEEN DATE'2026-01-02' AND DATE'2026-01-04'",
        "price <=> 2.5D",
        "id IN (1, 2, 99)",
        "price <> 1.0D",
        "price >= 0.0D",
        "upper(city) = 'OSLO'",
        "city IS NULL",
    ],
)
def test_pushed_conditions_keep_the_rows_that_spark_would(spark, lake, condition):
    spark.sql(f"SELECT * FROM {lake}.shop.t").cache().createOrReplaceTempView("plain")
    expected = ask(spark, f"SELECT id FROM plain WHERE {condition} ORDER BY id")
    assert ask(spark, f"SELECT id FROM {lake}.shop.t WHERE {condition} ORDER BY id") == expected
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t WHERE {condition}") == [(len(expected),)]


def test_times_are_compared_by_lance(spark, lake):
    spark.sql(
        f"CREATE TABLE {lake}.shop.times AS SELECT id, timestamp_seconds(id * 3600) AS zoned, "
        "cast(timestamp_seconds(id * 3600) AS timestamp_ntz) AS plain FROM range(10)"
    )
    for condition, rows in (
        ("zoned >= TIMESTAMP'1970-01-01 07:00:00'", 3),
        ("plain < TIMESTAMP_NTZ'1970-01-01 02:00:00'", 2),
        ("zoned = TIMESTAMP'1970-01-01 02:00:00.5'", 0),
    ):
        text = f"SELECT id FROM {lake}.shop.times WHERE {condition}"
        assert len(ask(spark, text)) == rows
        pushed = "arrow_cast" in ask(spark, "EXPLAIN " + text)[0][0]
        assert pushed == ("00.5" not in condition)


def test_a_count_needs_no_job(spark, lake):
    plan = ask(spark, f"EXPLAIN SELECT count(*) FROM {lake}.shop.t WHERE id > 5")[0][0]
    assert "LocalTableScan" in plan
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t WHERE id > 5") == [(6,)]


def test_a_small_table_is_broadcast_because_its_size_is_known(spark, lake):
    plan = ask(
        spark, f"EXPLAIN SELECT * FROM range(1000000) r JOIN {lake}.shop.t t ON r.id = t.id"
    )[0][0]
    assert "BroadcastHashJoin" in plan


def test_limits_and_row_ids_and_options_work(spark, lake):
    assert len(ask(spark, f"SELECT * FROM {lake}.shop.t LIMIT 5")) == 5
    assert ask(spark, f"SELECT id, _rowid FROM {lake}.shop.t WHERE id = 7") == [(7, (1 << 32) | 1)]
    assert ask(spark, f"SELECT id FROM {lake}.shop.t WITH (filter = 'id = 2')") == [(2,)]


def test_time_travel_by_version_tag_branch_and_time(spark, lake, catalog):
    table = lance.dataset(where(catalog, "shop", "t"))
    table.tags.create("loaded", table.version)
    stamp = ask(spark, "SELECT current_timestamp()")[0][0]
    table.create_branch("trial")
    spark.sql(f"DELETE FROM {lake}.shop.t WHERE id < 10")
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t") == [(2,)]
    for clause in (
        f"VERSION AS OF {table.version}",
        "VERSION AS OF 'loaded'",
        "VERSION AS OF 'branch:trial'",
        f"TIMESTAMP AS OF '{stamp}'",
    ):
        assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t {clause}") == [(12,)], clause


def test_tables_and_namespaces_are_made_changed_and_dropped(spark, lake):
    spark.sql(f"CREATE NAMESPACE {lake}.deep")
    spark.sql(f"CREATE NAMESPACE {lake}.deep.er")
    spark.sql(f"CREATE TABLE {lake}.deep.er.u AS SELECT id, city FROM {lake}.shop.t WHERE id < 3")
    spark.sql(f"ALTER TABLE {lake}.deep.er.u ADD COLUMN note STRING")
    spark.sql(f"ALTER TABLE {lake}.deep.er.u RENAME COLUMN city TO town")
    assert ask(spark, f"SELECT * FROM {lake}.deep.er.u WHERE id = 1") == [(1, "Molde", None)]
    spark.sql(f"ALTER TABLE {lake}.deep.er.u DROP COLUMN note")
    spark.sql(f"ALTER TABLE {lake}.deep.er.u RENAME TO deep.er.w")
    assert ask(spark, f"SHOW TABLES IN {lake}.deep.er") == [("deep.er", "w", False)]
    spark.sql(f"INSERT OVERWRITE {lake}.deep.er.w VALUES (9, 'x')")
    assert ask(spark, f"SELECT * FROM {lake}.deep.er.w") == [(9, "x")]
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        spark.sql(f"DROP NAMESPACE {lake}.deep.er")
    spark.sql(f"DROP TABLE {lake}.deep.er.w")
    spark.sql(f"DROP NAMESPACE {lake}.deep CASCADE")
    assert ask(spark, f"SHOW NAMESPACES IN {lake}") == [("shop",)]


def test_errors_are_spark_s_own(spark, lake):
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"SELECT * FROM {lake}.shop.nothing")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {lake}.shop.t (a INT)")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        spark.sql(f"CREATE NAMESPACE {lake}.shop")


@pytest.mark.parametrize(
    ("text", "condition", "words"),
    [
        ("SELECT * FROM {0}.shop.t VERSION AS OF 99", _SOURCE, "version 99"),
        ("SELECT * FROM {0}.shop.t VERSION AS OF 'nothing'", _SOURCE, "no tag 'nothing'"),
        ("SELECT * FROM {0}.shop.t VERSION AS OF 'branch:nothing'", _SOURCE, "'nothing'"),
        ("SELECT * FROM {0}.shop.t TIMESTAMP AS OF '1999-01-01'", _SOURCE, "1999"),
        ("SELECT * FROM {0}.shop.t WITH (nothing = 1)", _SOURCE, "'nothing'"),
        ("ALTER TABLE {0}.shop.t ALTER COLUMN id TYPE STRING", _CATALOG, "ADD COLUMN"),
        ("ALTER TABLE {0}.shop.t SET TBLPROPERTIES (a = 'b')", _CATALOG, "ADD COLUMN"),
        ("CREATE TABLE {0}.shop.p (a INT) PARTITIONED BY (a)", _CATALOG, "Leave PARTITIONED BY"),
        ("CREATE TABLE {0}.shop.p (a INT) CLUSTERED BY (a) INTO 2 BUCKETS", _CATALOG, "no buckets"),
        ("CREATE TABLE {0}.shop.p (a INT) CLUSTER BY (a)", _CATALOG, "Leave CLUSTER BY"),
        ("CREATE TABLE {0}.shop.p (a VARIANT)", _SOURCE, "Cast it"),
        ("CREATE TABLE {0}.shop.p (a VARCHAR(4))", _SOURCE, "'a' has the Spark type varchar(4)"),
        ("CREATE TABLE {0}.shop.p (a ARRAY<CHAR(4)>)", _SOURCE, "Use STRING"),
        ("CREATE TABLE {0}.shop.p (a STRING COLLATE UTF8_LCASE)", _SOURCE, "collate UTF8_LCASE"),
        ("CREATE TABLE {0}.shop.p AS SELECT 'A' COLLATE UNICODE AS a", _SOURCE, "Use STRING"),
        ("ALTER TABLE {0}.shop.t ADD COLUMN a STRING COLLATE UTF8_LCASE", _SOURCE, "Use STRING"),
        ("CREATE TABLE {0}.shop.p AS SELECT map() AS a", _SOURCE, "CAST(map() AS MAP<"),
        ("CREATE TABLE {0}.shop.p (`a.b` INT)", _SOURCE, "Rename it"),
        ("INSERT INTO {0}.shop.t WITH (nothing = 1) VALUES (1, 'a', NULL, 1D)", _SOURCE, "nothing"),
    ],
)
def test_what_lakeroot_refuses_is_an_error_of_analysis_in_its_own_words(
    spark, lake, text, condition, words
):
    with pytest.raises(AnalysisException) as caught:
        spark.sql(text.format(lake)).collect()
    said = str(caught.value)
    assert caught.value.getCondition() == condition
    assert words in said
    assert len(said.splitlines()) < 5


def test_a_frame_is_refused_by_the_words_of_frames(spark, lake, root):
    rows = spark.range(3)
    with pytest.raises(AnalysisException, match="Leave bucketBy and sortBy"):
        rows.write.bucketBy(2, "id").sortBy("id").saveAsTable(f"{lake}.shop.b")
    with pytest.raises(AnalysisException, match="partitionBy"):
        rows.write.partitionBy("id").saveAsTable(f"{lake}.shop.b")
    collated = spark.sql("SELECT 'A' COLLATE UTF8_LCASE AS city")
    with pytest.raises(Exception, match="'city' is a string collate UTF8_LCASE"):
        collated.write.format("lakeroot").option("root", root).mode("append").save("shop.b")
    # The column of a table that is there stays what it is.
    collated.write.format("lakeroot").option("root", root).mode("append").save("shop.t")
    assert ask(spark, f"SHOW TABLES IN {lake}.shop") == [("shop", "t", False)]
    collated.selectExpr("CAST(city AS STRING)").writeTo(f"{lake}.shop.b").create()
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t WHERE city = 'A'") == [(1,)]


def test_what_show_create_table_says_can_be_run(spark, lake):
    said = ask(spark, f"SHOW CREATE TABLE {lake}.shop.t")[0][0]
    columns = spark.table(f"{lake}.shop.t").schema
    spark.sql(f"DROP TABLE {lake}.shop.t")
    spark.sql(said)
    assert spark.table(f"{lake}.shop.t").schema == columns
    assert dict(ask(spark, f"SHOW TBLPROPERTIES {lake}.shop.t"))["version"] == "1"


def test_a_cached_table_shows_every_change_of_this_driver(spark, lake, root):
    table, new = f"{lake}.shop.t", spark.sql("SELECT 50L AS id, 'new' AS city")
    changes = [
        lambda: lakeroot.spark.sql(spark, f"UPDATE {table} SET city = 'Bergen'"),
        lambda: lakeroot.spark.sql(
            spark,
            f"MERGE INTO {table} t USING (SELECT id, city FROM {table}) s ON t.id = s.id "
            "WHEN MATCHED AND s.id > 5 THEN UPDATE SET city = concat('from ', s.city)",
        ),
        lambda: lakeroot.spark.sql(spark, f"DELETE FROM {table} WHERE id % 2 = 0"),
        lambda: lakeroot.spark.write(new, "shop.t", root=f"file://{root}"),
        lambda: lakeroot.spark.delete(spark, "shop.t", where="id = 50", root=root),
        lambda: new.write.format("lakeroot").option("root", root).mode("append").save("shop.t"),
    ]
    seen = []
    spark.sql(f"CACHE TABLE {table}")
    for change in changes:
        change()
        seen.append(dict(ask(spark, f"SELECT city, count(*) FROM {table} GROUP BY city")))
    assert spark.catalog.isCached(table)
    spark.sql(f"UNCACHE TABLE {table}")
    assert seen == [
        {"Bergen": 12},
        {"Bergen": 6, "from Bergen": 6},
        {"Bergen": 3, "from Bergen": 3},
        {"Bergen": 3, "from Bergen": 3, "new": 1},
        {"Bergen": 3, "from Bergen": 3},
        {"Bergen": 3, "from Bergen": 3, "new": 1},
    ]


def test_a_failed_insert_changes_nothing(spark, lake, catalog):
    version = lance.dataset(where(catalog, "shop", "t")).version
    with pytest.raises(Exception, match="bad row"):
        spark.sql(
            f"INSERT INTO {lake}.shop.t SELECT if(id = 9, raise_error('bad row'), id), 'x', "
            "DATE'2026-01-01', 1D FROM range(10)"
        )
    assert lance.dataset(where(catalog, "shop", "t")).version == version


def test_merge_runs_every_kind_of_clause(spark, lake):
    spark.createDataFrame(
        [(1, "Bergen", 10.0), (2, "gone", 0.0), (50, "new", 5.0), (51, "skip", -1.0)],
        "id long, city string, price double",
    ).createOrReplaceTempView("changes")
    done = lakeroot.spark.sql(
        spark,
        f"""MERGE INTO {lake}.shop.t AS t USING changes AS s ON t.id = s.id
            WHEN MATCHED AND s.city = 'gone' THEN DELETE
            WHEN MATCHED THEN UPDATE SET city = concat(s.city, '; WHEN'), price = t.price + s.price
            WHEN NOT MATCHED AND s.price > 0 THEN INSERT (id, city) VALUES (s.id, upper(s.city))
            WHEN NOT MATCHED BY SOURCE AND t.id >= 10 THEN DELETE
            WHEN NOT MATCHED BY SOURCE AND t.id = 9 THEN UPDATE SET city = 'nine'""",
    ).first()
    assert (done.inserted, done.updated, done.deleted) == (1, 2, 3)
    rows = {r[0]: r for r in ask(spark, f"SELECT id, city, price, day FROM {lake}.shop.t")}
    assert sorted(rows) == [0, 1, 3, 4, 5, 6, 7, 8, 9, 50]
    assert rows[1][1:3] == ("Bergen; WHEN", 10.5)
    assert rows[50] == (50, "NEW", None, None)
    assert rows[9][1] == "nine"
    assert rows[3][1] == "Oslo"


def test_merge_with_stars_takes_a_query_as_its_source(spark, lake):
    lakeroot.spark.sql(
        spark,
        f"""MERGE INTO {lake}.shop.t t
            USING (SELECT id + 11 AS id, 'star' AS city, current_date() AS day, 1D AS price
                   FROM range(2)) s
            ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    )
    assert ask(spark, f"SELECT id FROM {lake}.shop.t WHERE city = 'star' ORDER BY id") == [
        (11,),
        (12,),
    ]


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("UPDATE {0}.shop.t SET price = 1D WHERE upper(city) = 'OSLO'", "update"),
        ("MERGE INTO {0}.shop.t t USING {1} WHEN MATCHED THEN UPDATE SET city = 'x'", "merge"),
        (
            "/* MERGE */ MERGE -- into\nINTO {0}.shop.t t USING {1} WHEN MATCHED THEN DELETE",
            "merge",
        ),
        (
            "MERGE INTO {0}.shop.t t USING {1} WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            "merge",
        ),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO {0}.shop.t t USING {1}"
            " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            "merge",
        ),
        (
            "MERGE INTO IDENTIFIER('{0}.shop.t') t USING {1}"
            " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            "merge",
        ),
        (
            "MERGE" + " " * 5000 + "/*" + "*" * 5000 + "*/ INTO {0}.shop.t t USING {1}"
            " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            "merge",
        ),
    ],
    ids=[
        "update",
        "merge",
        "merge that deletes",
        "merge that inserts",
        "schema evolution",
        "identifier",
        "many blanks",
    ],
)
def test_an_update_or_merge_that_spark_is_asked_for_says_who_can(spark, lake, text, verb):
    source = "(SELECT 5L AS id UNION ALL SELECT 50L) s ON t.id = s.id"
    before = ask(spark, f"SELECT * FROM {lake}.shop.t ORDER BY id")
    with pytest.raises(AnalysisException, match=r"lakeroot\.spark\.sql") as caught:
        spark.sql(text.format(lake, source))
    assert caught.value.getCondition() == _CATALOG
    assert f"cannot {verb} rows of table {lake}.shop.t" in str(caught.value)
    assert ask(spark, f"SELECT * FROM {lake}.shop.t ORDER BY id") == before


def test_a_merge_of_a_frame_says_who_can_and_text_about_one_is_no_merge(spark, lake):
    table = f"{lake}.shop.t"
    source = spark.range(50, 51).toDF("k")
    writer = source.mergeInto(table, sf.expr("id = k"))
    with pytest.raises(AnalysisException, match=r"lakeroot\.spark\.sql"):
        writer.whenNotMatched().insert({"id": sf.col("k")}).merge()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"UPDATE {lake}.shop.nothing SET city = 'x'")
    spark.sql(f"INSERT INTO {table} (id, city) VALUES (50, 'MERGE INTO')")
    spark.sql(f"/* MERGE INTO */ DELETE FROM {table} WHERE city = 'MERGE INTO' OR id < 9")
    assert ask(spark, f"SELECT id FROM {table} ORDER BY id") == [(9,), (10,), (11,)]


def test_an_ambiguous_merge_is_refused(spark, lake):
    with pytest.raises(InvalidInputError, match="Several rows"):
        lakeroot.spark.sql(
            spark,
            f"MERGE INTO {lake}.shop.t t USING (SELECT 1L AS id FROM range(2)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET city = 'x'",
        )
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t WHERE city = 'x'") == [(0,)]


def test_update_sets_columns_where_a_condition_holds(spark, lake):
    done = lakeroot.spark.sql(
        spark,
        f"UPDATE {lake}.shop.t AS t SET price = t.price * 2, city = 'x, y = z' "
        f"WHERE id IN (SELECT id FROM range(3)) AND city <> 'WHERE'",
    ).first()
    assert done.updated == 3
    assert ask(
        spark, f"SELECT id, price FROM {lake}.shop.t WHERE city = 'x, y = z' ORDER BY 1"
    ) == [
        (0, 0.0),
        (1, 1.0),
        (2, 2.0),
    ]


def test_a_delete_without_a_condition_deletes_all_rows_and_keeps_the_history(spark, lake, catalog):
    version = lance.dataset(where(catalog, "shop", "t")).version
    spark.sql(f"DELETE FROM {lake}.shop.t")
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t") == [(0,)]
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t VERSION AS OF {version}") == [(12,)]
    spark.sql(f"INSERT INTO {lake}.shop.t SELECT * FROM {lake}.shop.t VERSION AS OF {version}")
    assert lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t;").first().deleted == 12


def test_a_delete_that_lance_cannot_evaluate_says_who_can(spark, lake):
    condition = "upper(t.city) = 'OSLO' AND id IN (SELECT id FROM range(5))"
    with pytest.raises(AnalysisException, match=r"lakeroot\.spark\.sql") as caught:
        spark.sql(f"DELETE FROM {lake}.shop.t WHERE upper(city) = 'OSLO'")
    assert caught.value.getCondition() == _CATALOG
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.t") == [(12,)]
    done = lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t AS t WHERE {condition}").first()
    assert (done.inserted, done.updated, done.deleted) == (0, 0, 2)
    assert ask(spark, f"SELECT id FROM {lake}.shop.t WHERE id < 5 ORDER BY id") == [
        (1,),
        (2,),
        (4,),
    ]
    with pytest.raises(InvalidInputError, match="nothing"):
        lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.t WHERE nothing = 1")
    with pytest.raises(TableNotFoundError, match="no table"):
        lakeroot.spark.sql(spark, f"DELETE FROM {lake}.shop.nothing")


def test_changes_may_read_other_tables_and_name_columns_with_the_whole_table(spark, lake):
    table = f"{lake}.shop.t"
    spark.sql(f"CREATE TABLE {lake}.shop.u AS SELECT id, id * 10 AS n FROM range(3)")
    for text, expected in (
        (f"DELETE FROM {table} WHERE {table}.id IN (SELECT u.id FROM {lake}.shop.u)", (0, 0, 3)),
        (f"DELETE FROM {table} WHERE id = (SELECT max(t.id) FROM {table})", (0, 0, 1)),
        (
            f"UPDATE {table} SET {table}.price = (SELECT max(n) FROM {lake}.shop.u WHERE u.id = 1)"
            f" WHERE EXISTS (SELECT 1 FROM {lake}.shop.u WHERE u.id + 3 = t.id)",
            (0, 3, 0),
        ),
        (
            f"MERGE INTO {table} USING {lake}.shop.u ON {table}.id = {lake}.shop.u.id + 5"
            f" WHEN MATCHED AND t.id NOT IN (SELECT id + 5 FROM {lake}.shop.u WHERE n > 0)"
            " THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET price = (SELECT sum(n) FROM {lake}.shop.u)",
            (0, 2, 1),
        ),
    ):
        done = lakeroot.spark.sql(spark, text).first()
        assert (done.inserted, done.updated, done.deleted) == expected, text
    left = ask(spark, f"SELECT id, price FROM {table} WHERE id < 8 ORDER BY id")
    assert left == [(3, 10.0), (4, 10.0), (6, 30.0), (7, 30.0)]


def test_a_column_is_not_taken_for_one_of_another_table_that_is_called_the_same(spark, lake):
    spark.sql(f"CREATE TABLE {lake}.shop.u AS SELECT 3L AS id")
    spark.sql(f"CREATE NAMESPACE {lake}.old")
    spark.sql(f"CREATE TABLE {lake}.old.t AS SELECT 3L AS id")
    column = f"{lake}.shop.t.id"
    for change in ("DELETE FROM {} WHERE", "UPDATE {} SET price = 0 WHERE"):
        for other, id_of_other in (
            (f"{lake}.old.t", f"{lake}.old.t.id"),
            (f"{lake}.shop.u t", "id"),
        ):
            text = change.format(f"{lake}.shop.t")
            with pytest.raises(InvalidInputError, match="cannot be resolved"):
                lakeroot.spark.sql(
                    spark,
                    f"{text} EXISTS (SELECT 1 FROM {other} WHERE {id_of_other} = {column})",
                )
    assert ask(spark, f"SELECT count(*), sum(price) FROM {lake}.shop.t") == [(12, 33.0)]
    text = (
        f"DELETE FROM {lake}.shop.t o WHERE EXISTS (SELECT 1 FROM {lake}.old.t WHERE t.id = o.id)"
    )
    assert lakeroot.spark.sql(spark, text).first().deleted == 1


def test_a_table_is_renamed_with_the_name_of_its_catalog_in_front(spark, lake):
    spark.sql(f"ALTER TABLE {lake}.shop.t RENAME TO {lake}.shop.u")
    assert ask(spark, f"SELECT count(*) FROM {lake}.shop.u") == [(12,)]
    with pytest.raises(AnalysisException, match="another catalog") as caught:
        spark.sql(f"ALTER TABLE {lake}.shop.u RENAME TO spark_catalog.shop.w")
    assert caught.value.getCondition() == _CATALOG
    with pytest.raises(AnalysisException, match=r"SCHEMA_NOT_FOUND.*`nowhere`"):
        spark.sql(f"ALTER TABLE {lake}.shop.u RENAME TO nowhere.w")
    assert ask(spark, f"SHOW TABLES IN {lake}.shop") == [("shop", "u", False)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("MERGE INTO {0}.shop.nothing t USING x s ON 1 = 1 WHEN MATCHED THEN DELETE", "no table"),
        ("MERGE INTO elsewhere.t USING x ON 1 = 1 WHEN MATCHED THEN DELETE", "no Lakeroot"),
        ("MERGE INTO {0}.shop.t t USING x s ON 1 = 1 WHEN MATCHED THEN INSERT *", "UPDATE SET"),
        ("UPDATE {0}.shop.t SET nothing = 1", "no column"),
        ("UPDATE {0}.shop.t SET city", "does not set"),
    ],
)
def test_a_broken_statement_says_where(spark, lake, text, error):
    with pytest.raises(
        (InvalidInputError, TableNotFoundError, LookupError, Exception), match=error
    ):
        lakeroot.spark.sql(spark, text.format(lake))


def test_an_untested_spark_gets_a_clear_answer(spark, root, catalog, monkeypatch):
    monkeypatch.setattr("pyspark.__version__", "4.9.0")
    with pytest.raises(UnsupportedOperationError, match="format"):
        lakeroot.spark.use_catalog(spark, "other", root=root)


def test_a_merge_may_have_comments_and_a_semicolon(spark, lake):
    done = lakeroot.spark.sql(
        spark,
        f"""-- What came in today;
            MERGE INTO {lake}.shop.t t -- the table
            USING /* new */ (SELECT 1L AS id -- one row
            ) s -- and its alias
            ON t.id = s.id WHEN MATCHED THEN UPDATE SET
            city = CASE WHEN t.id = 1 THEN '-- no comment' ELSE t.city END /* done */; -- end
        """,
    ).first()
    assert done.updated == 1
    assert ask(spark, f"SELECT city FROM {lake}.shop.t WHERE id = 1") == [("-- no comment",)]
