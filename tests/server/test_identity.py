"""Who may do what: deny by default, hide what is not granted, check every end of a change."""

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import lance_namespace
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest

from lakeroot.model.errors import InvalidInputError
from lakeroot.server import Settings, hash_of, new_token, serve
from lakeroot.server.identity.policy import read_policy
from tests.server.conftest import IMPL
from tests.server.http import Client

TOKENS = {name: new_token() for name in ("root", "prod_reader", "one_table", "nobody", "writer")}
GRANTS = [
    ("root", "admin", []),
    ("prod_reader", "reader", ["prod"]),
    ("one_table", "writer", ["prod", "users"]),
    ("one_table", "reader", ["prod", "eu", "sales"]),
    ("writer", "writer", ["prod"]),
    ("writer", "reader", ["other"]),
]


@pytest.fixture
def access_file(tmp_path: Path) -> Path:
    lines = []
    for name, token in TOKENS.items():
        lines += ["[[tokens]]", f'name = "{name}"', f'sha256 = "{hash_of(token)}"']
    for name, role, on in GRANTS:
        lines += ["[[grants]]", f'to = "token:{name}"', f'role = "{role}"', f"on = {on!r}"]
    file = tmp_path / "access.toml"
    file.write_text("\n".join(lines).replace("'", '"'))
    return file


@pytest.fixture
def catalog(properties: dict[str, str]) -> None:
    namespace = lance_namespace.connect(IMPL, properties)
    for name in (["prod"], ["other"], ["prod", "eu"]):
        namespace.create_namespace(CreateNamespaceRequest(id=name))
    for table in (["prod", "users"], ["prod", "orders"], ["prod", "eu", "sales"], ["other", "t"]):
        namespace.declare_table(DeclareTableRequest(id=table))


@pytest.fixture
def as_(
    catalog: None, access_file: Path, start: Callable[..., str], tmp_path: Path
) -> Callable[[str], Client]:
    url = start(access_file=access_file, audit_log=tmp_path / "audit.jsonl")
    return lambda name: Client(url, {"authorization": f"Bearer {TOKENS[name]}"})


def codes(client: Client, *calls: tuple[str, object]) -> list[tuple[int, int | None]]:
    answers = [client.post(path, body) for path, body in calls]
    return [(a.status, a.json["code"] if a.status >= 400 else None) for a in answers]


def test_without_a_token_or_with_a_wrong_one_nobody_gets_in(as_: Callable[[str], Client]) -> None:
    client = as_("root")
    for headers in (
        {},
        {"authorization": "Bearer None"},
        {"authorization": "Bearer " + new_token()},
        {"authorization": "Basic " + TOKENS["root"]},
        {"authorization": TOKENS["root"]},
        {"x-api-key": "wrong"},
        {"authorization": "Bearer " + hash_of(TOKENS["root"])},
    ):
        client.headers = headers
        answer = client.get("/v1/namespace/%24/list")
        assert (answer.status, answer.json["code"]) == (401, 16)
        assert answer.headers["www-authenticate"] == "Bearer"
    client.headers = {"x-api-key": TOKENS["root"]}
    assert client.get("/v1/namespace/%24/list").json["namespaces"] == ["other", "prod"]


def test_a_reader_reads_everything_below_and_changes_nothing(as_: Callable[[str], Client]) -> None:
    reader = as_("prod_reader")
    assert reader.get("/v1/namespace/%24/list").json["namespaces"] == ["prod"]
    assert reader.get("/v1/namespace/prod/table/list").json["tables"] == ["orders", "users"]
    assert reader.get("/v1/namespace/prod/list").json["namespaces"] == ["eu"]
    assert codes(
        reader,
        ("/v1/table/prod%24users/describe", {}),
        ("/v1/table/prod%24users/drop", None),
        ("/v1/table/prod%24new/declare", {}),
        ("/v1/namespace/prod%24new/create", {}),
        ("/v1/namespace/prod/drop", {}),
    ) == [(200, None), (403, 15), (403, 15), (403, 15), (403, 15)]


def test_what_is_not_granted_looks_like_what_does_not_exist(as_: Callable[[str], Client]) -> None:
    reader = as_("prod_reader")
    for there, missing in (("other%24t", "other%24none"), ("other%24t", "none%24none")):
        for action in ("describe", "exists", "drop", "count_rows"):
            one = reader.post(f"/v1/table/{there}/{action}", {})
            two = reader.post(f"/v1/table/{missing}/{action}", {})
            assert (one.status, one.json["code"]) == (two.status, two.json["code"]) == (404, 4)
    one, two = (reader.post(f"/v1/namespace/{name}/exists", {}) for name in ("other", "none"))
    assert (one.status, two.status) == (404, 404)
    nobody = as_("nobody")
    assert nobody.post("/v1/namespace/prod/describe", {}).status == 404
    assert nobody.get("/v1/namespace/prod/list").status == 404


def test_only_who_may_do_everything_defines_and_refreshes_views(
    as_: Callable[[str], Client],
) -> None:
    """A view's query is not held back by grants: it reads whatever it names."""
    view = {"kind": "query", "source_query": "SELECT * FROM other.t", "output_schema": "x"}
    calls: tuple[tuple[str, object], ...] = (
        ("/v1/materialized_view/prod%24v/create", view),
        ("/v1/materialized_view/prod%24users/refresh", {}),
    )
    for name in ("prod_reader", "one_table", "writer"):
        assert codes(as_(name), *calls) == [(403, 15), (403, 15)], name
    assert codes(as_("root"), *calls) == [(400, 13), (406, 0)]


def test_a_grant_on_a_table_shows_the_way_to_it_and_nothing_else(
    as_: Callable[[str], Client],
) -> None:
    one = as_("one_table")
    assert one.get("/v1/namespace/%24/list").json["namespaces"] == ["prod"]
    assert one.get("/v1/namespace/prod/list").json["namespaces"] == ["eu"]
    assert one.get("/v1/namespace/prod/table/list").json["tables"] == ["users"]
    assert one.get("/v1/namespace/prod%24eu/table/list").json["tables"] == ["sales"]
    assert one.post("/v1/namespace/prod/exists").status == 200
    assert one.post("/v1/namespace/prod/describe", {}).status == 403
    assert one.post("/v1/table/prod%24orders/describe", {}).status == 404


def test_a_list_is_filtered_before_it_is_cut_into_pages(as_: Callable[[str], Client]) -> None:
    one = as_("one_table")
    page = one.get("/v1/namespace/prod/table/list?limit=1").json
    assert page["tables"] == ["users"]
    assert page.get("page_token") is None


def test_both_ends_of_a_rename_are_checked(as_: Callable[[str], Client]) -> None:
    one = as_("writer")
    away = {"new_table_name": "u", "new_namespace_id": ["other"]}
    assert one.post("/v1/table/prod%24users/rename", away).status == 403
    steal = {"new_table_name": "u", "new_namespace_id": ["prod"]}
    assert one.post("/v1/table/other%24t/rename", steal).status == 403
    assert as_("one_table").post("/v1/table/other%24t/rename", steal).status == 404


def test_every_member_of_a_batch_is_checked(as_: Callable[[str], Client]) -> None:
    writer = as_("writer")

    def entry(*identifier: str) -> dict[str, Any]:
        return {"id": identifier, "version": 1, "manifest_path": "x"}

    mixed = {"entries": [entry("prod", "users"), entry("other", "t")]}
    assert writer.post("/v1/table/version/batch-create", mixed).status == 403
    hidden = {"entries": [entry("prod", "users"), entry("elsewhere", "t")]}
    assert writer.post("/v1/table/version/batch-create", hidden).status == 404
    commit = {"operations": [{"deregister_table": {"id": ["other", "t"]}}]}
    assert writer.post("/v1/table/batch-commit", commit).status == 403
    create = {"operations": [{"declare_table": {"id": ["other", "new"]}}]}
    assert writer.post("/v1/table/batch-commit", create).status == 403


def test_an_identifier_is_judged_by_its_names_not_by_its_text(as_: Callable[[str], Client]) -> None:
    writer = as_("writer")
    answer = writer.post("/v1/table/prod%24x.other.t/describe?delimiter=.", {})
    assert answer.status == 404
    body_says_otherwise = writer.post("/v1/table/prod%24users/describe", {"id": ["other", "t"]})
    assert body_says_otherwise.status == 400


def test_changes_and_denials_are_audited_and_secrets_are_not(
    as_: Callable[[str], Client], tmp_path: Path
) -> None:
    as_("writer").post("/v1/table/prod%24fresh/declare", {})
    as_("prod_reader").post("/v1/table/prod%24fresh/drop", {})
    as_("prod_reader").get("/v1/namespace/prod/list")
    stranger = as_("root")
    stranger.headers = {}
    stranger.get("/v1/table")
    text = (tmp_path / "audit.jsonl").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    assert [(e["event"], e["principal"], e["operation"]) for e in events] == [
        ("attempt", "token:writer", "declare_table"),
        ("done", "token:writer", "declare_table"),
        ("denied", "token:prod_reader", "drop_table"),
        ("unauthenticated", "anonymous", "unrouted"),
    ]
    assert events[0]["object"] == "prod$fresh"
    assert not any(token in text for token in TOKENS.values())


def test_a_network_address_needs_an_access_file() -> None:
    settings = Settings(IMPL, {"root": "/nowhere"}, host="0.0.0.0", port=0)
    with pytest.raises(InvalidInputError, match="everyone on the network"):
        serve(settings)
    Settings(IMPL, {}, host="0.0.0.0", allow_anyone=True).check()
    Settings(IMPL, {}, host="::1").check()


@pytest.mark.parametrize(
    "text",
    [
        "tokens = [",
        "[[tokens]]\nname = 'a'\nsha256 = 'the token itself'",
        "[[tokens]]\nname = 'a'\nsecret = 'x'",
        "[[grants]]\nto = 'somebody'\nrole = 'reader'\non = []",
        "[[grants]]\nto = 'token:a'\nrole = 'owner'\non = []",
        "[[grants]]\nto = 'token:a'\nrole = 'reader'",
        "[oidc]\nissuer = 'x'\naudience = 'y'\nalgorithms = ['HS256']",
        "[oidc]\nissuer = 'x'\naudience = 'y'\nalgorithms = ['none']",
        "[oidc]\nissuer = 'x'",
        "surprise = 1",
    ],
)
def test_an_access_file_that_is_not_understood_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "access.toml"
    file.write_text(text)
    with pytest.raises(InvalidInputError):
        read_policy(file)


# An issuer of tokens: a key, and a server that publishes it.
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def issuer() -> Iterator[str]:
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    documents: dict[str, Any] = {"/keys": {"keys": [{**public, "kid": "k1"}]}}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(documents[self.path]).encode())

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    documents["/.well-known/openid-configuration"] = {"jwks_uri": f"{address}/keys"}
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


def token(
    issuer: str, *, key: Any = KEY, algorithm: str = "RS256", kid: str = "k1", **claims: Any
) -> str:
    payload = {"iss": issuer, "aud": "lakeroot", "sub": "ada", "exp": time.time() + 60, **claims}
    payload = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(payload, key, algorithm, headers={"kid": kid})


def signed_with_the_public_key(issuer: str) -> str:
    """A token that passes where the algorithm is taken from the token itself."""
    public = KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    header = {"alg": "HS256", "typ": "JWT", "kid": "k1"}
    claims = {"iss": issuer, "aud": "lakeroot", "sub": "ada", "exp": int(time.time()) + 60}
    parts = [base64.urlsafe_b64encode(json.dumps(p).encode()) for p in (header, claims)]
    signed = b".".join(part.rstrip(b"=") for part in parts)
    mac = base64.urlsafe_b64encode(hmac.digest(public, signed, "sha256")).rstrip(b"=")
    return (signed + b"." + mac).decode()


def test_tokens_of_an_issuer_are_accepted_only_when_everything_is_right(
    catalog: None, issuer: str, tmp_path: Path, start: Callable[..., str]
) -> None:
    file = tmp_path / "access.toml"
    file.write_text(
        f"""
        [oidc]
        issuer = "{issuer}"
        audience = "lakeroot"
        [[grants]]
        to = "oidc:ada"
        role = "reader"
        on = ["prod"]
        [[grants]]
        to = "group:sales"
        role = "reader"
        on = ["other"]
        """
    )
    client = Client(start(access_file=file))

    def seen(text: str) -> tuple[int, list[str]]:
        client.headers = {"authorization": f"Bearer {text}"}
        answer = client.get("/v1/namespace/%24/list")
        return answer.status, answer.json.get("namespaces", [])

    assert seen(token(issuer)) == (200, ["prod"])
    assert seen(token(issuer, groups=["sales"])) == (200, ["other", "prod"])
    assert seen(token(issuer, sub="bob")) == (404, [])
    forged = [
        token(issuer, exp=time.time() - 10),
        token(issuer, exp=None),
        token(issuer, aud="another"),
        token(issuer, iss="https://another"),
        token(issuer, nbf=time.time() + 60),
        token(issuer, key=OTHER_KEY),
        token(issuer, kid="unknown"),
        token(issuer, algorithm="RS512"),
        signed_with_the_public_key(issuer),
        jwt.encode({"iss": issuer, "aud": "lakeroot", "sub": "ada"}, "", "none"),
        token(issuer)[:-4] + "AAAA",
        "a.b.c",
        "." * 50,
    ]
    assert [seen(text)[0] for text in forged] == [401] * len(forged)
    assert seen(token(issuer)) == (200, ["prod"])


def _kind(answer: Any) -> tuple[int, str]:
    return answer.status, answer.json["error"]["type"]


def test_the_same_grants_hold_for_iceberg_clients(as_: Callable[[str], Client]) -> None:
    v1 = "/iceberg/v1"
    reader, one, writer = as_("prod_reader"), as_("one_table"), as_("writer")
    assert reader.get(f"{v1}/namespaces").json["namespaces"] == [["prod"]]
    assert one.get(f"{v1}/namespaces?parent=prod").json["namespaces"] == [["prod", "eu"]]
    listed = one.get(f"{v1}/namespaces/prod/tables?pageToken=&pageSize=1").json
    assert [entry["name"] for entry in listed["identifiers"]] == ["users"]
    assert listed["next-page-token"] is None
    assert reader.get(f"{v1}/namespaces/prod/tables/users").status == 200
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    denied = reader.post(f"{v1}/namespaces/prod/tables/users", commit)
    assert _kind(denied) == (403, "ForbiddenException")
    assert _kind(reader.call("DELETE", f"{v1}/namespaces/prod")) == (403, "ForbiddenException")
    for there, missing in (("other/tables/t", "other/tables/none"), ("other", "none")):
        hidden, absent = (reader.get(f"{v1}/namespaces/{path}") for path in (there, missing))
        assert _kind(hidden) == _kind(absent)
        assert hidden.status == 404
    away = {
        "source": {"namespace": ["prod"], "name": "users"},
        "destination": {"namespace": ["other"], "name": "u"},
    }
    assert _kind(writer.post(f"{v1}/tables/rename", away)) == (403, "ForbiddenException")
    members = [
        {"identifier": {"namespace": ["prod"], "name": "users"}, **commit},
        {"identifier": {"namespace": ["other"], "name": "t"}, **commit},
    ]
    both = writer.post(f"{v1}/transactions/commit", {"table-changes": members})
    assert _kind(both) == (403, "ForbiddenException")
    register = {"name": "x", "metadata-location": "file:///x"}
    answer = writer.post(f"{v1}/namespaces/prod/register", register)
    assert _kind(answer) == (403, "ForbiddenException")
    stranger = as_("root")
    stranger.headers = {"authorization": "Bearer None"}
    assert _kind(stranger.get(f"{v1}/config")) == (401, "NotAuthorizedException")


def test_without_auth_a_meaningless_token_is_ignored(start: Callable[..., str]) -> None:
    client = Client(start(), {"authorization": "Bearer None"})
    assert client.get("/iceberg/v1/namespaces").status == 200
