"""Giving a name to a table that is there, and taking the name away from one that stays."""

import pytest
from lance_namespace import UnsupportedOperationError

from tests.asking import ROWS, Lake, refused
from tests.conformance.stores import V1
from tests.conformance.test_tables import location_of, rows_at

only_its_own_directory = pytest.mark.never(
    V1, raises=UnsupportedOperationError, reason="in V1 the directory is the name"
)


def test_a_deregistered_table_stays_deregistered(lake: Lake, other: Lake) -> None:
    created = lake.create_table("t")
    assert created.location is not None

    gone = lake.deregister_table("t")

    assert gone.id == ["t"]
    assert gone.location == created.location
    for client in (lake, other):
        assert client.tables() == []
        assert client.list_all_tables().tables == []
        assert not client.table_exists("t")
        with refused(4):
            client.deregister_table("t")
    assert rows_at(lake, created.location) == ROWS.to_pylist()


def test_a_deregistered_table_can_be_registered_again(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    location = lake.deregister_table("t").location
    assert location is not None

    registered = other.register_table("t", location=location)

    assert registered.location == location
    for client in (lake, other):
        assert client.tables() == ["t"]
        assert rows_at(client, location_of(client, "t")) == ROWS.to_pylist()


@only_its_own_directory
def test_a_deregistered_table_can_get_another_name(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    location = lake.deregister_table("t").location
    assert location is not None

    lake.register_table("u", location=location)

    for client in (lake, other):
        assert client.tables() == ["u"]
        assert rows_at(client, location_of(client, "u")) == ROWS.to_pylist()


@only_its_own_directory
def test_the_name_of_a_deregistered_table_is_free(lake: Lake, other: Lake) -> None:
    old = lake.create_table("t")
    lake.deregister_table("t")

    try:
        new = lake.create_table("t", rows=ROWS.slice(0, 1))
    except Exception as error:
        # In V1 the directory is taken until the table is registered again or dropped.
        raise UnsupportedOperationError(str(error)) from error

    assert old.location is not None
    assert new.location is not None
    assert old.location != new.location
    assert rows_at(lake, old.location) == ROWS.to_pylist()
    assert rows_at(other, location_of(other, "t")) == ROWS.slice(0, 1).to_pylist()
    assert other.tables() == ["t"]


def relative(lake: Lake, location: str) -> str:
    return location.removeprefix(lake.client.catalog.store.root.uri).strip("/")


@pytest.mark.parametrize("form", ["whole", "relative", "slashed"])
def test_a_location_may_be_written_in_several_ways(lake: Lake, other: Lake, form: str) -> None:
    lake.create_table("t")
    location = lake.deregister_table("t").location
    assert location is not None
    short = relative(lake, location)
    written = {"whole": location, "relative": short, "slashed": short + "/"}[form]

    registered = lake.register_table("t", location=written)

    assert registered.location == location
    assert other.tables() == ["t"]


@only_its_own_directory
def test_a_registered_table_keeps_its_properties(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    location = lake.deregister_table("t").location
    assert location is not None

    registered = lake.register_table("u", location=location, properties={"x": "1"})

    assert registered.properties == {"x": "1"}
    assert dict(other.client.catalog.table(("u",)).properties) == {"x": "1"}


@pytest.mark.parametrize(
    "location",
    ["", "..", "../x", "a/../../x", "/etc", "/", ".", "./x", "http://host/x", "s4://b/x", "a\0b"],
)
def test_a_location_outside_the_root_is_refused(lake: Lake, location: str) -> None:
    with refused(13):
        lake.register_table("t", location=location)
    with refused(13):
        lake.declare_table("t", location=location)
    assert lake.tables() == []


def test_a_location_without_a_table_is_refused(lake: Lake) -> None:
    with refused(13):
        lake.register_table("t", location="t.lance")
    assert lake.tables() == []


@only_its_own_directory
def test_two_names_cannot_own_one_location(lake: Lake, other: Lake) -> None:
    created = lake.create_table("t")
    assert created.location is not None

    for client in (lake, other):
        with refused(13) as error:
            client.register_table("u", location=created.location)
        assert "t" in str(error.value)
        with refused(13):
            client.declare_table("u", location=created.location)
    assert other.tables() == ["t"]
    assert rows_at(lake, created.location) == ROWS.to_pylist()


def test_registering_a_taken_name_is_refused(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    lake.create_table("u")
    location = lake.deregister_table("u").location
    assert location is not None

    with refused(5):
        other.register_table("t", location=location)
    assert other.tables() == ["t"]


@only_its_own_directory
@pytest.mark.parametrize("mode", ["Overwrite", "overwrite"])
def test_registering_with_overwrite_replaces_the_registration(
    lake: Lake, other: Lake, mode: str
) -> None:
    old = lake.create_table("t", rows=ROWS.slice(0, 1))
    lake.create_table("u")
    location = lake.deregister_table("u").location
    assert location is not None

    lake.register_table("t", location=location, mode=mode, properties={"now": "u"})

    for client in (lake, other):
        assert client.tables() == ["t"]
        assert location_of(client, "t") == location
    assert old.location is not None
    assert rows_at(lake, old.location) == ROWS.slice(0, 1).to_pylist()


@only_its_own_directory
def test_registering_with_overwrite_does_not_take_a_namespace(lake: Lake) -> None:
    lake.create_namespace("a")
    lake.create_table("u")
    location = lake.deregister_table("u").location
    assert location is not None

    with refused(5):
        lake.register_table("a", location=location, mode="Overwrite")
    assert lake.namespaces() == ["a"]
