"""Expressions that would end the process inside of Lance, or never end, do not reach it."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from lakeroot.model import errors
from lakeroot.tables import columns, rows, search
from lakeroot.tables.depths import check_depth
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.rows import MergeRule
from lakeroot.tables.search import Query

SUM = "+".join(["id"] * 3_000)
COALESCE = "coalesce(" * 40 + "id" + ",1)" * 40

TOO_DEEP = {
    "a sum": SUM,
    "a sum in brackets": f"(({SUM})) > 1",
    "a sum in a function": f"abs({SUM}) > 1",
    "sums in sums": "id + " * 90 + "(" + "id + " * 90 + "id)",
    "a sum of keywords": " + ".join(["and"] * 3_000),
    "patterns of keywords": "id" + " like and" * 3_000,
    "branches outside of CASE": " + ".join(["when"] * 3_000),
    "joined texts": "||".join(["name"] * 3_000),
    "casts": "id" + "::bigint" * 3_000,
    "fields": "a" + ".a" * 3_000,
    "elements": "a" + "[1]" * 3_000,
    "tests": "id" + " is null" * 3_000,
    "comparisons": "id" + " = id" * 3_000,
    "intervals": "interval " * 3_000,
    "types": "cast(id as " + "array<" * 3_000,
    "brackets": "(" * 3_000 + "id" + ")" * 3_000,
    "open brackets": "[" * 3_000,
    "AND in a function": "coalesce(" + " and ".join(["id > 1"] * 3_000) + ", true)",
    "OR in CASE": "abs(case when " + " or ".join(["id > 1"] * 3_000) + " then 1 else 2 end) > 1",
    "after a text with a dollar": f"$$'$$ || {SUM} || $$'$$",
    "after a text with a tag": f"$a$'$a$ || {SUM} || $a$'$a$",
    "after a quoted name": f"`'` || {SUM} || `'`",
    "after a comment": f"/* ' */ {SUM} /* ' */",
    "after a word with dollars": f"a$$ || '$$ ' || {SUM}",
    "between spaces of another kind": f"id\u3000$$'$$ || {SUM} || $$'$$",
}
TOO_MUCH = {
    "coalesce": f"{COALESCE} > 0",
    "a quoted function": COALESCE.replace("coalesce", "`coalesce`"),
    "nvl": "nvl(" * 20 + "id" + ",1)" * 20,
    "another name of a function": "length(" * 20 + "name" + ")" * 20,
    "a function that is not known": "more(" * 20 + "name" + ")" * 20,
    "between": "b" + " between false and true" * 40,
    "between in brackets": "(" * 40 + "b" + " between false and true)" * 40,
    "cast": "cast(" * 40 + "id",
    "case": "case when id > 1 then " * 30,
    "not": "not (" * 30 + "id",
    "position": "position(" * 14,
    "array": "array[" * 30,
    "in turns": "coalesce(abs(cast(" * 10 + "id" + " as bigint)), 1)" * 10,
    "much inside of few": "coalesce(" * 8 + "+".join(["id"] * 120) + ",1)" * 8,
}
WITHIN = {
    "AND": " and ".join(f"id != {i}" for i in range(20_000)),
    "OR": " or ".join(f"(id = {i} and name = 'x')" for i in range(10_000)),
    "NOT": "not (" + " or ".join(f"not id = {i}" for i in range(10_000)) + ")",
    "IN": f"id in ({', '.join(map(str, range(30_000)))})",
    "IN inside of a function": f"coalesce(id in ({', '.join(map(str, range(30_000)))}), false)",
    "BETWEEN": " or ".join(f"id between {i} and {i + 1}" for i in range(5_000)),
    "IS NOT NULL": " and ".join(["id is not null and name not like 'x'"] * 5_000),
    "CASE": "abs(case " + " ".join(f"when id = {i} then {i}" for i in range(5_000)) + " end) > 1",
    "an array": f"array_length([{', '.join(['1.5'] * 2_000)}]) > 1",
    "a sum": "+".join(["id"] * 127) + " > 1",
    "a text": "name = '" + "+ ''(" * 50_000 + "'",
    "a comment": "id > 1 /*" + "+(" * 50_000 + "*/ -- " + "+(" * 50_000,
    "replacements": "replace(" * 30 + "name" + ", 'a', 'b')" * 30 + " = 'x'",
    "coalesce": "coalesce(" * 7 + "id" + ",1)" * 7 + " > 0",
}


@pytest.mark.parametrize("expression", TOO_DEEP.values(), ids=TOO_DEEP)
def test_an_expression_that_is_too_deep_is_refused(expression: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"is too deep.*256 words and signs"):
        check_depth(expression)


@pytest.mark.parametrize("expression", TOO_MUCH.values(), ids=TOO_MUCH)
def test_an_expression_that_doubles_too_often_is_refused(expression: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"is nested too deeply.*doubles"):
        check_depth(expression)


@pytest.mark.parametrize("expression", WITHIN.values(), ids=WITHIN)
def test_what_is_long_but_not_deep_is_taken(expression: str) -> None:
    check_depth(expression)


def test_columns_may_have_the_names_of_keywords() -> None:
    check_depth(" or ".join(f"case = {i} and end > {i}" for i in range(1_000)))
    check_depth(" or ".join(f"`case` = {i} and a.`and` between 1 and 2" for i in range(1_000)))


def test_nothing_that_is_unclosed_takes_long_to_read() -> None:
    for sign in ("/*", "/* *", "'", '"', "`", "$a$", "$", "''", "--", "/"):
        try:
            check_depth(sign * 100_000)
        except errors.InvalidInputError:
            continue


@pytest.mark.parametrize("expression", [SUM, COALESCE], ids=["deep", "endless"])
def test_wherever_an_expression_comes_in_it_is_refused_before_lance_sees_it(
    tmp_path: Path, expression: str
) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    few = pa.table({"id": [1, 2], "name": ["a", "b"]})
    rows.create(table, few)
    predicate = f"{expression} > 1"
    matched = MergeRule(
        ("id",), when_matched_update_all=True, when_matched_update_all_filt=predicate
    )
    lacking = MergeRule(
        ("id",),
        when_not_matched_by_source_delete=True,
        when_not_matched_by_source_delete_filt=predicate,
    )

    for act in (
        lambda: rows.count_rows(table, predicate=predicate),
        lambda: rows.delete(table, predicate),
        lambda: rows.update(table, {"id": expression}),
        lambda: rows.update(table, {"id": "1"}, predicate=predicate),
        lambda: rows.merge_insert(table, few, matched),
        lambda: rows.merge_insert(table, few, lacking),
        lambda: columns.add_columns(table, {"more": expression}),
        lambda: search.query(table, Query(k=1, filter=predicate)),
        lambda: search.query(table, Query(k=1, columns={"x": expression})),
        lambda: search.query(table, Query(k=1, full_text="a", prefilter=True, filter=predicate)),
        lambda: search.explain(table, Query(k=1, filter=predicate)),
        lambda: search.analyze(table, Query(k=1, columns={"x": expression})),
    ):
        with pytest.raises(errors.InvalidInputError, match="deep"):
            act()
    assert rows.count_rows(table) == 2


def test_the_deepest_that_is_allowed_is_computed_on_a_small_stack(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, pa.table({"id": [1, 2], "b": [True, False]}))
    counted: list[int] = []

    def count() -> None:
        predicates = (
            "+".join(["id"] * 127) + " > 127",
            "b" + " is true" * 125,
            "coalesce(" * 7 + "id" + ",id)" * 7 + " > 1",
            "coalesce(" + " or ".join(f"id = {i}" for i in range(2, 240)) + ", false)",
        )
        counted.extend(rows.count_rows(table, predicate=each) for each in predicates)

    before = threading.stack_size(2 << 20)
    try:
        thread = threading.Thread(target=count)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert counted == [1, 1, 1, 1]
