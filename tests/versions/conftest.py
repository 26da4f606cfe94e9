from collections.abc import Callable
from pathlib import Path

import pytest

from lakeroot import DirectoryNamespace

Open = Callable[..., DirectoryNamespace]


@pytest.fixture
def open_lake(tmp_path: Path) -> Open:
    """Open the same directory again and again, each time as another client."""

    def opened(**properties: str) -> DirectoryNamespace:
        return DirectoryNamespace(root=str(tmp_path / "lake"), **properties)

    return opened


@pytest.fixture
def managed(open_lake: Open) -> DirectoryNamespace:
    return open_lake(table_version_management="true")


@pytest.fixture(params=["files decide", "catalog decides"])
def lake(request: pytest.FixtureRequest, open_lake: Open) -> DirectoryNamespace:
    """A catalog with table version management off, then on."""
    manages = request.param == "catalog decides"
    return open_lake(table_version_management=str(manages).lower())
