"""Requests as dictionaries: what is misspelt is refused, and what is new is passed over."""

from pathlib import Path
from typing import Any

import lance_namespace
import pyarrow as pa
import pytest

import lakeroot
from lakeroot.namespace.border import read
from tests.tables.conftest import ipc_stream


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    catalog = lakeroot.DirectoryNamespace(root=str(tmp_path))
    catalog.create_table({"id": ["t"]}, ipc_stream(pa.table({"id": [1, 2, 3]})))
    return catalog


@pytest.mark.parametrize("key", ["predicte", "Predicate", "predicates", "predicate "])
def test_a_misspelt_field_is_refused_with_the_right_one(catalog: Any, key: str) -> None:
    wanted = {"id": ["t"], "updates": [["id", "9"]], key: "id = 1"}
    with pytest.raises(lance_namespace.InvalidInputError, match=r"no field.*Write 'predicate'"):
        catalog.update_table(wanted)
    assert catalog.count_table_rows({"id": ["t"], "predicate": "id = 9"}).count == 0


@pytest.mark.parametrize("key", ["withRowId", "with-row-id", "with_rowid"])
def test_a_field_in_another_spelling_is_refused(catalog: Any, key: str) -> None:
    with pytest.raises(lance_namespace.InvalidInputError, match="Write 'with_row_id'"):
        catalog.query_table({"id": ["t"], "k": 1, key: True})


def test_a_key_that_resembles_no_field_that_was_left_out_is_passed_over(catalog: Any) -> None:
    newer = {"id": ["t"], "of_the_future": 1, "predicate": "id = 1", "predicate2": "id = 2"}
    assert catalog.count_table_rows(newer).count == 1


def test_a_request_of_another_kind_is_taken_for_what_it_has() -> None:
    other = lance_namespace.ListTableTagsRequest(id=["t"], limit=3)
    assert read(lance_namespace.ListTablesRequest, other).limit == 3


def test_a_query_without_a_vector_needs_to_name_none(catalog: Any) -> None:
    wanted: dict[str, Any] = {"id": ["t"], "k": 9, "filter": "id > 1"}
    found = pa.ipc.open_file(catalog.query_table(wanted).data).read_all()
    assert found["id"].to_pylist() == [2, 3]
    assert "id" in catalog.explain_table_query_plan({"id": ["t"], "query": wanted})
    assert "id" in catalog.analyze_table_query_plan({**wanted, "vector": None})
