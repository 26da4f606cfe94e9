"""Predicates and expressions are read to their end, or refused."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from lakeroot.model import errors
from lakeroot.tables import rows
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.rows import MergeRule
from tests.tables.conftest import ROWS

Snapshot = Callable[[TableHandle], dict[str, int]]
MORE = pa.table({"id": pa.array([3, 4], pa.int64()), "name": ["cyd", "dee"]})


PASSED_OVER = (
    "id = 1 LIMIT 5",
    "id = 1 ORDER BY id",
    "id = 1; DROP TABLE people",
    "id = 1; 'bob'",
    "id = 1;;",
    "id = 1 /* a /* comment */ inside */",
    ";",
    "id = 1, id = 2",
    "id = 1 name = 'bob'",
    "id = 1)",
    "id = 1) or (true",
    "true WHERE false",
    "  ",
)


@pytest.mark.parametrize("predicate", PASSED_OVER)
def test_a_predicate_is_read_to_its_end_or_refused(
    table: TableHandle, snapshot: Snapshot, predicate: str
) -> None:
    before = snapshot(table)
    rule = MergeRule(
        on=("id",),
        when_not_matched_by_source_delete=True,
        when_not_matched_by_source_delete_filt=predicate,
    )

    for act in (
        lambda: rows.count_rows(table, predicate=predicate),
        lambda: rows.delete(table, predicate),
        lambda: rows.update(table, {"name": "'x'"}, predicate=predicate),
        lambda: rows.merge_insert(table, ROWS, rule),
    ):
        with pytest.raises(errors.InvalidInputError):
            act()
    assert snapshot(table) == before


def test_an_empty_predicate_of_a_change_does_not_mean_every_row(
    table: TableHandle, snapshot: Snapshot
) -> None:
    before = snapshot(table)
    gone = MergeRule(
        on=("id",),
        when_not_matched_by_source_delete=True,
        when_not_matched_by_source_delete_filt="",
    )
    matched = MergeRule(on=("id",), when_matched_update_all=True, when_matched_update_all_filt="")

    for act in (
        lambda: rows.delete(table, ""),
        lambda: rows.update(table, {"name": "'x'"}, predicate=""),
        lambda: rows.merge_insert(table, MORE, gone),
        lambda: rows.merge_insert(table, MORE, matched),
    ):
        with pytest.raises(errors.InvalidInputError):
            act()
    assert snapshot(table) == before


@pytest.mark.parametrize("value", ["1, 2", "1; 2", "1 FROM x", "id WHERE false", "DISTINCT 1", " "])
def test_the_expression_of_an_update_is_read_to_its_end_or_refused(
    table: TableHandle, snapshot: Snapshot, value: str
) -> None:
    before = snapshot(table)

    with pytest.raises(errors.InvalidInputError):
        rows.update(table, {"id": value})
    assert snapshot(table) == before


@pytest.mark.parametrize(
    ("predicate", "count"),
    [
        ("id = 1 -- the first", 1),
        ("id /* the key */ < 3", 2),
        ("name = 'a)' or name = 'it''s (' or `name` = 'cy'", 1),
        ("(id = 1) or (id = 2)", 2),
        ("id = 1;", 1),
        ("id = 1 ; -- the first; /* and last */", 1),
        ("id = 1 /* the; */; /* first; */\n", 1),
        ("id = 1 -- the first;", 1),
        ("name <> ';'", 3),
    ],
)
def test_comments_quotes_parentheses_and_a_last_semicolon_are_part_of_a_predicate(
    table: TableHandle, predicate: str, count: int
) -> None:
    assert rows.count_rows(table, predicate=predicate) == count
