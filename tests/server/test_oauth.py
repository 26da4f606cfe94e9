"""Iceberg clients that are configured with a credential: the deprecated token endpoint."""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ForbiddenError, OAuthError

from lakeroot.server.identity.access import Role
from lakeroot.server.identity.access_file import add_grant, add_token
from lakeroot.server.identity.policy import Grant
from tests.server.http import Answer, Client

TOKENS = "/iceberg/v1/oauth/tokens"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
# PyIceberg says that the endpoint will go; it still asks it unless told otherwise.
pytestmark = pytest.mark.filterwarnings("ignore:.*OAuth2 endpoint.*")


@pytest.fixture
def access(tmp_path: Path) -> Path:
    return tmp_path / "access.toml"


@pytest.fixture
def token(access: Path) -> str:
    made = add_token(access, "etl", expires=datetime.now(UTC) + timedelta(days=1))
    add_grant(access, Grant("token:etl", Role.WRITER, ("prod",)))
    return made


@pytest.fixture
def secured(start: Callable[..., str], access: Path, token: str, tmp_path: Path) -> str:
    return start(access_file=access, audit_log=tmp_path / "audit.jsonl")


def ask(url: str, /, *headers: tuple[str, str], **fields: str) -> Answer:
    form = {"content-type": "application/x-www-form-urlencoded"}
    with Client(url) as http:
        return http.post(TOKENS, urlencode(fields).encode(), headers={**form, **dict(headers)})


@pytest.mark.parametrize("credential", ["etl:{}", "{}"])
def test_pyiceberg_works_with_a_credential(secured: str, token: str, credential: str) -> None:
    catalog = load_catalog(
        "lake", type="rest", uri=f"{secured}/iceberg", credential=credential.format(token)
    )
    catalog.create_namespace("prod")
    assert catalog.list_namespaces() == [("prod",)]
    with pytest.raises(ForbiddenError):
        catalog.create_namespace("other")


def test_pyiceberg_works_with_its_newer_oauth_manager(secured: str, token: str) -> None:
    auth: Any = {
        "type": "oauth2",
        "oauth2": {
            "client_id": "etl",
            "client_secret": token,
            "token_url": secured + TOKENS,
            "scope": "catalog",
        },
    }
    catalog = load_catalog("lake", type="rest", uri=f"{secured}/iceberg", auth=auth)
    catalog.create_namespace("prod")
    assert catalog.list_namespaces() == [("prod",)]


def test_pyiceberg_is_told_that_a_credential_is_wrong(secured: str, token: str) -> None:
    for wrong in (f"other:{token}", "etl:lkr_wrong", "etl:"):
        with pytest.raises(OAuthError):
            load_catalog("lake", type="rest", uri=f"{secured}/iceberg", credential=wrong)


def test_the_answer_is_the_token_and_how_long_it_is_good(secured: str, token: str) -> None:
    answer = ask(
        secured, grant_type="client_credentials", client_id="etl", client_secret=token,
        scope="catalog",
    )  # fmt: skip
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.json["access_token"] == token
    assert 0 < answer.json["expires_in"] <= 86400
    assert (answer.json["token_type"], answer.json["scope"]) == ("bearer", "catalog")
    basic = ("authorization", "Basic " + b64encode(f"etl:{token}".encode()).decode())
    assert ask(secured, basic, grant_type="client_credentials").json["access_token"] == token
    # How Java clients renew: by exchanging a token that is still good.
    renewed = ask(secured, grant_type=EXCHANGE, subject_token=token)
    assert renewed.json["access_token"] == token


def test_bad_requests_get_the_errors_of_oauth(secured: str, token: str, tmp_path: Path) -> None:
    credentials = {"grant_type": "client_credentials", "client_id": "etl"}
    for status, name, answer in (
        (401, "invalid_client", ask(secured, **credentials, client_secret="lkr_x")),
        (401, "invalid_client", ask(secured, grant_type=EXCHANGE, subject_token="lkr_x")),
        (400, "invalid_request", ask(secured, **credentials)),
        (400, "invalid_request", ask(secured, client_secret=token)),
        (400, "invalid_request", ask(secured, ("authorization", "Basic ***"), **credentials)),
        (400, "unsupported_grant_type", ask(secured, grant_type="password", password=token)),
        (413, "invalid_request", ask(secured, **credentials, client_secret="x" * 70_000)),
        (415, "invalid_request", ask(secured, ("content-type", "application/json"))),
    ):
        assert (answer.status, answer.json["error"]) == (status, name), answer.body
        assert token not in answer.body.decode()
    with Client(secured) as http:
        assert http.get(TOKENS).status == 405
        assert http.post(TOKENS + "/more", b"").status in (401, 404)
        twice = http.post(
            TOKENS,
            b"grant_type=client_credentials&client_secret=a&client_secret=b",
            headers={"content-type": "application/x-www-form-urlencoded"},
        )
        assert (twice.status, twice.json["error"]) == (400, "invalid_request")
    kept = (tmp_path / "audit.jsonl").read_text()
    refused = [json.loads(line) for line in kept.splitlines()]
    assert {"unauthenticated"} == {line["event"] for line in refused}
    assert {"getToken"} == {line["operation"] for line in refused}
    assert "lkr_x" not in kept


def test_a_server_that_asks_nobody_says_so(url: str) -> None:
    answer = ask(url, grant_type="client_credentials", client_secret="x")
    assert (answer.status, answer.json["error"]) == (400, "unauthorized_client")
    assert "Leave the credential out" in answer.json["error_description"]
