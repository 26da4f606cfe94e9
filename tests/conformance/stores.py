"""Every store that promises to be a catalog, one line each, and where it is opened."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import uuid4

import lance_namespace
import pytest
from lance_namespace import CreateNamespaceRequest

from lakeroot.catalog import Catalog
from lakeroot.model import errors
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.namespace.directory import DirectoryNamespace
from lakeroot.namespace.iceberg import IcebergNamespace
from lakeroot.objects import parse_root
from lakeroot.storage.memory import MemoryStore
from tests.iceberg.under import Under
from tests.s3 import S3


@dataclass(frozen=True)
class Place:
    """Where a catalog of a test may be: a directory of its own, or a server that is running."""

    directory: Path
    s3: Callable[[], S3]
    iceberg: Callable[[], str]
    name: str = field(default_factory=lambda: uuid4().hex)


Opener = Callable[[Place], LakerootNamespace]


def _memory(place: Place) -> LakerootNamespace:
    return LakerootNamespace(Catalog(MemoryStore(parse_root(str(place.directory)))))


def _on_disk(**properties: str) -> Opener:
    return lambda place: DirectoryNamespace(root=str(place.directory / "lake"), **properties)


def _in_memory(**properties: str) -> Opener:
    return lambda place: DirectoryNamespace(root=f"memory://{place.name}", **properties)


def _in_s3(**properties: str) -> Opener:
    def opened(place: Place) -> LakerootNamespace:
        server = place.s3()
        root = f"s3://lake/{place.name}"
        return DirectoryNamespace(root=root, **server.properties, **properties)

    return opened


def _in_metastore(**properties: str) -> Opener:
    return lambda place: DeltaCatNamespace(root=str(place.directory / "lake"), **properties)


def _in_iceberg(place: Place) -> LakerootNamespace:
    """Lakeroot's own server; that of others is held to the suite in tests/iceberg."""
    return _under(IcebergNamespace(endpoint=place.iceberg(), retry_backoff="5"), place)


def _under(client: IcebergNamespace, place: Place) -> LakerootNamespace:
    """See the catalog from a namespace of its own: there are no tables at the root of Iceberg."""
    parent = f"n{place.name[:12]}"
    client.create_namespace(CreateNamespaceRequest(id=[parent], mode="ExistOk"))
    return cast("LakerootNamespace", Under(client, parent))


_V1 = {"manifest_enabled": "false"}
_V2 = {"dir_listing_enabled": "false"}

STORES: dict[str, Opener] = {
    "memory": _memory,
    "dir-v1": _on_disk(**_V1),
    "dir-v2": _on_disk(**_V2),
    "dir-compat": _on_disk(),
    "dir-v1-s3": _in_s3(**_V1),
    "dir-v2-s3": _in_s3(**_V2),
    "dir-compat-s3": _in_s3(),
    "dir-compat-memory": _in_memory(),
    "metastore": _in_metastore(),
    "metastore-deltacat-2": _in_metastore(layout="deltacat-2"),
    "iceberg": _in_iceberg,
}

# As the ecosystem says it, and as the catalog below says it.
UNSUPPORTED = (lance_namespace.UnsupportedOperationError, errors.UnsupportedOperationError)
V1 = [name for name in STORES if name.startswith("dir-v1")]
ICEBERG = ["iceberg"]
ONE_LEVEL = [name for name in STORES if name.startswith("metastore")]
has_one_level = pytest.mark.never(
    ONE_LEVEL, raises=UNSUPPORTED, reason="the storage model has one level of namespaces"
)
creates_one_by_one = pytest.mark.never(
    ICEBERG, raises=UNSUPPORTED, reason="an Iceberg catalog creates its objects one by one"
)
