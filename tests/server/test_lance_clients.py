"""The clients that people have, against the server: the same answers as in the same process."""

from pathlib import Path
from typing import Any

import lance
import lance_namespace
import lance_namespace_urllib3_client as generated
import lancedb
import pyarrow as pa
import pytest
from lance_namespace import LanceNamespace
from lance_namespace import errors as wire

from tests.server.conftest import IMPL
from tests.server.http import Client

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.fixture(params=["in process", "over http"])
def client(request: pytest.FixtureRequest, properties: dict[str, str]) -> LanceNamespace:
    if request.param == "in process":
        return lance_namespace.connect(IMPL, properties)
    found: LanceNamespace = request.getfixturevalue("rest")
    return found


def ask(client: LanceNamespace, operation: str, *data: bytes, **fields: Any) -> Any:
    kind = lance_namespace.__dict__["".join(p.title() for p in operation.split("_")) + "Request"]
    return getattr(client, operation)(kind(**fields), *data)


def test_namespaces_come_and_go(client: LanceNamespace) -> None:
    ask(client, "create_namespace", id=["prod"], properties={"owner": "ada"})
    ask(client, "create_namespace", id=["prod", "eu"])
    assert ask(client, "list_namespaces", id=[]).namespaces == ["prod"]
    assert ask(client, "list_namespaces", id=["prod"]).namespaces == ["eu"]
    assert ask(client, "describe_namespace", id=["prod"]).properties == {"owner": "ada"}
    ask(client, "namespace_exists", id=["prod", "eu"])
    with pytest.raises(wire.NamespaceAlreadyExistsError):
        ask(client, "create_namespace", id=["prod"])
    with pytest.raises(wire.NamespaceNotEmptyError):
        ask(client, "drop_namespace", id=["prod"])
    ask(client, "drop_namespace", id=["prod", "eu"])
    with pytest.raises(wire.NamespaceNotFoundError):
        ask(client, "namespace_exists", id=["prod", "eu"])


def test_a_list_comes_in_pages(client: LanceNamespace) -> None:
    for name in "abcde":
        ask(client, "create_namespace", id=[name])
    found, token = [], None
    for _ in range(3):
        page = ask(client, "list_namespaces", id=[], limit=2, page_token=token)
        assert len(page.namespaces) <= 2
        found += page.namespaces
        token = page.page_token
    assert found == list("abcde")
    assert not token


def test_tables_are_created_filled_read_and_dropped(client: LanceNamespace) -> None:
    ask(client, "create_namespace", id=["prod"])
    created = ask(client, "create_table", stream(ROWS), id=["prod", "t"])
    assert created.version == 1
    ask(client, "insert_into_table", stream(ROWS), id=["prod", "t"], mode="append")
    count = ask(client, "count_table_rows", id=["prod", "t"], predicate="id > 1")
    assert getattr(count, "count", count) == 4
    assert ask(client, "list_tables", id=["prod"]).tables == ["t"]
    described = ask(client, "describe_table", id=["prod", "t"], load_detailed_metadata=True)
    assert described.version == 2
    assert [field.name for field in described.var_schema.fields] == ["id", "name"]
    ask(client, "table_exists", id=["prod", "t"])
    ask(client, "drop_table", id=["prod", "t"])
    with pytest.raises(wire.TableNotFoundError):
        ask(client, "describe_table", id=["prod", "t"])


def test_rows_are_merged_updated_deleted_and_queried(client: LanceNamespace) -> None:
    ask(client, "create_table", stream(ROWS), id=["t"])
    newer = pa.table({"id": [3, 4], "name": ["C", "D"]})
    merged = ask(
        client, "merge_insert_into_table", stream(newer), id=["t"], on=["id"],
        when_matched_update_all=True, when_not_matched_insert_all=True,
    )  # fmt: skip
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (1, 1)
    ask(client, "update_table", id=["t"], predicate="id = 1", updates=[["name", "'A'"]])
    ask(client, "delete_from_table", id=["t"], predicate="id = 2")
    answer = ask(
        client, "query_table", id=["t"], k=10, filter="id > 0",
        vector=generated.QueryTableRequestVector(single_vector=[]),
    )  # fmt: skip
    rows = pa.ipc.open_file(getattr(answer, "data", answer)).read_all().sort_by("id")
    assert rows.select(["id", "name"]).to_pylist() == [
        {"id": 1, "name": "A"},
        {"id": 3, "name": "C"},
        {"id": 4, "name": "D"},
    ]


def test_a_large_body_is_stored_whole(client: LanceNamespace) -> None:
    large = pa.table({"id": range(1_500_000), "twice": range(0, 3_000_000, 2)})
    ask(client, "create_table", stream(large), id=["large"])
    ask(client, "insert_into_table", stream(large), id=["large"])
    count = ask(client, "count_table_rows", id=["large"], predicate="twice = id * 2")
    assert getattr(count, "count", count) == 3_000_000


def test_tags_and_versions_and_metadata(client: LanceNamespace) -> None:
    ask(client, "create_table", stream(ROWS), id=["t"])
    ask(client, "insert_into_table", stream(ROWS), id=["t"])
    ask(client, "create_table_tag", id=["t"], tag="v1", version=1)
    tags = ask(client, "list_table_tags", id=["t"]).tags
    assert tags["v1"].version == 1
    assert ask(client, "get_table_tag_version", id=["t"], tag="v1").version == 1
    with pytest.raises(wire.TableTagNotFoundError):
        ask(client, "get_table_tag_version", id=["t"], tag="none")
    versions = ask(client, "list_table_versions", id=["t"], descending=True).versions
    assert [version.version for version in versions] == [2, 1]
    changed = ask(client, "update_table_schema_metadata", id=["t"], metadata={"k": "v"})
    assert changed.metadata["k"] == "v"
    assert ask(client, "get_table_stats", id=["t"]).num_rows == 6


def test_lance_writes_and_reads_through_the_server(rest: LanceNamespace) -> None:
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["t"])
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["t"], mode="append")
    dataset = lance.dataset(namespace_client=rest, table_id=["t"])
    assert dataset.count_rows() == 6
    assert lance.dataset(namespace_client=rest, table_id=["t"], version=1).count_rows() == 3


def test_lancedb_works_through_the_server(url: str) -> None:
    database = lancedb.connect_namespace("rest", {"uri": url})
    database.create_table("t", ROWS)
    assert list(database.list_tables().tables) == ["t"]
    table = database.open_table("t")
    table.add(ROWS)
    assert table.count_rows() == 6
    database.drop_table("t")
    assert list(database.list_tables().tables) == []


def test_the_generated_client_works_with_any_delimiter(url: str) -> None:
    configuration = generated.Configuration(host=url)
    with generated.ApiClient(configuration) as api:
        namespaces, tables = generated.NamespaceApi(api), generated.TableApi(api)
        namespaces.create_namespace("prod", generated.CreateNamespaceRequest())
        namespaces.create_namespace("prod.eu", generated.CreateNamespaceRequest(), delimiter=".")
        assert namespaces.list_namespaces(".", delimiter=".").namespaces == ["prod"]
        tables.declare_table("prod||eu||t", generated.DeclareTableRequest(), delimiter="||")
        assert tables.list_tables("prod$eu").tables == ["t"]
        with pytest.raises(generated.ApiException) as missing:
            tables.describe_table("prod$eu$none", generated.DescribeTableRequest())
        assert missing.value.status == 404


@pytest.mark.parametrize("name", ["a b", "a+b", "a%20b", "ä + b"])
def test_spaces_and_pluses_are_kept_apart(client: LanceNamespace, name: str) -> None:
    ask(client, "create_namespace", id=[name])
    ask(client, "create_table", stream(ROWS), id=[name, name])
    ask(client, "insert_into_table", stream(ROWS), id=[name, name])
    assert ask(client, "list_namespaces", id=[]).namespaces == [name]
    assert ask(client, "list_tables", id=[name]).tables == [name]
    ask(client, "create_table_index", id=[name, name], column="id", index_type="BTREE",
        name=name)  # fmt: skip
    stats = ask(client, "describe_table_index_stats", id=[name, name], index_name=name)
    assert stats.num_indexed_rows == 6
    ask(client, "drop_table_index", id=[name, name], index_name=name)
    assert ask(client, "list_table_indices", id=[name, name]).indexes == []
    assert len(ask(client, "list_table_versions", id=[name, name]).versions) == 4
    ask(client, "drop_table", id=[name, name])
    assert ask(client, "list_tables", id=[name]).tables == []


def test_a_bare_plus_is_what_the_body_says_and_else_a_space(http: Client) -> None:
    for name in ("a b", "a+b"):
        assert http.post("/v1/namespace/a+b/create?delimiter=%24", {"id": [name]}).status == 200
    assert http.get("/v1/namespace/%24/list").json["namespaces"] == ["a b", "a+b"]
    assert http.post("/v1/namespace/a+b/create", {"id": ["a-b"]}).json["code"] == 13
    assert http.post("/v1/namespace/a+b/drop").status == 200
    assert http.get("/v1/namespace/%24/list").json["namespaces"] == ["a+b"]
    assert http.post("/v1/namespace/a%2Bb/drop").status == 200
    assert http.post("/v1/namespace/a+b/create?delimiter=%2B", {}).json["code"] == 1


def test_managed_commits_go_through_the_server(tmp_path: Path, start: Any) -> None:
    root = {"root": str(tmp_path / "managed"), "table_version_management": "true"}
    rest = lance_namespace.connect("rest", {"uri": start(properties=root)})
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["t"])
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["t"], mode="append")
    assert ask(rest, "describe_table", id=["t"]).managed_versioning is True
    assert lance.dataset(namespace_client=rest, table_id=["t"]).count_rows() == 6
