"""Catalogs to be damaged: built once, copied for every test."""

import os
import shutil
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.lake import Lake
from lakeroot.storage.lance_dir.rows import Row, arrow_table

ROWS = pa.table({"n": pa.array(range(10), pa.int64()), "word": list("abcdefghij")})


def opened(root: Path, **properties: str) -> Lake:
    return Lake(DirectoryNamespace(root=str(root), **properties), str(root))


def fill(lake: Lake) -> None:
    """Make a namespace, a table with a past, an index and a hole, a root table, a declared one."""
    lake.create_namespace("air")
    lake.create_table("air.t", ROWS)
    lake["air.t"].append(ROWS)
    lake["air.t"].delete("n = 3")
    lake.create_table("r", ROWS)
    lake.namespace.declare_table({"id": ["air", "declared"]})


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "lake"
    fill(opened(root))
    lance.dataset(str(directory(root, "air$t"))).create_scalar_index("n", "BTREE")
    return root


@pytest.fixture(scope="session")
def managed_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("managed") / "lake"
    fill(opened(root, table_version_management="true"))
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "lake"))


@pytest.fixture
def managed(managed_template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(managed_template, tmp_path / "managed"))


def directory(root: Path, object_id: str) -> Path:
    """Find the V2 directory of a table."""
    (found,) = root.glob(f"????????_{object_id}")
    return found


def add_rows(root: Path, *rows: Row) -> None:
    """Append rows as a careless client does."""
    lance.write_dataset(arrow_table(rows), str(root / "__manifest"), mode="append")


def newest(place: Path) -> Path:
    """Give the newest version file of a Lance table."""
    return min((place / "_versions").glob("*.manifest"))


def make_old(root: Path, days: float = 10) -> None:
    """Let everything look as if nobody had touched it for days."""
    then = time.time() - days * 24 * 60 * 60
    for path in root.rglob("*"):
        os.utime(path, (then, then))


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def codes(lake: Lake) -> list[str]:
    return sorted(one.code for one in lake.check())
