"""What the tests of the metastore share."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakeroot.metastore import ManifestEntry, Metastore, manifest_of, schema_of

from .memory import MemoryObjects

GOLDEN = Path(__file__).parent.parent / "golden" / "deltacat" / "catalog.tar.gz"
SCHEMA = schema_of(pa.schema([("id", pa.int64()), ("name", pa.string())]))


@pytest.fixture(params=["spec", "deltacat-2"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.fixture
def metastore(objects: MemoryObjects, layout: str) -> Metastore:
    return Metastore(objects, layout=layout)


@pytest.fixture
def another(objects: MemoryObjects, layout: str) -> Callable[[], Metastore]:
    """Another process at the same catalog: nothing in memory is shared."""

    def opened() -> Metastore:
        own = MemoryObjects(objects.held)
        own.now_ms = objects.now_ms
        return Metastore(own, layout=layout)

    return opened


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "catalog"


def with_table(metastore: Metastore, namespace: str = "ns", table: str = "t") -> Metastore:
    with metastore.transaction("begin") as txn:
        txn.create_namespace(namespace)
        txn.create_table(namespace, table, schema=SCHEMA)
    return metastore


def append(metastore: Metastore, url: str, namespace: str = "ns", table: str = "t") -> int:
    with metastore.transaction() as txn:
        stream = txn.stream(namespace, table)
        txn.append_delta(stream, manifest_of([ManifestEntry(url)]))
    view = metastore.view()
    partition = view.find_partition(view.stream(namespace, table))
    assert partition is not None
    return partition.stream_position or 0


def urls(metastore: Metastore, namespace: str = "ns", table: str = "t") -> list[str]:
    view = metastore.view()
    partition = view.find_partition(view.stream(namespace, table))
    if partition is None:
        return []
    return [e.url for d in view.deltas(partition) if d.manifest for e in d.manifest.entries]
