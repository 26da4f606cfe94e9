"""Spark: vectors against native Parquet, and merges against pylance's own merge_insert."""

import shutil
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

    yield from _nearest(spark, root, table)


def _nearest(spark: Any, root: str, table: pa.Table) -> Iterator[Row]:
    # The very files of our table: another layout of the same rows can take twice as long.
    location = f"{root}/v.lance"
    query = table.column("v")[7].as_py()

    def ours() -> Any:
        found = lakeroot.spark.read(spark, "v", root=root, columns=["id"], vector=query, k=10)
        return [row.id for row in found.collect()]

    def searched(dataset: lance.LanceDataset) -> Any:
        found = dataset.to_table(
            columns=["id", "_distance"], nearest={"column": "v", "q": query, "k": 10}
        )
        return [row["id"] for row in found.to_pylist()]

    def alone() -> Any:
        return searched(lance.dataset(location))

    def measures(how: str, repeats: int) -> Iterator[Row]:
        # Kept open, it reads no index again, and does not see what others have committed.
        kept = lance.dataset(location)
        if not set(ours()) == set(alone()) == set(searched(kept)):
            raise AssertionError("the nearest vectors differ")
        name = f"10 nearest vectors{how}"
        yield measured(f"{name}, beside pylance opening the table", ours, alone, repeats, 2.0)
        yield measured(
            f"{name}, beside pylance with the table open",
            ours,
            lambda: searched(kept),
            repeats,
            2.0,
        )

    yield from measures(", no index", 5)
    lakeroot.spark.index(spark, "v", root=root, column="v", kind="IVF_PQ", partitions=16)
    yield from measures(" by IVF_PQ", 15)


def _merges(spark: Any, directory: Path, rows: int) -> Iterator[Row]:
    root = str(directory / "lake")
    changes = rows // 100
    data = spark.range(0, rows, 1, 2).selectExpr("id", "id % 7 AS k", "rand(1) AS a")
    lakeroot.spark.write(data, "m", root=root)
    source = spark.range(rows - changes // 2, rows + changes // 2).selectExpr(
        "id", "0L AS k", "1D AS a"
    )
    # As many keys in no order and all over the table, where no range of keys leaves any out.
    scattered = spark.range(0, changes, 1, 2).selectExpr(
        f"id * 104729 % {rows} AS id", "0L AS k", "1D AS a"
    )
    name = f"merge {changes:,} rows into {rows:,}"
    yield _merge(f"{name}, new keys and the newest", source, directory)
    yield _merge(f"{name}, keys in no order", scattered, directory)


def _merge(name: str, source: Any, directory: Path) -> Row:
    root, location = str(directory / "lake"), str(directory / "alone.lance")
    # A copy of the files, because the layout of a table decides how fast its keys are read.
    shutil.copytree(f"{root}/m.lance", location)
    rows_alone = source.toArrow()
    row = measured(
        name,
        lambda: lakeroot.spark.merge(source, "m", root=root, on="id"),
        lambda: (
            lance.dataset(location)
            .merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(rows_alone)
        ),
        5,
        1.5,
    )
    shutil.rmtree(location)
    return row
