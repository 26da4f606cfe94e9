"""The short way of simple requests: nobody can tell it from the ordinary one, but by the clock."""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lakeroot
from lakeroot.server import Limits, hash_of, new_token
from lakeroot.server.calls import Kind
from lakeroot.server.lance.face import LanceFace
from tests.server.http import Answer, Client

LIST = "/v1/namespace/%24/list"
EXISTS = "/v1/table/a%24t/exists"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that went the short way."""
    went: list[str] = []
    at_once = LanceFace.at_once

    def watched(face: LanceFace, request: Any, call: Any) -> Any:
        went.append(request.operation)
        return at_once(face, request, call)

    monkeypatch.setattr(LanceFace, "at_once", watched)
    return went


@pytest.fixture
def table(http: Client) -> Client:
    assert http.post("/v1/namespace/a/create", {}).status == 200
    assert http.post("/v1/table/a%24t/declare", {}).status == 200
    return http


def _until(went: list[str], operation: str, call: Callable[[], Answer]) -> Answer:
    """Ask again until the operation has been quick often enough to be answered in place."""
    deadline = time.monotonic() + 300
    while True:
        answer = call()
        if operation in went:
            return answer
        assert time.monotonic() < deadline


def _without_luck(answer: Answer) -> tuple[int, bytes, set[str]]:
    return answer.status, answer.body, set(answer.headers)


@pytest.mark.parametrize(
    ("method", "path", "body", "operation"),
    [
        ("POST", EXISTS, {}, "table_exists"),
        ("POST", "/v1/table/a%24t/describe", {"with_table_uri": True}, "describe_table"),
        ("POST", "/v1/table/a.t/describe?delimiter=.", {}, "describe_table"),
        ("GET", "/v1/namespace/a/table/list?limit=1", None, "list_tables"),
        ("GET", LIST, None, "list_namespaces"),
        ("POST", "/v1/table/a%24none/describe", {}, "describe_table"),
        ("POST", "/v1/namespace/none/describe", {}, "describe_namespace"),
    ],
)
def test_both_ways_give_the_same_answer(
    table: Client, taken: list[str], method: str, path: str, body: Any, operation: str
) -> None:
    def ask() -> Answer:
        return table.call(method, path, body)

    def ask_the_long_way() -> Answer:
        return table.call(method, path, body, headers={"Expect": "100-continue"})

    short = _until(taken, operation, ask)
    taken.clear()
    long = ask_the_long_way()
    assert taken == []
    assert _without_luck(short) == _without_luck(long)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (EXISTS, b"{", 400),
        (EXISTS, b'{"id":["a","t"],"id":["a","t"]}', 400),
        (EXISTS, b'{"id":["b","t"]}', 400),
        (EXISTS, b"[]", 400),
        ("/v1/table/a%24t/declare", b"{}", 409),
        ("/v1/table/none%24t/declare", b"{}", 404),
        ("/v1/table/%24/declare", b"{}", 400),
        ("/v1/table/a%24%00/declare", b"{}", 400),
        ("/v1/table/a%24b%2Fc/declare", b"{}", 400),
        ("/v1/table/a%24u/declare", b'{"location":"/etc"}', 400),
        ("/v1/table/a%24u/declare", b'{"properties":[]}', 400),
    ],
)
def test_bad_requests_are_refused_on_the_short_way_too(
    table: Client, taken: list[str], path: str, body: bytes, status: int
) -> None:
    _until(taken, "table_exists", lambda: table.post(EXISTS, {}))
    answer = table.post(path, body)
    assert answer.status == status
    assert set(answer.json) >= {"error", "code", "instance"}
    assert answer.headers["x-request-id"]
    assert table.post(EXISTS, {}).status == 200
    assert table.get("/v1/namespace/a/table/list").json["tables"] == ["t"]


def _request(path: str, body: bytes = b"{}") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


def _answers(stream: bytes) -> list[int]:
    return [int(part[:3]) for part in stream.split(b"HTTP/1.1 ")[1:]]


def test_requests_in_a_row_on_one_connection_are_answered_in_order(
    table: Client, taken: list[str]
) -> None:
    _until(taken, "table_exists", lambda: table.post(EXISTS, {}))
    declare = [_request(f"/v1/table/a%24p{n}/declare") for n in range(5)]
    sent = b"".join(
        (
            _request(EXISTS),
            declare[0],
            _request("/v1/table/a%24p0/exists"),  # waits for the change before it
            _request("/v1/table/a%24none/exists"),
            declare[1],
            declare[1],
            b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
            _request("/v1/nowhere"),
            declare[2],
            _request(EXISTS).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        )
    )
    with socket.create_connection(table.address, timeout=60) as connection:
        connection.sendall(sent)
        stream = b"".join(iter(lambda: connection.recv(65536), b""))
    assert _answers(stream) == [200, 200, 200, 404, 200, 409, 200, 404, 200, 200]


def test_a_request_in_pieces_is_answered_when_it_is_whole(table: Client, taken: list[str]) -> None:
    _until(taken, "table_exists", lambda: table.post(EXISTS, {}))
    whole = _request(EXISTS, b'{"id": ["a", "t"]}')
    with socket.create_connection(table.address, timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for cut in (10, 60, len(whole) - 18, len(whole) - 9, len(whole) - 1):
            connection.sendall(whole[:cut])
            time.sleep(0.05)  # so that they are pieces; if they are not, nothing is wrong
            connection.sendall(whole[cut:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_many_declare_at_once_and_of_two_with_one_name_one_wins(
    start: Callable[..., str], tmp_path: Path
) -> None:
    audit = tmp_path / "audit.log"
    url = start(audit_log=audit)
    with Client(url) as http:
        assert http.post("/v1/namespace/a/create", {}).status == 200
    names = [f"n{number % 40}" for number in range(80)]

    def declare(name: str) -> int:
        with Client(url) as one:
            return one.post(f"/v1/table/a%24{name}/declare", {}).status

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(declare, names))
    assert sorted(statuses) == [200] * 40 + [409] * 40
    with Client(url) as http:
        assert len(http.get("/v1/namespace/a/table/list").json["tables"]) == 40
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    events = [line["event"] for line in lines if line["operation"] == "declare_table"]
    assert {event: events.count(event) for event in events} == {
        "attempt": 80,
        "done": 40,
        "failed": 40,
    }


def test_a_change_that_cannot_be_audited_is_not_made(
    start: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(start(audit_log=tmp_path / "audit.log")) as http:
        assert http.post("/v1/namespace/a/create", {}).status == 200

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("lakeroot.server.logs.AuditLog.write_all", full)
            assert http.post("/v1/table/a%24t/declare", {}).status == 500
        assert http.get("/v1/namespace/a/table/list").json["tables"] == []
        assert http.post("/v1/table/a%24t/declare", {}).status == 200


def test_rights_are_asked_for_on_the_short_way(
    start: Callable[..., str], tmp_path: Path, taken: list[str]
) -> None:
    reader, writer = new_token(), new_token()
    access = tmp_path / "access.toml"
    access.write_text(
        f'[[tokens]]\nname = "r"\nsha256 = "{hash_of(reader)}"\n'
        f'[[tokens]]\nname = "w"\nsha256 = "{hash_of(writer)}"\n'
        '[[grants]]\nto = "token:r"\nrole = "reader"\non = ["a"]\n'
        '[[grants]]\nto = "token:w"\nrole = "admin"\non = []\n'
    )
    audit = tmp_path / "audit.log"
    url = start(access_file=access, audit_log=audit)
    with (
        Client(url, {"authorization": f"Bearer {writer}"}) as admin,
        Client(url, {"authorization": f"Bearer {reader}"}) as limited,
        Client(url) as nobody,
    ):
        for name in ("a", "b"):
            assert admin.post(f"/v1/namespace/{name}/create", {}).status == 200
            assert admin.post(f"/v1/table/{name}%24t/declare", {}).status == 200
        _until(taken, "table_exists", lambda: limited.post(EXISTS, {}))
        _until(taken, "list_namespaces", lambda: limited.get(LIST))
        assert limited.post("/v1/table/b%24t/exists", {}).status == 404
        assert limited.post("/v1/table/a%24u/declare", {}).status == 403
        assert limited.get(LIST).json["namespaces"] == ["a"]
        assert admin.get(LIST).json["namespaces"] == ["a", "b"]
        assert nobody.post(EXISTS, {}).status == 401
        forged = nobody.post(EXISTS, {}, headers={"authorization": "Bearer " + "x" * 40})
        assert forged.status == 401
    events = [json.loads(line)["event"] for line in audit.read_text().splitlines()]
    assert events.count("denied") == 2
    assert events.count("unauthenticated") == 2


def test_the_short_way_sees_what_others_have_written_since(
    table: Client, taken: list[str], properties: dict[str, str]
) -> None:
    _until(taken, "table_exists", lambda: table.post(EXISTS, {}))
    with lakeroot.DirectoryNamespace(**properties) as other:
        for number in range(20):
            other.catalog.declare_table(("a", f"new{number}"))
            assert table.post(f"/v1/table/a%24new{number}/exists", {}).status == 200
            other.catalog.drop_table(("a", f"new{number}"))
            assert table.post(f"/v1/table/a%24new{number}/exists", {}).status == 404


def test_a_connection_that_lies_idle_is_closed_whichever_way_it_went(
    start: Callable[..., str], taken: list[str]
) -> None:
    with Client(start(limits=Limits(keep_alive_seconds=1))) as http:
        _until(taken, "list_namespaces", lambda: http.get(LIST))
        with socket.create_connection(http.address, timeout=30) as connection:
            answer = b"HTTP/1.1 200 "
            for _ in range(4):  # longer in all than it may lie idle
                with contextlib.suppress(ConnectionError):
                    connection.sendall(f"GET {LIST} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
                    answer = connection.recv(65536)
                if not answer.startswith(b"HTTP/1.1 200 "):
                    break  # on a busy machine a short sleep is a long one
                time.sleep(0.3)
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""


@pytest.mark.parametrize("pieces", [1, 50])
def test_headers_without_end_are_refused(http: Client, pieces: int) -> None:
    head = f"POST {EXISTS} HTTP/1.1\r\nhost: x\r\n".encode()
    many = b"".join(b"x-%d: %s\r\n" % (number, b"a" * 2000) for number in range(50))
    for endless in (head + many, head + b"x-long: " + b"a" * 100_000):
        with socket.create_connection(http.address, timeout=60) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            size = -(-len(endless) // pieces)
            with contextlib.suppress(ConnectionError):  # it may be closed before all is sent
                for at in range(0, len(endless), size):
                    connection.sendall(endless[at : at + size])
            answer = b""
            with contextlib.suppress(ConnectionError):
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 431 ") or not answer
    allowed = {"x-large": "a" * 30_000}
    assert http.get(LIST, headers=allowed).status == 200


def test_a_kind_of_work_is_done_in_place_while_it_is_quick() -> None:
    kind = Kind()

    def after(*seconds: float) -> bool:
        for one in seconds:
            kind.remember(one)
        return kind.in_place

    assert not after()
    assert not after(0.2, 0.0001, 0.2)
    assert after(0.0001)
    assert after(0.2, 0.0001, 0.2, *[0.0001] * 8, 0.2)
    assert not after(0.2, 0.2)
    assert not after(0.0001, *[0.2] * 8, 0.0001)
    assert after(0.0001)
