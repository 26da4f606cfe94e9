"""The columns that the clauses of a MERGE and the settings of an UPDATE name."""

import itertools

import lance
import pytest

import lakeroot.spark
from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark.null_checks import NullChecks
from tests.spark.conftest import put
from tests.spark.test_exact_conditions import moments

_numbers = itertools.count()
_MERGE = "MERGE INTO {0}.shop.t t USING changes s ON t.id = s.id "


@pytest.fixture
def lake(spark, root, catalog):
    """A catalog of this test alone; a name in a session stays taken."""
    name = f"clauses{next(_numbers)}"
    lakeroot.spark.use_catalog(spark, name, root=root)
    spark.sql(f"CREATE TABLE {name}.shop.t AS SELECT id, 'old' AS city, 1D AS price FROM range(2)")
    changes = spark.sql("SELECT 1L AS ID, 'new' AS City, 5D AS PRICE UNION ALL SELECT 9, 'nine', 9")
    changes.createOrReplaceTempView("changes")
    return name


def rows(spark, lake):
    found = spark.sql(f"SELECT id, city, price FROM {lake}.shop.t ORDER BY id").collect()
    return [tuple(row) for row in found]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("WHEN MATCHED THEN UPDATE SET CITY = s.city, t.Price = 7", (1, "new", 7.0)),
        ("WHEN MATCHED THEN UPDATE SET *", (1, "new", 5.0)),
        ("WHEN NOT MATCHED THEN INSERT (Id, `CITY`) VALUES (s.id, s.city)", (9, "nine", None)),
        ("WHEN NOT MATCHED THEN INSERT *", (9, "nine", 9.0)),
        (
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET City = 'left'",
            (0, "left", 1.0),
        ),
    ],
)
def test_a_merge_finds_columns_in_any_case(spark, lake, clauses, expected):
    lakeroot.spark.sql(spark, (_MERGE + clauses).format(lake))
    assert expected in rows(spark, lake)


def test_an_update_finds_columns_in_any_case(spark, lake):
    lakeroot.spark.sql(spark, f"UPDATE {lake}.shop.t SET PRICE = 4 WHERE ID = 1")
    assert rows(spark, lake) == [(0, "old", 1.0), (1, "old", 4.0)]


@pytest.mark.parametrize(
    "clauses",
    [
        "WHEN MATCHED THEN UPDATE SET cty = s.city",
        "WHEN NOT MATCHED THEN INSERT (id, cty) VALUES (s.id, s.city)",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET cty = 'x'",
    ],
)
def test_a_merge_that_names_a_column_the_table_has_not_is_refused(spark, lake, clauses):
    before = rows(spark, lake)
    with pytest.raises(TableColumnNotFoundError, match="Did you mean 'city'"):
        lakeroot.spark.sql(spark, (_MERGE + clauses).format(lake))
    assert rows(spark, lake) == before


def test_a_merge_that_is_to_add_columns_says_to_add_them_first(spark, lake):
    text = _MERGE.replace("INTO", "WITH SCHEMA EVOLUTION INTO") + "WHEN MATCHED THEN UPDATE SET *"
    with pytest.raises(UnsupportedOperationError, match="ADD COLUMNS"):
        lakeroot.spark.sql(spark, text.format(lake))


def test_a_clause_that_sets_a_column_twice_is_refused(spark, lake):
    with pytest.raises(InvalidInputError, match="'city' twice"):
        lakeroot.spark.sql(
            spark, (_MERGE + "WHEN MATCHED THEN UPDATE SET city = 'a', City = 'b'").format(lake)
        )


def test_a_session_that_minds_case_tells_columns_apart(spark, lake):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(TableColumnNotFoundError, match="no column 'CITY'"):
            lakeroot.spark.sql(spark, f"UPDATE {lake}.shop.t SET CITY = 'x'")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (_MERGE + "WHEN MATCHED THEN UPDATE SET s.city = 'x'", "called t here"),
        (_MERGE + "WHEN MATCHED THEN UPDATE SET shop.t.city = 'x'", "called t here"),
        (_MERGE + "WHEN MATCHED THEN UPDATE SET t.city = 'x', t.city = 'y'", "twice"),
        (_MERGE + "WHEN MATCHED THEN UPDATE SET t.city = 'x', City = 'y'", "twice"),
        (_MERGE + "WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)", "twice"),
        ("UPDATE {0}.shop.t SET x.city = 'x'", "called {0}.shop.t here"),
        ("UPDATE {0}.shop.t SET city = 'x', city = 'y'", "twice"),
        ("UPDATE {0}.shop.t SET city = 'x', CITY = 'y'", "twice"),
    ],
)
def test_what_sets_another_table_or_a_column_twice_is_refused(spark, lake, text, error):
    before = rows(spark, lake)
    with pytest.raises(InvalidInputError, match=error.format(lake)):
        lakeroot.spark.sql(spark, text.format(lake))
    assert rows(spark, lake) == before


def test_a_column_is_set_by_its_name_with_or_without_that_of_the_table(spark, lake):
    for number, column in enumerate(("price", "t.price", "shop.t.PRICE", f"{lake}.shop.t.`price`")):
        lakeroot.spark.sql(spark, f"UPDATE {lake}.shop.t SET {column} = {number}")
        assert [price for _, _, price in rows(spark, lake)] == [number] * 2


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t.ns IS NULL", "{0}"),
        ("T.`Ns` is\nnot null AND s.x IS NULL", "(NOT {0}) AND s.x IS NULL"),
        ("NOT (ns IS NULL OR t.ns IS NULL)", "NOT ({0} OR {0})"),
        ("CASE WHEN ns.f IS NULL THEN t.ns IS NULL END", "CASE WHEN {0} THEN t.ns IS NULL END"),
        ("(t.ns IS NULL) AND t.ns.f IS NOT NULL", "({0}) AND (NOT {1})"),
        # These ask for more than whether there is a value, for another column, or nothing.
        ("t.a = t.ns IS NULL", None),
        ("t.ns IS NULL = s.b", None),
        ("f(x).ns IS NULL", None),
        ("s.ns IS NULL OR at IS NULL OR t.id IS NULL", None),
        ("s.x = 't.ns IS NULL'", None),
        ("`it's` = 'a AND (t.ns IS NULL) AND b'", None),
    ],
)
def test_only_a_question_for_a_value_is_answered_without_the_column(condition, expected):
    checks = NullChecks(["ns", "at"], "t", ["id", "At"], exact=False)
    names = [f"`t`.`__lakeroot_is_null_{number}`" for number in range(2)]
    assert checks.replaced(condition) == (expected or condition).format(*names)
    assert bool(checks.asked) == (expected is not None)


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (
            "WHEN MATCHED AND t.ns IS NULL THEN UPDATE SET x = 5"
            " WHEN MATCHED AND t.inside.n IS NOT NULL AND t.id < 2 THEN DELETE"
            " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            {2: 0, 3: 5, 4: 0, 5: None},
        ),
        (
            "WHEN MATCHED AND (zoned IS NULL OR t.id = 0) THEN UPDATE SET x = t.id"
            " WHEN NOT MATCHED BY SOURCE AND t.ns IS NOT NULL THEN DELETE",
            {0: 0, 1: 0, 2: 0, 3: 3, 4: 0},
        ),
        ("AND t.ns < '2000-01-01' WHEN MATCHED AND t.ns IS NOT NULL THEN DELETE", None),
    ],
)
def test_a_merge_may_ask_whether_there_is_a_time_with_nanoseconds(
    spark, root, lake, catalog, clauses, expected
):
    place = put(catalog, "shop.times", moments(), max_rows_per_file=2)
    merge = f"MERGE INTO {lake}.shop.times t USING (SELECT id FROM range(6)) s ON t.id = s.id "
    lakeroot.spark.sql(spark, merge + clauses)
    found = lance.dataset(place).to_table().sort_by("id")
    if expected is None:
        assert found["id"].to_pylist() == [0, 1, 2, 3]
        return
    assert dict(zip(*(found[name].to_pylist() for name in ("id", "x")), strict=True)) == expected
    # What is left has its nanoseconds.
    kept = [row for row in found["id"].to_pylist() if row < 5]
    assert found["ns"].slice(0, len(kept)).equals(moments()["ns"].take(kept))
