"""Requests that an operation refuses, with nothing changed in the catalog or its tables."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_namespace import (
    InvalidInputError,
    LanceNamespaceError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from lakeroot import DirectoryNamespace
from lakeroot.tables import rows
from tests.tables.conftest import ipc_stream
from tests.versions.staging import files_below, make_table

T = {"id": ["t"]}
WORDS = {"string_query": {"query": "a"}}
TERMS = {"structured_query": {"query": {"match": {"terms": "a", "column": "word"}}}}


@pytest.mark.parametrize("query", [{}, {**WORDS, **TERMS}])
def test_a_full_text_query_has_one_form(lake: DirectoryNamespace, query: dict[str, Any]) -> None:
    make_table(lake, "t")
    request = {**T, "k": 1, "vector": {"single_vector": []}, "full_text_query": query}

    with pytest.raises(InvalidInputError, match="a string or structured"):
        lake.query_table(request)


def test_a_scalar_index_is_not_one_of_vectors(lake: DirectoryNamespace) -> None:
    make_table(lake, "t")

    with pytest.raises(InvalidInputError, match="not a scalar index"):
        lake.create_table_scalar_index({**T, "column": "id", "index_type": "IVF_FLAT"})


def test_an_update_that_is_refused_leaves_the_properties(lake: DirectoryNamespace) -> None:
    make_table(lake, "t")
    lake.update_table({**T, "updates": [["word", "'x'"]], "properties": {"owner": "ann"}})

    with pytest.raises(LanceNamespaceError):
        lake.update_table({**T, "updates": [["nope", "1"]], "properties": {"owner": "bob"}})
    assert lake.describe_table(T).properties == {"owner": "ann"}


def test_an_update_that_is_refused_leaves_the_properties_that_others_gave_meanwhile(
    lake: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(lake, "t")
    update = rows.update

    def updated_beside(*asked: Any, **more: Any) -> Any:
        DirectoryNamespace(root=str(lake.catalog.store.root.uri)).catalog.alter_table(
            ("t",), {"owner": "eve"}
        )
        return update(*asked, **more)

    monkeypatch.setattr(rows, "update", updated_beside)
    with pytest.raises(LanceNamespaceError):
        lake.update_table({**T, "updates": [["nope", "1"]], "properties": {"owner": "bob"}})
    assert lake.describe_table(T).properties == {"owner": "eve"}


@pytest.mark.parametrize(
    "action", [{"set_status_action": {}}, {"set_property_action": {"key": "k"}}]
)
def test_an_action_on_a_transaction_says_what_it_sets(
    lake: DirectoryNamespace, action: dict[str, Any]
) -> None:
    make_table(lake, "t")
    one = {"id": ["t", "1"]}
    failed = {"set_status_action": {"status": "Failed"}}
    lake.alter_transaction({**one, "actions": [failed]})
    before = lake.describe_transaction(one)

    with pytest.raises(InvalidInputError):
        lake.alter_transaction({**one, "actions": [action]})
    assert lake.describe_transaction(one) == before


@pytest.mark.parametrize(("wanted", "given"), [(False, None), (None, "s"), (True, "s")])
def test_a_batch_lends_what_a_declaration_by_itself_would(
    tmp_path: Path, wanted: bool | None, given: str | None
) -> None:
    keyed = DirectoryNamespace(root=str(tmp_path), **{"storage.aws_secret_access_key": "s"})
    alone = keyed.declare_table({"id": ["a"], "vend_credentials": wanted})
    declare = {"declare_table": {"id": ["b"], "vend_credentials": wanted}}

    (together,) = keyed.batch_commit_tables({"operations": [declare]})["results"]

    assert together["declare_table"].get("storage_options") == alone.storage_options
    assert (alone.storage_options or {}).get("aws_secret_access_key") == given


def test_an_update_whose_properties_are_refused_leaves_the_rows(tmp_path: Path) -> None:
    flat = DirectoryNamespace(root=str(tmp_path), manifest_enabled="false")
    make_table(flat, "t")
    before = files_below(tmp_path)

    with pytest.raises(UnsupportedOperationError):
        flat.update_table({**T, "updates": [["word", "'x'"]], "properties": {"owner": "ann"}})
    with pytest.raises(InvalidInputError):
        flat.update_table({**T, "updates": [["word", "'x'"]], "properties": {"lakeroot.a": "b"}})
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("properties", [{"lakeroot.x": "y"}, {"x": "half \ud800"}])
def test_a_batch_declares_no_table_with_properties_that_cannot_be_kept(
    lake: DirectoryNamespace, properties: dict[str, str]
) -> None:
    with pytest.raises(InvalidInputError):
        lake.batch_commit_tables(
            {"operations": [{"declare_table": {"id": ["new"], "properties": properties}}]}
        )
    assert lake.list_tables({"id": []}).tables == []


def test_a_batch_does_nothing_with_a_table_that_it_has_deregistered(
    lake: DirectoryNamespace,
) -> None:
    make_table(lake, "t", versions=2)
    ranges = [{"start_version": 1, "end_version": 2}]

    for more in (
        {"delete_table_versions": {**T, "ranges": ranges}},
        {"deregister_table": T},
    ):
        with pytest.raises(TableNotFoundError, match="in the same batch"):
            lake.batch_commit_tables({"operations": [{"deregister_table": T}, more]})
    with pytest.raises(InvalidInputError, match="delete the versions first"):
        lake.batch_commit_tables(
            {
                "operations": [
                    {"delete_table_versions": {**T, "ranges": ranges}},
                    {"deregister_table": T},
                ]
            }
        )
    assert len(lake.list_table_versions(T)["versions"]) == 2


@pytest.mark.parametrize(
    "columns",
    [
        [("a.b", pa.int64())],
        [("a", pa.int64()), ("a", pa.int64())],
        [("_rowid", pa.int64())],
        [("a\0b", pa.int64())],
        [("a", pa.month_day_nano_interval())],
        [("a", pa.dense_union([pa.field("x", pa.int64())]))],
    ],
    ids=["dot", "twice", "reserved", "NUL", "interval", "union"],
)
def test_a_schema_that_no_table_can_have_leaves_no_trace(
    lake: DirectoryNamespace, tmp_path: Path, columns: list[tuple[str, pa.DataType]]
) -> None:
    make_table(lake, "t")
    before = files_below(tmp_path)

    with pytest.raises(InvalidInputError) as refused:
        lake.create_table(
            {"id": ["new"]}, ipc_stream(pa.Table.from_batches([], pa.schema(columns)))
        )
    assert "{" not in str(refused.value)
    assert files_below(tmp_path) == before
