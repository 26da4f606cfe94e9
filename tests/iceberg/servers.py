"""Servers to test against: SeaweedFS's Iceberg REST catalog, and one that misbehaves on order."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lakeroot.model.errors import LakerootError
from lakeroot.server import Settings, serving
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import read_config
from tests.ports import free_ports

ACCESS_KEY = "lakeroot-test"
SECRET_KEY = "not-a-secret-0123456789"
BUCKET = "warehouse"


@dataclass(frozen=True)
class Weed:
    """A running SeaweedFS: an object store and an Iceberg REST catalog over one bucket."""

    catalog: str
    s3: str

    @property
    def storage(self) -> dict[str, str]:
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_endpoint": self.s3,
            "aws_region": "us-east-1",
            "allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    @property
    def properties(self) -> dict[str, str]:
        return {
            "endpoint": self.catalog,
            "warehouse": BUCKET,
            "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
            "retry_backoff": "5",
            **{f"storage.{key}": value for key, value in self.storage.items()},
        }


@contextmanager
def weed(directory: Path) -> Iterator[Weed]:
    """Start SeaweedFS on free loopback ports, and end the process that was started."""
    master, volume, filer, s3, catalog, lance = free_ports(6)
    command = [
        str(Path(sys.executable).with_name("weed")),
        "mini",
        f"-dir={directory}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-admin.ui=false",
        "-webdav=false",
        f"-master.port={master}",
        f"-volume.port={volume}",
        f"-filer.port={filer}",
        f"-s3.port={s3}",
        f"-s3.port.iceberg={catalog}",
        f"-s3.port.lance={lance}",
        f"-tableBucket={BUCKET}",
    ]
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=directory)
    try:
        running = Weed(f"http://127.0.0.1:{catalog}", f"http://127.0.0.1:{s3}")
        _await_ready(running, process, directory / "log")
        yield running
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def own_server(directory: Path, **properties: str) -> Iterator[str]:
    """Start Lakeroot's own server over a directory; give its endpoint for Iceberg clients."""
    given = {"root": str(directory / "lake"), **properties}
    impl = "lakeroot.DirectoryNamespace"
    with serving(Settings(port=0, impl=impl, properties=given, log_requests=False)) as url:
        yield f"{url}/iceberg"


def _await_ready(running: Weed, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(LakerootError):
            Client(read_config(running.properties)).create_namespace(("ready",), {})
            return
        time.sleep(0.2)
    raise AssertionError(f"SeaweedFS does not start: {log.read_text(errors='replace')[-2000:]}")


Reply = tuple[int, object] | tuple[int, object, dict[str, str]]
Behaviour = Callable[["Request"], Reply | None]


@dataclass
class Request:
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    handler: BaseHTTPRequestHandler = field(repr=False)


class Misbehaving:
    """A server of real sockets that answers as the test says. None means: hang up at once."""

    def __init__(self, behave: Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                try:
                    body = json.loads(raw) if raw else None
                except ValueError:
                    body = raw.decode()
                request = Request(self.command, self.path, dict(self.headers), body, self)
                server.requests.append(request)
                reply = behave(request)
                if reply is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, content, *headers = reply
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in (headers[0] if headers else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    def sent(self, *, but_config: bool = True) -> list[str]:
        """Tell what was asked, as `METHOD path`."""
        asked = [f"{r.method} {r.path}" for r in self.requests]
        return [a for a in asked if not (but_config and "/v1/config" in a)]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def misbehaving(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[Misbehaving]:
    server = Misbehaving(behave, tls)
    try:
        yield server
    finally:
        server.close()


def error(status: int, kind: str, message: str = "because") -> Reply:
    return status, {"error": {"message": message, "type": kind, "code": status}}


def fresh_name(prefix: str = "n") -> str:
    """Make up a name that no other test uses."""
    return f"{prefix}{uuid.uuid4().hex[:12]}"
