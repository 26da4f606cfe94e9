"""Pages of a full text search: every hit once, in one order."""

from typing import Any

import lance
import pyarrow as pa
import pytest

from lakeroot.tables import search
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.search import Query
from tests.tables.test_search import COUNT, found, ids


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> TableHandle:
    """A table where most hits are as good as others, some of them not in the index."""
    table = TableHandle(str(tmp_path_factory.mktemp("lake") / "t.lance"))
    texts = [f"{'red' if i % 2 else 'blue'} w{i} fox" for i in range(COUNT)]
    data = pa.table({"id": range(COUNT), "body": texts, "s": [{"a": i} for i in range(COUNT)]})
    dataset = lance.write_dataset(data, table.location, max_rows_per_file=100)
    dataset.create_scalar_index("body", "INVERTED")
    dataset.insert(pa.table({"id": [COUNT], "body": ["red red"], "s": [{"a": 0}]}))
    dataset.insert(data.slice(0, 20))
    dataset.delete("id = 7")
    return table


@pytest.mark.parametrize("size", [1, 7, 10, 50])
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"filter": "id > 20", "prefilter": True},
        {"with_row_id": True},
        {"columns": ["s.a", "_score", "id"]},
        {"columns": {"id": "id", "twice": "_score * 2"}},
        {"columns": {"id": "id + 0"}},
        {"full_text": {"match": {"terms": "red", "column": "body"}}},
    ],
)
def test_pages_of_a_full_text_search_give_every_row_once(
    alike: TableHandle, size: int, wanted: dict[str, Any]
) -> None:
    wanted = {"columns": ["id"], "full_text": "red", **wanted}
    everything = found(alike, k=10 * COUNT, **wanted)
    if size == 1:
        everything = everything.slice(0, 30)
    pages = [
        found(alike, k=size, offset=offset, **wanted)
        for offset in range(0, everything.num_rows, size)
    ]

    assert everything.num_rows >= 30
    assert pa.concat_tables(pages) == everything
    if "_score" in everything.column_names:
        scores = everything["_score"].to_pylist()
        assert scores == sorted(scores, reverse=True)


def test_a_full_text_search_shows_what_lance_shows(alike: TableHandle) -> None:
    shapes: list[tuple[Any, bool]] = [
        (None, False),
        (None, True),
        (["_score", "s.a"], False),
        (["_rowid", "id"], False),
        (["_rowid", "id"], True),
        ({"x": "id + 1", "_rowid": "id"}, False),
        ({"x": "s.a", "y": "_score"}, True),
    ]
    for columns, with_row_id in shapes:
        wanted = Query(k=10 * COUNT, full_text="red", columns=columns, with_row_id=with_row_id)
        shown = search.query(alike, wanted).read_all()
        plain = search._scanner(lance.dataset(alike.location), wanted).to_table()
        assert shown.schema == plain.schema
        by = [(name, "ascending") for name in plain.column_names if name not in ("s", "body")]
        assert shown.sort_by(by) == plain.sort_by(by)


def test_a_filter_after_a_full_text_search_keeps_some_of_the_best_hits(
    alike: TableHandle,
) -> None:
    best = ids(alike, k=40, full_text="red")

    for offset, k in ((0, 40), (0, 20), (3, 17)):
        expected = [one for one in best[: offset + k] if one % 3 == 0][offset : offset + k]
        kept = ids(alike, k=k, offset=offset, full_text="red", filter="id % 3 = 0")
        assert kept == expected
    assert ids(alike, k=40, full_text="red", filter="_score > 0") == best


def test_a_page_after_the_last_hit_is_empty(alike: TableHandle) -> None:
    empty = found(alike, k=5, offset=10 * COUNT, full_text="red", columns=["id"])

    assert (empty.num_rows, empty.column_names) == (0, ["id", "_score"])
    assert ids(alike, k=5, full_text="nowhere") == []
