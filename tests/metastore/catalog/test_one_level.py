"""What the conformance suite asks with nested namespaces, asked where there is one level."""

from pathlib import Path

import pytest

import lakeroot
from tests.asking import ROWS, Lake, refused
from tests.conformance.test_names import ODD
from tests.conformance.test_tables import location_of, rows_at


@pytest.fixture
def lake(tmp_path: Path, layout: str) -> Lake:
    return Lake(lakeroot.DeltaCatNamespace(root=str(tmp_path), layout=layout))


@pytest.fixture
def other(tmp_path: Path, layout: str) -> Lake:
    return Lake(lakeroot.DeltaCatNamespace(root=str(tmp_path), layout=layout))


@pytest.fixture(params=["spec", "deltacat-2"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_commit_is_told_the_newest_first(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a", properties={"x": "1"})
    lake.declare_table("a", "t")
    lake.rename_table("a", "t", to="u")
    lake.drop_table("a", "u")

    for client in (lake, other):
        told = list(client.client.catalog.history())
        assert [entry.created for entry in told] == [(), (("a", "u"),), (("a", "t"),), (("a",),)]
        assert told[0].removed == (("a", "u"),)
        assert told[1].removed == (("a", "t"),)


@pytest.mark.parametrize("limit", [1, 4, 100])
def test_namespaces_are_listed_in_pages(lake: Lake, other: Lake, limit: int) -> None:
    names = [f"n{number}" for number in range(9)]
    for name in reversed(names):
        lake.create_namespace(name)
    found, token = [], None
    while True:
        page = other.list_namespaces(limit=limit, page_token=token)
        found.extend(page.namespaces)
        token = page.page_token
        if not token:
            break
    assert found == names


def test_listings_keep_to_their_namespace(lake: Lake, other: Lake) -> None:
    for name in ("a", "ab"):
        lake.create_namespace(name)
        lake.declare_table(name, "t")
    lake.declare_table("t")

    assert other.namespaces() == ["a", "ab"]
    assert other.tables("a") == other.tables("ab") == other.tables() == ["t"]
    assert other.list_all_tables().tables == ["a$t", "ab$t", "t"]
    assert not other.table_exists("a", "u")


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_works(lake: Lake, other: Lake, name: str) -> None:
    lake.create_table(name)
    lake.create_namespace("a")
    lake.create_table("a", name)

    assert other.tables() == other.tables("a") == [name]
    location = other.deregister_table(name).location
    lake.register_table(name, location=location)
    assert rows_at(other, location_of(other, name)) == ROWS.to_pylist()
    other.drop_table(name)
    other.drop_table("a", name)
    lake.create_namespace(name, properties={name: name})
    assert other.describe_namespace(name) == {name: name}
    other.drop_namespace(name)
    assert lake.list_all_tables().tables == []


@pytest.mark.parametrize("mode", ["ExistOk", "Overwrite"])
def test_a_namespace_that_is_there_is_kept_or_made_anew(lake: Lake, other: Lake, mode: str) -> None:
    lake.create_namespace("a", properties={"first": "yes"})
    lake.declare_table("a", "t")
    lake.create_namespace("a", mode=mode, properties={"second": "yes"})

    is_kept = mode == "ExistOk"
    assert other.describe_namespace("a") == ({"first": "yes"} if is_kept else {"second": "yes"})
    assert other.tables("a") == (["t"] if is_kept else [])


def test_a_full_namespace_is_dropped_only_with_everything_in_it(lake: Lake, other: Lake) -> None:
    for name in ("a", "ab"):
        lake.create_namespace(name)
        lake.create_table(name, "t")
    for options in ({}, {"behavior": "Restrict"}, {"mode": "Skip"}):
        with refused(3):
            lake.drop_namespace("a", **options)
    assert other.tables("a") == ["t"]
    lake.drop_namespace("a", behavior="Cascade")

    assert other.namespaces() == ["ab"]
    assert other.list_all_tables().tables == ["ab$t"]


def test_many_namespaces_are_created_in_one_commit(lake: Lake, other: Lake) -> None:
    catalog = lake.client.catalog
    catalog.create_namespaces([((f"ns-{n:03}",), {"n": str(n)}) for n in range(200)])

    assert len(other.namespaces()) == 200
    assert other.describe_namespace("ns-199") == {"n": "199"}
    assert len(list(catalog.history())) == 1


def test_a_table_moves_between_namespaces(lake: Lake, other: Lake) -> None:
    for name in ("a", "b"):
        lake.create_namespace(name)
    lake.create_table("t")
    lake.rename_table("t", to="t", into=["a"])
    other.rename_table("a", "t", to="u", into=["b"])
    assert lake.list_all_tables().tables == ["b$u"]
    lake.rename_table("b", "u", to="v", into=[])

    for client in (lake, other):
        assert client.list_all_tables().tables == ["v"]
        assert rows_at(client, location_of(client, "v")) == ROWS.to_pylist()


def test_a_table_and_a_namespace_cannot_share_a_name(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a")
    for client in (lake, other):
        with refused(5):
            client.declare_table("a")
    assert other.list_all_tables().tables == []


def test_a_deeper_level_is_a_clear_error(lake: Lake) -> None:
    lake.create_namespace("a")
    with refused(0) as error:
        lake.create_namespace("a", "b")
    assert "one level" in str(error.value)
    for call in (lake.declare_table, lake.create_table):
        with refused(1):
            call("a", "b", "t")


def test_a_dollar_never_reaches_another_object(lake: Lake) -> None:
    lake.create_namespace("a")
    lake.declare_table("a", "t")
    for call in (
        lambda: lake.create_namespace("a$t"),
        lambda: lake.create_table("a$t", mode="Overwrite"),
        lambda: lake.drop_table("a$t"),
    ):
        with refused(13):
            call()
    assert lake.list_all_tables().tables == ["a$t"]
