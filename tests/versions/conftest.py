from collections.abc import Callable
from pathlib import Path

import pytest

from lakeroot import DirectoryNamespace
from lakeroot.catalog import turns
from tests.versions.locks import FOREVER
from tests.versions.staging import make_table

Open = Callable[..., DirectoryNamespace]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def open_lake(root: Path) -> Open:
    """Open the same directory again and again, each time as another client."""

    def opened(**properties: str) -> DirectoryNamespace:
        return DirectoryNamespace(root=str(root), **properties)

    return opened


@pytest.fixture
def managed(open_lake: Open) -> DirectoryNamespace:
    return open_lake(table_version_management="true")


@pytest.fixture(params=["files decide", "catalog decides"])
def lake(request: pytest.FixtureRequest, open_lake: Open) -> DirectoryNamespace:
    """A catalog with table version management off, then on."""
    manages = request.param == "catalog decides"
    return open_lake(table_version_management=str(manages).lower())


@pytest.fixture
def table(managed: DirectoryNamespace) -> Path:
    return make_table(managed, "t") / "_versions"


@pytest.fixture
def tables(managed: DirectoryNamespace) -> DirectoryNamespace:
    make_table(managed, "a")
    make_table(managed, "b")
    return managed


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let turns last, so that a busy machine does not end them before a test has looked."""
    monkeypatch.setattr(turns, "LONGEST_TURN", FOREVER)
    monkeypatch.setattr(turns, "LONG_WORK", FOREVER)
    monkeypatch.setattr(turns, "_WRITER", FOREVER)
