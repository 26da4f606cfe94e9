"""The client against a server that misbehaves: every case ends, and ends in the right error."""

import time
from functools import partial

import pytest

from lakeroot.model.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableNotFoundError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import read_config
from lakeroot.storage.iceberg_rest.creating import Creation, NewTable
from lakeroot.storage.iceberg_rest.entries import Entries
from lakeroot.storage.iceberg_rest.faults import OutcomeUnknownError
from lakeroot.storage.iceberg_rest.namespaces import create_namespace
from lakeroot.tables.iceberg import ManagedBy
from tests.iceberg.servers import Reply, Request, error, misbehaving

CONFIG: Reply = (200, {"defaults": {}, "overrides": {}})
QUICK = {"retry_backoff": "1", "read_timeout": "200", "request_timeout": "400"}


def client_of(server, **properties: str) -> Client:
    return Client(read_config({"endpoint": server.endpoint, **QUICK, **properties}))


def answering(*replies: Reply | None):
    """Answer the configuration, then each request with the next reply; the last one for ever."""
    pending = list(replies)

    def behave(request: Request) -> Reply | None:
        if "/v1/config" in request.path:
            return CONFIG
        return pending.pop(0) if len(pending) > 1 else pending[0]

    return behave


@pytest.mark.parametrize(
    ("reply", "expected", "code"),
    [
        (error(400, "BadRequestException"), InvalidInputError, 13),
        (error(401, "NotAuthorizedException"), UnauthenticatedError, 16),
        (error(419, "AuthenticationTimeoutException"), UnauthenticatedError, 16),
        (error(403, "ForbiddenException"), PermissionDeniedError, 15),
        (error(404, "NoSuchTableException"), TableNotFoundError, 4),
        (error(404, "NoSuchNamespaceException"), NamespaceNotFoundError, 1),
        ((404, b"<html>nothing here</html>"), TableNotFoundError, 4),
        (error(406, "UnsupportedOperationException"), UnsupportedOperationError, 0),
        (error(429, "TooManyRequestsException"), ThrottlingError, 21),
        (error(500, "InternalServerError"), ServiceUnavailableError, 17),
        (error(503, "ServiceUnavailableException"), ServiceUnavailableError, 17),
        ((302, b""), ServiceUnavailableError, 17),
        ((200, b"{half a json"), ServiceUnavailableError, 17),
        ((200, b"[1, 2]"), ServiceUnavailableError, 17),
        ((200, b"\xff\xfe"), ServiceUnavailableError, 17),
        ((500, b'{"error": "text"}'), ServiceUnavailableError, 17),
        ((500, b"[]"), ServiceUnavailableError, 17),
        (None, ServiceUnavailableError, 17),
    ],
    ids=str,
)
def test_every_answer_to_a_read_is_the_right_error(reply, expected, code):
    with misbehaving(answering(reply)) as server, pytest.raises(LakerootError) as raised:
        client_of(server).load_table(("n", "t"))
    assert type(raised.value) is expected
    assert raised.value.code == code


def test_an_expired_token_is_told_from_a_wrong_one():
    def says(status: int) -> str:
        with misbehaving(answering((status, b""))) as server:
            with pytest.raises(UnauthenticatedError) as raised:
                client_of(server, token="t").load_table(("n", "t"))
            return str(raised.value)

    assert "expired" in says(419)
    assert "expired" not in says(401)


def test_a_read_is_repeated_until_it_succeeds():
    table = {"metadata": {"location": "s3://b/t"}}
    ill = [error(503, "x"), None, error(429, "x"), (200, table)]
    with misbehaving(answering(*ill)) as server:
        assert client_of(server).load_table(("n", "t")) == table
        assert len(server.sent()) == 4


def test_a_read_is_repeated_only_so_often():
    with misbehaving(answering(error(503, "x"))) as server:
        with pytest.raises(ServiceUnavailableError):
            client_of(server, max_retries="2").load_table(("n", "t"))
        assert len(server.sent()) == 3


@pytest.mark.parametrize("reply", [error(500, "x"), error(503, "x"), None], ids=str)
def test_a_write_whose_answer_is_lost_is_never_blindly_repeated(reply):
    with misbehaving(answering(reply)) as server:
        with pytest.raises(OutcomeUnknownError):
            client_of(server).update_table(("n", "t"), [], [])
        assert len(server.sent()) == 1


def test_a_write_is_repeated_when_the_server_remembers_keys():
    replies: list[Reply | None] = [None, error(502, "x"), (200, {})]

    def behave(request: Request) -> Reply | None:
        if "/v1/config" in request.path:
            return 200, {"defaults": {"idempotency-key-lifetime": "PT30M"}, "overrides": {}}
        return replies.pop(0)

    with misbehaving(behave) as server:
        client_of(server).update_table(("n", "t"), [], [])
        keys = {r.headers["Idempotency-Key"] for r in server.requests[1:]}
        assert len(server.sent()) == 3
        assert len(keys) == 1
        assert keys.pop()[14] == "7"


def test_a_conflict_on_commit_is_concurrent_modification():
    for reply in (error(409, "CommitFailedException"), (409, b"")):
        with misbehaving(answering(reply)) as server:
            with pytest.raises(ConcurrentModificationError) as raised:
                client_of(server).update_table(("n", "t"), [], [])
            assert raised.value.code == 14


def test_a_drop_whose_answer_is_lost_is_found_to_have_happened():
    with misbehaving(answering(None, error(404, "NoSuchTableException"))) as server:
        client_of(server).drop_table(("n", "t"))
        assert len(server.sent()) == 2
        assert server.sent()[0].endswith("/tables/t?purgeRequested=false")


def test_a_slow_server_is_not_waited_for_for_ever():
    def behave(request: Request) -> Reply:
        if "/v1/config" not in request.path:
            time.sleep(0.6)
        return CONFIG

    with misbehaving(behave) as server, pytest.raises(ServiceUnavailableError):
        client_of(server, max_retries="0").load_table(("n", "t"))


def test_a_server_that_dribbles_is_not_waited_for_for_ever():
    def behave(request: Request) -> Reply | None:
        if "/v1/config" in request.path:
            return CONFIG
        request.handler.send_response(200)
        request.handler.send_header("Content-Length", "100")
        request.handler.end_headers()
        for _ in range(10):
            request.handler.wfile.write(b" ")
            time.sleep(0.1)
        return None

    with misbehaving(behave) as server, pytest.raises(ServiceUnavailableError):
        client_of(server, max_retries="0").load_table(("n", "t"))


def test_an_answer_cut_short_is_asked_for_again():
    cut = True

    def behave(request: Request) -> Reply | None:
        nonlocal cut
        if "/v1/config" in request.path:
            return CONFIG
        if cut:
            cut = False
            request.handler.send_response(200)
            request.handler.send_header("Content-Length", "100")
            request.handler.end_headers()
            request.handler.wfile.write(b'{"metadata":')
            return None
        return 200, {"metadata": {}}

    with misbehaving(behave) as server:
        assert client_of(server).load_table(("n", "t")) == {"metadata": {}}


def test_nobody_at_the_endpoint_is_unavailable():
    client = Client(read_config({"endpoint": "http://127.0.0.1:1", **QUICK}))
    with pytest.raises(ServiceUnavailableError) as raised:
        client.list_namespaces(())
    assert "endpoint" in raised.value.fix


@pytest.mark.parametrize("reply", [(404, b"<html></html>"), (200, b"<html></html>")], ids=str)
def test_an_endpoint_that_is_no_catalog_is_told_so(reply):
    with misbehaving(lambda _: reply) as server, pytest.raises(ServiceUnavailableError) as raised:
        client_of(server).list_namespaces(())
    assert "Iceberg REST catalog" in str(raised.value)


def test_a_failed_configuration_is_asked_for_again_and_never_guessed():
    replies: list[Reply | None] = [
        (401, b""),
        (200, {"defaults": {"prefix": "p"}}),
        (200, {"namespaces": [["a"]]}),
    ]
    with misbehaving(lambda _: replies.pop(0)) as server:
        client = client_of(server)
        with pytest.raises(UnauthenticatedError):
            client.list_namespaces(())
        assert client.list_namespaces(()) == [("a",)]
        assert server.sent() == ["GET /v1/p/namespaces"]


@pytest.mark.parametrize(
    ("told", "given", "expected"),
    [
        ({"defaults": {"prefix": "d"}}, {}, "d/"),
        ({"defaults": {"prefix": "d"}}, {"prefix": "mine"}, "mine/"),
        ({"overrides": {"prefix": "o/p"}, "defaults": {"prefix": "d"}}, {"prefix": "mine"}, "o/p/"),
        ({}, {}, ""),
    ],
)
def test_the_prefix_is_ours_unless_the_server_overrides_it(told, given, expected):
    def behave(request: Request) -> Reply:
        return (200, told) if "/v1/config" in request.path else (200, {"namespaces": []})

    with misbehaving(behave) as server:
        client_of(server, **given).list_namespaces(())
        assert server.sent() == [f"GET /v1/{expected}namespaces"]


@pytest.mark.parametrize(
    ("separator", "names", "path", "parent"),
    [
        (None, ("a b", "c/d"), "a%20b%1Fc%2Fd", "a%20b%1Fc%2Fd"),
        (None, ("ü.x", "日本", "100%"), "%C3%BC.x%1F%E6%97%A5%E6%9C%AC%1F100%25", None),
        ("%2E", ("a b", "c"), "a%20b%2Ec", "a%20b%1Fc"),
        ("%2E", ("a.b", "c"), "a.b%1Fc", None),
    ],
)
def test_names_are_encoded_once_in_paths_and_in_queries(separator, names, path, parent):
    overrides = {"namespace-separator": separator} if separator else {}

    def behave(request: Request) -> Reply:
        if "/v1/config" in request.path:
            return 200, {"overrides": overrides}
        return 200, {"namespaces": [], "properties": {}}

    with misbehaving(behave) as server:
        client = client_of(server)
        client.load_namespace(names)
        client.list_namespaces(names)
        assert server.sent()[0] == f"GET /v1/namespaces/{path}"
        if parent:
            assert server.sent()[1] == f"GET /v1/namespaces?parent={parent}"


@pytest.mark.parametrize("name", ["", ".", "..", "a\x1fb"])
def test_a_name_that_would_be_another_path_is_never_sent(name):
    with misbehaving(answering((200, {}))) as server:
        with pytest.raises(InvalidInputError):
            client_of(server).load_table(("n", name))
        with pytest.raises(InvalidInputError):
            client_of(server).load_namespace((name,))
        assert server.sent() == []


def test_pages_are_followed_when_the_server_ignores_the_page_size():
    def behave(request: Request) -> Reply:
        if "/v1/config" in request.path:
            return CONFIG
        if "pageToken=two" in request.path:
            return 200, {"namespaces": [["b"]], "next-page-token": None}
        return 200, {"namespaces": [["a"]], "next-page-token": "two"}

    for paging in ({}, {"page_size": "5"}):
        with misbehaving(behave) as server:
            assert client_of(server, **paging).list_namespaces(()) == [("a",), ("b",)]


def test_pages_that_go_round_in_a_circle_end_in_an_error():
    page = {"namespaces": [["a"]], "next-page-token": "again"}
    with misbehaving(answering((200, page))) as server:
        with pytest.raises(ServiceUnavailableError):
            client_of(server).list_namespaces(())
        assert len(server.sent()) == 2


@pytest.mark.parametrize("page", [{}, {"namespaces": None}, {"namespaces": "a"}])
def test_a_list_that_is_none_is_an_error_and_not_empty(page):
    with misbehaving(answering((200, page))) as server, pytest.raises(ServiceUnavailableError):
        client_of(server).list_namespaces(())


@pytest.mark.parametrize("reply", [(200, b""), (204, b""), (202, b"{}"), (201, b"null")], ids=str)
def test_any_success_is_a_success(reply):
    with misbehaving(answering(reply)) as server:
        client = client_of(server)
        client.update_table(("n", "t"), [], [])
        client.commit_transaction([(("n", "t"), [], [])])
        client.drop_table(("n", "t"))
        client.rename_table(("n", "t"), ("n", "u"))
        client.create_namespace(("n",), {})
        client.drop_namespace(("n",))


def test_what_a_server_does_not_offer_is_not_asked_for():
    def behave(_: Request) -> Reply:
        return 200, {"endpoints": ["GET /v1/{prefix}/namespaces"]}

    with misbehaving(behave) as server:
        with pytest.raises(UnsupportedOperationError):
            client_of(server).commit_transaction([(("n", "t"), [], [])])
        with pytest.raises(UnsupportedOperationError):
            client_of(server).rename_table(("n", "t"), ("n", "u"))
        assert server.sent() == []


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("kind", ["namespace", "table"])
def test_a_slow_request_of_our_own_is_no_conflict(kind, ours):
    """The first request is lost to us but arrives late: after the look, before the repetition."""
    made: dict[str, str] = {}
    creations = 0

    def behave(request: Request) -> Reply | None:
        nonlocal creations
        if "/v1/config" in request.path:
            return CONFIG
        if request.method == "GET" and creations < 2:
            return error(404, "NoSuchTableException" if kind == "table" else "")
        if request.method == "GET":
            properties = made if ours else {"lakeroot.request-id": "another"}
            location = {"location": "s3://b/t", "properties": properties}
            return 200, {"metadata": location, "properties": properties}
        if request.method == "POST" and not request.path.endswith("/tables/t"):
            creations += 1
            made.update(request.body["properties"] if creations == 1 else {})
            return None if creations == 1 else error(409, "AlreadyExistsException")
        return 200, {}

    with misbehaving(behave) as server:
        client = client_of(server)
        if kind == "namespace":
            create = partial(create_namespace, client, ("n",), {})
        else:
            new = NewTable(("n", "t"), "s3://b/t", ManagedBy.STORAGE)
            create = partial(Creation(client, Entries(client)).create, new)
        if ours:
            create()
        else:
            with pytest.raises(AlreadyExistsError):
                create()
