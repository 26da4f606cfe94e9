"""Storage credentials leave the server only when somebody decided so, and only the right ones."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from lakeroot.server import hash_of, new_token
from lakeroot.server.iceberg.credentials import iceberg_names, lance_names
from lakeroot.server.vending import StsVendor, Vending
from tests.server.http import Client

SECRET = {
    "aws_access_key_id": "AKIA-of-the-server",
    "aws_secret_access_key": "the-secret-of-the-server",
    "aws_region": "eu-north-1",
}
READER, WRITER = new_token(), new_token()


@pytest.fixture
def keyed(tmp_path: Path) -> dict[str, str]:
    """A catalog whose storage needs keys (a local one, which does not look at them)."""
    return {"root": str(tmp_path / "keyed")} | {f"storage.{k}": v for k, v in SECRET.items()}


def _all_answers(http: Client) -> list[bytes]:
    http.post("/v1/namespace/prod/create", {})
    declare = {"operations": [{"declare_table": {"id": ["prod", "b"]}}]}
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "long"}]}
    made = {"name": "c", "schema": schema, "properties": {"table_type": "lance"}}
    return [
        http.post("/v1/table/prod%24t/declare", {}).body,
        http.post("/v1/table/prod%24t/describe", {}).body,
        http.post("/v1/table/prod%24t/describe", {"vend_credentials": True}).body,
        http.post("/v1/table/batch-commit", declare).body,
        http.post("/iceberg/v1/namespaces/prod/tables", made).body,
        http.get("/iceberg/v1/namespaces/prod/tables/t").body,
        http.get("/iceberg/v1/namespaces/prod/tables/t/credentials").body,
    ]


def test_the_keys_of_the_server_stay_in_the_server(
    start: Callable[..., str], keyed: dict[str, str]
) -> None:
    answers = _all_answers(Client(start(properties=keyed)))
    assert all(answer.startswith(b"{") for answer in answers)
    for answer in answers:
        assert b"of-the-server" not in answer


def test_static_keys_are_handed_out_when_that_is_switched_on(
    start: Callable[..., str], keyed: dict[str, str]
) -> None:
    http = Client(start(properties=keyed, vend_storage_options=True))
    _all_answers(http)
    told = http.post("/v1/table/prod%24t/describe", {}).json["storage_options"]
    assert told == SECRET
    unwanted = http.post("/v1/table/prod%24t/describe", {"vend_credentials": False}).json
    assert "storage_options" not in unwanted
    loaded = http.get("/iceberg/v1/namespaces/prod/tables/t").json
    assert loaded["config"]["s3.access-key-id"] == SECRET["aws_access_key_id"]
    lent = http.get("/iceberg/v1/namespaces/prod/tables/t/credentials").json["storage-credentials"]
    assert lent[0]["prefix"] == loaded["metadata"]["location"]


@dataclass(frozen=True)
class Recording:
    """A vendor that says what it was asked."""

    asked: list[tuple[str, bool]] = field(default_factory=list)

    def vend(self, location: str, *, writes: bool) -> dict[str, str]:
        self.asked.append((location, writes))
        kind = "write" if writes else "read"
        return {"aws_access_key_id": f"short-{kind}", "expires_at_millis": "99999999999999"}


def test_a_vendor_lends_to_each_caller_what_their_role_allows(
    start: Callable[..., str], keyed: dict[str, str], tmp_path: Path
) -> None:
    access = tmp_path / "access.toml"
    lines = []
    for name, token in (("reader", READER), ("writer", WRITER)):
        lines += [f'[[tokens]]\nname = "{name}"\nsha256 = "{hash_of(token)}"']
        lines += [f'[[grants]]\nto = "token:{name}"\nrole = "{name}"\non = []']
    access.write_text("\n".join(lines))
    vendor = Recording()
    url = start(properties=keyed, access_file=access, credential_vendor=vendor)
    writer = Client(url, {"authorization": f"Bearer {WRITER}"})
    reader = Client(url, {"authorization": f"Bearer {READER}"})
    _all_answers(writer)
    wrote = writer.post("/v1/table/prod%24t/describe", {}).json["storage_options"]
    read = reader.post("/v1/table/prod%24t/describe", {}).json["storage_options"]
    assert wrote["aws_access_key_id"] == "short-write"
    assert read["aws_access_key_id"] == "short-read"
    assert read["aws_region"] == "eu-north-1"
    assert "aws_secret_access_key" not in read
    config = reader.get("/iceberg/v1/namespaces/prod/tables/t").json["config"]
    assert config["s3.access-key-id"] == "short-read"
    assert len(vendor.asked) == len(set(vendor.asked)), "fresh credentials are used again"


@pytest.fixture
def sts() -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """A token service that speaks the protocol of AWS."""
    seen: list[dict[str, list[str]]] = []
    answer = (
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>'
        "<Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
        "<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
        "</Credentials></AssumeRoleResult></AssumeRoleResponse>"
    )

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            seen.append(parse_qs(self.rfile.read(size).decode()))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_token_service_gets_a_policy_for_one_table(
    sts: tuple[str, list[dict[str, list[str]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, seen = sts
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    vendor = StsVendor("arn:aws:iam::1:role/lake", "eu-north-1", endpoint=endpoint)
    vending = Vending(vendor=vendor)
    lent = vending.options("s3://lake/prod/t.lance", None, writes=False)
    assert lent["aws_access_key_id"] == "ASIA1"
    assert lent["aws_session_token"] == "t"
    assert vending.options("s3://lake/prod/t.lance", None, writes=False) == lent
    assert len(seen) == 1
    vending.options("s3://lake/prod/t.lance", None, writes=True)
    read, write = (json.loads(request["Policy"][0])["Statement"][0] for request in seen)
    assert read["Resource"] == ["arn:aws:s3:::lake/prod/t.lance/*"]
    assert read["Action"] == ["s3:GetObject"]
    assert "s3:PutObject" in write["Action"]


def test_names_of_options_are_translated_both_ways() -> None:
    lance: dict[str, Any] = {
        **SECRET,
        "aws_session_token": "t",
        "aws_endpoint": "http://s3",
        "aws_virtual_hosted_style_request": "false",
    }
    iceberg = iceberg_names(lance)
    assert iceberg["s3.secret-access-key"] == SECRET["aws_secret_access_key"]
    assert iceberg["client.region"] == "eu-north-1"
    assert iceberg["s3.path-style-access"] == "true"
    assert lance_names(iceberg) == lance
