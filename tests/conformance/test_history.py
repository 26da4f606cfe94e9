"""The past: what each commit changed, and the catalog as it was."""

import pytest

from lakeroot.model import errors
from lakeroot.namespace.base import LakerootNamespace
from tests.asking import Lake, refused
from tests.conformance.stores import ICEBERG, UNSUPPORTED, V1, has_one_level

has_no_past = pytest.mark.never(
    [*V1, *ICEBERG], raises=UNSUPPORTED, reason="it shows only what is there now"
)


@has_one_level
@has_no_past
def test_every_commit_is_told_the_newest_first(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a", properties={"x": "1"})
    lake.declare_table("a", "t")
    lake.rename_table("a", "t", to="u")
    lake.create_namespace("a", "b")
    lake.drop_table("a", "u")

    for client in (lake, other):
        told = list(client.client.catalog.history())
        assert [entry.created for entry in told] == [
            (),
            (("a", "b"),),
            (("a", "u"),),
            (("a", "t"),),
            (("a",),),
        ]
        assert told[0].removed == (("a", "u"),)
        assert told[2].removed == (("a", "t"),)
        assert all(entry.altered == () for entry in told)
        versions = [entry.version for entry in told]
        assert versions == sorted(set(versions), reverse=True)
        times = [entry.timestamp_ms for entry in told]
        assert times == sorted(times, reverse=True)


@has_no_past
def test_an_altered_object_is_told_as_altered(lake: Lake) -> None:
    catalog = lake.client.catalog
    lake.create_namespace("a", properties={"x": "1"})
    lake.declare_table("a", "t")
    catalog.alter_namespace(("a",), {"x": "2"})
    catalog.alter_table(("a", "t"), {"y": "1"})

    told = list(catalog.history())
    assert told[0].altered == (("a", "t"),)
    assert told[1].altered == (("a",),)
    assert lake.describe_namespace("a") == {"x": "2"}


@has_no_past
def test_history_can_be_limited(lake: Lake) -> None:
    catalog = lake.client.catalog
    for name in "abcde":
        lake.create_namespace(name)

    whole = list(catalog.history())
    for limit in (0, 1, 2, 5, 50):
        assert list(catalog.history(limit)) == whole[:limit]


@has_no_past
def test_the_author_and_the_message_are_kept(lake: Lake, other: Lake) -> None:
    from lakeroot.model.commits import Commit, CreateNamespace

    commit = Commit((CreateNamespace(("a",)),), message="begin — größe", author="ann")
    lake.client.catalog.store.commit(commit)

    told = next(iter(other.client.catalog.history()))
    assert (told.message, told.author) == ("begin — größe", "ann")


@has_no_past
def test_the_catalog_can_be_read_as_it_was(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a", properties={"x": "1"})
    lake.declare_table("a", "t")
    lake.rename_table("a", "t", to="u")
    lake.drop_namespace("a", behavior="Cascade")

    told = list(other.client.catalog.history())[::-1]
    states = [Lake(LakerootNamespace(other.client.catalog.at(one.version))) for one in told]
    assert [state.namespaces() for state in states] == [["a"], ["a"], ["a"], []]
    assert [state.list_all_tables().tables for state in states] == [[], ["a$t"], ["a$u"], []]
    assert states[0].describe_namespace("a") == {"x": "1"}
    for one, state in zip(told, states, strict=True):
        at = Lake(LakerootNamespace(other.client.catalog.at(timestamp_ms=one.timestamp_ms)))
        later = [entry for entry in told if entry.timestamp_ms == one.timestamp_ms][-1]
        if later is one:
            assert at.list_all_tables().tables == state.list_all_tables().tables


@has_no_past
def test_the_past_cannot_be_changed(lake: Lake) -> None:
    lake.create_namespace("a")
    version = next(iter(lake.client.catalog.history())).version
    past = Lake(LakerootNamespace(lake.client.catalog.at(version)))

    for change in (
        lambda: past.create_namespace("b"),
        lambda: past.drop_namespace("a"),
        lambda: past.declare_table("t"),
        lambda: past.create_table("a", "t"),
    ):
        with refused(0):
            change()
    lake.create_namespace("b")
    assert past.namespaces() == ["a"]
    assert lake.namespaces() == ["a", "b"]


@has_no_past
def test_a_version_or_a_time_that_never_was_is_refused(lake: Lake) -> None:
    catalog = lake.client.catalog
    lake.create_namespace("a")

    for what in ({"version": 10**6}, {"version": -1}, {"timestamp_ms": 1}, {}):
        with pytest.raises(errors.InvalidInputError):
            catalog.at(**what)
    with pytest.raises(errors.InvalidInputError):
        catalog.at(version=1, timestamp_ms=1)
