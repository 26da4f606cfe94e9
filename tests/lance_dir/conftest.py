"""A directory, and clients of it in every mode."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeroot.namespace.directory import DirectoryNamespace
from tests.asking import Lake

MODES: dict[str, dict[str, str]] = {
    "v1": {"manifest_enabled": "false"},
    "v2": {"dir_listing_enabled": "false"},
    "compat": {},
}
Opener = Callable[..., Lake]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the catalog is; nothing is there yet."""
    return tmp_path / "lake"


@pytest.fixture
def opened(root: Path) -> Opener:
    """Opens a client of the directory in a mode."""

    def open_one(mode: str = "compat", **properties: str) -> Lake:
        return Lake(DirectoryNamespace(root=str(root), **MODES[mode], **properties))

    return open_one


@pytest.fixture
def compat(opened: Opener) -> Lake:
    """A client in compatibility mode."""
    return opened("compat")


@pytest.fixture
def v1(opened: Opener) -> Lake:
    """A client that knows the directory only."""
    return opened("v1")


@pytest.fixture
def v2(opened: Opener) -> Lake:
    """A client that knows the manifest only."""
    return opened("v2")


def files(root: Path) -> dict[str, bytes]:
    """Everything on disk, to see that nothing changed."""
    return {
        str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()
    }
