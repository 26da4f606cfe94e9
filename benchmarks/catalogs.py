"""Directory catalogs of a given size, and both implementations opened on them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import lance.namespace

import lakeroot
from lakeroot.storage.lance_dir.drafts import Draft
from lakeroot.storage.lance_dir.rows import NAMESPACE, TABLE_ROW, Row

TABLES_PER_NAMESPACE = 99
V2 = {"dir_listing_enabled": "false"}
PEER = "pylance"


def sizes(*, quick: bool) -> tuple[int, ...]:
    return (10, 1_000) if quick else (10, 1_000, 10_000, 100_000)


def namespace_name(number: int) -> str:
    return f"space{number:05d}"


def table_name(number: int) -> str:
    return f"table{number:05d}"


def rows(objects: int) -> Iterator[Row]:
    """Give the rows of a catalog: namespaces with 99 tables each, a little metadata everywhere."""
    for number in range(objects):
        space, place = divmod(number, TABLES_PER_NAMESPACE + 1)
        if place == 0:
            name = namespace_name(space)
            yield Row(name, NAMESPACE, None, '{"owner": "analytics"}')
        else:
            object_id = f"{namespace_name(space)}${table_name(place)}"
            yield Row(object_id, TABLE_ROW, f"{number:08x}_{object_id}", None)


@cache
def _template(objects: int) -> Path:
    root = Path(tempfile.mkdtemp(prefix="lakeroot-bench-", dir=_workspace()))
    ours = ours_at(root)
    table = ours.catalog.store.manifest
    assert table.publish(Draft({row.identifier: row for row in rows(objects)}))
    return root


@cache
def _workspace() -> str:
    import atexit

    directory = tempfile.mkdtemp(prefix="lakeroot-benchmarks-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def catalog(objects: int) -> Iterator[Path]:
    """Give a fresh copy of a catalog with so many objects, in one data file; 0 is no catalog."""
    root = Path(tempfile.mkdtemp(prefix="catalog-", dir=_workspace()))
    try:
        if objects:
            shutil.copytree(_template(objects), root, dirs_exist_ok=True)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def ours_at(root: Path, **properties: str) -> Any:
    return lakeroot.DirectoryNamespace(root=str(root), **(V2 | properties))


def peer_at(root: Path, **properties: str) -> Any:
    return lance.namespace.DirectoryNamespace(root=str(root), **(V2 | properties))
