"""The thirteen defects of the existing public implementation, each as a test that it would fail."""

from collections.abc import Mapping

import lance_namespace
import pytest
from lance_namespace import errors

import lakeroot
from tests.asking import ROWS, Lake, refused
from tests.iceberg.proxy import Fault, Proxy, proxy
from tests.iceberg.servers import (
    BUCKET,
    Misbehaving,
    Reply,
    Request,
    Weed,
    error,
    fresh_name,
    misbehaving,
)


class Dumping(dict):  # type: ignore[type-arg]
    """What pylance passes to namespaces written in Python."""

    def model_dump(self, **_: object) -> dict[str, object]:
        return dict(self)


def open_at(server: Misbehaving, **properties: str) -> Lake:
    given = {"endpoint": server.endpoint, "retry_backoff": "1", **properties}
    return Lake(lakeroot.IcebergNamespace(**given))


def saying(config: Mapping[str, object], namespaces: list[list[str]] | None = None):
    def behave(request: Request) -> Reply:
        if "/tables/" in request.path:
            return error(404, "NoSuchTableException")
        return 200, config if "/v1/config" in request.path else {"namespaces": namespaces or []}

    return behave


@pytest.fixture
def line(catalog: Weed):
    with proxy(catalog.catalog) as between:
        yield between


@pytest.fixture
def lake(catalog: Weed, line: Proxy) -> Lake:
    """SeaweedFS, through a line whose requests can be looked at."""
    return Lake(lakeroot.IcebergNamespace(**catalog.properties | {"endpoint": line.endpoint}))


@pytest.fixture
def parent(lake: Lake) -> str:
    name = fresh_name()
    lake.create_namespace(name)
    return name


def test_1_the_prefix_of_the_overrides_is_used():
    told = {"defaults": {"prefix": "default"}, "overrides": {"prefix": "my/cat"}}
    with misbehaving(saying(told)) as server:
        open_at(server, warehouse="wh").namespaces()
        assert server.sent() == ["GET /v1/my/cat/namespaces"]


def test_2_without_a_prefix_the_warehouse_is_not_taken_for_one():
    with misbehaving(saying({"defaults": {}, "overrides": {}})) as server:
        open_at(server, warehouse="wh").namespaces()
        assert [r.path for r in server.requests] == ["/v1/config?warehouse=wh", "/v1/namespaces"]


def test_3_a_failed_configuration_is_an_error_and_is_asked_for_again():
    replies: list[Reply] = [error(401, "NotAuthorizedException"), error(500, "Oops")]
    sound = saying({"overrides": {"prefix": "p"}})

    def behave(request: Request) -> Reply | None:
        return replies.pop(0) if replies else sound(request)

    with misbehaving(behave) as server:
        lake = open_at(server, max_retries="0")
        with refused(16):
            lake.namespaces()
        with refused(17):
            lake.namespaces()
        lake.namespaces()
        assert server.sent() == ["GET /v1/p/namespaces"]


def test_4_names_are_encoded_once():
    with misbehaving(saying({}, [["a b", "c/d", "ü"]])) as server:
        assert open_at(server).namespaces("a b", "c/d") == ["ü"]
        assert server.sent()[-1] == "GET /v1/namespaces?parent=a%20b%1Fc%2Fd"


def test_5_the_credential_is_used_and_asks_with_a_scope(lake, line):
    lake.namespaces()
    first = line.server.requests[0]
    assert first.path == "/v1/oauth/tokens"
    assert "grant_type=client_credentials&scope=catalog&client_id=" in first.body
    assert line.server.requests[-1].headers["Authorization"].startswith("Bearer ey")


def test_6_limits_are_kept_and_lists_are_followed_to_their_end(catalog, lake, parent):
    for name in "abc":
        lake.create_namespace(parent, name)
        lake.declare_table(parent, f"t{name}")
    paged = Lake(lakeroot.IcebergNamespace(**catalog.properties, page_size="1"))
    assert paged.namespaces(parent) == ["a", "b", "c"]
    assert paged.tables(parent) == ["ta", "tb", "tc"]
    page = lake.list_tables(parent, limit=2)
    assert page.tables == ["ta", "tb"]
    assert lake.list_tables(parent, page_token=page.page_token).tables == ["tc"]


def test_7_children_are_listed_by_their_own_names(lake, parent):
    lake.create_namespace(parent, "child")
    assert lake.namespaces(parent) == ["child"]
    assert parent in lake.namespaces()


def test_8_a_version_is_described_and_storage_options_are_lent(catalog, lake, parent):
    lake.create_table(parent, "t")
    assert lake.describe_table(parent, "t", version=1).version == 1
    with refused(11):
        lake.describe_table(parent, "t", version=9)
    # The keys are ours; where the storage is, the server says.
    lent = {k: v for k, v in catalog.properties.items() if k != "storage.aws_endpoint"}
    entry = lakeroot.IcebergNamespace(**lent).store.entries.get((parent, "t"))
    assert entry.storage_options["aws_endpoint"] == catalog.s3
    assert lake.describe_table(parent, "t").storage_options == entry.storage_options


@pytest.mark.parametrize(("options", "asked"), [({}, True), ({"aws_access_key_id": "k"}, False)])
def test_8_credentials_are_borrowed_by_who_has_none(options, asked):
    with misbehaving(saying({})) as server:
        open_at(server, **{f"storage.{k}": v for k, v in options.items()}).namespaces()
        assert ("X-Iceberg-Access-Delegation" in server.requests[-1].headers) == asked


def test_9_the_location_is_the_one_that_the_server_kept(lake, parent):
    declared = lake.declare_table(parent, "t").location
    kept = lake.client.store.client.load_table((parent, "t"))["metadata"]["location"]
    assert declared == kept == lake.describe_table(parent, "t").location
    assert declared.startswith(f"s3://{BUCKET}/")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, errors.UnauthenticatedError),
        (419, errors.UnauthenticatedError),
        (403, errors.PermissionDeniedError),
        (429, errors.ThrottlingError),
        (503, errors.ServiceUnavailableError),
    ],
)
def test_10_refusals_are_told_apart_as_errors_of_the_ecosystem(status, expected):
    with misbehaving(lambda _: error(status, "Any")) as server:
        with pytest.raises(expected) as refusal:
            open_at(server, max_retries="1").namespaces()
        assert isinstance(refusal.value, lance_namespace.LanceNamespaceError)


@pytest.mark.parametrize("fault", list(Fault))
def test_11_a_change_survives_what_may_pass(lake, line, parent, fault):
    line.next_write(fault)
    lake.create_namespace(parent, "once")
    assert lake.namespaces(parent) == ["once"]
    assert line.faults == []


def test_12_no_cleaner_may_touch_the_files_of_a_table(lake, parent):
    lake.declare_table(parent, "t")
    kept = lake.client.store.client.load_table((parent, "t"))["metadata"]["properties"]
    assert kept["gc.enabled"] == "false"
    assert "/_iceberg/" in kept["write.data.path"]
    assert "/_iceberg/" in kept["write.metadata.path"]


def test_13_requests_may_be_dictionaries_as_pylance_sends_them(lake, parent):
    lake.create_table(parent, "t")
    for request in ({"id": [parent, "t"]}, Dumping({"id": [parent, "t"]})):
        assert lake.client.describe_table(request).location
        versions = lake.client.list_table_versions(request)["versions"]
        assert [version["version"] for version in versions] == [1]
        assert lake.client.count_table_rows(request).count == ROWS.num_rows
