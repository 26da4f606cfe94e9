"""The metastore on a real S3: the same promises, with conditional puts over the network."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest

import lakeroot
from lakeroot.metastore import Metastore
from lakeroot.metastore.data import TableWriter, read_rows
from tests.s3 import S3

from .conftest import append, urls, with_table
from .test_rows import KEYED, change, row, rows, table_in

pytestmark = pytest.mark.xdist_group("s3")


def test_writers_on_s3_lose_no_append(s3: S3, layout: str) -> None:
    root = s3.new_root()
    with_table(Metastore.open(root, s3.options, layout=layout))

    def work(writer: int) -> None:
        metastore = Metastore.open(root, s3.options)
        for number in range(4):
            append(metastore, f"data/{writer}-{number}.pq")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))

    found = urls(Metastore.open(root, s3.options))
    assert set(found) == {f"data/{w}-{n}.pq" for w in range(3) for n in range(4)}
    assert len(found) == 12


def test_rows_on_s3_are_merged_and_vacuumed(s3: S3, layout: str) -> None:
    metastore = Metastore.open(s3.new_root(), s3.options, layout=layout)
    table_in(metastore, KEYED)
    for number in range(3):
        change(metastore, "upsert", [row(1, "x", number), row(number, "y", number)])
    expected = rows(metastore)
    time.sleep(1.5)  # S3 tells the time in whole seconds, and only what is older may go
    done = metastore.vacuum(retention_ms=0)

    assert len(done.data) == 2
    assert rows(metastore) == expected
    with metastore.transaction() as txn:
        TableWriter(txn, "n", "t").delete([{"a": 1, "b": "x"}])
    assert read_rows(metastore.view(), "n", "t").num_rows == 3


def test_lance_tables_on_s3_are_written_through_the_catalog(s3: S3) -> None:
    catalog: Any = lakeroot.DeltaCatNamespace(root=s3.new_root(), **s3.properties)
    catalog.create_namespace(CreateNamespaceRequest(id=["ml"]))
    some = pa.table({"id": [1, 2]})
    lance.write_dataset(some, namespace_client=catalog, table_id=["ml", "t"])
    lance.write_dataset(some, namespace_client=catalog, table_id=["ml", "t"], mode="append")

    assert lance.dataset(namespace_client=catalog, table_id=["ml", "t"]).count_rows() == 4
