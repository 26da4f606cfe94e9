"""Names: which a new object may have, and that no bad one ever touches anything."""

from collections.abc import Callable
from typing import Any

import pytest
from lance_namespace import UnsupportedOperationError

from tests.asking import Lake, refused
from tests.conformance.stores import V1, has_one_level

BAD = [
    "",
    ".",
    "..",
    "$",
    "a$b",
    "a$",
    "$a",
    "a/b",
    "/",
    "../evil",
    "a\\b",
    "..\\evil",
    "a\0b",
    "a\nb",
    "a\tb",
    "\x7f",
    "a\x85b",
    "x" * 256,
    "ä" * 128,
    "\ud800",
]
PLAIN = ["a", "A", "0", "_", "-", "a b", "a.b", "a:b", ".hidden", "...", "a.lance", "x" * 200]
ODD = [
    "größe",
    "桌子",
    "🚀",
    "it's",
    "a%20b",
    "a#b",
    "a?b",
    "*",
    '"q"',
    "a,b",
    "ä" * 127,
    "x" * 255,
]

TABLE_CALLS: dict[str, Callable[[Lake, list[str]], Any]] = {
    "declare_table": lambda lake, names: lake.declare_table(*names),
    "create_table": lambda lake, names: lake.create_table(*names),
    "create_table_overwrite": lambda lake, names: lake.create_table(*names, mode="Overwrite"),
    "register_table": lambda lake, names: lake.register_table(*names, location="good.lance"),
    "rename_table": lambda lake, names: lake.rename_table("good", to=names[-1], into=names[:-1]),
    "rename_from": lambda lake, names: lake.rename_table(*names, to="other"),
    "table_exists": lambda lake, names: lake.table_exists(*names),
    "drop_table": lambda lake, names: lake.drop_table(*names),
    "deregister_table": lambda lake, names: lake.deregister_table(*names),
}
NAMESPACE_CALLS: dict[str, Callable[[Lake, list[str]], Any]] = {
    "create_namespace": lambda lake, names: lake.create_namespace(*names),
    "create_exist_ok": lambda lake, names: lake.create_namespace(*names, mode="ExistOk"),
    "create_overwrite": lambda lake, names: lake.create_namespace(*names, mode="Overwrite"),
    "describe_namespace": lambda lake, names: lake.describe_namespace(*names),
    "drop_namespace": lambda lake, names: lake.drop_namespace(*names),
    "drop_cascade": lambda lake, names: lake.drop_namespace(*names, behavior="Cascade"),
    "drop_skip": lambda lake, names: lake.drop_namespace(*names, mode="Skip"),
    "list_namespaces": lambda lake, names: lake.list_namespaces(*names),
    "list_tables": lambda lake, names: lake.list_tables(*names),
}


@pytest.mark.parametrize("call", [*TABLE_CALLS, *NAMESPACE_CALLS])
def test_a_bad_name_is_refused_by_every_operation(lake: Lake, call: str) -> None:
    lake.create_table("good")
    for name in BAD:
        for names in ([name], ["parent", name], [name, "child"]):
            with refused(13):
                {**TABLE_CALLS, **NAMESPACE_CALLS}[call](lake, names)
    assert lake.list_all_tables().tables == ["good"]
    assert lake.namespaces() == []


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_works_everywhere(lake: Lake, other: Lake, name: str) -> None:
    lake.create_table(name)

    assert other.tables() == [name]
    assert other.table_exists(name)
    assert other.list_all_tables().tables == [name]
    location = other.deregister_table(name).location
    assert location is not None
    assert lake.tables() == []
    lake.register_table(name, location=location)
    other.drop_table(name)
    assert lake.tables() == []


@has_one_level
@pytest.mark.never(
    V1, raises=AssertionError, reason="a V1 table is a directory, whose name must be plain"
)
@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_works_wherever_there_is_a_manifest(lake: Lake, other: Lake, name: str) -> None:
    try:
        lake.create_table(name)
    except Exception as error:
        raise AssertionError(str(error)) from error
    lake.create_namespace("a")
    lake.create_namespace("a", name, properties={name: name})
    lake.declare_table("a", name, name)

    assert other.tables() == [name]
    assert other.namespaces("a") == [name]
    assert other.tables("a", name) == [name]
    assert other.describe_namespace("a", name) == {name: name}
    assert other.list_tables(include_declared=False).tables == [name]
    location = other.deregister_table(name).location
    assert location is not None
    assert lake.tables() == []
    lake.register_table(name, location=location)
    assert other.tables() == [name]
    other.drop_table(name)
    other.drop_table("a", name, name)
    other.drop_namespace("a", name)
    assert lake.tables() == []


@has_one_level
@pytest.mark.never(V1, raises=UnsupportedOperationError, reason="V1 is one flat namespace")
def test_a_dollar_never_reaches_another_object(lake: Lake) -> None:
    lake.create_namespace("a")
    lake.create_namespace("a", "b", properties={"x": "1"})
    lake.declare_table("a", "b", "t")

    for call in (
        lambda: lake.create_namespace("a$b"),
        lambda: lake.create_namespace("a$b", mode="Overwrite"),
        lambda: lake.describe_namespace("a$b"),
        lambda: lake.drop_namespace("a$b", behavior="Cascade"),
        lambda: lake.list_tables("a$b"),
        lambda: lake.declare_table("a$b", "t"),
        lambda: lake.create_table("a$b$t", mode="Overwrite"),
        lambda: lake.drop_table("a$b$t"),
        lambda: lake.drop_table("a", "b$t"),
        lambda: lake.deregister_table("a$b", "t"),
        lambda: lake.rename_table("a$b$t", to="u"),
        lambda: lake.client.table_exists({"id": ["a$b", "t"]}),
    ):
        with refused(13):
            call()
    assert lake.describe_namespace("a", "b") == {"x": "1"}
    assert lake.tables("a", "b") == ["t"]


@pytest.mark.never(V1, raises=UnsupportedOperationError, reason="V1 is one flat namespace")
def test_names_differ_by_case_and_by_unicode_form(lake: Lake, other: Lake) -> None:
    names = ["a", "A", "\u00e9", "e\u0301"]
    for name in names:
        lake.create_namespace(name, properties={"is": name})

    assert other.namespaces() == sorted(names)
    for name in names:
        assert other.describe_namespace(name) == {"is": name}


@pytest.mark.never(V1, raises=UnsupportedOperationError, reason="V1 is one flat namespace")
def test_names_of_the_format_are_ordinary_names_of_namespaces(lake: Lake, other: Lake) -> None:
    for name in ("__manifest", "_versions", "table", "namespace", "null", "1"):
        lake.create_namespace(name)
        lake.declare_table(name, name)
        assert other.tables(name) == [name]


def test_the_manifest_is_no_table(lake: Lake) -> None:
    with refused(13):
        lake.register_table("t", location="__manifest")
    with refused(13):
        lake.register_table("t", location="__manifest/data")
    assert lake.tables() == []
