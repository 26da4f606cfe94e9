"""Traces: sent where the standard variables say, by a server that nobody has prepared."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakeroot.model.errors import InvalidInputError
from lakeroot.server import tracing
from tests.server.http import Client
from tests.server.processes import lakeroot, served

LIST = "/v1/namespace/%24/list"


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A receiver of OTLP over HTTP, as an operator runs one."""
    received: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", received
        server.shutdown()
        thread.join()


def test_spans_go_to_the_collector_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    with collector() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        with served(str(tmp_path / "lake"), "--traces", "--log-format", "none") as running:
            assert Client(running.url).get(LIST, headers=parent).status == 200
            running.process.terminate()
            running.process.wait(300)  # what is not sent yet is sent at the end
        (resource,) = received[0].resource_spans
        names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
        assert names["service.name"] == "lakeroot"
        (span,) = resource.scope_spans[0].spans
        assert span.name == "list_namespaces"
        assert span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER is 'zipkin'"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke", "OTEL_EXPORTER_OTLP_PROTOCOL is 'smoke'"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "no package opentelemetry-exporter-otlp"),
    ],
)
def test_what_cannot_be_sent_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInputError, match=words):
        tracing._exporter()


def test_the_command_ends_when_traces_cannot_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    told = lakeroot("serve", str(tmp_path), "--port", "0", "--traces")
    assert told.returncode == 2
    assert "pip install" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_SDK_DISABLED", "true")]
)
def test_traces_can_be_switched_off_from_outside(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert tracing._exporter() is None
