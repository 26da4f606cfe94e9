"""Namespaces: create, describe, list, drop, in every mode and behavior."""

import pytest

from tests.asking import Lake, refused
from tests.conformance.stores import ICEBERG, UNSUPPORTED, V1, creates_one_by_one, has_one_level

has_no_namespaces = pytest.mark.never(V1, raises=UNSUPPORTED, reason="V1 is one flat namespace")


def test_the_root_namespace_always_exists(lake: Lake) -> None:
    assert lake.namespace_exists()
    assert lake.describe_namespace() == {}
    assert lake.namespaces() == []


def test_reading_makes_nothing(lake: Lake, other: Lake) -> None:
    lake.namespaces()
    lake.tables()
    lake.namespace_exists("a")
    lake.table_exists("t")

    assert other.namespaces() == []
    assert list(other.client.catalog.store.root.storage_options) is not None


@has_no_namespaces
def test_a_created_namespace_can_be_described(lake: Lake, other: Lake) -> None:
    created = lake.create_namespace("a", properties={"owner": "ann", "größe": "groß 桌"})

    assert created.properties == {"owner": "ann", "größe": "groß 桌"}
    for client in (lake, other):
        assert client.describe_namespace("a") == {"owner": "ann", "größe": "groß 桌"}
        assert client.namespace_exists("a")
        assert client.namespaces() == ["a"]


@has_no_namespaces
def test_a_namespace_without_properties_has_none(lake: Lake) -> None:
    lake.create_namespace("a")
    lake.create_namespace("b", properties={})

    assert lake.describe_namespace("a") == {}
    assert lake.describe_namespace("b") == {}


@has_one_level
@has_no_namespaces
def test_namespaces_nest_to_any_depth(lake: Lake, other: Lake) -> None:
    path = [f"level-{depth}" for depth in range(12)]
    for depth in range(1, len(path) + 1):
        lake.create_namespace(*path[:depth])

    for depth in range(len(path)):
        assert other.namespaces(*path[:depth]) == [path[depth]]
    assert other.namespaces(*path) == []


@has_one_level
@has_no_namespaces
def test_the_same_name_may_be_used_under_two_parents(lake: Lake) -> None:
    lake.create_namespace("a", properties={"is": "a"})
    lake.create_namespace("a", "a", properties={"is": "a.a"})
    lake.create_namespace("b")
    lake.create_namespace("b", "a", properties={"is": "b.a"})

    assert lake.describe_namespace("a", "a") == {"is": "a.a"}
    assert lake.describe_namespace("b", "a") == {"is": "b.a"}
    lake.drop_namespace("b", "a")
    assert lake.namespace_exists("a", "a")


def test_a_namespace_needs_its_parent(lake: Lake) -> None:
    with refused(1):
        lake.create_namespace("a", "b")
    assert lake.namespaces() == []


def test_a_missing_namespace_is_not_found(lake: Lake) -> None:
    with refused(1):
        lake.describe_namespace("a")
    with refused(1):
        lake.drop_namespace("a")
    with refused(1):
        lake.list_namespaces("a")
    with refused(1):
        lake.list_tables("a")
    with refused(1):
        lake.describe_namespace("a", "b", "c")
    assert not lake.namespace_exists("a")


@has_no_namespaces
def test_a_name_is_taken_once(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a", properties={"first": "yes"})

    for client in (lake, other):
        with refused(2):
            client.create_namespace("a")
        with refused(2):
            client.create_namespace("a", mode="Create", properties={"second": "yes"})
    assert other.describe_namespace("a") == {"first": "yes"}


def test_the_root_cannot_be_created_again_or_dropped(lake: Lake) -> None:
    with refused(2):
        lake.create_namespace()
    with refused(13):
        lake.drop_namespace()
    with refused(13):
        lake.drop_namespace(behavior="Cascade")


@has_one_level
@has_no_namespaces
@pytest.mark.parametrize("mode", ["ExistOk", "exist_ok", "EXISTOK", "existok"])
def test_exist_ok_keeps_the_namespace_that_is_there(lake: Lake, mode: str) -> None:
    lake.create_namespace("a", properties={"first": "yes"})
    lake.create_namespace("a", "b")

    kept = lake.create_namespace("a", mode=mode, properties={"second": "yes"})

    assert kept.properties == {"first": "yes"}
    assert lake.describe_namespace("a") == {"first": "yes"}
    assert lake.namespaces("a") == ["b"]


@has_no_namespaces
def test_exist_ok_creates_what_is_not_there(lake: Lake) -> None:
    lake.create_namespace("a", mode="ExistOk", properties={"x": "1"})

    assert lake.describe_namespace("a") == {"x": "1"}


@has_one_level
@has_no_namespaces
@pytest.mark.parametrize("mode", ["Overwrite", "overwrite"])
def test_overwrite_makes_a_new_empty_namespace(lake: Lake, other: Lake, mode: str) -> None:
    lake.create_namespace("a", properties={"first": "yes"})
    lake.create_namespace("a", "b")
    lake.declare_table("a", "b", "t")

    lake.create_namespace("a", mode=mode, properties={"second": "yes"})

    for client in (lake, other):
        assert client.describe_namespace("a") == {"second": "yes"}
        assert client.namespaces("a") == []
        assert client.list_all_tables().tables == []


@has_no_namespaces
def test_overwrite_creates_what_is_not_there(lake: Lake) -> None:
    lake.create_namespace("a", mode="Overwrite", properties={"x": "1"})

    assert lake.describe_namespace("a") == {"x": "1"}


def test_overwrite_does_not_take_the_name_of_a_table(lake: Lake) -> None:
    lake.declare_table("t")

    for mode in ("Create", "ExistOk", "Overwrite"):
        with refused(2):
            lake.create_namespace("t", mode=mode)
    assert lake.tables() == ["t"]


@pytest.mark.parametrize("mode", ["Replace", "create-or-so", "exist ok"])
def test_an_unknown_mode_is_refused(lake: Lake, mode: str) -> None:
    with refused(13) as error:
        lake.create_namespace("a", mode=mode)
    assert mode in str(error.value)
    with refused(13):
        lake.drop_namespace("a", mode=mode)
    with refused(13):
        lake.drop_namespace("a", behavior=mode)
    assert lake.namespaces() == []


@has_no_namespaces
def test_dropping_answers_with_the_properties(lake: Lake, other: Lake) -> None:
    lake.create_namespace("a", properties={"x": "1"})

    dropped = lake.drop_namespace("a")

    assert dropped.properties == {"x": "1"}
    assert not lake.namespace_exists("a")
    assert not other.namespace_exists("a")
    with refused(1):
        lake.drop_namespace("a")


@has_no_namespaces
def test_a_dropped_name_is_free_again(lake: Lake) -> None:
    lake.create_namespace("a", properties={"old": "1"})
    lake.drop_namespace("a")
    lake.create_namespace("a")

    assert lake.describe_namespace("a") == {}


@has_one_level
@has_no_namespaces
@pytest.mark.parametrize("behavior", [None, "Restrict", "restrict"])
def test_dropping_a_full_namespace_is_refused(lake: Lake, behavior: str | None) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a", "b")
    lake.create_namespace("c")
    lake.declare_table("c", "t")

    with refused(3):
        lake.drop_namespace("a", behavior=behavior)
    with refused(3):
        lake.drop_namespace("c", behavior=behavior)
    assert lake.namespaces() == ["a", "c"]
    assert lake.namespaces("a") == ["b"]
    assert lake.tables("c") == ["t"]


@has_one_level
@has_no_namespaces
@pytest.mark.parametrize("behavior", ["Cascade", "cascade"])
def test_cascade_drops_everything_inside(lake: Lake, other: Lake, behavior: str) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a", "b")
    lake.create_namespace("a", "b", "c")
    lake.create_namespace("ab")
    lake.create_table("a", "t")
    lake.declare_table("a", "b", "c", "u")
    lake.declare_table("ab", "kept")

    lake.drop_namespace("a", behavior=behavior)

    for client in (lake, other):
        assert client.namespaces() == ["ab"]
        assert client.list_all_tables().tables == ["ab$kept"]


def test_skip_does_not_mind_a_missing_namespace(lake: Lake) -> None:
    assert lake.drop_namespace("a", mode="Skip").properties is None
    lake.drop_namespace("a", mode="skip", behavior="Cascade")
    lake.drop_namespace("a", "b", mode="Skip")


@has_one_level
@has_no_namespaces
def test_skip_still_refuses_a_full_namespace(lake: Lake) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a", "b")

    with refused(3):
        lake.drop_namespace("a", mode="Skip")
    assert lake.namespace_exists("a")


def test_a_table_is_not_a_namespace(lake: Lake) -> None:
    lake.declare_table("t")

    with refused(1) as error:
        lake.describe_namespace("t")
    assert "table" in str(error.value)
    with refused(1):
        lake.drop_namespace("t")
    with refused(1):
        lake.drop_namespace("t", behavior="Cascade")
    with refused(1):
        lake.list_namespaces("t")
    with refused(1):
        lake.create_namespace("t", "a")
    assert lake.tables() == ["t"]


@pytest.mark.never(
    ICEBERG, raises=UNSUPPORTED, reason="the root of an Iceberg catalog has no properties"
)
@has_no_namespaces
def test_the_root_has_properties_of_its_own(lake: Lake, other: Lake) -> None:
    lake.create_namespace(mode="Overwrite", properties={"owner": "ann"})
    lake.create_namespace("a", properties={"x": "1"})

    for client in (lake, other):
        assert client.describe_namespace() == {"owner": "ann"}
        assert client.namespaces() == ["a"]

    lake.create_namespace(mode="Overwrite", properties={})
    assert other.describe_namespace() == {}
    assert other.describe_namespace("a") == {"x": "1"}


def test_exist_ok_on_the_root_answers_with_its_properties(lake: Lake) -> None:
    assert lake.create_namespace(mode="ExistOk", properties={"x": "1"}).properties == {}


def test_reserved_properties_are_refused(lake: Lake) -> None:
    with refused(13):
        lake.create_namespace("a", properties={"lakeroot.created_at": "0"})
    with refused(13):
        lake.create_namespace(mode="Overwrite", properties={"lakeroot.x": "0"})
    with refused(13):
        lake.declare_table("t", properties={"lakeroot.created_at": "0"})


def test_properties_that_cannot_be_kept_are_refused(lake: Lake) -> None:
    for properties in ({"x": "half \ud800"}, {"half \ud800": "x"}):
        with refused(13):
            lake.create_namespace("a", properties=properties)
        with refused(13):
            lake.declare_table("t", properties=properties)


@creates_one_by_one
@has_one_level
@has_no_namespaces
def test_many_namespaces_are_created_in_one_commit(lake: Lake, other: Lake) -> None:
    catalog = lake.client.catalog
    many = [((f"ns-{number:03}",), {"n": str(number)}) for number in range(200)]
    children: list[tuple[tuple[str, ...], dict[str, str]]] = [
        ((f"ns-{number:03}", "child"), {}) for number in range(200)
    ]

    catalog.create_namespaces([*many, *children])

    assert len(other.namespaces()) == 200
    assert other.describe_namespace("ns-199") == {"n": "199"}
    assert other.namespaces("ns-007") == ["child"]
    assert len(list(catalog.history())) == 1


@creates_one_by_one
@has_no_namespaces
def test_bulk_creation_is_all_or_nothing(lake: Lake, other: Lake) -> None:
    lake.create_namespace("taken")
    catalog = lake.client.catalog

    from lakeroot.model.errors import NamespaceAlreadyExistsError, NamespaceNotFoundError

    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespaces([(("new",), {}), (("taken",), {})])
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespaces([(("twice",), {}), (("twice",), {})])
    with pytest.raises(NamespaceNotFoundError):
        catalog.create_namespaces([(("new",), {}), (("nowhere", "x"), {})])
    assert other.namespaces() == ["taken"]
