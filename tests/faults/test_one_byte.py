"""One byte of any file is another: reading says what is wrong, or gives what is there.

`LAKEROOT_BYTES=2000` tries that many places of each catalog.
"""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeroot.lake import Lake
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.namespace.directory import DirectoryNamespace
from tests.faults.children import outcome
from tests.fsck.conftest import fill

PLACES = int(os.environ.get("LAKEROOT_BYTES", "40"))
INTERNAL = 18
KINDS: dict[str, Callable[[Path], Any]] = {
    "v1": lambda root: DirectoryNamespace(root=str(root), manifest_enabled="false"),
    "directory": lambda root: DirectoryNamespace(root=str(root)),
    "managed": lambda root: DirectoryNamespace(root=str(root), table_version_management="true"),
    "metastore": lambda root: DeltaCatNamespace(root=str(root)),
    "deltacat-2": lambda root: DeltaCatNamespace(root=str(root), layout="deltacat-2"),
}


def furnish(kind: str, root: Path) -> None:
    lake = Lake(KINDS[kind](root), str(root))
    if kind == "v1":
        lake.create_table("r", [{"n": 1}, {"n": 2}])
        lake.namespace.declare_table({"id": ["declared"]})
        return
    fill(lake)
    lake["air.t"].tag("first", 1)
    lake.namespace.create_table_branch({"id": ["air", "t"], "name": "side"})
    lake.namespace.create_table_scalar_index(
        {"id": ["air", "t"], "column": "n", "index_type": "BTREE"}
    )
    lake.namespace.alter_transaction(
        {
            "id": ["air", "t", lake["air.t"].dataset().read_transaction(1).uuid],
            "actions": [{"setPropertyAction": {"key": "k", "value": "v"}}],
        }
    )
    if kind in ("directory", "managed"):
        lake.create_table("dropped", [{"n": 1}])
        lake.drop_table("dropped")


def everything(lake: Lake, kind: str) -> list[Callable[[], object]]:
    """Every kind of reading."""
    namespace = lake.namespace
    ids = [["r"], ["declared"]] if kind == "v1" else [["r"], ["air", "t"], ["air", "declared"]]
    calls: list[Callable[[], object]] = [
        lambda: namespace.list_tables({"id": []}),
        *(
            lambda one=one: namespace.describe_table({"id": one, "load_detailed_metadata": True})
            for one in ids
        ),
        *(lambda one=one: namespace.list_table_versions({"id": one}) for one in ids),
    ]
    if kind == "v1":
        return calls
    calls += [
        lambda: namespace.list_namespaces({"id": []}),
        lambda: namespace.describe_namespace({"id": ["air"]}),
        lambda: namespace.list_table_tags({"id": ["air", "t"]}),
        lambda: namespace.describe_transaction({"id": ["air", "t", "1"]}),
        lambda: namespace.list_table_branches({"id": ["air", "t"]}),
        lambda: namespace.list_table_indices({"id": ["air", "t"]}),
        lake.history,
    ]
    if kind in ("directory", "managed"):
        calls.append(lake.trash)
    return calls


@pytest.mark.parametrize("kind", KINDS)
def test_one_byte_of_any_file_makes_no_reader_fail_without_saying_why(
    tmp_path: Path, kind: str
) -> None:
    template = tmp_path / "template"
    furnish(kind, template)
    chance = random.Random(kind)
    by_sort: dict[str, list[Path]] = {}
    for file in sorted(path for path in template.rglob("*") if path.is_file()):
        by_sort.setdefault(sort_of(file.relative_to(template)), []).append(file)
    refused = 0
    for turn in range(PLACES):
        files = by_sort[sorted(by_sort)[turn % len(by_sort)]]
        victim = chance.choice(files).relative_to(template)
        root = Path(shutil.copytree(template, tmp_path / "lake"))
        content = bytearray((root / victim).read_bytes())
        place = chance.randrange(len(content) + 1)
        content[place : place + 1] = bytes([chance.randrange(256)])
        (root / victim).write_bytes(content)

        for call in everything(Lake(KINDS[kind](root), str(root)), kind):
            code = outcome(call)
            assert code != INTERNAL, (victim, place, bytes(content))
            refused += code >= 0
        shutil.rmtree(root)
    assert refused


def sort_of(path: Path) -> str:
    """Tell files apart by where they lie and how they end: each sort has its turn."""
    return f"{path.parent.name if len(path.parent.name) < 12 else '*'}/{path.suffix}"
