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


@pytest.mark.parametrize(
    ("operation", "wanted", "right"),
    [
        ("query_table", {"k": 1, "vector": {"singleVector": [1.0]}}, "single_vector"),
        ("query_table", {"k": 1, "vector": {"embedding": [1.0]}}, "single_vector"),
        ("query_table", {"k": 1, "columns": {"column_nams": ["id"]}}, "column_names"),
        ("query_table", {"k": 1, "columns": {"id": "id"}}, "column_names"),
        ("explain_table_query_plan", {"query": {"k": 1, "filtr": "id = 1"}}, "filter"),
        (
            "query_table",
            {
                "k": 1,
                "full_text_query": {
                    "structured_query": {"query": {"match": {"terms": "a", "colum": "id"}}}
                },
            },
            "column",
        ),
        (
            "alter_table_alter_columns",
            {"alterations": [{"path": "id", "rename": "n", "dataType": {"type": "int32"}}]},
            "data_type",
        ),
        (
            "update_field_metadata",
            {"updates": [{"path": "id", "metadata": {"a": "b"}, "replce": True}]},
            "replace",
        ),
        (
            "alter_transaction",
            {"actions": [{"setPropertyAction": {"key": "a", "value": "b", "mde": "Fail"}}]},
            "mode",
        ),
        (
            "batch_commit_tables",
            {
                "operations": [
                    {
                        "delete_table_versions": {
                            "id": ["t"],
                            "brnch": "dev",
                            "ranges": [{"start_version": 0, "end_version": -1}],
                        }
                    }
                ]
            },
            "branch",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_misspelt_field_inside_of_another_is_refused(
    catalog: Any, operation: str, wanted: dict[str, Any], right: str
) -> None:
    with pytest.raises(lance_namespace.InvalidInputError, match=right):
        getattr(catalog, operation)({"id": ["t"], **wanted})
    described = catalog.describe_table({"id": ["t"], "load_detailed_metadata": True})
    assert described.version == 1
    assert [field.name for field in described.var_schema.fields] == ["id"]


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
