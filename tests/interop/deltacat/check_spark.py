"""What Spark writes into a metastore in deltacat's layout, released deltacat reads.

Run by `make interop`; the name of this file keeps it out of `make test`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeroot.spark
from lakeroot.metastore import Metastore
from lakeroot.metastore.data import inferred, read_rows
from lakeroot.spark import metastore as on_spark

from .peer import DeltaCat

SAMPLE = [{"id": 1, "name": "ann"}]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = lakeroot.spark.session(
        "interop",
        master="local[2]",
        fast_start=True,
        config={"spark.sql.shuffle.partitions": "2"},
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def by_id(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["name"]) for row in rows)


def test_deltacat_reads_what_spark_has_appended_upserted_and_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = str(tmp_path / "catalog")
    store = Metastore.open(root, layout="deltacat-2")
    with store.transaction() as txn:
        txn.create_namespace("n")
        txn.create_table("n", "plain", schema=inferred(SAMPLE))
        txn.create_table("n", "keyed", schema=inferred(SAMPLE, ["id"]))
    first = spark.range(0, 1000, 1, 2).selectExpr("id", "concat('n', id) AS name")
    on_spark.append(first, "n.plain", root=root, job_id="first")
    on_spark.upsert(first, "n.keyed", root=root)
    changed = spark.range(990, 1010, 1, 2).selectExpr("id", "'new' AS name")
    on_spark.upsert(changed, "n.keyed", root=root, job_id="changed")
    on_spark.delete(spark.range(5).selectExpr("id"), "n.keyed", root=root)

    names = {number: f"n{number}" for number in range(1000)}
    kept = names | dict.fromkeys(range(990, 1010), "new")
    expected = {"plain": names, "keyed": {n: name for n, name in kept.items() if n >= 5}}
    with DeltaCat(Path(root)) as peer:
        for table, rows in expected.items():
            assert by_id(peer.ask("read", "n", table)) == sorted(rows.items())
            ours = read_rows(Metastore.open(root).view(), "n", table).to_pylist()
            assert by_id(ours) == sorted(rows.items())
