"""One directory, two implementations: ours and pylance's own (the reference)."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from lance.namespace import DirectoryNamespace as Reference

from lakeroot.namespace.directory import DirectoryNamespace
from tests.asking import Lake

# What the reference calls its modes, beside ours. `migration` makes it read root tables as the
# specification says: the manifest first, then the directory.
MODES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "v1": ({"manifest_enabled": "false"}, {"manifest_enabled": "false"}),
    "v2": ({"dir_listing_enabled": "false"}, {"dir_listing_enabled": "false"}),
    "compat": ({}, {}),
    "migration": ({}, {"dir_listing_to_manifest_migration_enabled": "true"}),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def ours(root: Path) -> Callable[..., Lake]:
    """Opens our client in a mode."""
    return lambda mode="compat", **more: Lake(
        DirectoryNamespace(root=str(root), **MODES[mode][0], **more)
    )


@pytest.fixture
def theirs(root: Path) -> Callable[..., Lake]:
    """Opens the reference in a mode."""
    return lambda mode="compat", **more: Lake(Reference(root=str(root), **MODES[mode][1], **more))


def manifest_rows(root: Path) -> list[dict[str, Any]]:
    """Read `__manifest` the way any Lance client does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows: list[dict[str, Any]] = lance.dataset(str(root / "__manifest")).to_table().to_pylist()
    return rows


def object_ids(root: Path) -> list[str]:
    """Give the ids of every row, refusing that one is there twice."""
    found = sorted(row["object_id"] for row in manifest_rows(root))
    assert len(found) == len(set(found)), found
    return found
