"""Every operation of the namespace, called once with a model and once with a dictionary."""

import base64
import io
from typing import Any

import lance_namespace
import lance_namespace_urllib3_client.models as models
import pyarrow as pa
import pydantic
import pytest
from lance_namespace import LanceNamespace, LanceNamespaceError

from lakeroot import DirectoryNamespace
from tests.versions.staging import make_table, stage

T = {"id": ["t"]}
VECTORS = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "word": [f"word {number}" for number in range(8)],
        "vector": pa.array([[float(n), 1.0] for n in range(8)], pa.list_(pa.float32(), 2)),
    }
)
QUERY = {"id": ["t"], "k": 2, "vector": {"single_vector": [1.0, 1.0]}}
RANGES = [{"start_version": 1, "end_version": 2}]
UNSUPPORTED: dict[str, dict[str, Any]] = {
    "alter_table_backfill_columns": {**T, "column": "id"},
    "refresh_materialized_view": {"id": ["view"]},
    "create_empty_table": {"id": ["empty"]},
}


class DictWithModelDump(dict[str, Any]):
    """What lancedb passes: a dictionary that only looks like a model."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return dict(self)


def ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


REQUESTS: dict[str, dict[str, Any]] = {
    "list_namespaces": {"id": []},
    "describe_namespace": {"id": ["ns"]},
    "create_materialized_view": {
        "id": ["view"],
        "kind": "query",
        "source_query": "SELECT 1 AS one",
        "output_schema": base64.b64encode(
            pa.schema([("one", pa.int32())]).serialize().to_pybytes()
        ).decode(),
    },
    "create_namespace": {"id": ["more"], "properties": {"k": "v"}},
    "drop_namespace": {"id": ["ns"]},
    "namespace_exists": {"id": ["ns"]},
    "list_tables": {"id": []},
    "list_all_tables": {},
    "describe_table": T,
    "table_exists": T,
    "register_table": {"id": ["again"], "location": "spare.lance"},
    "deregister_table": T,
    "drop_table": T,
    "declare_table": {"id": ["new"]},
    "create_table": {"id": ["new"]},
    "rename_table": {**T, "new_table_name": "u"},
    "restore_table": {**T, "version": 1},
    "count_table_rows": {**T, "predicate": "id > 1"},
    "insert_into_table": T,
    "merge_insert_into_table": {**T, "on": ["id"], "when_matched_update_all": True},
    "update_table": {**T, "updates": [["word", "'x'"]], "predicate": "id = 1"},
    "delete_from_table": {**T, "predicate": "id = 1"},
    "query_table": QUERY,
    "explain_table_query_plan": {**T, "query": QUERY},
    "analyze_table_query_plan": QUERY,
    "create_table_index": {**T, "column": "id", "index_type": "BTREE"},
    "create_table_scalar_index": {**T, "column": "id", "index_type": "BTREE"},
    "list_table_indices": T,
    "describe_table_index_stats": {**T, "index_name": "word_idx"},
    "drop_table_index": {**T, "index_name": "word_idx"},
    "list_table_versions": T,
    "create_table_version": {},
    "describe_table_version": {**T, "version": 1},
    "batch_delete_table_versions": {**T, "ranges": RANGES},
    "batch_create_table_versions": {},
    "batch_commit_tables": {"operations": [{"declare_table": {"id": ["new"]}}]},
    "update_table_schema_metadata": {**T, "metadata": {"k": "v"}},
    "update_field_metadata": {**T, "updates": [{"path": "id", "metadata": {"k": "v"}}]},
    "get_table_stats": T,
    "alter_table_add_columns": {**T, "new_columns": [{"name": "n", "expression": "id + 1"}]},
    "alter_table_alter_columns": {**T, "alterations": [{"path": "word", "rename": "text"}]},
    "alter_table_drop_columns": {**T, "columns": ["word"]},
    "list_table_tags": T,
    "get_table_tag_version": {**T, "tag": "first"},
    "create_table_tag": {**T, "tag": "second", "version": 1},
    "update_table_tag": {**T, "tag": "first", "version": 1},
    "delete_table_tag": {**T, "tag": "first"},
    "list_table_branches": T,
    "create_table_branch": {**T, "name": "work"},
    "delete_table_branch": {**T, "name": "side"},
    "describe_transaction": {},
    "alter_transaction": {},
    **UNSUPPORTED,
}
MODELS = {
    "list_all_tables": "ListTablesRequest",
    "create_table_scalar_index": "CreateTableIndexRequest",
    "create_empty_table": "CreateTableRequest",
}
WITH_DATA = ("create_table", "insert_into_table", "merge_insert_into_table")


@pytest.fixture
def full(lake: DirectoryNamespace) -> DirectoryNamespace:
    """A catalog with something in it for every operation."""
    lake.create_namespace({"id": ["ns"]})
    lake.create_table({"id": ["t"]}, ipc(VECTORS))
    lake.create_table_index({**T, "column": "word", "index_type": "BTREE", "name": "word_idx"})
    lake.create_table_tag({**T, "tag": "first", "version": 2})
    lake.create_table_branch({**T, "name": "side"})
    make_table(lake, "spare")
    lake.deregister_table({"id": ["spare"]})
    return lake


def request_for(namespace: DirectoryNamespace, operation: str) -> dict[str, Any]:
    match operation:
        case "create_table_version":
            return stage(namespace, "t").request()
        case "batch_create_table_versions":
            return {"entries": [stage(namespace, "t").request()]}
        case "describe_transaction" | "alter_transaction":
            inserted = namespace.insert_into_table(T, ipc(VECTORS))
            request: dict[str, Any] = {"id": ["t", inserted.transaction_id]}
            if operation == "alter_transaction":
                request["actions"] = [{"setStatusAction": {"status": "Succeeded"}}]
            return request
        case _:
            return REQUESTS[operation]


def as_model(operation: str, request: dict[str, Any]) -> pydantic.BaseModel:
    words = "".join(word.title() for word in operation.split("_"))
    name = MODELS.get(operation, f"{words}Request")
    model = getattr(lance_namespace, name, None) or getattr(models, name)
    built: pydantic.BaseModel = model.from_dict(request)
    return built


def test_every_operation_is_called_here() -> None:
    every = {name for name in dir(LanceNamespace) if not name.startswith("_")}

    assert every - {"namespace_id"} == set(REQUESTS)


@pytest.mark.filterwarnings("ignore:create_empty_table is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["model", "dict"])
@pytest.mark.parametrize("operation", sorted(REQUESTS))
def test_an_operation_answers(full: DirectoryNamespace, operation: str, kind: str) -> None:
    plain = request_for(full, operation)
    request: Any = as_model(operation, plain) if kind == "model" else DictWithModelDump(plain)
    arguments = [ipc(VECTORS)] if operation in WITH_DATA else []
    call = getattr(full, operation)

    if operation in UNSUPPORTED:
        with pytest.raises(LanceNamespaceError) as refused:
            call(request, *arguments)
        assert refused.value.code == 0
        return
    answer = call(request, *arguments)
    assert answer is None or isinstance(answer, (pydantic.BaseModel, dict, str, int))
