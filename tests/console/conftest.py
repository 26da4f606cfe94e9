"""A real server over a catalog with one of everything; those who change it get their own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lakeroot.lake import Lake
from lakeroot.server import Settings, serving
from tests.console.browsing import Browser
from tests.console.catalogs import build

IMPL = "lakeroot.DirectoryNamespace"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("console") / "lake"
    build(root)
    properties = {"root": str(root), "table_version_management": "true"}
    with serving(Settings(IMPL, properties, port=0, log_requests=False)) as url:
        yield url


@pytest.fixture
def browser(shared: str) -> Iterator[Browser]:
    with Browser(shared) as found:
        yield found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return build(tmp_path / "lake")


@pytest.fixture
def visit(lake: Lake) -> Iterator[Callable[..., Browser]]:
    """Serve the catalog of this test, with any settings, and open a browser on it."""
    with ExitStack() as stack:

        def opened(**settings: object) -> Browser:
            properties = {"root": lake.address, "table_version_management": "true"}
            chosen = Settings(IMPL, properties, port=0, log_requests=False, **settings)  # type: ignore[arg-type]
            return stack.enter_context(Browser(stack.enter_context(serving(chosen))))

        yield opened
