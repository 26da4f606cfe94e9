"""The client against a real catalog: SeaweedFS's."""

import time
import uuid

import pytest

from lakeroot.model.errors import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    TableNotFoundError,
    UnauthenticatedError,
)
from lakeroot.model.identifiers import Identifier
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import read_config
from tests.iceberg.proxy import Fault, proxy
from tests.iceberg.servers import BUCKET, Request, Weed

EMPTY = {"type": "struct", "schema-id": 1, "fields": []}


@pytest.fixture
def client(catalog: Weed):
    client = Client(read_config(catalog.properties))
    yield client
    client.close()


@pytest.fixture
def namespace(client: Client) -> Identifier:
    identifier = (f"n{uuid.uuid4().hex[:12]}",)
    client.create_namespace(identifier, {"owner": "me"})
    return identifier


def test_the_prefix_comes_from_the_overrides_of_the_server(client):
    assert client.server.routes.prefix == BUCKET


def test_a_namespace_is_made_read_changed_and_dropped(client, namespace):
    assert client.load_namespace(namespace)["owner"] == "me"
    client.update_namespace(namespace, {"team": "data"}, ["owner"])
    properties = client.load_namespace(namespace)
    assert properties["team"] == "data"
    assert "owner" not in properties
    client.drop_namespace(namespace)
    with pytest.raises(NamespaceNotFoundError):
        client.load_namespace(namespace)


def test_a_taken_name_is_refused(client, namespace):
    with pytest.raises(NamespaceAlreadyExistsError):
        client.create_namespace(namespace, {})


def test_only_direct_children_are_listed(client, namespace):
    client.create_namespace((*namespace, "b"), {})
    client.create_namespace((*namespace, "b", "c"), {})
    assert client.list_namespaces(namespace) == [(*namespace, "b")]
    assert namespace in client.list_namespaces(())
    assert all(len(found) == 1 for found in client.list_namespaces(()))


@pytest.mark.parametrize("page_size", ["1", "2", "1000", None])
def test_lists_are_followed_to_their_end(catalog, client, namespace, page_size):
    for name in "abcde":
        client.create_namespace((*namespace, name), {})
        client.create_table((*namespace, f"t{name}"), {"schema": EMPTY})
    paging = {"page_size": page_size} if page_size else {}
    paged = Client(read_config(catalog.properties | paging))
    assert [found[-1] for found in paged.list_namespaces(namespace)] == list("abcde")
    assert sorted(t["name"] for t in paged.list_tables(namespace)) == ["ta", "tb", "tc", "td", "te"]


def test_a_namespace_that_holds_a_table_stays(client, namespace):
    client.create_table((*namespace, "t"), {"schema": EMPTY})
    with pytest.raises(NamespaceNotEmptyError):
        client.drop_namespace(namespace)


def test_what_is_missing_is_said_exactly(client, namespace):
    with pytest.raises(TableNotFoundError):
        client.load_table((*namespace, "absent"))
    with pytest.raises(NamespaceNotFoundError):
        client.create_table(("absent", "t"), {"schema": EMPTY})
    with pytest.raises(TableNotFoundError):
        client.drop_table((*namespace, "absent"))


def test_a_wrong_secret_is_unauthenticated(catalog):
    properties = catalog.properties | {"credential": "lakeroot-test:wrong"}
    with pytest.raises(UnauthenticatedError) as refusal:
        Client(read_config(properties)).list_namespaces(())
    assert refusal.value.code == 16


def test_a_wrong_token_is_unauthenticated_and_none_at_all_is_forbidden(catalog):
    properties = {k: v for k, v in catalog.properties.items() if k != "credential"}
    with pytest.raises(UnauthenticatedError):
        Client(read_config(properties | {"token": "nonsense"})).list_namespaces(())
    with pytest.raises(PermissionDeniedError):
        Client(read_config(properties)).list_namespaces(())


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_the_server_no_longer_takes_is_fetched_anew_from_its_oauth2(
    catalog, namespace, status
):
    revoked: set[str] = set()
    with proxy(catalog.catalog) as line:

        def no_longer_good(request: Request) -> bool:
            return request.headers.get("Authorization", "") in revoked

        client = Client(read_config(catalog.properties | {"endpoint": line.endpoint}))
        assert namespace in client.list_namespaces(())
        assert line.server is not None
        before = line.server.requests[-1].headers["Authorization"]
        revoked.add(before)
        fault = Fault.EXPIRED if status == 419 else Fault.UNAUTHORIZED
        line.faults = [(no_longer_good, fault)] * 5
        time.sleep(1.1)  # its tokens differ by the second in which they were made
        assert namespace in client.list_namespaces(())
        asked = [f"{r.method} {r.path.partition('?')[0]}" for r in line.server.requests[-3:]]
        assert asked[1] == "POST /v1/oauth/tokens"
        assert line.server.requests[-1].headers["Authorization"] != before


def test_tokens_of_its_oauth2_may_come_from_an_address_of_their_own(catalog, namespace):
    with proxy(catalog.catalog) as tokens:
        elsewhere = {"oauth2-server-uri": f"{tokens.endpoint}/v1/oauth/tokens", "scope": "x y"}
        client = Client(read_config(catalog.properties | elsewhere))
        assert namespace in client.list_namespaces(())
        assert tokens.server is not None
        assert [request.path for request in tokens.server.requests] == ["/v1/oauth/tokens"]
        assert "scope=x+y" in tokens.server.requests[0].body
