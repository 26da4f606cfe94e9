"""Tables that others change, drop or make anew while we hold on to what we read."""

import lance
import pytest

import lakeroot
from lakeroot.model.commits import CreateTableVersions
from lakeroot.model.errors import ConcurrentModificationError, TableNotFoundError
from lakeroot.model.records import TableVersion
from tests.asking import Lake, refused
from tests.iceberg.servers import Weed, fresh_name


@pytest.fixture(params=["storage", "impl"])
def lake(catalog: Weed, request: pytest.FixtureRequest) -> Lake:
    return Lake(lakeroot.IcebergNamespace(**catalog.properties, managed_by=str(request.param)))


@pytest.fixture
def parent(lake: Lake) -> str:
    name = fresh_name()
    lake.create_namespace(name)
    return name


def test_a_table_dropped_by_others_is_not_found_by_anything(lake, parent):
    lake.create_table(parent, "t")
    store = lake.client.store
    entry = store.entries.get((parent, "t"))
    store.client.drop_table((parent, "t"))
    for name in ("describe_table", "drop_table", "deregister_table"):
        with refused(4):
            getattr(lake, name)(parent, "t")
    with refused(4):
        lake.rename_table(parent, "t", to="u")
    with pytest.raises(TableNotFoundError):
        store.entries.set_properties(entry, {"a": "b"})


def test_a_table_made_anew_by_others_is_not_changed_in_place_of_the_old_one(lake, parent):
    lake.declare_table(parent, "t", properties={"a": "1"})
    store = lake.client.store
    old = store.entries.get((parent, "t"))
    lake.drop_table(parent, "t")
    lake.declare_table(parent, "t", properties={"a": "2"})
    with pytest.raises(ConcurrentModificationError):
        store.entries.set_properties(old, {"a": "3"})
    assert lake.describe_table(parent, "t").properties == {"a": "2"}


def test_a_name_that_others_take_away_while_its_table_is_created_is_a_conflict(
    lake, parent, monkeypatch
):
    client = lake.client.store.client
    update = client.update_table

    def after_a_drop(identifier, requirements, updates):
        client.drop_table(identifier)
        return update(identifier, requirements, updates)

    monkeypatch.setattr(client, "update_table", after_a_drop)
    with refused(14):
        lake.declare_table(parent, "t")
    monkeypatch.undo()
    lake.declare_table(parent, "t")
    assert lake.describe_table(parent, "t").location


def test_a_table_that_stops_being_a_lance_table_is_not_found(lake, parent):
    lake.create_table(parent, "t")
    client = lake.client.store.client
    mark = {"action": "set-properties", "updates": {"table_type": "iceberg"}}
    client.update_table((parent, "t"), [], [mark])
    with refused(4):
        lake.describe_table(parent, "t")
    assert lake.tables(parent) == []


def test_an_unknown_arbiter_is_an_invalid_state_and_hides_no_other_table(lake, parent):
    lake.create_table(parent, "t")
    lake.create_table(parent, "well")
    mark = {"action": "set-properties", "updates": {"managed_by": "somebody"}}
    lake.client.store.client.update_table((parent, "t"), [], [mark])
    with refused(19):
        lake.describe_table(parent, "t")
    assert lake.tables(parent) == ["t", "well"]
    assert {f"{parent}$t", f"{parent}$well"} <= set(lake.list_all_tables().tables)
    location = lake.deregister_table(parent, "well").location
    lake.register_table(parent, "again", location=location)
    lake.drop_table(parent, "t")
    assert lake.tables(parent) == ["again"]


def test_a_version_of_a_table_that_is_gone_is_refused(lake, parent):
    lake.create_table(parent, "t")
    lake.client.store.client.drop_table((parent, "t"))
    version = TableVersion(2, "_versions/2.manifest-x")
    with pytest.raises(TableNotFoundError):
        lake.client.catalog.commit(CreateTableVersions((parent, "t"), (version,)))


def test_rows_that_are_gone_are_told_apart_from_a_table_that_is_gone(lake, parent):
    lake.create_table(parent, "t")
    store = lake.client.store
    store.files_of(store.entries.get((parent, "t"))).delete_directory("")
    assert lake.describe_table(parent, "t").location
    with pytest.raises((ValueError, OSError)):
        lance.dataset(namespace_client=lake.client, table_id=[parent, "t"])
    lake.drop_table(parent, "t")
    assert lake.tables(parent) == []
