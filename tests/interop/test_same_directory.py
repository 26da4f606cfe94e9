"""Each writes, the other reads, in every mode."""

from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from tests.asking import ROWS, Lake, refused
from tests.interop.conftest import MODES, object_ids

Open = Callable[..., Lake]
WITH_MANIFEST = ["v2", "compat", "migration"]
EVERY = list(MODES)


def location(lake: Lake, *names: str) -> str:
    found = lake.describe_table(*names).location
    assert found is not None
    return str(found).removeprefix("file://")


@pytest.mark.parametrize("mode", WITH_MANIFEST)
def test_they_see_our_namespaces(ours: Open, theirs: Open, mode: str) -> None:
    us = ours(mode)
    us.create_namespace("a", properties={"x": "1", "größe": "groß"})
    us.create_namespace("a", "b")
    us.create_namespace("gone")
    us.drop_namespace("gone")

    for them in (theirs(mode), theirs(mode, inline_optimization_enabled="true")):
        assert them.namespaces() == ["a"]
        assert them.namespaces("a") == ["b"]
        seen = them.describe_namespace("a")
        assert {k: v for k, v in seen.items() if not k.startswith("lakeroot.")} == {
            "x": "1",
            "größe": "groß",
        }
        assert not them.namespace_exists("gone")


@pytest.mark.parametrize("mode", WITH_MANIFEST)
def test_we_see_their_namespaces(ours: Open, theirs: Open, mode: str) -> None:
    us, them = ours(mode), theirs(mode)
    them.create_namespace("a", properties={"x": "1"})
    assert us.describe_namespace("a") == {"x": "1"}
    them.create_namespace("a", "b")
    assert us.namespaces("a") == ["b"]
    them.drop_namespace("a", "b")
    assert us.namespaces("a") == []


@pytest.mark.parametrize("mode", EVERY)
def test_they_see_and_read_our_tables(ours: Open, theirs: Open, mode: str) -> None:
    us, them = ours(mode), theirs(mode)
    us.create_table("t")
    us.declare_table("declared")

    assert sorted(them.tables()) == ["declared", "t"]
    assert them.table_exists("t")
    assert lance.dataset(location(them, "t")).to_table().to_pylist() == ROWS.to_pylist()
    assert them.describe_table("declared", check_declared=True).is_only_declared
    if mode != "v1":
        us.create_namespace("a")
        us.create_table("a", "t")
        assert them.tables("a") == ["t"]
        assert lance.dataset(location(them, "a", "t")).count_rows() == 3


@pytest.mark.parametrize("mode", EVERY)
def test_we_see_and_read_their_tables(ours: Open, theirs: Open, mode: str) -> None:
    us, them = ours(mode), theirs(mode)
    them.create_table("t")
    them.declare_table("declared")

    assert us.tables() == ["declared", "t"]
    assert us.list_tables(include_declared=False).tables == ["t"]
    assert lance.dataset(location(us, "t")).to_table().to_pylist() == ROWS.to_pylist()
    if mode != "v1":
        them.create_namespace("a")
        them.create_table("a", "t", properties={"x": "1"})
        assert us.tables("a") == ["t"]
        assert us.describe_table("a", "t").properties == {"x": "1"}
        assert us.list_all_tables().tables == ["a$t", "declared", "t"]


@pytest.mark.parametrize("mode", EVERY)
def test_each_drops_what_the_other_made(ours: Open, theirs: Open, mode: str, root: Path) -> None:
    us, them = ours(mode), theirs(mode)
    us.create_table("mine")
    them.create_table("yours")

    us.drop_table("yours")
    them.drop_table("mine")

    assert us.tables() == them.tables() == []
    assert not [path for path in root.iterdir() if path.name != "__manifest"]


@pytest.mark.parametrize("mode", EVERY)
def test_what_we_deregister_is_gone_for_them(ours: Open, theirs: Open, mode: str) -> None:
    us, them = ours(mode), theirs(mode)
    us.create_table("mine")
    them.create_table("yours")

    us.deregister_table("mine")
    us.deregister_table("yours")

    assert us.tables() == them.tables() == []
    assert not them.table_exists("mine")


@pytest.mark.parametrize("mode", ["v2", "migration"])
def test_what_they_register_and_deregister(ours: Open, theirs: Open, mode: str) -> None:
    us, them = ours(mode), theirs(mode)
    us.create_namespace("a")
    us.create_table("a", "t")
    place = Path(location(us, "a", "t")).name

    them.deregister_table("a", "t")
    assert us.tables("a") == []
    them.register_table("a", "u", location=place)
    assert us.tables("a") == ["u"]
    assert lance.dataset(location(us, "a", "u")).count_rows() == 3


def test_a_renamed_root_table(ours: Open, theirs: Open) -> None:
    us = ours()
    us.create_table("t")
    us.rename_table("t", to="u")

    assert theirs("compat").tables() == []  # By default it reads root tables from the directory.
    assert theirs("migration").tables() == ["u"]
    assert theirs("v2").tables() == ["u"]
    assert lance.dataset(location(theirs("v2"), "u")).count_rows() == 3


@pytest.mark.parametrize("mode", WITH_MANIFEST)
def test_writers_take_turns(ours: Open, theirs: Open, mode: str, root: Path) -> None:
    us, them = ours(mode), theirs(mode)
    expected = []
    for number in range(12):
        writer = (us, them)[number % 2]
        writer.create_namespace(f"n{number}")
        writer.declare_table(f"n{number}", "t")
        expected += [f"n{number}", f"n{number}$t"]
        if number % 4 == 3:
            us.drop_table(f"n{number - 1}", "t")
            them.drop_table(f"n{number - 2}", "t")
            us.drop_namespace(f"n{number - 1}")
            them.drop_namespace(f"n{number - 2}")
            for gone in (number - 1, number - 2):
                expected = [e for e in expected if e.partition("$")[0] != f"n{gone}"]
        assert object_ids(root) == sorted(expected)
        assert us.namespaces() == sorted(them.namespaces())
    assert len(us.client.history()) >= 24


def test_they_can_still_write_after_many_of_our_commits(
    ours: Open, theirs: Open, root: Path
) -> None:
    us = ours()
    for number in range(40):
        us.create_namespace(f"n{number:02}")
    for number in range(0, 40, 2):
        us.drop_namespace(f"n{number:02}")

    them = theirs()
    assert len(them.namespaces()) == 20
    them.create_namespace("theirs")
    us.create_namespace("ours")
    assert len(object_ids(root)) == 22
    assert us.namespaces() == sorted(them.namespaces())


@pytest.mark.parametrize("mode", WITH_MANIFEST)
def test_names_taken_by_one_are_refused_by_the_other(ours: Open, theirs: Open, mode: str) -> None:
    us, them = ours(mode), theirs(mode)
    us.create_namespace("mine")
    them.create_namespace("yours")
    us.declare_table("mine", "t")
    them.declare_table("yours", "t")

    with refused(2):
        us.create_namespace("yours")
    with refused(2):
        them.create_namespace("mine")
    with refused(5):
        us.declare_table("yours", "t")
    with refused(5):
        them.declare_table("mine", "t")


def test_root_properties_survive_their_writes(ours: Open, theirs: Open) -> None:
    us = ours()
    us.create_namespace(mode="Overwrite", properties={"owner": "ann"})
    theirs().create_namespace("a")
    us.create_namespace("b")

    assert ours().describe_namespace() == {"owner": "ann"}
    assert ours().namespaces() == ["a", "b"]


def test_the_time_of_creation_is_not_shown_as_a_property_by_us(ours: Open) -> None:
    us = ours()
    us.create_namespace("a")

    assert us.describe_namespace("a") == {}
    assert us.client.catalog.describe_namespace(("a",)).created_at_ms is not None


def test_odd_names_of_theirs_can_be_listed_and_dropped(
    ours: Open, theirs: Open, root: Path
) -> None:
    them = theirs("v2")
    for name in ("", "a/b", "x" * 300, "tab\there", "it's"):
        them.create_namespace(name)
    us = ours("v2")

    assert us.namespaces() == sorted(["", "a/b", "x" * 300, "tab\there", "it's"])
    for name in us.namespaces():
        assert us.describe_namespace(name) == {}
        us.drop_namespace(name)
    assert us.namespaces() == [] == object_ids(root)


def test_an_orphan_of_theirs_can_be_read_and_dropped(ours: Open, theirs: Open) -> None:
    theirs("v2").declare_table("nowhere", "t")  # It does not check the parent.
    us = ours("v2")

    assert us.list_all_tables().tables == ["nowhere$t"]
    assert us.table_exists("nowhere", "t")
    us.drop_table("nowhere", "t")
    assert us.list_all_tables().tables == []
