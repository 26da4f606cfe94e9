"""Only Lance tables are listed, and none is asked for that need not be: requests are counted."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import lakeroot
from lakeroot.server import Settings, serving
from lakeroot.storage.iceberg_rest.config import read_config
from lakeroot.storage.iceberg_rest.store import IcebergRestStore
from tests.asking import Lake, refused
from tests.iceberg.proxy import Proxy, proxy
from tests.iceberg.servers import Behaviour, Reply, Request, Weed, error, fresh_name, misbehaving

COLUMNS = pa.schema([("x", pa.int64())])


def loads(asked: list[str]) -> int:
    return sum("/tables/" in request for request in asked)


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Proxy]:
    """Lakeroot's own server with twelve Lance tables and twelve Iceberg tables in `a`."""
    settings = Settings(
        port=0,
        impl="lakeroot.DirectoryNamespace",
        properties={"root": str(tmp_path / "lake")},
        log_requests=False,
    )
    with serving(settings) as url, proxy(f"{url}/iceberg") as line:
        lake = Lake(lakeroot.IcebergNamespace(endpoint=line.endpoint))
        stock = RestCatalog("stock", uri=line.endpoint)
        lake.create_namespace("a")
        for number in range(12):
            lake.declare_table("a", f"lance{number:02}")
            stock.create_table(f"a.ordinary{number:02}", COLUMNS)
        yield line


def listed(line: Proxy) -> tuple[list[str], list[str]]:
    """List `a` with a new client; what was found, and what was asked for it."""
    assert line.server is not None
    lake = Lake(lakeroot.IcebergNamespace(endpoint=line.endpoint))
    before = len(line.server.requests)
    found = lake.tables("a")
    return found, [f"{r.method} {r.path}" for r in line.server.requests[before:]]


def test_our_own_server_tells_the_types_with_the_names(mixed):
    found, asked = listed(mixed)
    assert found == [f"lance{number:02}" for number in range(12)]
    assert loads(asked) == 0
    lake = Lake(lakeroot.IcebergNamespace(endpoint=mixed.endpoint))
    assert lake.list_all_tables().tables == [f"a${name}" for name in found]


def test_ordinary_tables_of_our_own_server_are_no_lance_tables(mixed):
    lake = Lake(lakeroot.IcebergNamespace(endpoint=mixed.endpoint))
    for operation in (lake.describe_table, lake.drop_table, lake.deregister_table):
        with refused(4):
            operation("a", "ordinary00")
    with refused(5):
        lake.declare_table("a", "ordinary00")
    stock = RestCatalog("stock", uri=mixed.endpoint)
    assert stock.load_table("a.ordinary00").schema().column_names == ["x"]
    assert len(stock.list_tables("a")) == 24


def test_tables_are_listed_without_a_look_where_the_list_says_what_they_are():
    told = [
        {"namespace": ["n"], "name": "a", "table_type": "LANCE"},
        {"namespace": ["n"], "name": "b", "properties": {"table_type": "lance"}},
        {"namespace": ["n"], "name": "c", "table_type": "iceberg"},
    ]

    def behave(request: Request) -> Reply:
        if "/v1/config" in request.path:
            return 200, {}
        assert request.path.endswith("/tables")
        return 200, {"identifiers": told}

    with misbehaving(behave) as server:
        store = IcebergRestStore(read_config({"endpoint": server.endpoint}))
        assert store.entries.telling.names(("n",)) == ["a", "b"]
        assert len(server.sent()) == 1
        believing = {"endpoint": server.endpoint, "only_lance_tables": "true"}
        store = IcebergRestStore(read_config(believing))
        assert store.entries.telling.names(("n",)) == ["a", "b", "c"]


@pytest.mark.parametrize("place", ["defaults", "overrides"])
def test_a_catalog_may_announce_that_it_holds_only_lance_tables(place):
    def behave(request: Request) -> Reply:
        if "/v1/config" in request.path:
            return 200, {place: {"lakeroot.only-lance-tables": "true"}}
        return 200, {"identifiers": [{"namespace": ["n"], "name": "a"}]}

    with misbehaving(behave) as server:
        telling = IcebergRestStore(read_config({"endpoint": server.endpoint})).entries.telling
        assert telling.names(("n",)) == ["a"]
        assert server.sent() == ["GET /v1/namespaces/n/tables"]


def test_a_stock_server_is_asked_for_no_more_tables_than_a_page_needs(catalog: Weed):
    name = fresh_name()
    with proxy(catalog.catalog) as line:
        lake = Lake(lakeroot.IcebergNamespace(**catalog.properties | {"endpoint": line.endpoint}))
        lake.create_namespace(name)
        for number in range(20):
            body = {"schema": {"type": "struct", "schema-id": 0, "fields": []}}
            lake.client.store.client.create_table((name, f"i{number:02}"), body)
        for number in range(3):
            lake.declare_table(name, f"a{number}")
        assert line.server is not None
        before = len(line.server.requests)
        assert lake.list_tables(name, limit=1).tables == ["a0"]
        asked = [f"{r.method} {r.path}" for r in line.server.requests[before:]]
        assert 1 <= loads(asked) <= 8
        assert lake.tables(name) == ["a0", "a1", "a2"]


def tagging(tables: dict[str, dict[str, str]]) -> tuple[list[int], Behaviour]:
    """A server whose list tells nothing, and which knows the tags of its tables."""
    answered: list[int] = []

    def behave(request: Request) -> Reply:
        if "/v1/config" in request.path:
            return 200, {}
        path = request.path.partition("?")[0]
        if path.endswith("/tables"):
            return 200, {"identifiers": [{"namespace": ["n"], "name": name} for name in tables]}
        properties = tables[path.rpartition("/")[2]]
        if properties.get("secret"):
            return error(403, "ForbiddenException")
        tag = f'W/"{hash(frozenset(properties.items()))}"'
        answered.append(304 if request.headers.get("If-None-Match") == tag else 200)
        if answered[-1] == 304:
            return 304, b"", {"ETag": tag}
        return 200, {"metadata": {"location": "s3://b/t", "properties": properties}}, {"etag": tag}

    return answered, behave


def test_a_server_that_knows_tags_answers_the_second_time_with_nothing():
    tables = {"a": {"table_type": "lance"}, "b": {}}
    answered, behave = tagging(tables)
    with misbehaving(behave) as server:
        telling = IcebergRestStore(read_config({"endpoint": server.endpoint})).entries.telling
        assert telling.names(("n",)) == ["a"]
        assert telling.names(("n",)) == ["a"]
        assert answered == [200, 200, 304, 304]
        tables["b"]["table_type"] = "lance"
        assert telling.names(("n",)) == ["a", "b"]
        assert sorted(answered[4:]) == [200, 304]


def test_a_table_that_may_not_be_seen_hides_no_other():
    _, behave = tagging({"a": {"table_type": "lance"}, "b": {"secret": "yes"}})
    with misbehaving(behave) as server:
        telling = IcebergRestStore(read_config({"endpoint": server.endpoint})).entries.telling
        assert telling.names(("n",)) == ["a"]


def renaming(forever: bool) -> Behaviour:
    """A server where `a` has another name as soon as it was listed."""
    lists = 0

    def behave(request: Request) -> Reply:
        nonlocal lists
        if "/v1/config" in request.path:
            return 200, {}
        name = request.path.partition("?")[0].rpartition("/")[2]
        if name == "tables":
            lists += 1
            listed = ["a", "b"] if forever or lists == 1 else ["b", "d"]
            return 200, {"identifiers": [{"namespace": ["n"], "name": one} for one in listed]}
        if name == "a":
            return error(404, "NoSuchTableException")
        return 200, {"metadata": {"location": "s3://b/t", "properties": {"table_type": "lance"}}}

    return behave


def test_a_table_that_is_renamed_while_it_is_listed_is_found_under_one_of_its_names():
    with misbehaving(renaming(forever=False)) as server:
        telling = IcebergRestStore(read_config({"endpoint": server.endpoint})).entries.telling
        assert telling.names(("n",)) == ["b", "d"]


def test_a_list_ends_though_it_names_a_table_that_is_never_there():
    with misbehaving(renaming(forever=True)) as server:
        telling = IcebergRestStore(read_config({"endpoint": server.endpoint})).entries.telling
        assert telling.names(("n",)) == ["b"]
        assert server.sent().count("GET /v1/namespaces/n/tables") == 2
        assert telling.names(("n",), limit=1) == ["b"]
