"""Requests as clients really send them: models, dictionaries, other models, nonsense."""

from typing import Any

import lance_namespace as spec
import pytest

from lakeroot.model import errors
from tests.asking import Lake, arrow_stream, refused
from tests.conformance.stores import V1

OPERATIONS = [
    "create_namespace",
    "list_namespaces",
    "describe_namespace",
    "drop_namespace",
    "namespace_exists",
    "declare_table",
    "register_table",
    "list_tables",
    "list_all_tables",
    "table_exists",
    "deregister_table",
    "drop_table",
    "rename_table",
]


class Dumpable(dict[str, Any]):
    """A dictionary with `model_dump`, as LanceDB passes one."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return dict(self)


@pytest.mark.parametrize("kind", [dict, Dumpable])
@pytest.mark.never(V1, raises=spec.UnsupportedOperationError, reason="V1 is one flat namespace")
def test_a_request_may_be_a_dictionary(lake: Lake, kind: type[dict[str, Any]]) -> None:
    client = lake.client
    client.create_namespace(kind(id=["a"], properties={"x": "1"}, mode=None))
    client.declare_table(kind(id=["a", "t"], location=None))
    client.create_table(kind(id=["a", "u"]), arrow_stream())

    assert client.describe_namespace(kind(id=["a"])).properties == {"x": "1"}
    assert client.list_tables(kind(id=["a"], limit=1)).tables == ["t"]
    assert client.list_namespaces(kind(id=[])).namespaces == ["a"]
    assert client.list_namespaces(kind()).namespaces == ["a"]
    assert client.list_all_tables(kind()).tables == ["a$t", "a$u"]
    client.table_exists(kind(id=["a", "t"]))
    client.rename_table(kind(id=["a", "t"], new_table_name="v"))
    client.drop_table(kind(id=["a", "v"]))
    assert client.deregister_table(kind(id=["a", "u"])).id == ["a", "u"]
    client.drop_namespace(kind(id=["a"]))
    client.namespace_exists(kind())


def test_no_identifier_is_the_root(lake: Lake) -> None:
    roots: list[list[str] | None] = [None, []]
    for names in roots:
        assert lake.client.list_tables(spec.ListTablesRequest(id=names)).tables == []
        assert lake.client.list_namespaces(spec.ListNamespacesRequest(id=names)).namespaces == []
        lake.client.namespace_exists(spec.NamespaceExistsRequest(id=names))


NO_REQUESTS: list[Any] = [
    None,
    7,
    "a$b",
    ["a"],
    {"id": "a"},
    {"id": [1]},
    {"id": [None]},
    {"id": {"a": 1}},
    {"id": b"a"},
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_no_request_is_refused(lake: Lake, operation: str) -> None:
    for nonsense in NO_REQUESTS:
        with refused(13):
            getattr(lake.client, operation)(nonsense)
    assert lake.tables() == []


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [
        ("create_namespace", {"properties": {"x": 1}}),
        ("create_namespace", {"properties": ["x"]}),
        ("create_namespace", {"mode": 7}),
        ("drop_namespace", {"behavior": True}),
        ("list_tables", {"limit": "many"}),
        ("list_tables", {"limit": 1.5}),
        ("list_tables", {"include_declared": "maybe"}),
        ("list_tables", {"page_token": 7}),
        ("table_exists", {"version": "one"}),
        ("table_exists", {"version": -1}),
        ("register_table", {}),
        ("register_table", {"location": None}),
        ("rename_table", {}),
        ("rename_table", {"new_table_name": None}),
        ("declare_table", {"location": 7}),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(
    lake: Lake, operation: str, wrong: dict[str, Any]
) -> None:
    with refused(13) as error:
        getattr(lake.client, operation)({"id": ["t"], **wrong})
    assert str(error.value)
    assert lake.tables() == []


def test_an_operation_nobody_has_is_unsupported(lake: Lake) -> None:
    with refused(0):
        lake.client.create_materialized_view(
            {"id": ["t"], "kind": "udtf", "source_query": "x", "output_schema": "x"}
        )


@pytest.mark.parametrize("version", ["1", 1.5, b"1"])
def test_a_version_that_is_no_number_is_refused_as_such(lake: Lake, version: Any) -> None:
    with pytest.raises(errors.InvalidInputError, match="it is a whole number"):
        lake.client.catalog.at(version)
