"""The server takes any catalog: here the metastore, with Lance and Iceberg clients on it."""

import ssl
import urllib.request
from collections.abc import Callable
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
from lance_namespace import CreateNamespaceRequest
from pyiceberg.catalog import load_catalog

from tests.server.certificates import certificate

ROWS = pa.table({"x": pa.array([1, 2], pa.int64())})


def test_a_metastore_is_served_to_lance_and_iceberg_clients(
    start: Callable[..., str], tmp_path: Path
) -> None:
    url = start(
        impl="lakeroot.DeltaCatNamespace",
        properties={"root": str(tmp_path / "store")},
    )
    rest = lance_namespace.connect("rest", {"uri": url})
    rest.create_namespace(CreateNamespaceRequest(id=["prod"]))
    for mode in ("create", "append"):
        lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "t"], mode=mode)
    assert lance.dataset(namespace_client=rest, table_id=["prod", "t"]).count_rows() == 4
    iceberg = load_catalog("metastore", type="rest", uri=f"{url}/iceberg")
    assert iceberg.list_tables("prod") == [("prod", "t")]
    current = iceberg.load_table("prod.t").current_snapshot()
    assert current is not None
    assert current.snapshot_id == 2


def test_tls_is_spoken_with_the_files_that_are_given(
    start: Callable[..., str], tmp_path: Path
) -> None:
    public, key = certificate(tmp_path)
    url = start(host="localhost", tls_certificate=public, tls_key=key)
    assert url.startswith("https://localhost:")
    trusted = ssl.create_default_context(cafile=public)
    with urllib.request.urlopen(f"{url}/healthz", context=trusted) as answer:
        assert answer.status == 200
