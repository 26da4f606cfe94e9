"""Namespaces and tables through PyIceberg, and on the wire what its rules do not show."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import DropTableRequest, LanceNamespace
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

import lakeroot
from lakeroot.server.iceberg import lance_tables
from lakeroot.server.iceberg.face import HANDLERS
from lakeroot.server.iceberg.routes import ROUTES
from tests.server.http import Answer, Client

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


@pytest.fixture
def iceberg(url: str) -> Catalog:
    return load_catalog("lakeroot", type="rest", uri=f"{url}/iceberg")


@pytest.fixture
def table(rest: LanceNamespace, iceberg: Catalog) -> list[str]:
    """A Lance table of two versions, made by a Lance client."""
    iceberg.create_namespace("prod")
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "t"])
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "t"], mode="append")
    return ["prod", "t"]


def failed(answer: Answer, status: int, kind: str) -> str:
    assert answer.status == status, answer.body
    error = answer.json["error"]
    assert (error["type"], error["code"]) == (kind, status)
    assert "Traceback" not in error["message"]
    return str(error["message"])


def test_every_route_has_a_handler() -> None:
    assert {route.operation for route in ROUTES} == set(HANDLERS)


def test_namespaces_come_and_go(iceberg: Catalog) -> None:
    iceberg.create_namespace("prod", {"owner": "ada"})
    iceberg.create_namespace(("prod", "eu"))
    assert iceberg.list_namespaces() == [("prod",)]
    assert iceberg.list_namespaces("prod") == [("prod", "eu")]
    assert iceberg.list_namespaces(("prod", "eu")) == []
    assert iceberg.load_namespace_properties("prod")["owner"] == "ada"
    assert iceberg.namespace_exists("prod")
    assert not iceberg.namespace_exists("none")
    with pytest.raises(NamespaceAlreadyExistsError, match="Namespace already exists: prod"):
        iceberg.create_namespace("prod")
    with pytest.raises(NamespaceNotEmptyError, match="is not empty"):
        iceberg.drop_namespace("prod")
    iceberg.drop_namespace(("prod", "eu"))
    iceberg.drop_namespace("prod")
    with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist: prod"):
        iceberg.drop_namespace("prod")
    with pytest.raises(NoSuchNamespaceError):
        iceberg.list_namespaces("prod")


@pytest.mark.parametrize("name", ["a b", "e.f", "ä%20ö", "🤪", "100%"])
def test_odd_names_are_only_names(iceberg: Catalog, name: str) -> None:
    iceberg.create_namespace((name,))
    iceberg.create_namespace((name, "inner"))
    assert iceberg.list_namespaces() == [(name,)]
    assert iceberg.list_namespaces((name,)) == [(name, "inner")]
    assert iceberg.namespace_exists((name, "inner"))


def test_a_parent_is_understood_encoded_once_or_twice(http: Client) -> None:
    http.post("/iceberg/v1/namespaces", {"namespace": ["a b"]})
    http.post("/iceberg/v1/namespaces", {"namespace": ["a b", "c"]})
    for parent in ("a%20b", "a%2520b"):
        answer = http.get(f"/iceberg/v1/namespaces?parent={parent}")
        assert answer.json == {"namespaces": [["a b", "c"]], "next-page-token": None}


def test_any_prefix_is_accepted(http: Client) -> None:
    http.post("/iceberg/v1/my/cat/namespaces", {"namespace": ["a"]})
    assert http.get("/iceberg/v1/namespaces").json["namespaces"] == [["a"]]


def test_lists_come_whole_or_in_pages(http: Client) -> None:
    for name in "abc":
        http.post("/iceberg/v1/namespaces", {"namespace": [name]})
    assert len(http.get("/iceberg/v1/namespaces?pageSize=2").json["namespaces"]) == 3
    first = http.get("/iceberg/v1/namespaces?pageToken=&pageSize=2").json
    assert first["namespaces"] == [["a"], ["b"]]
    second = http.get(
        f"/iceberg/v1/namespaces?pageToken={first['next-page-token']}&pageSize=2"
    ).json
    assert second == {"namespaces": [["c"]], "next-page-token": None}


def test_a_lance_table_is_loaded_with_its_schema_and_version(
    iceberg: Catalog, table: list[str]
) -> None:
    found = iceberg.load_table("prod.t")
    location: str | None = found.metadata_location
    assert location is None
    assert [(f.name, str(f.field_type)) for f in found.schema().fields] == [
        ("id", "long"),
        ("name", "string"),
    ]
    current = found.current_snapshot()
    assert current is not None
    assert current.snapshot_id == 2
    assert [entry.snapshot_id for entry in found.history()] == [1, 2]
    assert found.properties["table_type"] == "lance"
    assert found.properties["managed_by"] == "storage"
    assert found.properties["gc.enabled"] == "false"
    assert iceberg.list_tables("prod") == [("prod", "t")]
    assert iceberg.table_exists("prod.t")
    assert not iceberg.table_exists("prod.none")
    with pytest.raises(FileNotFoundError, match="NOT-MIRRORED-lance-version-2"):
        found.scan().to_arrow()


def test_the_metadata_location_is_nowhere_on_load(http: Client, table: list[str]) -> None:
    loaded = http.get("/iceberg/v1/namespaces/prod/tables/t").json
    assert "metadata-location" not in loaded
    assert loaded["metadata"]["current-snapshot-id"] == 2
    assert len(loaded["metadata"]["snapshots"]) == 2
    refs = http.get("/iceberg/v1/namespaces/prod/tables/t?snapshots=refs").json["metadata"]
    assert [s["snapshot-id"] for s in refs["snapshots"]] == [2]


def test_a_table_that_did_not_change_is_not_sent_again(
    http: Client, table: list[str], rest: LanceNamespace
) -> None:
    path = "/iceberg/v1/namespaces/prod/tables/t"
    first = http.get(path)
    tag = {"if-none-match": first.headers["etag"]}
    again = http.get(path, headers=tag)
    assert (again.status, again.body) == (304, b"")
    assert http.get(path + "?snapshots=refs").headers["etag"] != first.headers["etag"]
    lance.dataset(namespace_client=rest, table_id=table).tags.create("one", 1)
    assert http.get(path, headers=tag).status == 200


def test_a_lance_table_is_created_from_an_iceberg_schema(
    iceberg: Catalog, rest: LanceNamespace
) -> None:
    iceberg.create_namespace("prod")
    made = iceberg.create_table("prod.t", ROWS.schema, properties={"table_type": "lance"})
    assert [field.name for field in made.schema().fields] == ["id", "name"]
    with pytest.raises(TableAlreadyExistsError, match=r"Table already exists: prod\.t"):
        iceberg.create_table("prod.t", ROWS.schema, properties={"table_type": "lance"})
    with pytest.raises(NoSuchNamespaceError):
        iceberg.create_table("none.t", ROWS.schema, properties={"table_type": "lance"})
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "t"], mode="append")
    assert lance.dataset(namespace_client=rest, table_id=["prod", "t"]).count_rows() == 3


def test_a_table_that_is_dropped_before_the_answer_was_made_all_the_same(
    iceberg: Catalog, http: Client, rest: LanceNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    iceberg.create_namespace("prod")
    find = lance_tables.find

    def dropped_meanwhile(catalog: Any, identifier: Any) -> Any:
        rest.drop_table(DropTableRequest(id=list(identifier)))
        return find(catalog, identifier)

    monkeypatch.setattr(lance_tables, "find", dropped_meanwhile)
    for columns in ([], [{"id": 1, "name": "a", "type": "long", "required": False}]):
        schema = {"type": "struct", "schema-id": 0, "fields": columns}
        body = {"name": "t", "schema": schema, "properties": {"table_type": "lance"}}
        answer = http.post("/iceberg/v1/namespaces/prod/tables", body)
        assert answer.status == 200, answer.body
        assert answer.json["metadata"]["location"].endswith("$t")
    assert not iceberg.table_exists("prod.t")


def test_management_that_the_catalog_has_not_is_refused_before_anything_is_made(
    iceberg: Catalog, rest: LanceNamespace, properties: dict[str, str]
) -> None:
    iceberg.create_namespace("prod")
    wanted = {"table_type": "lance", "managed_by": "impl"}
    before = set(Path(properties["root"]).iterdir())
    with pytest.raises(BadRequestError, match="does not manage versions"):
        iceberg.create_table("prod.t", ROWS.schema, properties=wanted)
    assert iceberg.list_tables("prod") == []
    assert set(Path(properties["root"]).iterdir()) == before
    with lakeroot.DirectoryNamespace(**properties) as other:
        other.enable_version_management()
    made = iceberg.create_table("prod.t", ROWS.schema, properties=wanted)
    assert made.properties["managed_by"] == "impl"
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "t"], mode="append")
    assert iceberg.load_table("prod.t").current_snapshot() is not None


def test_tables_are_dropped_with_their_data_or_without(
    iceberg: Catalog, table: list[str], rest: LanceNamespace
) -> None:
    location = lance.dataset(namespace_client=rest, table_id=table).uri
    iceberg.drop_table("prod.t")
    assert not iceberg.table_exists("prod.t")
    assert lance.dataset(location).count_rows() == 6
    with pytest.raises(NoSuchTableError, match=r"Table does not exist: prod\.t"):
        iceberg.drop_table("prod.t")
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "u"])
    location = lance.dataset(namespace_client=rest, table_id=["prod", "u"]).uri
    iceberg.purge_table("prod.u")
    with pytest.raises((OSError, ValueError)):
        lance.dataset(location)


def test_tags_are_refs(iceberg: Catalog, table: list[str], rest: LanceNamespace) -> None:
    found = iceberg.load_table("prod.t")
    with found.manage_snapshots() as change:
        change.create_tag(1, "golden")
    dataset = lance.dataset(namespace_client=rest, table_id=table)
    assert dataset.tags.list()["golden"]["version"] == 1
    assert iceberg.load_table("prod.t").refs()["golden"].snapshot_id == 1
    with found.manage_snapshots() as change:
        change.remove_tag("golden")
    assert "golden" not in iceberg.load_table("prod.t").refs()


def test_a_snapshot_of_icebergs_own_making_is_refused_and_nothing_changes(
    http: Client, table: list[str], rest: LanceNamespace
) -> None:
    path = "/iceberg/v1/namespaces/prod/tables/t"
    before = http.get(path).json["metadata"]
    snapshot = {
        "snapshot-id": 4611686018427387904,
        "sequence-number": 3,
        "timestamp-ms": 1,
        "manifest-list": before["location"] + "/metadata/snap.avro",
        "summary": {"operation": "append"},
    }
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
    body: dict[str, Any] = {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2}],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {**main, "snapshot-id": snapshot["snapshot-id"]},
        ],
    }
    assert "Lance writer" in failed(http.post(path, body), 400, "BadRequestException")
    assert http.get(path).json["metadata"] == before
    assert lance.dataset(namespace_client=rest, table_id=table).count_rows() == 6


def test_requirements_fail_with_the_words_that_clients_look_for(
    http: Client, table: list[str]
) -> None:
    path = "/iceberg/v1/namespaces/prod/tables/t"

    def refused(**requirement: Any) -> str:
        return failed(
            http.post(path, {"requirements": [requirement], "updates": []}),
            409,
            "CommitFailedException",
        )

    ref: dict[str, Any] = {"type": "assert-ref-snapshot-id"}
    assert refused(type="assert-create") == "Requirement failed: table already exists"
    assert "UUID does not match: expected" in refused(type="assert-table-uuid", uuid="x")
    assert refused(**ref, ref="main", **{"snapshot-id": 1}) == (
        "Requirement failed: branch main has changed: expected id 1 != 2"
    )
    assert "branch main was created concurrently" in refused(
        **ref, ref="main", **{"snapshot-id": None}
    )
    assert "branch or tag x is missing, expected 1" in refused(**ref, ref="x", **{"snapshot-id": 1})
    assert "current schema changed" in refused(
        type="assert-current-schema-id", **{"current-schema-id": 7}
    )
    assert "last assigned field id changed" in refused(
        type="assert-last-assigned-field-id", **{"last-assigned-field-id": 99}
    )
    unknown = {"requirements": [{"type": "assert-nothing"}], "updates": []}
    failed(http.post(path, unknown), 400, "BadRequestException")


@pytest.mark.parametrize(
    "update",
    [
        {"action": "add-schema", "schema": {}},
        {"action": "set-properties", "updates": {"table_type": "iceberg"}},
        {"action": "remove-properties", "removals": ["managed_by"]},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"},
        {"action": "set-location", "location": "file:///elsewhere"},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-spec", "spec": {"fields": [{"name": "x"}]}},
        {"action": "set-snapshot-ref", "ref-name": "x", "type": "branch", "snapshot-id": 1},
        {"action": "set-snapshot-ref", "ref-name": "x", "type": "tag", "snapshot-id": 99},
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "remove-snapshots", "snapshot-ids": [2]},
        {"action": "dance"},
        "nonsense",
    ],
    ids=str,
)
def test_an_update_that_lance_cannot_have_is_refused(
    http: Client, table: list[str], update: object
) -> None:
    path = "/iceberg/v1/namespaces/prod/tables/t"
    before = http.get(path).body
    body = {"requirements": [], "updates": [update]}
    failed(http.post(path, body), 400, "BadRequestException")
    assert http.get(path).body == before


def test_missing_things_have_their_own_types(http: Client, iceberg: Catalog) -> None:
    iceberg.create_namespace("prod")
    v1 = "/iceberg/v1"
    message = failed(http.get(f"{v1}/namespaces/prod/tables/t"), 404, "NoSuchTableException")
    assert message == "Table does not exist: prod.t"
    # Engines look for metadata tables by loading one inside a namespace that is a table.
    failed(http.get(f"{v1}/namespaces/prod%1Ft/tables/snapshots"), 404, "NoSuchTableException")
    failed(http.get(f"{v1}/namespaces/none"), 404, "NoSuchNamespaceException")
    failed(http.get(f"{v1}/namespaces/prod/views/v"), 404, "NoSuchViewException")
    failed(http.get(f"{v1}/nothing"), 404, "NotFoundException")
    assert http.get(f"{v1}/namespaces/prod/views").json["identifiers"] == []
    for path in ("namespaces/none", "namespaces/prod/tables/t", "namespaces/prod/views/v"):
        answer = http.call("HEAD", f"{v1}/{path}")
        assert (answer.status, answer.body) == (404, b"")
    renamed = {
        "source": {"namespace": ["prod"], "name": "t"},
        "destination": {"namespace": ["prod"], "name": "u"},
    }
    failed(http.post(f"{v1}/tables/rename", renamed), 404, "NoSuchTableException")
    changes = {"identifier": renamed["source"], "requirements": [], "updates": []}
    body = {"table-changes": [changes]}
    failed(http.post(f"{v1}/transactions/commit", body), 404, "NoSuchTableException")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "namespaces", b"{"),
        ("POST", "namespaces", b"[]"),
        ("POST", "namespaces", {"namespace": "a"}),
        ("POST", "namespaces", {"namespace": []}),
        ("POST", "namespaces", {"namespace": [""]}),
        ("POST", "namespaces", {"namespace": ["a"], "properties": {"a": 1}}),
        ("POST", "namespaces", b'{"namespace": ["a"], "namespace": ["b"]}'),
        ("GET", "namespaces?pageToken=&pageSize=0", None),
        ("GET", "namespaces?pageSize=x", None),
        ("GET", "namespaces/%FF", None),
        ("GET", "namespaces/%1F", None),
        ("POST", "namespaces/prod/tables", {"name": ""}),
        ("POST", "namespaces/prod/tables", {"schema": {}}),
        ("POST", "namespaces/prod/register", {"name": "x"}),
        ("POST", "tables/rename", {}),
        ("POST", "tables/rename", {"source": {"namespace": ["a"]}, "destination": {}}),
        ("POST", "transactions/commit", {}),
        ("POST", "transactions/commit", {"table-changes": [1]}),
        ("DELETE", "namespaces/prod/tables/t?purgeRequested=maybe", None),
        ("GET", "namespaces/prod/tables/t?snapshots=some", None),
    ],
    ids=str,
)
def test_bad_input_is_a_bad_request(
    http: Client, table: list[str], method: str, path: str, body: object
) -> None:
    failed(http.call(method, f"/iceberg/v1/{path}", body), 400, "BadRequestException")


def test_bad_schemas_are_bad_requests(http: Client, iceberg: Catalog) -> None:
    iceberg.create_namespace("prod")
    untyped = {"type": "struct", "fields": [{"name": "x"}]}
    wrong: list[Any] = [None, [], {"type": "struct"}, untyped]
    for schema in wrong:
        body = {"name": "t", "schema": schema, "properties": {"table_type": "lance"}}
        answer = http.post("/iceberg/v1/namespaces/prod/tables", body)
        failed(answer, 400, "BadRequestException")
    assert iceberg.list_tables("prod") == []


def test_config_tells_what_can_be_called(http: Client) -> None:
    config = http.get("/iceberg/v1/config?warehouse=any").json
    assert "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
    assert "POST /v1/{prefix}/transactions/commit" in config["endpoints"]
    assert not any("views" in endpoint for endpoint in config["endpoints"])


def test_a_change_that_is_sent_again_is_answered_again_not_made_again(http: Client) -> None:
    key = {"idempotency-key": "018f3a1e-0000-7000-8000-000000000001"}
    body = {"namespace": ["a"]}
    first = http.post("/iceberg/v1/namespaces", body, headers=key)
    again = http.post("/iceberg/v1/namespaces", body, headers=key)
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    failed(http.post("/iceberg/v1/namespaces", body), 409, "AlreadyExistsException")
    other = http.post("/iceberg/v1/namespaces", {"namespace": ["b"]}, headers=key)
    failed(other, 400, "BadRequestException")
    bad = http.post("/iceberg/v1/namespaces", body, headers={"idempotency-key": "x"})
    failed(bad, 400, "BadRequestException")


def test_metrics_of_engines_are_accepted(http: Client, table: list[str]) -> None:
    path = "/iceberg/v1/namespaces/prod/tables/t/metrics"
    assert http.post(path, {"report-type": "scan-report"}).status == 204


def test_a_refused_write_of_pyiceberg_leaves_the_table_as_it_was(
    iceberg: Catalog, table: list[str], rest: LanceNamespace
) -> None:
    with pytest.raises((BadRequestError, FileNotFoundError)):
        iceberg.load_table("prod.t").append(ROWS)
    assert lance.dataset(namespace_client=rest, table_id=table).count_rows() == 6
