"""Daft reads a Lance table through the mirror and travels in time (`make interop-daft`).

Released daft allows no Arrow as new as ours, so it has an environment of its own.
"""

import json
import os
import subprocess
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
from lance_namespace import CreateNamespaceRequest

from tests.server.processes import served

PYTHON = os.environ["LAKEROOT_DAFT_PYTHON"]
READ = """
import json, sys
import daft
from pyiceberg.catalog import load_catalog
table = load_catalog("lake", type="rest", uri=sys.argv[1]).load_table("prod.t")
now = daft.read_iceberg(table)
print(json.dumps({
    "now": now.count_rows(),
    "few": now.where(daft.col("id") > 145).sort("id").select("id", "vector").to_pydict(),
    "first": daft.read_iceberg(table, snapshot_id=1).count_rows(),
}))
"""


def rows(first: int, last: int) -> pa.Table:
    vectors = pa.array([[n, n / 2] for n in range(first, last)], pa.list_(pa.float32(), 2))
    return pa.table({"id": pa.array(range(first, last), pa.int64()), "vector": vectors})


def test_daft_reads_and_travels_in_time(tmp_path: Path) -> None:
    with served(str(tmp_path / "lake"), "--iceberg-mirror", "--log-format", "none") as server:
        rest = lance_namespace.connect("rest", {"uri": server.url})
        rest.create_namespace(CreateNamespaceRequest(id=["prod"]))
        for mode, part in (("create", rows(0, 100)), ("append", rows(100, 150))):
            lance.write_dataset(part, namespace_client=rest, table_id=["prod", "t"], mode=mode)
        lance.dataset(namespace_client=rest, table_id=["prod", "t"]).delete("id % 10 = 8")
        told = subprocess.run(
            [PYTHON, "-c", READ, f"{server.url}/iceberg"],
            stdout=subprocess.PIPE, text=True, check=True, timeout=600,
        ).stdout  # fmt: skip
    assert json.loads(told.splitlines()[-1]) == {
        "now": 135,
        "few": {"id": [146, 147, 149], "vector": [[146.0, 73.0], [147.0, 73.5], [149.0, 74.5]]},
        "first": 100,
    }
