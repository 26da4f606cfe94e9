"""Queries: nearest vectors, full text, filters, versions, branches and plans."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace_urllib3_client.models import (
    AnalyzeTableQueryPlanRequest,
    ExplainTableQueryPlanRequest,
    QueryTableRequest,
)

from lakeroot.model import errors
from lakeroot.tables import rows, search
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.options import CreateMode
from lakeroot.tables.search import Query

COUNT = 300
WORDS = ["red fox", "blue fox", "red hen", "green owl in the old wood"]
HERE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
THERE = [0.9] * 8


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table with vectors, texts and a branch, which no test changes."""
    root = tmp_path_factory.mktemp("lake")
    random = np.random.default_rng(7)
    data = pa.table(
        {
            "id": pa.array(range(COUNT), pa.int64()),
            "body": [WORDS[i % 4] for i in range(COUNT)],
            "title": [WORDS[(i + 1) % 4] for i in range(COUNT)],
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(random.random(COUNT * 8), pa.float32()), 8
            ),
            "pair": pa.array(
                [[[float(i % 5), 1.0], [2.0, 3.0]] for i in range(COUNT)],
                pa.list_(pa.list_(pa.float32(), 2)),
            ),
            "meta": pa.array([{"x": i % 10, "a.b": i} for i in range(COUNT)]),
        }
    )
    dataset = lance.write_dataset(data, root / "t.lance")
    dataset.create_scalar_index("body", "INVERTED", with_position=True)
    dataset.create_scalar_index("title", "INVERTED", with_position=True)
    dataset.create_index("vector", "IVF_HNSW_SQ", num_partitions=2)
    dataset.tags.create("before", dataset.version)
    branch = dataset.create_branch("dev")
    branch.delete("id >= 10")
    dataset.checkout_latest()
    dataset.delete("id < 5")
    return root


@pytest.fixture(scope="module")
def table(lake: Path) -> TableHandle:
    return TableHandle(str(lake / "t.lance"))


def found(table: TableHandle, **wanted: Any) -> pa.Table:
    return search.query(table, Query(**wanted)).read_all()


def ids(table: TableHandle, **wanted: Any) -> list[int]:
    return list(found(table, **{"columns": ["id"]} | wanted)["id"].to_pylist())


def test_the_nearest_rows_come_first(table: TableHandle) -> None:
    nearest = found(table, k=4, vector=HERE, bypass_vector_index=True)

    vectors = np.stack(
        lance.dataset(table.location).to_table()["vector"].to_numpy(zero_copy_only=False)
    )
    expected = np.sort(((vectors - np.array(HERE)) ** 2).sum(axis=1))[:4]
    assert np.allclose(nearest["_distance"].to_numpy(), expected, atol=1e-5)
    assert nearest.column_names[-1] == "_distance"


def test_an_offset_skips_the_nearest_and_still_returns_k_rows(table: TableHandle) -> None:
    first = ids(table, k=6, vector=HERE, bypass_vector_index=True)

    assert ids(table, k=3, offset=3, vector=HERE, bypass_vector_index=True) == first[3:]


def test_several_vectors_are_several_queries(table: TableHandle) -> None:
    both = found(table, k=3, vectors=[HERE, THERE], columns=["id"], bypass_vector_index=True)

    assert both["query_index"].to_pylist() == [0, 0, 0, 1, 1, 1]
    assert both["id"].to_pylist() == ids(table, k=3, vector=HERE, bypass_vector_index=True) + ids(
        table, k=3, vector=THERE, bypass_vector_index=True
    )


def test_an_offset_counts_in_each_of_several_queries(table: TableHandle) -> None:
    both = found(
        table, k=2, offset=1, vectors=[HERE, THERE], columns=["id"], bypass_vector_index=True
    )

    assert both["query_index"].to_pylist() == [0, 0, 1, 1]
    assert both["id"].to_pylist() == (
        ids(table, k=3, vector=HERE, bypass_vector_index=True)[1:]
        + ids(table, k=3, vector=THERE, bypass_vector_index=True)[1:]
    )


def test_vectors_on_a_multivector_column_are_one_query(table: TableHandle) -> None:
    near = found(table, k=2, vectors=[[1.0, 1.0], [2.0, 3.0]], vector_column="pair")

    assert near.num_rows == 2
    assert "query_index" not in near.column_names
    assert {row % 5 for row in near["id"].to_pylist()} == {1}


@pytest.mark.parametrize("vectors", [[[]], [HERE, []], [HERE, HERE[:1]]])
def test_vectors_without_numbers_or_of_different_lengths_are_refused(
    vectors: list[list[float]],
) -> None:
    with pytest.raises(errors.InvalidInputError, match="equally many"):
        Query(k=1, vectors=vectors)


def test_without_a_vector_rows_come_in_order(table: TableHandle) -> None:
    assert ids(table, k=3) == [5, 6, 7]
    assert ids(table, k=2, offset=2) == [7, 8]
    assert ids(table, k=2**64, filter="id < 8") == [5, 6, 7]


@pytest.mark.parametrize(
    "wanted", [{}, {"vector": HERE}, {"vectors": [HERE, THERE]}, {"full_text": "fox"}]
)
def test_no_rows_can_be_asked_for(table: TableHandle, wanted: dict[str, Any]) -> None:
    nothing = found(table, k=0, **wanted)

    assert nothing.num_rows == 0
    assert "id" in nothing.column_names
    assert search.explain(table, Query(k=0, **wanted))


def test_more_rows_than_there_are_can_be_asked_for(table: TableHandle) -> None:
    assert len(ids(table, k=2**63 - 1, vector=HERE, bypass_vector_index=True)) == COUNT - 5


def test_a_filter_is_applied_before_or_after_the_search(table: TableHandle) -> None:
    wanted: dict[str, Any] = {"k": 5, "vector": HERE, "filter": "id < 10"}

    assert len(ids(table, prefilter=True, bypass_vector_index=True, **wanted)) == 5
    assert len(ids(table, bypass_vector_index=True, **wanted)) < 5


def test_distances_can_be_bounded(table: TableHandle) -> None:
    near = found(
        table, k=50, vector=HERE, lower_bound=0.3, upper_bound=0.5, bypass_vector_index=True
    )

    assert near.num_rows
    assert all(0.3 <= distance < 0.5 for distance in near["_distance"].to_pylist())


@pytest.mark.parametrize(
    "knobs",
    [
        {"nprobes": 2},
        {"nprobes": 0, "refine_factor": 0, "ef": 0},
        {"nprobes": 1, "minimum_nprobes": 2, "maximum_nprobes": 2},
        {"minimum_nprobes": 1},
        {"refine_factor": 4, "ef": 50},
        {"fast_search": True},
        {"distance_type": "L2"},
    ],
)
def test_the_index_can_be_tuned(table: TableHandle, knobs: dict[str, Any]) -> None:
    assert len(ids(table, k=5, vector=HERE, **knobs)) == 5


def test_the_distance_can_be_measured_in_other_ways(table: TableHandle) -> None:
    cosine = found(table, k=3, vector=HERE, distance_type="Cosine", bypass_vector_index=True)

    assert all(0 <= distance <= 2 for distance in cosine["_distance"].to_pylist())


def test_columns_can_be_chosen_and_renamed(table: TableHandle) -> None:
    chosen = found(table, k=1, vector=HERE, columns=["body", "id"], with_row_id=True)
    renamed = found(table, k=1, columns={"number": "id", "twice": "id * 2", "inner": "meta.x"})
    quoted = found(table, k=1, columns={"dotted": "meta.`a.b`"})

    assert chosen.column_names == ["body", "id", "_distance", "_rowid"]
    assert renamed.to_pylist() == [{"number": 5, "twice": 10, "inner": 5}]
    assert quoted.to_pylist() == [{"dotted": 5}]


def test_row_ids_come_when_asked_for(table: TableHandle) -> None:
    assert found(table, k=2, columns=["id"], with_row_id=True)["_rowid"].to_pylist() == [5, 6]


def test_an_older_version_a_tag_and_a_branch_can_be_queried(table: TableHandle) -> None:
    assert ids(table, k=1, version=1) == [0]
    assert ids(table, k=1, tag="before") == [0]
    assert ids(table, k=COUNT, branch="dev") == list(range(10))


def test_full_text_finds_the_best_matches(table: TableHandle) -> None:
    hits = found(table, k=COUNT, full_text="owl", full_text_columns=["body"])

    assert {row % 4 for row in hits["id"].to_pylist()} == {3}
    assert hits.column_names[-1] == "_score"
    assert len(ids(table, k=3, offset=2, full_text="owl")) == 3


HUGE = """
import sys
from lakeroot.tables import search
from lakeroot.tables.handle import TableHandle

table = TableHandle(sys.argv[1])
most = 2**62
for options in (
    {"refine_factor": 2**31}, {"refine_factor": 2**32 - 1, "k": most}, {"ef": most},
    {"ef": most, "refine_factor": 2**31}, {"nprobes": 2**31}, {"minimum_nprobes": 2**31},
    {"maximum_nprobes": 2**31}, {"k": most, "offset": most}, {"vectors": True, "k": most},
    {"full_text": "fox", "k": most}, {"full_text": "fox", "offset": most}, {"k": most},
    {"plain": True, "k": most, "offset": most},
):
    wanted = {"k": 3, "columns": ["id"], **options}
    if wanted.pop("vectors", False):
        wanted["vectors"] = [[0.1] * 8] * 2
    elif not wanted.pop("plain", False) and "full_text" not in wanted:
        wanted["vector"] = [0.1] * 8
    search.query(table, search.Query(**wanted)).read_all()
print("alive")
"""


def test_no_number_in_a_query_ends_the_process(table: TableHandle) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HUGE, table.location], capture_output=True, text=True, check=False
    )

    assert ran.stdout.strip() == "alive", ran.stderr[-2000:]


def test_refining_more_than_there_is_finds_the_nearest(table: TableHandle) -> None:
    exact = ids(table, k=4, vector=HERE, bypass_vector_index=True)

    assert ids(table, k=4, vector=HERE, refine_factor=2**31, nprobes=2) == exact


def test_full_text_searches_all_indexed_columns_by_default(table: TableHandle) -> None:
    assert {row % 4 for row in ids(table, k=COUNT, full_text="owl")} == {2, 3}


def test_full_text_takes_a_filter(table: TableHandle) -> None:
    assert ids(table, k=9, full_text="owl", filter="id < 12", prefilter=True) != []


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ({"match": {"terms": "red hen", "column": "body"}}, {0, 2}),
        ({"match": {"terms": "red hen", "column": "body", "operator": "And"}}, {2}),
        ({"match": {"terms": "hem", "column": "body", "fuzziness": 1, "boost": 2}}, {2}),
        ({"match": {"terms": "owl"}}, {2, 3}),
        ({"phrase": {"terms": "red fox", "column": "body"}}, {0}),
        ({"phrase": {"terms": "green wood", "column": "body", "slop": 4}}, {3}),
        (
            {
                "boost": {
                    "positive": {"match": {"terms": "fox", "column": "body"}},
                    "negative": {"match": {"terms": "blue", "column": "body"}},
                    "negative_boost": 0.1,
                }
            },
            {0, 1},
        ),
        (
            {
                "multi_match": {
                    "match_queries": [
                        {"terms": "owl", "column": "body"},
                        {"terms": "owl", "column": "title", "boost": 3},
                    ]
                }
            },
            {2, 3},
        ),
        (
            {
                "multi_match": {
                    "match_queries": [
                        {"terms": "owl", "column": "body"},
                        {"terms": "blue", "column": "body"},
                    ]
                }
            },
            {1, 3},
        ),
        (
            {
                "multi_match": {
                    "match_queries": [
                        {"terms": "red owl", "column": "title", "operator": "Or"},
                        {"terms": "red owl", "column": "body", "operator": "And"},
                    ]
                }
            },
            {1, 2, 3},
        ),
        (
            {
                "boolean": {
                    "must": [{"match": {"terms": "red", "column": "body"}}],
                    "should": [],
                    "must_not": [{"match": {"terms": "hen", "column": "body"}}],
                }
            },
            {0},
        ),
    ],
)
def test_structured_full_text_means_what_it_says(
    table: TableHandle, text: dict[str, Any], rest: set[int]
) -> None:
    assert {row % 4 for row in ids(table, k=COUNT, full_text=text)} == rest


def nested(depth: int) -> dict[str, Any]:
    query: dict[str, Any] = {"match": {"terms": "owl", "column": "body"}}
    for _ in range(depth):
        query = {"boolean": {"must": [query], "should": [], "must_not": []}}
    return query


@pytest.mark.parametrize(
    "text",
    [
        {},
        {"match": {"terms": "owl"}, "phrase": {"terms": "owl"}},
        {"fuzzy": {"terms": "owl"}},
        {"match": {"column": "body"}},
        {"match": "owl"},
        {"match": {"terms": "owl", "column": "body", "operator": "xor"}},
        {"multi_match": {"match_queries": []}},
        {"multi_match": {"match_queries": "owl"}},
        {"boolean": {"must": [], "should": [], "must_not": []}},
        {"boolean": {"must_not": [{"match": {"terms": "owl"}}]}},
        {"boost": {"positive": {"match": {"terms": "owl", "column": "body"}}}},
        nested(1000),
    ],
)
def test_a_full_text_query_that_makes_no_sense_is_refused(
    table: TableHandle, text: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidInputError):
        found(table, k=1, full_text=text)


def test_full_text_needs_an_index_to_find_its_columns(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, pa.table({"body": WORDS}))

    for text in ("owl", {"match": {"terms": "owl"}}):
        with pytest.raises(errors.InvalidInputError):
            found(table, k=1, full_text=text)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"k": -1}, 13),
        ({"k": 1, "offset": -1}, 13),
        ({"k": 1, "vector": HERE, "vectors": [HERE]}, 13),
        ({"k": 1, "vector": HERE, "full_text": "owl"}, 13),
        ({"k": 1, "vector": [1.0]}, 13),
        ({"k": 1, "vectors": [HERE, [1.0]]}, 13),
        ({"k": 1, "vector": HERE, "vector_column": "zz"}, 12),
        ({"k": 1, "vector": HERE, "vector_column": "id"}, 13),
        ({"k": 1, "vector": HERE, "distance_type": "furlong"}, 13),
        ({"k": 1, "vector": HERE, "minimum_nprobes": 3, "maximum_nprobes": 2}, 13),
        ({"k": 1, "columns": ["zz"]}, 12),
        ({"k": 1, "columns": {"x": "zz + 1"}}, 12),
        ({"k": 1, "columns": {"x": "id +"}}, 13),
        ({"k": 1, "columns": {"x": "id, body"}}, 13),
        ({"k": 1, "columns": {"x": "id FROM elsewhere"}}, 13),
        ({"k": 1, "columns": {"x": ""}}, 13),
        ({"k": 1, "columns": {"a\0b": "id"}}, 13),
        ({"k": 1, "columns": {"x": "named_struct('a\0b', id)"}}, 13),
        (
            {"k": 1, "columns": {"x": "arrow_cast(id, concat('Timestamp(s, \"', chr(0), '\")'))"}},
            13,
        ),
        ({"k": 1, "columns": ["id", "id"]}, 13),
        ({"k": 1, "filter": "id >"}, 13),
        ({"k": 1, "filter": "id > 1 LIMIT 5"}, 13),
        ({"k": 1, "vector": HERE, "filter": "id > 1) or (true"}, 13),
        ({"k": 1, "filter": "zz > 1"}, 12),
        ({"k": 1, "filter": "id"}, 13),
        ({"k": 1, "filter": "LanceError(IO): Permission denied"}, 13),
        ({"k": 1, "full_text": "owl", "full_text_columns": ["zz"]}, 12),
        ({"k": 1, "version": 99}, 11),
        ({"k": 1, "version": 0}, 11),
        ({"k": 1, "version": 2**70}, 11),
        ({"k": 1, "version": -1}, 13),
        ({"k": 1, "tag": "zz"}, 8),
        ({"k": 1, "tag": "before", "version": 1}, 13),
        ({"k": 1, "branch": "zz"}, 22),
        ({"k": 1, "branch": "dev", "version": 99}, 11),
        ({"k": 1, "branch": "../.."}, 13),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(
    table: TableHandle, wanted: dict[str, Any], code: int
) -> None:
    for ask in (search.query_ipc, search.explain):
        with pytest.raises(errors.LakerootError) as refused:
            ask(table, Query(**wanted))
        assert refused.value.code == code


def test_the_vector_column_must_be_clear(tmp_path: Path) -> None:
    vectors = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, pa.table({"one": vectors}))
    assert found(table, k=1, vector=[1.0, 2.0]).num_rows == 1

    rows.create(table, pa.table({"one": vectors, "two": vectors}), mode=CreateMode.OVERWRITE)
    with pytest.raises(errors.InvalidInputError, match="one, two"):
        found(table, k=1, vector=[1.0, 2.0])

    rows.create(table, pa.table({"one": [1]}), mode=CreateMode.OVERWRITE)
    with pytest.raises(errors.TableColumnNotFoundError):
        found(table, k=1, vector=[1.0, 2.0])


def test_a_plan_tells_how_a_query_runs(table: TableHandle) -> None:
    by_index = search.explain(table, Query(k=1, vector=HERE))
    by_hand = search.explain(table, Query(k=1, vector=HERE, bypass_vector_index=True), verbose=True)

    assert "ANN" in by_index
    assert "ANN" not in by_hand
    assert "output_rows=1" in search.analyze(table, Query(k=1, vector=HERE))


@pytest.mark.parametrize(
    ("request_fields", "wanted"),
    [
        ({"k": 3, "vector": {"single_vector": HERE}}, {"k": 3, "vector": HERE}),
        (
            {"k": 3, "vector": {"single_vector": HERE}, "filter": "id > 9", "prefilter": True},
            {"k": 3, "vector": HERE, "filter": "id > 9", "prefilter": True},
        ),
        (
            {
                "k": 2,
                "vector": {"single_vector": HERE},
                "with_row_id": True,
                "columns": {"column_names": ["id"]},
            },
            {"k": 2, "vector": HERE, "with_row_id": True, "columns": ["id"]},
        ),
        (
            {"k": 2, "vector": {}, "columns": {"column_aliases": {"n": "id"}}, "version": 1},
            {"k": 2, "columns": {"n": "id"}, "version": 1},
        ),
        (
            {"k": 4, "vector": {}, "full_text_query": {"string_query": {"query": "hen"}}},
            {"k": 4, "full_text": "hen"},
        ),
        ({"k": 2, "vector": {"single_vector": []}, "offset": 3}, {"k": 2, "offset": 3}),
    ],
)
def test_both_catalogs_answer_alike(
    lake: Path, table: TableHandle, request_fields: dict[str, Any], wanted: dict[str, Any]
) -> None:
    theirs = DirectoryNamespace(root=str(lake))
    request = QueryTableRequest(id=["t"], **request_fields)
    answer = pa.ipc.open_file(theirs.query_table(request).data).read_all()

    assert pa.ipc.open_file(search.query_ipc(table, Query(**wanted))).read_all() == answer


def test_both_catalogs_show_the_same_plan(lake: Path, table: TableHandle) -> None:
    theirs = DirectoryNamespace(root=str(lake))
    request = {"k": 3, "vector": {"single_vector": HERE}}
    plan = theirs.explain_table_query_plan(
        ExplainTableQueryPlanRequest(id=["t"], query=QueryTableRequest(**request))
    )
    analysis = theirs.analyze_table_query_plan(AnalyzeTableQueryPlanRequest(id=["t"], **request))

    assert search.explain(table, Query(k=3, vector=HERE)) == plan
    assert analysis.split()[0] == search.analyze(table, Query(k=3, vector=HERE)).split()[0]
