"""Running the server: health, limits, several workers, a graceful stop."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    CreateNamespaceResponse,
    LanceNamespace,
    ListNamespacesRequest,
    ListNamespacesResponse,
)
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lakeroot.model.errors import InvalidInputError
from lakeroot.server import Limits
from tests.server.conftest import IMPL
from tests.server.http import Client


class SlowNamespace(LanceNamespace):
    """A catalog that takes its time to list, so that requests pile up."""

    def __init__(self, seconds: str) -> None:
        self._seconds = float(seconds)

    def namespace_id(self) -> str:
        return "slow"

    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        time.sleep(self._seconds)
        return ListNamespacesResponse(namespaces=[])

    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        time.sleep(self._seconds)
        return CreateNamespaceResponse()


class BrokenNamespace(LanceNamespace):
    """A catalog that fails in a way nobody foresaw."""

    def namespace_id(self) -> str:
        return "broken"

    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        raise RuntimeError("secret of the inside, /etc/passwd")


BROKEN = f"{__name__}.BrokenNamespace"
SLOW = f"{__name__}.SlowNamespace"
LIST = "/v1/namespace/%24/list"


def test_operators_can_ask_how_it_is(http: Client) -> None:
    assert http.get("/healthz").json == {"status": "ok"}
    assert http.get("/readyz").json == {"status": "ready"}
    assert http.get("/openapi.json").json["openapi"] == "3.1.0"
    http.get(LIST)
    text = http.get("/metrics").body.decode()
    assert 'total{face="lance",operation="list_namespaces",status="200"} 1\n' in text
    assert http.post("/healthz").status == 405
    assert http.get("/elsewhere").status == 404


def test_a_catalog_that_fails_makes_the_server_not_ready(start: Callable[..., str]) -> None:
    with Client(start(impl=BROKEN, properties={})) as http:
        assert http.get("/readyz").status == 503
        assert http.get("/healthz").status == 200
        answer = http.get(LIST)
        assert (answer.status, answer.json["code"]) == (500, 18)
        assert answer.headers["x-request-id"] in answer.json["detail"]
        for where in (answer.body, http.get("/readyz").body):
            assert b"secret" not in where


def test_a_catalog_that_cannot_be_opened_is_an_error_of_the_start(
    start: Callable[..., str],
) -> None:
    with pytest.raises(InvalidInputError, match="cannot be opened"):
        start(impl=SLOW, properties={"seconds": "many"})


def test_too_many_requests_at_once_are_told_to_come_back(start: Callable[..., str]) -> None:
    url = start(impl=SLOW, properties={"seconds": "1"}, limits=Limits(concurrency=2))
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: Client(url).get(LIST), range(6)))
    assert sorted(a.status for a in answers) == [200, 200, 503, 503, 503, 503]
    refused = next(a for a in answers if a.status == 503)
    assert refused.json["code"] == 17
    assert int(refused.headers["retry-after"]) >= 1


def test_too_many_requests_a_second_are_told_to_come_back(start: Callable[..., str]) -> None:
    with Client(start(limits=Limits(requests_per_second=0.5, burst=3))) as http:
        answers = [http.get(LIST) for _ in range(5)]
    assert [a.status for a in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json["code"] == 21
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_an_answer_that_takes_too_long_is_given_up(start: Callable[..., str]) -> None:
    url = start(impl=SLOW, properties={"seconds": "1"}, limits=Limits(request_seconds=0.1))
    answer = Client(url).get(LIST)
    assert (answer.status, answer.json["code"]) == (503, 17)
    assert "retry-after" in answer.headers


def test_a_change_that_takes_too_long_is_of_unknown_outcome(start: Callable[..., str]) -> None:
    url = start(impl=SLOW, properties={"seconds": "1"}, limits=Limits(request_seconds=0.1))
    answer = Client(url).post("/v1/namespace/a/create", {})
    assert (answer.status, answer.json["code"]) == (504, 17)
    assert "retry-after" not in answer.headers


def test_a_client_that_sends_nothing_is_let_go(start: Callable[..., str]) -> None:
    url = start(limits=Limits(header_seconds=0.3, idle_seconds=0.3))
    address = Client(url).address
    with socket.create_connection(address, timeout=20) as silent:
        assert silent.recv(100) == b""
    with socket.create_connection(address, timeout=20) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        assert slow.recv(100) == b""
    with socket.create_connection(address, timeout=20) as halfway:
        halfway.sendall(
            b"POST /v1/namespace/a/create HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        )
        assert b" 408 " in halfway.recv(1000)


def test_every_request_is_logged_with_its_id(start: Callable[..., str], tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    with Client(start(log_requests=True, access_log=log)) as http:
        answer = http.get(LIST, headers={"x-request-id": "mine-1"})
        assert answer.headers["x-request-id"] == "mine-1"
        http.post("/v1/namespace/a/create?secret=1", {})
        deadline = time.monotonic() + 300
        while log.read_text().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(x["operation"], x["object"], x["status"]) for x in lines] == [
        ("list_namespaces", "", 200),
        ("create_namespace", "a", 200),
    ]
    assert lines[0]["request"] == "mine-1"
    assert "secret" not in log.read_text()


@contextmanager
def process(
    folder: Path, impl: str, properties: dict[str, str], workers: int = 1
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server in a process of its own; stopped, if it has not been, at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = folder / "start.py"
    file.write_text(
        "from lakeroot.server import Settings, serve\n"
        "if __name__ == '__main__':\n"
        f"    serve(Settings({impl!r}, {properties!r}, port={port}, workers={workers},"
        " log_requests=False))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    started = subprocess.Popen([sys.executable, str(file)], env=environment)
    try:
        _wait_for(port)
        yield port, started
    finally:
        started.terminate()
        started.wait(30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            if Client(f"http://127.0.0.1:{port}").get("/healthz").status == 200:
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail("the server did not start")


def test_several_workers_share_one_catalog_and_count_together(tmp_path: Path) -> None:
    with process(tmp_path, IMPL, {"root": str(tmp_path / "catalog")}, 2) as (port, _):
        url = f"http://127.0.0.1:{port}"

        def create(number: int) -> int:
            return Client(url).post(f"/v1/namespace/n{number % 12}/create", {}).status

        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(create, range(24)))
        assert statuses.count(200) == 12
        assert set(statuses) <= {200, 409}
        names = Client(url).get(LIST).json["namespaces"]
        assert sorted(names) == sorted(f"n{n}" for n in range(12))
        created = 'operation="create_namespace",status="200"} 12'
        deadline = time.monotonic() + 300
        while created not in Client(url).get("/metrics").body.decode():
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_every_request_is_a_span_of_the_callers_trace(start: Callable[..., str]) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    Client(start(traces=True)).get(LIST, headers=parent)
    (span,) = spans.get_finished_spans()
    assert span.name == "list_namespaces"
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 200
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_a_graceful_stop_finishes_what_is_in_flight(tmp_path: Path) -> None:
    with process(tmp_path, SLOW, {"seconds": "1"}) as (port, server):
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(Client(f"http://127.0.0.1:{port}").get, LIST)
            _wait_until_in_flight(port)
            server.send_signal(signal.SIGTERM)
            assert answer.result().status == 200
        assert server.wait(30) in (0, -signal.SIGTERM)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def _wait_until_in_flight(port: int) -> None:
    client = Client(f"http://127.0.0.1:{port}")
    while b"lakeroot_requests_in_flight 2" not in client.get("/metrics").body:
        time.sleep(0.01)
