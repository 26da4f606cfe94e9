"""The catalogs whose histories are judged, and how any process opens one."""

from dataclasses import dataclass
from typing import Any

import lance_namespace

from lakeroot.catalog import Catalog
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.namespace.directory import DirectoryNamespace
from lakeroot.namespace.iceberg import IcebergNamespace
from lakeroot.objects import parse_root
from lakeroot.storage.memory import MemoryStore


@dataclass(frozen=True)
class Kind:
    """A kind of catalog, and what its format leaves out."""

    properties: tuple[tuple[str, str], ...] = ()
    is_flat: bool = False
    has_batches: bool = True
    overwrites: bool = True
    """Namespaces are replaced in one step."""


KINDS: dict[str, Kind] = {
    "memory": Kind(),
    "dir-v1": Kind(
        (("manifest_enabled", "false"),), is_flat=True, has_batches=False, overwrites=False
    ),
    "dir-v2": Kind((("dir_listing_enabled", "false"),)),
    "dir-compat": Kind(),
    "dir-managed": Kind((("table_version_management", "true"),)),
    "metastore": Kind(),
    "metastore-deltacat-2": Kind((("layout", "deltacat-2"),)),
    "server": Kind(),
    "iceberg": Kind(has_batches=False, overwrites=False),
}


def opened(kind: str, where: str) -> Any:
    """Open a catalog: a directory, or the address of a server."""
    properties = dict(KINDS[kind].properties)
    if kind == "memory":
        return LakerootNamespace(Catalog(MemoryStore(parse_root(where))))
    if kind == "server":
        return lance_namespace.connect("rest", {"uri": where})
    if kind == "iceberg":
        return IcebergNamespace(endpoint=f"{where}/iceberg", retry_backoff="5")
    if kind.startswith("metastore"):
        return DeltaCatNamespace(root=where, **properties)
    return DirectoryNamespace(root=where, **properties)
