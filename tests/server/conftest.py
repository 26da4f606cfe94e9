"""A real server on a real port, over a real directory, for every test that asks for one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lance_namespace
import pytest
from lance_namespace import LanceNamespace

from lakeroot.server import Settings, serving
from tests.server.http import Client

IMPL = "lakeroot.DirectoryNamespace"


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"root": str(tmp_path / "catalog")}


@pytest.fixture
def start(properties: dict[str, str]) -> Iterator[Callable[..., str]]:
    """Start a server over the catalog of this test, with any settings; stops with the test."""
    with ExitStack() as stack:

        def started(**settings: Any) -> str:
            chosen = {"impl": IMPL, "properties": properties, "log_requests": False, **settings}
            return stack.enter_context(serving(Settings(port=0, **chosen)))

        yield started


@pytest.fixture
def url(start: Callable[..., str]) -> str:
    return start()


@pytest.fixture
def http(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture
def rest(url: str) -> LanceNamespace:
    return lance_namespace.connect("rest", {"uri": url})
