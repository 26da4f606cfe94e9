"""The store behind the contract, on a real catalog with its object store."""

import lance
import pyarrow as pa
import pytest

from lakeroot.catalog import Catalog
from lakeroot.catalog.modes import DropBehavior
from lakeroot.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Namespace
from lakeroot.storage.iceberg_rest.config import read_config
from lakeroot.storage.iceberg_rest.store import IcebergRestStore
from tests.iceberg.servers import Weed, fresh_name

ROWS = pa.table({"id": [1, 2, 3], "vector": pa.array([[0.0] * 4] * 3, pa.list_(pa.float32(), 4))})


@pytest.fixture
def store(catalog: Weed):
    store = IcebergRestStore(read_config(catalog.properties))
    yield store
    store.close()


@pytest.fixture
def lake(store: IcebergRestStore) -> Catalog:
    return Catalog(store)


@pytest.fixture
def namespace(lake: Catalog) -> Identifier:
    identifier = (fresh_name(),)
    lake.create_namespace(identifier, {"owner": "me"})
    return identifier


def write(catalog: Weed, location: str, **options) -> lance.LanceDataset:
    return lance.write_dataset(ROWS, location, storage_options=catalog.storage, **options)


def test_a_namespace_shows_what_its_owner_wrote_and_nothing_else(lake, namespace):
    found = lake.describe_namespace(namespace)
    assert found.properties == {"owner": "me"}
    assert found.created_at_ms
    lake.alter_namespace(namespace, {"team": "data", "location": "here"})
    assert lake.describe_namespace(namespace).properties == {"team": "data", "location": "here"}


def test_a_declared_table_is_there_and_has_no_data(lake, store, namespace):
    declared = lake.declare_table((*namespace, "t"), {"a": "1", "write.x": "2"})
    found = lake.table((*namespace, "t"))
    assert found.location == declared.location
    assert found.properties == {"a": "1", "write.x": "2"}
    assert not store.has_data(found)
    assert lake.list_tables(namespace).items == ["t"]
    kept = store.client.load_table((*namespace, "t"))["metadata"]["properties"]
    assert kept["table_type"] == "lance"
    assert kept["managed_by"] == "storage"
    assert kept["gc.enabled"] == "false"
    assert kept["write.data.path"].startswith(declared.location)
    assert "lakeroot.reserved-for" not in kept


def test_the_files_of_the_server_never_lie_among_the_data(catalog, lake, store, namespace):
    declared = lake.declare_table((*namespace, "t"))
    write(catalog, declared.location)
    files = store.files(lake.table((*namespace, "t")))
    assert {found.path.split("/")[0] for found in files.list("")} == {
        "data",
        "_versions",
        "_transactions",
    }


def test_a_deregistered_table_keeps_its_data_even_where_the_server_deletes(
    catalog, lake, namespace
):
    declared = lake.declare_table((*namespace, "t"))
    write(catalog, declared.location)
    lake.deregister_table((*namespace, "t"))
    with pytest.raises(TableNotFoundError):
        lake.table((*namespace, "t"))
    dataset = lance.dataset(declared.location, storage_options=catalog.storage)
    assert dataset.count_rows() == 3


def test_a_dropped_table_is_gone_with_its_data(catalog, lake, store, namespace):
    declared = lake.declare_table((*namespace, "t"))
    write(catalog, declared.location)
    entry = store.entries.get((*namespace, "t"))
    lake.drop_table((*namespace, "t"))
    assert not store.files_of(entry).has_any("")
    with pytest.raises(TableNotFoundError):
        lake.table((*namespace, "t"))


def test_a_name_used_again_does_not_find_the_old_data(catalog, lake, store, namespace):
    first = lake.declare_table((*namespace, "t"))
    write(catalog, first.location)
    lake.deregister_table((*namespace, "t"))
    second = lake.declare_table((*namespace, "t"))
    assert second.location != first.location
    assert not store.has_data(lake.table((*namespace, "t")))


def test_a_table_is_registered_with_its_schema_and_version(catalog, lake, store, namespace):
    old = lake.declare_table((*namespace, "old"))
    write(catalog, old.location)
    write(catalog, old.location, mode="append")
    lake.deregister_table((*namespace, "old"))
    lake.register_table((*namespace, "new"), old.location, {"k": "v"})
    entry = store.entries.get((*namespace, "new"))
    assert entry.location == old.location
    assert entry.properties == {"k": "v"}
    assert entry.definition.version == 2
    assert [f["name"] for f in entry.definition.schema["fields"]] == ["id", "vector"]
    assert entry.definition.snapshots[2]["summary"]["total-records"] == "6"


def test_nothing_is_registered_where_no_table_is(lake, store, namespace):
    nowhere = store.place((*namespace, "x"))
    with pytest.raises(InvalidInputError):
        lake.register_table((*namespace, "t"), nowhere)
    assert store.client.list_tables(namespace) == []


def test_two_names_cannot_own_one_location(catalog, lake, namespace):
    owned = lake.declare_table((*namespace, "t"))
    write(catalog, owned.location)
    with pytest.raises(InvalidInputError):
        lake.register_table((*namespace, "u"), owned.location)


def test_a_renamed_table_keeps_its_place(lake, namespace):
    declared = lake.declare_table((*namespace, "t"), {"a": "1"})
    lake.create_namespace((*namespace, "b"))
    lake.rename_table((*namespace, "t"), (*namespace, "b", "u"))
    found = lake.table((*namespace, "b", "u"))
    assert (found.location, found.properties) == (declared.location, {"a": "1"})
    with pytest.raises(TableNotFoundError):
        lake.table((*namespace, "t"))


def test_the_properties_of_a_table_are_replaced(lake, namespace):
    lake.declare_table((*namespace, "t"), {"a": "1", "b": "2", "write.x": "3"})
    lake.alter_table((*namespace, "t"), {"b": "3", "c": "4"})
    assert lake.table((*namespace, "t")).properties == {"b": "3", "c": "4"}


def test_taken_names_are_refused(lake, namespace):
    lake.declare_table((*namespace, "t"))
    with pytest.raises(TableAlreadyExistsError):
        lake.declare_table((*namespace, "t"))
    with pytest.raises(NamespaceAlreadyExistsError):
        lake.create_namespace((*namespace, "t"))
    with pytest.raises(NamespaceAlreadyExistsError):
        lake.create_namespace(namespace)


def test_a_namespace_with_children_is_dropped_only_by_cascade(lake, store, namespace):
    lake.create_namespace((*namespace, "b"))
    lake.declare_table((*namespace, "b", "t"))
    with pytest.raises(NamespaceNotEmptyError):
        lake.drop_namespace(namespace)
    lake.drop_namespace(namespace, behavior=DropBehavior.CASCADE)
    assert store.read().get(namespace) is None
    assert store.read().get((*namespace, "b")) is None


def test_tables_that_are_not_lance_are_neither_listed_nor_opened_nor_overwritten(
    lake, store, namespace
):
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    store.client.create_table((*namespace, "other"), {"schema": schema})
    lake.declare_table((*namespace, "ours"))
    assert lake.list_tables(namespace).items == ["ours"]
    with pytest.raises(TableNotFoundError):
        lake.table((*namespace, "other"))
    with pytest.raises(TableAlreadyExistsError):
        lake.declare_table((*namespace, "other"))
    lake.drop_table((*namespace, "ours"))
    with pytest.raises(NamespaceNotEmptyError):
        lake.drop_namespace(namespace)
    assert "properties" not in store.client.load_table((*namespace, "other"))["metadata"]


def test_a_table_among_the_files_of_the_server_is_not_deregistered_unless_trusted(
    catalog, lake, store, namespace
):
    properties = {"table_type": "lance"}
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    body = {"schema": schema, "properties": properties}
    store.client.create_table((*namespace, "theirs"), body)
    with pytest.raises(InvalidTableStateError) as refusal:
        lake.deregister_table((*namespace, "theirs"))
    assert "trust_drop" in refusal.value.fix
    trusting = IcebergRestStore(read_config(catalog.properties | {"trust_drop": "true"}))
    Catalog(trusting).deregister_table((*namespace, "theirs"))


def test_a_root_table_is_refused(lake):
    with pytest.raises(InvalidInputError):
        lake.declare_table(("t",), location="s3://warehouse/x/t.lance")
    with pytest.raises(TableNotFoundError):
        lake.table(("t",))


def test_what_the_protocol_cannot_do_is_refused_whole(lake, store, namespace):
    with pytest.raises(UnsupportedOperationError):
        lake.declare_tables([((*namespace, "a"), {}), ((*namespace, "b"), {})])
    assert lake.list_tables(namespace).items == []
    with pytest.raises(UnsupportedOperationError):
        lake.alter_namespace((), {"a": "b"})
    with pytest.raises(UnsupportedOperationError):
        list(lake.history())
    with pytest.raises(UnsupportedOperationError):
        lake.at(1)


def test_all_tables_are_found_in_every_namespace(lake, namespace):
    lake.create_namespace((*namespace, "b"))
    for name in ("b", "a"):
        lake.declare_table((*namespace, name + "1"))
        lake.declare_table((*namespace, "b", name + "2"))
    found = [table for table in lake.list_all_tables().items if table[0] == namespace[0]]
    assert found == [
        (*namespace, "a1"),
        (*namespace, "b", "a2"),
        (*namespace, "b", "b2"),
        (*namespace, "b1"),
    ]


def test_a_view_of_the_root_is_a_namespace(store):
    assert store.read().get(()) == Namespace(())
