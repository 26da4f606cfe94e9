"""The same catalog in every kind that has versions of tables: who decides, and where it is kept."""

from collections.abc import Callable
from pathlib import Path

import lance

from lakeroot import DeltaCatNamespace, DirectoryNamespace
from lakeroot.namespace.caring import CaredNamespace
from tests.versions.staging import ROWS

Opened = Callable[[], CaredNamespace]
KINDS = ("files decide", "catalog decides", "metastore")
MANAGED = KINDS[1:]


def opener(kind: str, root: Path) -> Opened:
    """Open a catalog of a kind again and again, each time as another client."""
    if kind == "metastore":
        return lambda: DeltaCatNamespace(root=str(root))
    manages = str(kind == "catalog decides").lower()
    return lambda: DirectoryNamespace(root=str(root), table_version_management=manages)


def append(catalog: CaredNamespace, *name: str) -> None:
    """Add three rows through the catalog."""
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=list(name), mode="append")


def place_of(catalog: CaredNamespace, *name: str) -> Path:
    return Path(str(catalog.describe_table({"id": list(name)}).location))


def delete(catalog: CaredNamespace, start: int, end: int, name: str = "t") -> int:
    ranges = [{"start_version": start, "end_version": end}]
    return int(
        catalog.batch_delete_table_versions({"id": [name], "ranges": ranges})["deleted_count"]
    )
