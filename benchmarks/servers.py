"""Both servers in processes of their own over the same catalog, and `wrk` to load them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakeroot.server import hash_of, new_token

TOKEN = new_token()
_TICKS = os.sysconf("SC_CLK_TCK")

_OURS = """
import sys
from pathlib import Path
from lakeroot.server import Settings, serve
if __name__ == "__main__":
    root, port, access, workers = sys.argv[1:]
    properties = {"root": root, "dir_listing_enabled": "false"}
    serve(Settings("lakeroot.DirectoryNamespace", properties, port=int(port),
                   access_file=Path(access), workers=int(workers), log_requests=True,
                   access_log=Path(access).with_name("access.log"),
                   audit_log=Path(access).with_name("audit.log")))
"""
_PEER = """
import sys, threading
import lance.namespace
root, port = sys.argv[1:3]
properties = {"root": root, "dir_listing_enabled": "false"}
with lance.namespace.RestAdapter("dir", properties, port=int(port)):
    threading.Event().wait()
"""


@dataclass(frozen=True)
class Running:
    """A server that is up."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """The CPU time that its process and its workers have used."""
        return sum(_cpu_seconds(pid) for pid in (self.pid, *_children(self.pid)))

    def memory_mb(self) -> float:
        """The memory that its process and its workers hold."""
        return sum(_memory_mb(pid) for pid in (self.pid, *_children(self.pid)))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


@dataclass(frozen=True)
class Load:
    """What `wrk` saw, and what it cost the server."""

    per_second: float
    requests: int
    failed: int
    p99_ms: float
    cpu_us: float


@contextmanager
def ours(root: Path, workers: int = 1) -> Iterator[Running]:
    """Our server, with tokens asked for, every request logged and every change audited."""
    folder = Path(tempfile.mkdtemp(prefix="lakeroot-server-"))
    access = folder / "access.toml"
    access.write_text(
        f'[[tokens]]\nname = "bench"\nsha256 = "{hash_of(TOKEN)}"\n'
        '[[grants]]\nto = "token:bench"\nrole = "admin"\non = []\n'
    )
    try:
        with _process(folder, _OURS, str(root), str(access), str(workers)) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def peer(root: Path) -> Iterator[Running]:
    """The Rust adapter inside pylance; it asks for no token and writes no log."""
    folder = Path(tempfile.mkdtemp(prefix="lakeroot-peer-"))
    try:
        with _process(folder, _PEER, str(root)) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _process(folder: Path, source: str, root: str, *more: str) -> Iterator[Running]:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = folder / "start.py"
    file.write_text(source)
    started = subprocess.Popen([sys.executable, str(file), root, str(port), *more])
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url)
        yield Running(url, started.pid)
    finally:
        started.terminate()
        started.wait(60)


def _wait(url: str) -> None:
    request = urllib.request.Request(
        f"{url}/v1/namespace/%24/list?limit=1", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    deadline = time.monotonic() + 300
    while True:
        try:
            urllib.request.urlopen(request, timeout=60).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def wrk(server: Running, script: str, *, seconds: int, connections: int) -> Load:
    """Load a server with a Lua script for a while."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(f'local token = "{TOKEN}"\n' + script + _DONE)
        file.flush()
        before = server.cpu_seconds()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s"]
        told = subprocess.run(
            [*command, "-s", file.name, server.url], capture_output=True, text=True, check=True
        ).stdout
        spent = server.cpu_seconds() - before
    found = re.search(r"SUMMARY (\d+) (\d+) (\d+) (\d+)", told)
    assert found is not None, told
    requests, failed, p99_us, duration_us = (int(part) for part in found.groups())
    good = requests - failed
    return Load(
        good / (duration_us / 1e6), good, failed, p99_us / 1000, spent / max(requests, 1) * 1e6
    )


_DONE = """
function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("SUMMARY %d %d %d %d\\n", summary.requests, failed,
    latency:percentile(99), summary.duration))
end
"""
