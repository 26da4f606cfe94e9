"""Tables as the catalog knows them: declare, create, drop."""

import lance
import pytest
from lance_namespace import UnsupportedOperationError

from tests.asking import ROWS, Lake, refused
from tests.conformance.stores import UNSUPPORTED, V1, creates_one_by_one, has_one_level

has_no_namespaces = pytest.mark.never(V1, raises=UNSUPPORTED, reason="V1 is one flat namespace")
has_no_properties = pytest.mark.never(
    V1, raises=UnsupportedOperationError, reason="V1 has nowhere to keep properties of a table"
)


def rows_at(lake: Lake, location: str) -> list[dict[str, object]]:
    """Read a table the way any Lance client does."""
    options = dict(lake.client.catalog.store.root.storage_options)
    found: list[dict[str, object]] = (
        lance.dataset(location, storage_options=options).to_table().to_pylist()
    )
    return found


def location_of(lake: Lake, *names: str) -> str:
    catalog = lake.client.catalog
    location: str = catalog.store.uri(catalog.table(names).location)
    return location


def test_a_declared_table_exists(lake: Lake, other: Lake) -> None:
    declared = lake.declare_table("t")

    assert declared.location
    for client in (lake, other):
        assert client.table_exists("t")
        assert client.tables() == ["t"]
        assert location_of(client, "t") == declared.location


def test_a_declared_table_can_be_written_by_any_lance_client(lake: Lake, other: Lake) -> None:
    declared = lake.declare_table("t")
    assert declared.location is not None

    lance.write_dataset(ROWS, declared.location, storage_options=declared.storage_options)

    assert rows_at(other, location_of(other, "t")) == ROWS.to_pylist()
    assert other.list_tables(include_declared=False).tables == ["t"]


@has_one_level
@has_no_namespaces
def test_a_table_in_a_namespace_is_found_there_only(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a", "b")
    lake.declare_table("a", "b", "t")

    for client in (lake, other):
        assert client.tables("a", "b") == ["t"]
        assert client.tables("a") == []
        assert client.tables() == []
        assert client.table_exists("a", "b", "t")
        assert not client.table_exists("t")
        assert not client.table_exists("a", "t")


@has_no_properties
def test_properties_of_a_declared_table_are_kept(lake: Lake, other: Lake) -> None:
    declared = lake.declare_table("t", properties={"owner": "ann", "größe": '{"x": 1}'})

    assert declared.properties == {"owner": "ann", "größe": '{"x": 1}'}
    assert dict(other.client.catalog.table(("t",)).properties) == declared.properties


def test_a_table_needs_its_namespace(lake: Lake) -> None:
    with refused(1):
        lake.declare_table("a", "t")
    with refused(1):
        lake.create_table("a", "t")
    with refused(1):
        lake.client.table_exists({"id": ["a", "t"]})
    with refused(1):
        lake.drop_table("a", "t")
    with refused(1):
        lake.deregister_table("a", "t")
    with refused(1):
        lake.rename_table("a", "t", to="u")
    assert lake.list_all_tables().tables == []


def test_a_missing_table_is_not_found(lake: Lake) -> None:
    lake.declare_table("u")

    with refused(4):
        lake.client.table_exists({"id": ["t"]})
    with refused(4):
        lake.drop_table("t")
    with refused(4):
        lake.deregister_table("t")
    with refused(4):
        lake.rename_table("t", to="v")
    assert lake.tables() == ["u"]


def test_a_table_needs_a_name(lake: Lake) -> None:
    for call in (
        lake.declare_table,
        lake.create_table,
        lake.drop_table,
        lake.deregister_table,
        lake.table_exists,
    ):
        with refused(13):
            call()
    with refused(13):
        lake.register_table(location="t.lance")
    with refused(13):
        lake.rename_table(to="t")


def test_a_name_is_taken_once(lake: Lake, other: Lake) -> None:
    first = lake.declare_table("t")

    for client in (lake, other):
        with refused(5):
            client.declare_table("t")
    assert location_of(other, "t") == first.location
    assert other.tables() == ["t"]


@has_one_level
@has_no_namespaces
def test_a_table_and_a_namespace_cannot_share_a_name(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a", "b")

    for client in (lake, other):
        with refused(5):
            client.declare_table("a")
        with refused(5):
            client.create_table("a", "b")
    assert lake.list_all_tables().tables == []


@has_no_namespaces
def test_a_namespace_is_not_a_table(lake: Lake) -> None:
    lake.create_namespace("a")

    with refused(4) as error:
        lake.client.table_exists({"id": ["a"]})
    assert "namespace" in str(error.value)
    with refused(4):
        lake.drop_table("a")
    with refused(4):
        lake.deregister_table("a")
    with refused(4):
        lake.rename_table("a", to="b")
    assert lake.namespaces() == ["a"]


def test_a_created_table_holds_its_rows(lake: Lake, other: Lake) -> None:
    created = lake.create_table("t")

    assert created.version == 1
    assert created.location is not None
    assert rows_at(other, created.location) == ROWS.to_pylist()
    assert other.tables() == ["t"]
    assert other.table_exists("t", version=1)


def test_an_empty_table_can_be_created(lake: Lake) -> None:
    created = lake.create_table("t", rows=ROWS.slice(0, 0))

    assert created.location is not None
    assert rows_at(lake, created.location) == []
    assert lake.list_tables(include_declared=False).tables == ["t"]


def test_creating_a_table_that_is_there_is_refused(lake: Lake, other: Lake) -> None:
    created = lake.create_table("t")
    assert created.location is not None

    for client in (lake, other):
        for mode in (None, "Create", "create"):
            with refused(5):
                client.create_table("t", rows=ROWS.slice(0, 1), mode=mode)
    assert rows_at(lake, created.location) == ROWS.to_pylist()


def test_a_declared_table_can_be_created(lake: Lake, other: Lake) -> None:
    declared = lake.declare_table("t")
    created = other.create_table("t")

    assert created.location == declared.location
    assert rows_at(lake, location_of(lake, "t")) == ROWS.to_pylist()
    assert lake.tables() == ["t"]


@pytest.mark.parametrize("mode", ["ExistOk", "exist_ok"])
def test_exist_ok_keeps_the_rows_that_are_there(lake: Lake, mode: str) -> None:
    created = lake.create_table("t")
    assert created.location is not None

    kept = lake.create_table("t", rows=ROWS.slice(0, 1), mode=mode)

    assert kept.location == created.location
    assert rows_at(lake, created.location) == ROWS.to_pylist()


def test_exist_ok_creates_what_is_not_there(lake: Lake) -> None:
    created = lake.create_table("t", mode="ExistOk")

    assert created.location is not None
    assert rows_at(lake, created.location) == ROWS.to_pylist()


@pytest.mark.parametrize("mode", ["Overwrite", "overwrite"])
def test_overwrite_replaces_the_rows(lake: Lake, other: Lake, mode: str) -> None:
    lake.create_table("t")

    lake.create_table("t", rows=ROWS.slice(0, 1), mode=mode)

    assert rows_at(other, location_of(other, "t")) == ROWS.slice(0, 1).to_pylist()
    assert other.tables() == ["t"]


@has_no_properties
def test_overwrite_replaces_the_properties(lake: Lake, other: Lake) -> None:
    lake.create_table("t", properties={"first": "1"})
    overwritten = lake.create_table("t", mode="Overwrite", properties={"second": "2"})

    assert overwritten.properties == {"second": "2"}
    assert dict(other.client.catalog.table(("t",)).properties) == {"second": "2"}


@has_no_properties
def test_creating_a_declared_table_may_give_it_other_properties(lake: Lake, other: Lake) -> None:
    lake.declare_table("t", properties={"first": "1"})
    lake.declare_table("u", properties={"first": "1"})

    assert other.create_table("t", properties={"second": "2"}).properties == {"second": "2"}
    assert other.create_table("u").properties == {"first": "1"}
    assert dict(lake.client.catalog.table(("t",)).properties) == {"second": "2"}
    assert dict(lake.client.catalog.table(("u",)).properties) == {"first": "1"}


@has_no_properties
def test_overwriting_without_properties_leaves_none(lake: Lake, other: Lake) -> None:
    lake.create_table("t", properties={"first": "1"})

    assert lake.create_table("t", mode="Overwrite").properties == {}
    assert dict(other.client.catalog.table(("t",)).properties) == {}


@has_no_properties
def test_exist_ok_keeps_the_properties(lake: Lake, other: Lake) -> None:
    lake.create_table("t", properties={"first": "1"})
    kept = lake.create_table("t", mode="ExistOk", properties={"second": "2"})

    assert kept.properties == {"first": "1"}
    assert dict(other.client.catalog.table(("t",)).properties) == {"first": "1"}


def test_what_is_not_arrow_is_refused_and_makes_nothing(lake: Lake) -> None:
    from lance_namespace import CreateTableRequest

    for body in (b"", b"nonsense", b"ARROW1\0\0"):
        with refused(13):
            lake.client.create_table(CreateTableRequest(id=["t"]), body)
    assert lake.tables() == []


def test_an_unknown_mode_is_refused(lake: Lake) -> None:
    with refused(13):
        lake.create_table("t", mode="Append")
    with refused(13):
        lake.register_table("t", location="t.lance", mode="ExistOk")
    assert lake.tables() == []


def test_dropping_a_table_deletes_its_data(lake: Lake, other: Lake) -> None:
    created = lake.create_table("t")
    lake.create_table("t2")
    assert created.location is not None

    dropped = other.drop_table("t")

    assert dropped.id == ["t"]
    assert dropped.location == created.location
    for client in (lake, other):
        assert client.tables() == ["t2"]
        assert not client.table_exists("t")
    with pytest.raises((ValueError, OSError)):
        rows_at(lake, created.location)
    with refused(4):
        lake.drop_table("t")


def test_a_declared_table_can_be_dropped(lake: Lake, other: Lake) -> None:
    lake.declare_table("t")
    other.drop_table("t")

    assert lake.tables() == []
    lake.declare_table("t")
    assert other.tables() == ["t"]


def test_a_dropped_name_is_free_again(lake: Lake) -> None:
    lake.create_table("t")
    lake.drop_table("t")
    lake.create_table("t", rows=ROWS.slice(0, 1))

    assert rows_at(lake, location_of(lake, "t")) == ROWS.slice(0, 1).to_pylist()


@creates_one_by_one
def test_many_tables_are_declared_in_one_commit(lake: Lake, other: Lake) -> None:
    many: list[tuple[tuple[str, ...], dict[str, str]]] = [
        ((f"t-{number:03}",), {}) for number in range(100)
    ]

    declared = lake.client.catalog.declare_tables(many)

    assert len({table.location for table in declared}) == 100
    assert other.tables() == [f"t-{number:03}" for number in range(100)]
    assert other.list_tables(include_declared=False).tables == []


@creates_one_by_one
@has_no_namespaces
def test_bulk_declaration_is_all_or_nothing(lake: Lake, other: Lake) -> None:
    from lakeroot.model.errors import NamespaceNotFoundError, TableAlreadyExistsError

    lake.create_namespace("a")
    lake.declare_table("a", "taken")
    catalog = lake.client.catalog
    with pytest.raises(TableAlreadyExistsError):
        catalog.declare_tables([(("a", "new"), {}), (("a", "taken"), {})])
    with pytest.raises(TableAlreadyExistsError):
        catalog.declare_tables([(("a", "twice"), {}), (("a", "twice"), {})])
    with pytest.raises(NamespaceNotFoundError):
        catalog.declare_tables([(("new",), {}), (("nowhere", "new"), {})])
    assert other.list_all_tables().tables == ["a$taken"]
