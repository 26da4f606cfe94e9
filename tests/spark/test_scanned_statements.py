"""Statements are taken apart outside of quotes and comments, without Spark."""

import pytest

from lakeroot.spark.spark_sql.scanning import Statement, assignments, split


def test_statements_are_cut_outside_of_quotes():
    statement = Statement("a 'USING' (USING) USING b -- ON\n ON c;")
    assert statement.until(("USING",)) == "a 'USING' (USING)"
    statement.expect("USING")
    assert statement.until(("ON",)).startswith("b")
    assert split("a, f(b, c), 'd, e'") == ["a", "f(b, c)", "'d, e'"]
    assert assignments("a = b = c, T.`x y` = 1", ("lake", "t")) == {"a": "b = c", "x y": "1"}
    assert assignments("t . ` a``b` = 1", ("lake", "t")) == {" a`b": "1"}


@pytest.mark.parametrize(
    "text", ["MERGE -- a\nINTO t;", "/* a; */ MERGE INTO /* b\n */ t ; -- c", "MERGE INTO t\n;;\n"]
)
def test_comments_and_semicolons_are_no_part_of_a_statement(text):
    statement = Statement(text)
    statement.expect("MERGE", "INTO")
    assert statement.until(("USING",)) == "t"


def test_a_case_keeps_its_own_keywords():
    statement = Statement("CASE WHEN s.case THEN CASE a WHEN 1 THEN 2 END END, end = 1 WHEN b")
    assert statement.until(("WHEN",)).endswith("END END, end = 1")
    statement.expect("WHEN", "B")


def test_a_word_behind_a_dot_is_a_name():
    statement = Statement("UPDATE lake.set.set SET a = 1")
    statement.expect("UPDATE")
    assert statement.until(("SET",)) == "lake.set.set"
    assert statement.take("SET")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("set.shop.t", "set.shop.t"),
        ("update . set\n. 1set", "update.set.1set"),
        ("`set` /* as */ .`a ``set`", "`set`.`a ``set`"),
        ("lake.2e3x.where", "lake.2e3x.where"),
    ],
)
def test_a_name_with_dots_may_begin_with_a_keyword_and_hold_spaces(name, found):
    statement = Statement(f"UPDATE {name} SET a = 1")
    assert statement.take("UPDATE")
    assert statement.until(("SET",)) == found
    assert statement.take("SET")


def test_a_number_with_a_dot_is_no_name():
    statement = Statement("a = 1. WHEN b > .5 WHEN.5e3 WHEN .5D WHEN c")
    parts = [statement.until(("WHEN",))]
    while statement.take("WHEN"):
        parts.append(statement.until(("WHEN",)))
    assert parts == ["a = 1.", "b > .5", ".5e3", ".5D", "c"]


def test_a_list_of_columns_is_cut_outside_of_their_types():
    columns = "m MAP<STRING, ARRAY<INT>> COMMENT '<', s STRUCT<a: INT, b: DECIMAL(5, 2)>, c INT"
    assert [text[0] for text in split(columns, types=True)] == ["m", "s", "c"]
    assert split("a < b, c > d") == ["a < b", "c > d"]
    column = Statement("STRUCT<first: INT, after: INT> AFTER b", types=True)
    assert column.until(("FIRST",), ("AFTER",)) == "STRUCT<first: INT, after: INT>"


def test_quotes_may_hold_what_looks_like_a_comment_and_hints_stay():
    assert Statement("a '-- b' /*+ c */ \"/* d */\" `--e`").until() == (
        "a '-- b' /*+ c */ \"/* d */\" `--e`"
    )
