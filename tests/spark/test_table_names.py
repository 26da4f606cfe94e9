"""Tables are found in a statement by where their names stand, and columns by their tables."""

import pytest

from lakeroot.spark.spark_sql.table_names import NamedTable, parted


def shown(text: str) -> str:
    """Put every table that is read into brackets."""
    parts = parted(text, ["lake", "sea"])
    return "".join(part if isinstance(part, str) else f"[{part.name}]" for part in parts)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM lake.a.t", "SELECT * FROM [lake.a.t]"),
        ("FROM lake . a . t SELECT 'lake.a.t'", "FROM [lake.a.t] SELECT 'lake.a.t'"),
        ("SELECT lake.a.t.x FROM lake.a.t", "SELECT `t`.`x` FROM [lake.a.t]"),
        ("SELECT lake.x FROM t, lake.a.u", "SELECT lake.x FROM t, [lake.a.u]"),
        ("SELECT r.lake.x FROM r", "SELECT r.lake.x FROM r"),
        ("SELECT lake.x, lake.y FROM r lake", "SELECT lake.x, lake.y FROM r lake"),
        (
            "SELECT f(lake.x), 1 FROM (lake.t, sea.t)",
            "SELECT f(lake.x), 1 FROM ([lake.t], [sea.t])",
        ),
        ("SELECT trim(BOTH ' ' FROM lake.x) FROM r", "SELECT trim(BOTH ' ' FROM lake.x) FROM r"),
        ("SELECT 1 IS DISTINCT FROM lake.x", "SELECT 1 IS DISTINCT FROM lake.x"),
        (
            "SELECT 1 -- FROM lake.t\nFROM /* x */ lake.t",
            "SELECT 1 -- FROM lake.t\nFROM /* x */ [lake.t]",
        ),
        ("SELECT 1 FROM r WHERE x IN (1, lake.x)", "SELECT 1 FROM r WHERE x IN (1, lake.x)"),
        (
            "SELECT 1 FROM r, LATERAL (FROM sea.`a b`)",
            "SELECT 1 FROM r, LATERAL (FROM [sea.`a b`])",
        ),
        ("SELECT t.from, lake.x FROM r", "SELECT t.from, lake.x FROM r"),
        ("UPDATE lake.t SET lake.t.x = 1", "UPDATE [lake.t] SET `t`.`x` = 1"),
        (
            "FROM lake.t x JOIN lake.u y ON x.id = y.id, sea.v WHERE lake.t.id IN (1, lake.x)",
            "FROM [lake.t] x JOIN [lake.u] y ON x.id = y.id, [sea.v] WHERE `t`.`id` IN (1, lake.x)",
        ),
        ("SELECT * FROM VALUES (1, 2) AS v, lake.t", "SELECT * FROM VALUES (1, 2) AS v, [lake.t]"),
    ],
)
def test_a_table_is_found_where_a_query_reads_one(text, found):
    assert shown(text) == found


@pytest.mark.parametrize(
    "other", ["sea.t", "lake.b.T", "lake.u AS t", "lake.u `T`", "r t", "t", "r.t", "(SELECT 1) t"]
)
def test_a_column_keeps_the_whole_name_of_a_table_if_another_is_called_like_it(other):
    # Inside of the subquery `t.id` would be of the other one.
    text = f"DELETE FROM lake.t WHERE EXISTS (SELECT 1 FROM {other} WHERE x = lake.t.id)"
    assert shown(text).endswith("WHERE x = lake.t.id)")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "MERGE INTO lake.u t USING (SELECT lake.t.x FROM lake.t) s ON t.x = lake.u.x",
            "MERGE INTO [lake.u] t USING (SELECT `t`.`x` FROM [lake.t]) s ON t.x = `u`.`x`",
        ),
        (
            "DELETE FROM lake.t WHERE lake.t.x IN (SELECT lake.t.x FROM lake.t y, sea.u)",
            "DELETE FROM [lake.t] WHERE `t`.`x` IN (SELECT `t`.`x` FROM [lake.t] y, [sea.u])",
        ),
        ("FROM (lake.t, sea.u) WHERE lake.t.x", "FROM ([lake.t], [sea.u]) WHERE `t`.`x`"),
        (
            "FROM lake.t y JOIN (sea.u AS t) WHERE lake.t.x",
            "FROM [lake.t] y JOIN ([sea.u] AS t) WHERE lake.t.x",
        ),
        ("FROM lake.t y, sea.t WHERE lake.t.x", "FROM [lake.t] y, [sea.t] WHERE lake.t.x"),
    ],
)
def test_the_nearest_table_of_a_name_is_meant(text, found):
    assert shown(text) == found


def test_another_version_is_another_table_and_is_called_the_same():
    more = "`lake`.t WITH (limit = 1), (lake.t)"
    text = f"TABLE lake.t; SELECT * FROM lake.t VERSION AS OF 2 AS x, {more}"
    tables = [part for part in parted(text, ["lake"]) if isinstance(part, NamedTable)]
    assert [table.version for table in tables] == [None, "2", None, None]
    assert [table.options for table in tables] == ["", "", "limit = 1", ""]
    assert [table.depth for table in tables] == [0, 0, 0, 1]
    assert len({table.same for table in tables}) == 3
    assert [table.put_in("v") for table in tables] == ["v", *["(v AS `t`)"] * 3]
