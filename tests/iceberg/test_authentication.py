"""Proving who we are, over real sockets, plain and with TLS."""

import pytest

from lakeroot.model.errors import InvalidInputError, ServiceUnavailableError, UnauthenticatedError
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import read_config
from tests.iceberg.servers import Misbehaving, Reply, Request, misbehaving

NOTHING: Reply = (200, {"defaults": {}, "overrides": {}, "namespaces": []})


class TokenServer:
    """Gives numbered tokens and accepts only the newest."""

    def __init__(self, expires_in: int | None = 3600, refuse_with: int = 401) -> None:
        self.given = 0
        self.forms: list[str] = []
        self.revoked = False
        self._expires_in = expires_in
        self._refuse_with = refuse_with

    def __call__(self, request: Request) -> Reply:
        if request.path.endswith("/tokens"):
            self.given += 1
            self.revoked = False
            self.forms.append(request.body)
            token: dict[str, object] = {"access_token": f"t{self.given}", "token_type": "bearer"}
            return 200, token | ({"expires_in": self._expires_in} if self._expires_in else {})
        if self.revoked or request.headers.get("Authorization") != f"Bearer t{self.given}":
            return self._refuse_with, b""
        return NOTHING


def client_of(server: Misbehaving, **properties: str) -> Client:
    return Client(read_config({"endpoint": server.endpoint, "retry_backoff": "1", **properties}))


def test_a_token_is_fetched_once_and_used_for_every_request():
    tokens = TokenServer()
    with misbehaving(tokens) as server:
        client = client_of(server, credential="id:se:cret", scope="all", audience="us")
        client.list_namespaces(())
        client.list_namespaces(())
    assert tokens.forms == [
        "grant_type=client_credentials&scope=all&client_id=id&client_secret=se%3Acret&audience=us"
    ]


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_stops_working_is_replaced_once(status):
    tokens = TokenServer(refuse_with=status)
    with misbehaving(tokens) as server:
        client = client_of(server, credential="id:secret")
        client.list_namespaces(())
        tokens.revoked = True
        client.list_namespaces(())
    assert tokens.given == 2


def test_a_token_about_to_expire_is_replaced_before_it_is_used():
    tokens = TokenServer(expires_in=1)
    with misbehaving(tokens) as server:
        client = client_of(server, credential="id:secret", token_refresh_margin="1")
        client.list_namespaces(())
        client._transport._authenticator._expires_at = 0.0  # type: ignore[attr-defined]
        client.list_namespaces(())
    assert tokens.given == 2


def test_tokens_may_come_from_another_server():
    tokens = TokenServer()
    with misbehaving(tokens) as issuer, misbehaving(lambda _: NOTHING) as server:
        uri = f"{issuer.endpoint}/elsewhere/tokens"
        client = client_of(server, credential="id:secret", **{"oauth2-server-uri": uri})
        client.list_namespaces(())
        assert issuer.sent() == ["POST /elsewhere/tokens"]
        assert all(r.headers["Authorization"] == "Bearer t1" for r in server.requests)


@pytest.mark.parametrize(
    "reply",
    [
        (400, {"error": "invalid_client", "error_description": "who?"}),
        (401, {"error": "unauthorized_client"}),
        (200, {"nothing": 1}),
        (200, b"<html>"),
        (200, [1]),
    ],
    ids=str,
)
def test_no_token_is_unauthenticated(reply):
    with misbehaving(lambda _: reply) as server, pytest.raises(UnauthenticatedError) as raised:
        client_of(server, credential="id:secret").list_namespaces(())
    assert "secret" not in str(raised.value)


def test_a_refused_fixed_token_is_not_tried_twice():
    with misbehaving(lambda _: (401, b"")) as server:
        with pytest.raises(UnauthenticatedError):
            client_of(server, token="fixed").list_namespaces(())
        assert [r.headers["Authorization"] for r in server.requests] == ["Bearer fixed"]


def test_without_any_proof_no_header_is_sent():
    with misbehaving(lambda _: NOTHING) as server:
        client_of(server).list_namespaces(())
        assert not any("Authorization" in r.headers for r in server.requests)


def test_pyiceberg_methods_and_extra_headers_are_used():
    with misbehaving(lambda _: NOTHING) as server:
        basic = {"auth.type": "basic", "auth.username": "u", "auth.password": "p"}
        client_of(server, **basic, **{"header.X-Team": "data"}).list_namespaces(())
        assert server.requests[-1].headers["Authorization"] == "Basic dTpw"
        assert server.requests[-1].headers["X-Team"] == "data"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"endpoint": "catalog.example.com"},
        {"endpoint": "s3://bucket"},
        {"endpoint": "http://user:pw@host"},
        {"endpoint": "http://host", "token": "a", "credential": "b:c"},
        {"endpoint": "http://host", "connect_timeout": "soon"},
        {"endpoint": "http://host", "max_retries": "-1"},
        {"endpoint": "http://host", "page_size": "0"},
        {"endpoint": "http://host", "managed_by": "nobody"},
        {"endpoint": "http://host", "ssl.verify": "maybe"},
        {"endpoint": "http://host", "warehose": "typo"},
    ],
    ids=str,
)
def test_a_wrong_configuration_is_refused(properties):
    with pytest.raises(InvalidInputError):
        read_config(properties)


@pytest.mark.parametrize(
    "properties",
    [
        {"ssl.cabundle": "/no/such/file"},
        {"auth.type": "no.such.Method"},
        {"auth.type": "basic", "auth.usrname": "typo"},
    ],
    ids=str,
)
def test_a_configuration_that_cannot_work_is_refused_before_the_first_request(properties):
    with pytest.raises(InvalidInputError):
        Client(read_config({"endpoint": "https://127.0.0.1:1", **properties}))


def test_secrets_are_never_shown():
    config = read_config(
        {"endpoint": "http://h", "credential": "id:hush", "storage.aws_secret_access_key": "hush"}
    )
    assert "hush" not in repr(config)


def test_plain_http_at_a_tls_endpoint_is_unavailable():
    with misbehaving(lambda _: NOTHING) as server:
        endpoint = server.endpoint.replace("http:", "https:")
        client = Client(read_config({"endpoint": endpoint, "retry_backoff": "1"}))
        with pytest.raises(ServiceUnavailableError):
            client.list_namespaces(())
