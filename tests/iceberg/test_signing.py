"""Signed requests: by the words of AWS's own library, and as a server takes them that checks."""

import datetime

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakeroot.model.errors import InvalidInputError, PermissionDeniedError, UnauthenticatedError
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import read_config
from lakeroot.storage.iceberg_rest.signing import Keys, Signature, signed
from tests.iceberg.servers import ACCESS_KEY, SECRET_KEY, Weed, fresh_name

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
SIGNED = {
    "rest.sigv4-enabled": "true",
    "rest.signing-region": "us-east-1",
    "rest.signing-name": "s3",
    "client.access-key-id": ACCESS_KEY,
    "client.secret-access-key": SECRET_KEY,
}


@pytest.mark.parametrize(
    ("method", "url", "body", "token"),
    [
        (
            "GET",
            "https://glue.us-east-1.amazonaws.com/iceberg/v1/config?warehouse=1%2F2",
            b"",
            None,
        ),
        ("GET", "https://h:8181/v1/p/namespaces/a%20b%1Fc%2Fd/tables", b"", "session"),
        ("POST", "http://h/v1/namespaces/%C3%BC.x~-_/tables", b'{"name": "t"}', None),
        ("GET", "http://h/v1/namespaces?parent=a%1Fb&pageSize=2&pageToken=", b"", None),
        ("DELETE", "https://h/v1/t?purgeRequested=false", b"", None),
    ],
)
def test_a_signature_is_the_one_of_botocore(monkeypatch, method, url, body, token):
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda **_: NOW)
    signature = Signature("us-east-1", "glue")
    ours = signed(signature, Keys("AK", "SK", token), method, url, body, NOW)
    theirs = AWSRequest(method=method, url=url, data=body)
    theirs.headers["x-amz-content-sha256"] = ours["x-amz-content-sha256"]
    botocore.auth.SigV4Auth(Credentials("AK", "SK", token), "glue", "us-east-1").add_auth(theirs)
    assert ours["Authorization"] == theirs.headers["Authorization"]


def unsigned(catalog: Weed) -> dict[str, str]:
    return {key: value for key, value in catalog.properties.items() if key != "credential"}


def test_a_server_that_checks_signatures_takes_ours(catalog: Weed):
    client = Client(read_config(unsigned(catalog) | SIGNED))
    name = fresh_name()
    client.create_namespace((name,), {"k": "v"})
    assert client.load_namespace((name,))["k"] == "v"
    assert (name,) in client.list_namespaces(())


def test_a_wrong_key_is_refused(catalog: Weed):
    wrong = unsigned(catalog) | SIGNED | {"client.secret-access-key": "wrong"}
    with pytest.raises((UnauthenticatedError, PermissionDeniedError)):
        Client(read_config(wrong)).list_namespaces(())


@pytest.mark.parametrize(
    "change",
    [
        {"rest.signing-region": ""},
        {"client.secret-access-key": ""},
        {"token": "also"},
        {"rest.sigv4-enabled": "perhaps"},
    ],
)
def test_a_signature_that_cannot_be_made_is_refused_at_once(change):
    with pytest.raises(InvalidInputError):
        read_config({"endpoint": "http://h", **SIGNED, **change})


def test_keys_are_never_shown():
    config = read_config({"endpoint": "http://h", **SIGNED, "client.session-token": "session"})
    assert SECRET_KEY not in repr(config)
    assert "session'" not in repr(config)
