"""Commits through Iceberg REST: Lance tables by Lance writers, ordinary ones by PyIceberg."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest, LanceNamespace
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.types import LongType

from lakeroot.server import IcebergSettings
from tests.server.http import Client
from tests.server.test_iceberg_catalog import failed

IMPL = "lakeroot.DirectoryNamespace"
ROWS = pa.table({"x": pa.array([1, 2], pa.int64())})


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "managed")


@pytest.fixture
def url(start: Callable[..., str], root: str) -> str:
    return start(impl=IMPL, properties={"root": root, "table_version_management": "true"})


@pytest.fixture
def iceberg(url: str) -> Catalog:
    catalog = load_catalog("lakeroot", type="rest", uri=f"{url}/iceberg")
    catalog.create_namespace("prod")
    return catalog


@pytest.fixture
def writer(url: str, root: str, iceberg: Catalog) -> LanceNamespace:
    """A Lance client that knows nothing but Iceberg REST."""
    properties = {"endpoint": f"{url}/iceberg", "root": root, "managed_by": "impl"}
    return lance_namespace.connect("lakeroot.IcebergNamespace", properties)


def test_a_lance_writer_commits_through_iceberg_rest(
    writer: LanceNamespace, iceberg: Catalog, url: str
) -> None:
    for mode in ("create", "append", "append"):
        lance.write_dataset(ROWS, namespace_client=writer, table_id=["prod", "t"], mode=mode)
    assert lance.dataset(namespace_client=writer, table_id=["prod", "t"]).count_rows() == 6
    rest = lance_namespace.connect("rest", {"uri": url})
    lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "t"], mode="append")
    assert lance.dataset(namespace_client=writer, table_id=["prod", "t"]).count_rows() == 8
    found = iceberg.load_table("prod.t")
    current = found.current_snapshot()
    assert current is not None
    assert current.snapshot_id == 4
    assert found.properties["managed_by"] == "impl"


def test_writers_through_both_protocols_lose_no_row(
    writer: LanceNamespace, iceberg: Catalog, url: str
) -> None:
    rest = lance_namespace.connect("rest", {"uri": url})
    lance.write_dataset(ROWS, namespace_client=writer, table_id=["prod", "t"])

    def append(number: int) -> None:
        client = writer if number % 2 else rest
        for _ in range(3):
            lance.write_dataset(
                ROWS, namespace_client=client, table_id=["prod", "t"], mode="append"
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    assert lance.dataset(namespace_client=rest, table_id=["prod", "t"]).count_rows() == 26
    current = iceberg.load_table("prod.t").current_snapshot()
    assert current is not None
    assert current.snapshot_id == 13


def _new_version(metadata: dict[str, Any], version: int, manifest: str) -> dict[str, Any]:
    """The commit of one more version, as a Lance writer sends it."""
    snapshot = {
        "snapshot-id": version,
        "sequence-number": version,
        "timestamp-ms": metadata["last-updated-ms"],
        "manifest-list": "x",
        "summary": {"operation": "append", "lance.manifest": manifest},
    }
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
    held = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": version - 1}
    return {
        "requirements": [held],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {**main, "snapshot-id": version},
        ],
    }


def _staged(metadata: dict[str, Any], version: int) -> str:
    """Write the next version as Lance does, and take its manifest back to be committed."""
    folder = Path(metadata["location"].removeprefix("file://")) / "_versions"
    final = f"{2**64 - 1 - version:020}.manifest"
    staged = f"{final}-11111111-2222-3333-4444-555555555555"
    lance.write_dataset(ROWS, metadata["location"], mode="append")
    (folder / final).rename(folder / staged)
    return f"_versions/{staged}"


@pytest.fixture
def tables(writer: LanceNamespace) -> list[str]:
    for name in ("a", "b"):
        lance.write_dataset(ROWS, namespace_client=writer, table_id=["prod", name])
    return ["/iceberg/v1/namespaces/prod/tables/a", "/iceberg/v1/namespaces/prod/tables/b"]


def test_a_commit_answers_with_the_place_of_the_new_version(url: str, tables: list[str]) -> None:
    http = Client(url)
    metadata = http.get(tables[0]).json["metadata"]
    body = _new_version(metadata, 2, _staged(metadata, 2))
    answer = http.post(tables[0], body)
    assert answer.status == 200, answer.body
    assert answer.json["metadata-location"].endswith(f"{2**64 - 3:020}.manifest")
    assert answer.json["metadata"]["current-snapshot-id"] == 2
    # Whoever builds on a version that is no longer the last one hears it in the words on which
    # clients try again.
    message = failed(http.post(tables[0], body), 409, "CommitFailedException")
    assert message == "Requirement failed: branch main has changed: expected id 1 != 2"
    stale = _new_version(metadata, 3, "_versions/x")
    stale["requirements"][0]["snapshot-id"] = 1
    failed(http.post(tables[0], stale), 409, "CommitFailedException")
    foreign = {**stale["updates"][0]["snapshot"], "summary": {"operation": "append"}}
    stale["updates"][0]["snapshot"] = foreign
    failed(http.post(tables[0], stale), 400, "BadRequestException")
    assert http.get(tables[0]).json["metadata"]["current-snapshot-id"] == 2


def test_a_commit_must_say_which_version_it_builds_on(url: str, tables: list[str]) -> None:
    http = Client(url)
    metadata = http.get(tables[0]).json["metadata"]
    body = _new_version(metadata, 2, _staged(metadata, 2))
    unsaid = {**body, "requirements": []}
    message = failed(http.post(tables[0], unsaid), 400, "BadRequestException")
    assert "assert-ref-snapshot-id" in message
    wrong: dict[str, Any] = {**body["requirements"][0], "snapshot-id": 7}
    stale = {**body, "requirements": [wrong]}
    failed(http.post(tables[0], stale), 409, "CommitFailedException")
    assert http.get(tables[0]).json["metadata"]["current-snapshot-id"] == 1


def test_a_manifest_of_somebody_else_is_not_taken(url: str, tables: list[str], root: str) -> None:
    http = Client(url)
    metadata = http.get(tables[0]).json["metadata"]
    other = http.get(tables[1]).json["metadata"]
    theirs = f"{other['location']}/{_staged(other, 2)}"
    for path in (theirs, "/etc/passwd", "../b/_versions/x", "_versions/../../x"):
        body = _new_version(metadata, 2, path)
        failed(http.post(tables[0], body), 400, "BadRequestException")
    assert http.get(tables[0]).json["metadata"] == metadata


def test_a_transaction_commits_every_table_or_none(url: str, tables: list[str]) -> None:
    http = Client(url)
    states = [http.get(path).json["metadata"] for path in tables]

    def changes(*wrong: int) -> dict[str, Any]:
        members = []
        for number, (name, state) in enumerate(zip("ab", states, strict=True)):
            member = _new_version(state, 2, _staged(state, 2))
            if number in wrong:
                member["requirements"][0]["snapshot-id"] = 9
            members.append({"identifier": {"namespace": ["prod"], "name": name}, **member})
        return {"table-changes": members}

    commit = "/iceberg/v1/transactions/commit"
    failed(http.post(commit, changes(1)), 409, "CommitFailedException")
    assert [http.get(path).json["metadata"] for path in tables] == states
    assert http.post(commit, changes()).status == 204
    now = [http.get(path).json["metadata"]["current-snapshot-id"] for path in tables]
    assert now == [2, 2]
    twice = changes()
    twice["table-changes"][1] = twice["table-changes"][0]
    failed(http.post(commit, twice), 400, "BadRequestException")


def test_an_old_version_is_restored_as_a_new_one(
    url: str, tables: list[str], writer: LanceNamespace
) -> None:
    http = Client(url)
    lance.write_dataset(ROWS, namespace_client=writer, table_id=["prod", "a"], mode="append")
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    held = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2}
    answer = http.post(tables[0], {"requirements": [held], "updates": [main]})
    assert answer.status == 200, answer.body
    assert answer.json["metadata"]["current-snapshot-id"] == 3
    assert lance.dataset(namespace_client=writer, table_id=["prod", "a"]).count_rows() == 2


def test_properties_of_namespaces_and_tables_change(
    iceberg: Catalog, tables: list[str], url: str
) -> None:
    told = iceberg.update_namespace_properties("prod", {"gone"}, {"k": "v"})
    assert (told.updated, told.removed, told.missing) == (["k"], [], ["gone"])
    assert iceberg.load_namespace_properties("prod")["k"] == "v"
    both = {"removals": ["k"], "updates": {"k": "w"}}
    answer = Client(url).post("/iceberg/v1/namespaces/prod/properties", both)
    failed(answer, 422, "UnprocessableEntityException")
    table = iceberg.load_table("prod.a")
    with table.transaction() as change:
        change.set_properties(color="red", size="5")
    with table.transaction() as change:
        change.remove_properties("size")
    found = iceberg.load_table("prod.a").properties
    assert found["color"] == "red"
    assert "size" not in found


def test_a_table_is_renamed_under_both_protocols(
    iceberg: Catalog, tables: list[str], url: str
) -> None:
    iceberg.create_namespace("other")
    uuid = iceberg.load_table("prod.a").metadata.table_uuid
    iceberg.rename_table("prod.a", "other.z")
    assert iceberg.load_table("other.z").metadata.table_uuid == uuid
    rest = lance_namespace.connect("rest", {"uri": url})
    assert lance.dataset(namespace_client=rest, table_id=["other", "z"]).count_rows() == 2
    body = {
        "source": {"namespace": ["other"], "name": "z"},
        "destination": {"namespace": ["none"], "name": "z"},
    }
    answer = Client(url).post("/iceberg/v1/tables/rename", body)
    assert failed(answer, 404, "NoSuchNamespaceException") == "Namespace does not exist: none"


def test_mirror_and_planning_are_chosen_by_namespace_and_table(
    iceberg: Catalog, tables: list[str], url: str
) -> None:
    iceberg.update_namespace_properties("prod", updates={"iceberg.mirror": "on"})
    assert iceberg.load_table("prod.a").scan().to_arrow().num_rows == 2
    with iceberg.load_table("prod.b").transaction() as change:
        change.set_properties({"iceberg.mirror": "off"})
    with pytest.raises(FileNotFoundError):
        iceberg.load_table("prod.b").scan().to_arrow()


def test_an_ordinary_iceberg_table_lives_beside_them(iceberg: Catalog) -> None:
    rows = pa.table({"x": pa.array([1, 2], pa.int64()), "s": ["a", "b"]})
    table = iceberg.create_table("prod.plain", rows.schema)
    table.append(rows)
    with table.update_schema() as change:
        change.add_column("y", LongType())
    stale = iceberg.load_table("prod.plain")
    iceberg.load_table("prod.plain").append(rows)
    stale.append(rows)  # refused with 409, so PyIceberg builds it again on the newest version
    found = iceberg.load_table("prod.plain")
    assert found.scan("x > 1").to_arrow().num_rows == 3
    assert found.metadata_location.endswith(".metadata.json")
    assert found.schema().column_names == ["x", "s", "y"]
    iceberg.rename_table("prod.plain", "prod.renamed")
    assert iceberg.load_table("prod.renamed").scan().count() == 6
    location = found.metadata_location
    iceberg.drop_table("prod.renamed")
    iceberg.register_table("prod.again", location)
    assert iceberg.load_table("prod.again").scan().count() == 6
    iceberg.purge_table("prod.again")
    with pytest.raises(NoSuchTableError):
        iceberg.load_table("prod.again")


def test_an_ordinary_table_is_staged_and_committed(iceberg: Catalog) -> None:
    with iceberg.create_table_transaction("prod.staged", ROWS.schema) as change:
        assert not iceberg.table_exists("prod.staged")
        change.append(ROWS)
    assert iceberg.load_table("prod.staged").scan().to_arrow() == ROWS


def test_a_staged_table_keeps_what_changed_before_its_commit(iceberg: Catalog) -> None:
    given = {"a": "1", "b": "1"}
    with iceberg.create_table_transaction("prod.staged", ROWS.schema, properties=given) as change:
        change.set_properties({"b": "2", "c": "2"})
    kept = iceberg.load_table("prod.staged").properties
    assert [kept.get(key) for key in "abc"] == ["1", "2", "2"]


def test_a_place_outside_the_catalog_is_refused(iceberg: Catalog, url: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "00000-x.metadata.json"
    outside.parent.mkdir()
    outside.write_text("{}")
    with pytest.raises(RESTError):
        iceberg.register_table("prod.x", f"file://{outside}")
    body = {"name": "x", "metadata-location": f"file://{outside.parent}"}
    answer = Client(url).post("/iceberg/v1/namespaces/prod/register", body)
    assert answer.status == 400
    made = {
        "name": "x",
        "location": f"file://{outside.parent}/t",
        "schema": {"type": "struct", "fields": []},
        "properties": {"table_type": "lance"},
    }
    assert Client(url).post("/iceberg/v1/namespaces/prod/tables", made).status == 400
    assert iceberg.list_tables("prod") == []


def test_a_lance_table_is_registered_by_its_root(iceberg: Catalog, url: str, root: str) -> None:
    lance.write_dataset(ROWS, f"{root}/found.lance")
    body = {"name": "found", "metadata-location": f"file://{root}/found.lance"}
    answer = Client(url).post("/iceberg/v1/namespaces/prod/register", body)
    assert answer.status == 200, answer.body
    assert "metadata-location" not in answer.json
    assert answer.json["metadata"]["current-snapshot-id"] == 1


def test_ordinary_tables_are_planned_on_the_server_too(
    start: Callable[..., str], tmp_path: Path
) -> None:
    url = start(
        impl=IMPL,
        properties={"root": str(tmp_path / "planned")},
        iceberg=IcebergSettings(scan_planning=True),
    )
    iceberg = load_catalog("planned", type="rest", uri=f"{url}/iceberg")
    iceberg.create_namespace("prod")
    table = iceberg.create_table("prod.plain", ROWS.schema)
    table.append(ROWS)
    assert iceberg.load_table("prod.plain").scan("x > 1").count() == 1


def test_a_catalog_that_keeps_no_properties_says_so(
    start: Callable[..., str], tmp_path: Path
) -> None:
    url = start(impl="dir", properties={"root": str(tmp_path / "reference")})
    reference = lance_namespace.connect("rest", {"uri": url})
    reference.create_namespace(CreateNamespaceRequest(id=["prod"]))
    body = {"updates": {"a": "b"}}
    answer = Client(url).post("/iceberg/v1/namespaces/prod/properties", body)
    failed(answer, 406, "UnsupportedOperationException")
