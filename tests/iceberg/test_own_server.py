"""The Iceberg catalog against Lakeroot's own server, which keeps Lance tables by itself."""

from pathlib import Path

import lance
import pytest

import lakeroot
from lakeroot.server import Settings, serving
from tests.asking import ROWS, Lake, refused


@pytest.fixture(params=["storage", "impl"])
def managed_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(tmp_path: Path, managed_by: str):
    properties = {
        "root": str(tmp_path / "lake"),
        "table_version_management": "true" if managed_by == "impl" else "false",
    }
    settings = Settings(
        port=0, impl="lakeroot.DirectoryNamespace", properties=properties, log_requests=False
    )
    with serving(settings) as url:
        client = lakeroot.IcebergNamespace(
            endpoint=f"{url}/iceberg",
            managed_by=managed_by,
            native_lance_tables="true",
            retry_backoff="1",
        )
        yield Lake(client)
        client.close()


def test_namespaces_and_tables_are_made_and_found(lake):
    lake.create_namespace("a", properties={"owner": "me"})
    lake.create_namespace("a", "b c")
    assert lake.describe_namespace("a") == {"owner": "me"}
    assert lake.namespaces("a") == ["b c"]
    declared = lake.declare_table("a", "t", properties={"k": "v"})
    assert declared.location
    described = lake.describe_table("a", "t", check_declared=True)
    assert described.location == declared.location
    assert described.is_only_declared
    assert described.properties == {"k": "v"}
    assert lake.tables("a") == ["t"]
    with refused(5):
        lake.declare_table("a", "t")
    with refused(4):
        lake.describe_table("a", "u")
    with refused(3):
        lake.drop_namespace("a")


def test_pylance_writes_and_reads_through_the_catalog(lake, managed_by):
    lake.create_namespace("a")
    for mode in ("create", "append", "append"):
        lance.write_dataset(ROWS, namespace_client=lake.client, table_id=["a", "t"], mode=mode)
    dataset = lance.dataset(namespace_client=lake.client, table_id=["a", "t"])
    assert (dataset.version, dataset.count_rows()) == (3, 3 * ROWS.num_rows)
    entry = lake.client.store.entries.get(("a", "t"))
    assert entry.is_managed == (managed_by == "impl")
    assert entry.definition.version == 3
    assert [field["name"] for field in entry.definition.schema["fields"]] == ["id", "name"]
    assert entry.metadata_location is None


def test_tables_are_renamed_deregistered_registered_and_dropped(lake):
    lake.create_namespace("a")
    lake.create_namespace("b")
    lance.write_dataset(ROWS, namespace_client=lake.client, table_id=["a", "t"])
    lake.rename_table("a", "t", to="u", into=["b"])
    assert lake.tables("a") == []
    location = lake.deregister_table("b", "u").location
    assert lance.dataset(location).count_rows() == ROWS.num_rows
    lake.register_table("b", "v", location=location)
    assert lake.describe_table("b", "v").location == location
    lake.drop_table("b", "v")
    assert not Path(location.removeprefix("file://")).exists()
    lake.drop_namespace("b")


def test_a_table_that_is_renamed_before_its_maker_looks_was_made_all_the_same(lake, monkeypatch):
    lake.create_namespace("air")
    client = lake.client
    look = client._entry

    def meanwhile(identifier):
        monkeypatch.undo()
        lake.rename_table("air", "t", to="other", into=["air"])
        return look(identifier)

    monkeypatch.setattr(client, "_entry", meanwhile)

    lake.declare_table("air", "t")

    assert lake.tables("air") == ["other"]
