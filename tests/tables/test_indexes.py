"""Indexes: every kind pylance builds, their options, listing, statistics, dropping."""

from pathlib import Path
from typing import Any

import lance
import lance_namespace
import numpy as np
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace

from lakeroot.model import errors
from lakeroot.tables import indexes, rows
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.indexes import SCALAR_TYPES, VECTOR_TYPES, IndexRequest
from tests.tables.conftest import managed_handle

COUNT = 300
DATA = pa.table(
    {
        "id": pa.array(range(COUNT), pa.int64()),
        "text": [f"word{i % 7} and more" for i in range(COUNT)],
        "tags": [["x", "y"]] * COUNT,
        "vector": pa.FixedSizeListArray.from_arrays(
            pa.array(np.random.default_rng(3).random(COUNT * 16), pa.float32()), 16
        ),
        "place": pa.array(
            [{"x": float(i), "y": 1.0} for i in range(COUNT)],
            pa.struct([("x", pa.float64()), ("y", pa.float64())]),
        ),
    },
    schema=pa.schema(
        [
            ("id", pa.int64()),
            ("text", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("vector", pa.list_(pa.float32(), 16)),
            pa.field(
                "place",
                pa.struct([("x", pa.float64()), ("y", pa.float64())]),
                metadata={"ARROW:extension:name": "geoarrow.point"},
            ),
        ]
    ),
)
COLUMNS = {
    "LABEL_LIST": "tags",
    "NGRAM": "text",
    "INVERTED": "text",
    "MINHASHLSH": "text",
    "RTREE": "place",
}


@pytest.fixture
def table(tmp_path: Path) -> TableHandle:
    handle = TableHandle(str(tmp_path / "t.lance"))
    rows.create(handle, DATA)
    return handle


def details(table: TableHandle, name: str) -> dict[str, Any]:
    [found] = [
        index for index in lance.dataset(table.location).describe_indices() if index.name == name
    ]
    return dict(found.details)


@pytest.mark.parametrize("kind", [*SCALAR_TYPES, *VECTOR_TYPES])
def test_every_kind_of_index_can_be_built_and_dropped(table: TableHandle, kind: str) -> None:
    column = COLUMNS.get(kind, "vector" if kind in VECTOR_TYPES else "id")
    options = {"num_partitions": 2} if kind in VECTOR_TYPES else {}

    made = indexes.create_index(table, IndexRequest(column, kind, "mine", options))

    listed = indexes.list_indices(table).items["mine"]
    stats = indexes.describe_index_stats(table, "mine")
    assert made.version == 2
    assert made.transaction_id
    assert listed.columns == (column,)
    assert listed.index_type.upper() == stats.index_type.upper()
    assert listed.index_type.upper().replace("_", "") == kind.replace("_", "")
    assert (listed.num_indexed_rows, listed.num_unindexed_rows) == (COUNT, 0)
    assert (stats.num_indexed_rows, stats.num_unindexed_rows, stats.num_indices) == (COUNT, 0, 1)
    assert stats.distance_type == ("l2" if kind in VECTOR_TYPES else None)

    assert indexes.drop_index(table, "mine").version == 3
    assert indexes.list_indices(table).items == {}


def test_an_index_of_a_managed_table_is_committed_by_the_catalog(tmp_path: Path) -> None:
    table = managed_handle(tmp_path)
    rows.create(table, DATA)

    indexes.create_index(table, IndexRequest("id", "BTREE"))

    assert set(indexes.list_indices(table).items) == {"id_idx"}
    assert rows.count_rows(table, predicate="id = 7") == 1


@pytest.mark.parametrize("kind", ["btree", "BTree", "Fts", "label_list", "LabelList", "ivf_flat"])
def test_a_kind_is_read_in_any_case(table: TableHandle, kind: str) -> None:
    column = {"fts": "text", "btree": "id", "ivf_flat": "vector"}.get(kind.lower(), "tags")

    indexes.create_index(table, IndexRequest(column, kind))

    assert set(indexes.list_indices(table).items) == {f"{column}_idx"}


def test_vector_options_reach_the_index(table: TableHandle) -> None:
    options = {
        "distance_type": "cosine",
        "num_partitions": 2,
        "num_sub_vectors": 4,
        "num_bits": 4,
        "sample_rate": 33,
        "max_iterations": 7,
        "m": 9,
        "ef_construction": 44,
    }

    indexes.create_index(table, IndexRequest("vector", "IVF_HNSW_PQ", "v", options))

    found = details(table, "v")
    assert found["metric_type"] == "COSINE"
    assert found["compression"] == {"type": "pq", "num_bits": 4, "num_sub_vectors": 4}
    assert (found["hnsw"]["max_connections"], found["hnsw"]["construction_ef"]) == (9, 44)
    assert found["runtime_hints"]["lance.ivf.sample_rate"] == "33"
    assert found["runtime_hints"]["lance.ivf.max_iters"] == "7"
    assert indexes.describe_index_stats(table, "v").distance_type == "cosine"


def test_a_product_quantizer_gets_a_number_of_parts_that_divides(table: TableHandle) -> None:
    indexes.create_index(table, IndexRequest("vector", "VECTOR", "v", {"num_partitions": 1}))

    assert details(table, "v")["compression"]["num_sub_vectors"] == 1


def test_full_text_options_reach_the_index(table: TableHandle) -> None:
    options = {
        "with_position": True,
        "base_tokenizer": "whitespace",
        "language": "French",
        "max_token_length": 9,
        "lower_case": False,
        "stem": False,
        "remove_stop_words": False,
        "ascii_folding": False,
    }

    indexes.create_index(table, IndexRequest("text", "FTS", "f", options))

    assert details(table, "f").items() >= options.items()


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (IndexRequest("zz", "BTREE"), 12),
        (IndexRequest("zz", "IVF_PQ"), 12),
        (IndexRequest("zz", "FTS"), 12),
        (IndexRequest("id", "HASH"), 13),
        (IndexRequest("id", "IVF_FLAT"), 13),
        (IndexRequest("vector", "BTREE"), 13),
        (IndexRequest("id", "NGRAM"), 13),
        (IndexRequest("id", "LABEL_LIST"), 13),
        (IndexRequest("id", "FTS"), 13),
        (IndexRequest("id", "RTREE"), 13),
        (IndexRequest("id", "BTREE", ""), 13),
        (IndexRequest("id", "BTREE", None, {"num_partitions": 2}), 13),
        (IndexRequest("text", "FTS", None, {"m": 2}), 13),
        (IndexRequest("text", "FTS", None, {"base_tokenizer": "scissors"}), 13),
        (IndexRequest("text", "FTS", None, {"language": "Klingon"}), 13),
        (IndexRequest("vector", "IVF_PQ", None, {"num_sub_vectors": 5}), 13),
        (IndexRequest("vector", "IVF_SQ", None, {"num_bits": 4}), 13),
        (IndexRequest("vector", "IVF_FLAT", None, {"distance_type": "furlong"}), 13),
    ],
    ids=str,
)
def test_an_index_that_makes_no_sense_is_refused(
    table: TableHandle, asked: IndexRequest, code: int
) -> None:
    with pytest.raises(errors.LakerootError) as refused:
        indexes.create_index(table, asked)

    assert refused.value.code == code
    assert lance.dataset(table.location).version == 1


def test_a_taken_name_is_refused(table: TableHandle) -> None:
    indexes.create_index(table, IndexRequest("id", "BTREE"))

    for again in (
        IndexRequest("id", "BTREE"),
        IndexRequest("id", "BITMAP", "id_idx"),
        IndexRequest("text", "BTREE", "id_idx"),
    ):
        with pytest.raises(errors.TableIndexAlreadyExistsError):
            indexes.create_index(table, again)
    assert lance.dataset(table.location).version == 2


def test_a_refusal_is_said_in_words_that_help_here(table: TableHandle) -> None:
    indexes.create_index(table, IndexRequest("id", "BTREE", "by_id"))

    with pytest.raises(errors.InvalidInputError, match="tags must be int, float") as refused:
        indexes.create_index(table, IndexRequest("tags", "BTREE"))
    with pytest.raises(errors.TableIndexAlreadyExistsError) as taken:
        indexes.create_index(table, IndexRequest("id", "BTREE", "by_id"))

    assert "('" not in str(refused.value)
    assert "replace" not in str(taken.value)


def test_an_unknown_index_is_not_found(table: TableHandle) -> None:
    with pytest.raises(errors.TableIndexNotFoundError):
        indexes.drop_index(table, "zz")
    with pytest.raises(errors.TableIndexNotFoundError):
        indexes.describe_index_stats(table, "zz")


def test_indexes_are_listed_in_pages(table: TableHandle) -> None:
    for name in ("c", "a", "b"):
        indexes.create_index(table, IndexRequest("id", "BITMAP", name))

    first = indexes.list_indices(table, limit=2)
    second = indexes.list_indices(table, limit=2, page_token=first.next_token)

    assert (list(first.items), first.next_token) == (["a", "b"], "b")
    assert (list(second.items), second.next_token) == (["c"], None)
    with pytest.raises(errors.InvalidInputError):
        indexes.list_indices(table, limit=-1)


def test_a_version_and_a_branch_have_indexes_of_their_own(table: TableHandle) -> None:
    lance.dataset(table.location).create_branch("dev")

    indexes.create_index(table, IndexRequest("id", "BTREE"), branch="dev")

    assert set(indexes.list_indices(table, branch="dev").items) == {"id_idx"}
    assert set(indexes.list_indices(table).items) == set()
    assert indexes.describe_index_stats(table, "id_idx", branch="dev").num_indexed_rows == COUNT
    indexes.drop_index(table, "id_idx", branch="dev")
    assert set(indexes.list_indices(table, branch="dev").items) == set()


def test_an_empty_table_can_be_indexed(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, DATA.slice(0, 0))

    indexes.create_index(table, IndexRequest("id", "BTREE"))

    assert indexes.list_indices(table).items["id_idx"].num_indexed_rows == 0


def test_both_catalogs_answer_alike(tmp_path: Path, table: TableHandle) -> None:
    theirs = DirectoryNamespace(root=str(tmp_path))
    indexes.create_index(table, IndexRequest("id", "BTREE"))
    indexes.create_index(table, IndexRequest("vector", "IVF_FLAT", None, {"num_partitions": 2}))
    indexes.create_index(table, IndexRequest("text", "FTS"))
    rows.insert(table, DATA.slice(0, 4))
    rows.delete(table, "id = 9")

    listed = theirs.list_table_indices(lance_namespace.ListTableIndicesRequest(id=["t"])).indexes
    ours = indexes.list_indices(table).items

    assert [index.index_name for index in listed] == list(ours)
    for their in listed:
        our = ours[their.index_name]
        assert their.index_uuid == our.uuid
        assert (tuple(their.columns), their.status) == (our.columns, our.status)
        assert (their.index_type, their.type_url) == (our.index_type, our.type_url)
        assert (their.num_indexed_rows, their.num_unindexed_rows) == (
            our.num_indexed_rows,
            our.num_unindexed_rows,
        )
        assert (their.size_bytes, their.num_segments) == (our.size_bytes, our.num_segments)
        assert (their.created_at, their.index_version) == (our.created_at, our.index_version)
        stats = theirs.describe_table_index_stats(
            lance_namespace.DescribeTableIndexStatsRequest(id=["t"], index_name=our.name)
        )
        mine = indexes.describe_index_stats(table, our.name)
        assert stats.index_type == mine.index_type
        assert stats.num_indexed_rows == mine.num_indexed_rows
        assert stats.num_unindexed_rows == mine.num_unindexed_rows
        assert stats.num_indices == mine.num_indices
