"""The first seconds of a server: alive at once, ready when the catalog is open."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from lakeroot.model.errors import InvalidInputError
from lakeroot.server import Limits, Settings, build
from lakeroot.server.run import _config, _listen, _Worker
from lakeroot.server.starting import Starting
from tests.server.conftest import IMPL
from tests.server.http import Client
from tests.server.processes import lakeroot, served

LIST = "/v1/namespace/%24/list"


@contextmanager
def starting(settings: Settings, made: Callable[[], Any]) -> Iterator[tuple[str, Starting]]:
    """A server whose application takes as long to be made as the test wants."""
    listening = _listen(settings)
    first = Starting(made, settings)
    server = uvicorn.Server(_config(_Worker(settings, made=first)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", first
    finally:
        server.should_exit = True
        thread.join(300)
        listening.close()


@pytest.fixture
def settings(properties: dict[str, str]) -> Settings:
    return Settings(IMPL, properties, port=0, log_requests=False, limits=Limits(concurrency=2))


def test_a_server_is_alive_before_it_is_ready_and_lets_callers_wait(settings: Settings) -> None:
    go = threading.Event()

    def made() -> Any:
        assert go.wait(300)
        return build(settings)

    with starting(settings, made) as (url, first), ThreadPoolExecutor(2) as pool:
        assert Client(url).get("/healthz").json == {"status": "ok"}
        answer = Client(url).get("/readyz")
        assert (answer.status, answer.json) == (503, {"status": "starting"})
        assert "retry-after" in answer.headers
        early = [pool.submit(Client(url).get, LIST) for _ in range(2)]
        while first._waiting < 2:
            time.sleep(0.01)
        assert Client(url).get(LIST).status == 503  # no more wait than are let in at once
        go.set()
        assert [one.result().json for one in early] == [{"namespaces": []}] * 2
        assert Client(url).get("/readyz").json == {"status": "ready"}
        assert Client(url).get("/healthz").json == {"status": "ok"}


def test_those_who_waited_are_told_when_the_catalog_cannot_be_opened(settings: Settings) -> None:
    go, gave_up = threading.Event(), threading.Event()

    def made() -> Any:
        assert go.wait(300)
        raise InvalidInputError("There is no such catalog", "/secret/place")

    with starting(settings, made) as (url, first), ThreadPoolExecutor(1) as pool:
        first.give_up = gave_up.set
        early = pool.submit(Client(url).get, LIST)
        while first._waiting < 1:
            time.sleep(0.01)
        go.set()
        answer = early.result()
        assert (answer.status, b"secret" in answer.body) == (503, False)
        assert gave_up.wait(300)
        assert isinstance(first.problem, InvalidInputError)


def test_what_a_worker_finds_wrong_is_told_by_the_command(tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    access.write_text('[[grants]]\nto = "anyone"\nrole = "owner"\non = []\n')
    told = lakeroot("serve", str(tmp_path), "--port", "0", "--workers", "2",
                    "--access-file", str(access))  # fmt: skip
    assert told.returncode == 2
    assert "There is no role 'owner'" in told.stderr
    assert "Traceback" not in told.stderr


def test_the_models_are_loaded_without_the_client_and_the_client_when_it_is_asked_for() -> None:
    code = """
import sys
from lakeroot.server.starting import without_http_client
assert "lance_namespace" not in sys.modules and "pyarrow" not in sys.modules
without_http_client()
import lance_namespace
assert lance_namespace.DescribeTableRequest(id=["a"]).id == ["a"]
assert "lance_namespace_urllib3_client.api" not in sys.modules
import lance_namespace_urllib3_client as client
assert not hasattr(client, "__nothing__")
assert client.TableApi(client.ApiClient(client.Configuration(host="http://x")))
assert client.DescribeTableRequest is lance_namespace.DescribeTableRequest
assert not hasattr(client, "nothing")
without_http_client()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_serving_loads_nothing_heavy_before_it_listens() -> None:
    code = """
import sys
import lakeroot.server.run, lakeroot.cli.serving
heavy = {"lance", "pyarrow", "lance_namespace", "pydantic", "pyiceberg", "jwt", "numpy"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_workers_are_copies_only_of_a_process_in_which_nothing_could_break() -> None:
    code = """
import threading
import lakeroot.server.run, lakeroot.cli.serving
from lakeroot.server.workers import _can_fork
assert _can_fork()
over = threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
assert not _can_fork()
over.set()
thread.join()
import pyarrow
assert not _can_fork()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with served(str(tmp_path / "lake"), "--workers", "2", "--log-format", "none") as running:
        before = _children(running.process.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        deadline = time.monotonic() + 300
        while len(now := set(_children(running.process.pid)) - {before[0]}) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert before[1] in now
        assert Client(running.url).get(LIST).status == 200
        running.process.terminate()
        assert running.process.wait(300) == 0
    assert "Traceback" not in "".join(running.said)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
