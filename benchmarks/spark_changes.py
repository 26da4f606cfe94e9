"""Spark: vectors against native Parquet, and merges against pylance's own merge_insert."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lakeroot.spark
from benchmarks.report import Row
from benchmarks.sparks import measured, spark_and_directory

TITLE = "Spark: vectors and merges"
PEER = "native Parquet, or pylance alone"
SIZE = 768


def run(*, quick: bool) -> Iterator[Row]:
    with spark_and_directory() as (spark, directory):
        yield from _vectors(spark, directory, 20_000 if quick else 200_000)
        yield from _merges(spark, directory, 1_000_000 if quick else 10_000_000)


def _vectors(spark: Any, directory: Path, rows: int) -> Iterator[Row]:
    root, parquet = str(directory / "lake"), str(directory / "vectors")
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "v": pa.FixedSizeListArray.from_arrays(
                pa.array(random.random(rows * SIZE, dtype=np.float32)), SIZE
            ),
            "image": pa.array([random.bytes(500) for _ in range(rows)], pa.binary()),
        }
    )
    lance.write_dataset(table, str(directory / "raw.lance"), max_rows_per_file=rows // 2)
    data = lakeroot.spark.read(spark, location=str(directory / "raw.lance"), partitions=2).cache()
    data.count()
    options = {"root": root, "mode": "overwrite"}
    yield measured(
        f"write {rows:,} vectors of {SIZE}, with bytes",
        lambda: lakeroot.spark.write(data, "v", **options),
        lambda: data.write.mode("overwrite").parquet(parquet),
        2,
        0.5,
    )
    data.unpersist()
    text = "sum(aggregate(v, 0D, (s, x) -> s + x))"
    yield measured(
        f"read {rows:,} vectors of {SIZE}",
        lambda: lakeroot.spark.read(spark, "v", root=root).selectExpr(text).collect(),
        lambda: spark.read.parquet(parquet).selectExpr(text).collect(),
        3,
        2.0,
    )

    yield from _nearest(spark, directory, root, table)


def _nearest(spark: Any, directory: Path, root: str, table: pa.Table) -> Iterator[Row]:
    location = str(directory / "raw.lance")
    query = table.column("v")[7].as_py()

    def ours() -> Any:
        return lakeroot.spark.read(
            spark, "v", root=root, columns=["id"], vector=query, k=10
        ).collect()

    def alone() -> Any:
        found = lance.dataset(location).to_table(
            columns=["id"], nearest={"column": "v", "q": query, "k": 10}
        )
        return found.to_pylist()

    if {row.id for row in ours()} != {row["id"] for row in alone()}:
        raise AssertionError("the nearest vectors differ")
    yield measured("10 nearest vectors, no index (beside pylance)", ours, alone, 5, 2.0)
    lakeroot.spark.index(spark, "v", root=root, column="v", kind="IVF_PQ", partitions=16)
    lance.dataset(location).create_index("v", "IVF_PQ", num_partitions=16, num_sub_vectors=48)
    yield measured("10 nearest vectors by IVF_PQ (beside pylance)", ours, alone, 7, 2.0)


def _merges(spark: Any, directory: Path, rows: int) -> Iterator[Row]:
    root = str(directory / "lake")
    changes = rows // 100
    data = spark.range(0, rows, 1, 2).selectExpr("id", "id % 7 AS k", "rand(1) AS a")
    lakeroot.spark.write(data, "m", root=root)
    source = spark.range(rows - changes // 2, rows + changes // 2).selectExpr(
        "id", "0L AS k", "1D AS a"
    )
    location = str(directory / "alone.lance")
    lance.write_dataset(
        lakeroot.spark.read(spark, "m", root=root).toArrow(), location, max_rows_per_file=rows // 2
    )
    rows_alone = source.toArrow()
    yield measured(
        f"merge {changes:,} rows into {rows:,}",
        lambda: lakeroot.spark.merge(source, "m", root=root, on="id"),
        lambda: (
            lance.dataset(location)
            .merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(rows_alone)
        ),
        3,
        1.5,
    )
