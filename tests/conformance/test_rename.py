"""Renaming a table, within its namespace and across."""

import pytest
from lance_namespace import UnsupportedOperationError

from tests.asking import ROWS, Lake, refused
from tests.conformance.stores import V1, has_one_level
from tests.conformance.test_tables import location_of, rows_at

is_never_renamed = pytest.mark.never(
    V1, raises=UnsupportedOperationError, reason="in V1 the directory is the name"
)


@is_never_renamed
def test_a_renamed_table_keeps_its_data(lake: Lake, other: Lake) -> None:
    created = lake.create_table("t", properties={"x": "1"})
    lake.rename_table("t", to="u")

    for client in (lake, other):
        assert client.tables() == ["u"]
        assert client.list_all_tables().tables == ["u"]
        assert not client.table_exists("t")
        assert location_of(client, "u") == created.location
        assert rows_at(client, location_of(client, "u")) == ROWS.to_pylist()
        assert dict(client.client.catalog.table(("u",)).properties) == {"x": "1"}


@has_one_level
@is_never_renamed
def test_a_table_moves_between_namespaces(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a", "b")
    lake.create_table("t")

    lake.rename_table("t", to="t", into=["a", "b"])
    assert other.tables("a", "b") == ["t"]
    assert other.tables() == []
    other.rename_table("a", "b", "t", to="u", into=["a"])
    assert lake.tables("a") == ["u"]
    assert lake.tables("a", "b") == []
    lake.rename_table("a", "u", to="v", into=[])
    for client in (lake, other):
        assert client.list_all_tables().tables == ["v"]
        assert rows_at(client, location_of(client, "v")) == ROWS.to_pylist()


@is_never_renamed
def test_a_renamed_name_is_free_again(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    lake.rename_table("t", to="u")
    lake.create_table("t", rows=ROWS.slice(0, 1))

    for client in (lake, other):
        assert client.tables() == ["t", "u"]
        assert rows_at(client, location_of(client, "t")) == ROWS.slice(0, 1).to_pylist()
        assert rows_at(client, location_of(client, "u")) == ROWS.to_pylist()
    lake.drop_table("t")
    assert rows_at(other, location_of(other, "u")) == ROWS.to_pylist()


@is_never_renamed
def test_a_renamed_table_can_be_dropped_and_renamed_back(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    lake.rename_table("t", to="u")
    other.rename_table("u", to="t")
    assert lake.tables() == ["t"]
    assert rows_at(lake, location_of(lake, "t")) == ROWS.to_pylist()
    lake.rename_table("t", to="u")
    lake.drop_table("u")
    assert other.tables() == []


@is_never_renamed
def test_a_taken_name_is_refused(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    lake.declare_table("u")
    lake.create_namespace("a")

    for taken in ("u", "a", "t"):
        with refused(5):
            other.rename_table("t", to=taken)
    assert lake.tables() == ["t", "u"]
    assert rows_at(lake, location_of(lake, "t")) == ROWS.to_pylist()


def test_the_new_namespace_must_exist(lake: Lake) -> None:
    lake.create_table("t")

    with refused(1):
        lake.rename_table("t", to="t", into=["nowhere"])
    assert lake.tables() == ["t"]
    assert rows_at(lake, location_of(lake, "t")) == ROWS.to_pylist()


@is_never_renamed
def test_a_declared_table_can_be_renamed(lake: Lake, other: Lake) -> None:
    declared = lake.declare_table("t")
    lake.rename_table("t", to="u")

    assert other.tables() == ["u"]
    assert location_of(other, "u") == declared.location
    assert other.list_tables(include_declared=False).tables == []
    other.create_table("u")
    assert rows_at(lake, location_of(lake, "u")) == ROWS.to_pylist()
