"""The examples of the guide, against a real catalog in place of the one it names."""

import re
from pathlib import Path

import pyarrow as pa

import lakeroot
from tests.asking import Lake
from tests.iceberg.servers import BUCKET, Weed

GUIDE = Path(__file__).parents[2] / "docs" / "iceberg.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_guide_run(catalog: Weed, tmp_path: Path) -> None:
    opening, moving = (
        block.replace("https://catalog.example.com/iceberg", catalog.catalog)
        .replace('warehouse="lake"', f'warehouse="{BUCKET}"')
        .replace("client-id:client-secret", catalog.properties["credential"])
        .replace('managed_by="impl",', 'managed_by="impl", **storage,')
        for block in BLOCK.findall(GUIDE.read_text())
    )
    storage = {k: v for k, v in catalog.properties.items() if k.startswith("storage.")}
    names = {"rows": pa.table({"id": [1]}), "storage": storage}
    exec(opening, names)
    assert Lake(names["catalog"]).tables("prod") == ["users"]
    copy = lakeroot.DirectoryNamespace(root=str(tmp_path))
    names |= {"old": names["catalog"], "new": copy}
    exec(moving.replace('into=["prod"])\n', 'into=["prod"], copy_data=True)\n'), names)
    assert Lake(copy).tables("prod") == ["users"]


def test_the_guide_names_every_property() -> None:
    from lakeroot.storage.iceberg_rest.config import _KNOWN

    told = set(re.findall(r"`([a-z0-9_.-]+)`", GUIDE.read_text()))
    assert _KNOWN - told == set()
