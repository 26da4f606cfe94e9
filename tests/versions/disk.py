"""The rows of a catalog as they lie on the disk, read and written without Lakeroot."""

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa


def version_rows(root: Path) -> dict[str, dict[str, Any]]:
    """Read the version rows of a catalog with pylance alone."""
    found = lance.dataset(str(root / "__manifest")).to_table().to_pylist()
    return {
        row["object_id"]: json.loads(row["metadata"])
        for row in found
        if row["object_type"] == "table_version"
    }


def table_metadata(root: Path) -> dict[str, str]:
    return dict(lance.dataset(str(root / "__manifest")).metadata)


def catalog_version(root: Path) -> int:
    return int(lance.dataset(str(root / "__manifest")).version)


def rewrite_row(root: Path, object_id: str, new_id: str, metadata: dict[str, Any]) -> None:
    """Replace a row, as another implementation would."""
    manifest = lance.dataset(str(root / "__manifest"))
    rows = manifest.to_table().to_pylist()
    for row in rows:
        if row["object_id"] == object_id:
            row["object_id"] = new_id
            row["metadata"] = json.dumps(metadata)
    lance.write_dataset(
        pa.Table.from_pylist(rows, manifest.schema), str(root / "__manifest"), mode="overwrite"
    )
