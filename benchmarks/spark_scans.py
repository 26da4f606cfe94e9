"""Spark scans, writes and merges of Lance tables against Spark's own Parquet, same session."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lakeroot.spark
from benchmarks.report import Row
from benchmarks.sparks import measured, spark_and_directory

TITLE = "Spark: Lance through Lakeroot"
PEER = "native Parquet"


def run(*, quick: bool) -> Iterator[Row]:
    rows = 1_000_000 if quick else 10_000_000
    repeats = 3 if quick else 5
    with spark_and_directory() as (spark, directory):
        yield from _measure(spark, directory, rows, repeats)


def _measure(spark: Any, directory: Path, rows: int, repeats: int) -> Iterator[Row]:
    root, parquet = str(directory / "lake"), str(directory / "parquet")
    data = spark.range(0, rows, 1, 2).selectExpr(
        "id",
        "id % 1000 AS k",
        "rand(1) AS a",
        "rand(2) AS b",
        "concat('name', id % 5000) AS name",
        "int(id % 7) AS day",
        "id % 3 = 0 AS flag",
    )
    options = {"root": root, "mode": "overwrite", "max_rows_per_file": rows // 2}
    yield measured(
        f"write {rows:,} rows of 7 columns",
        lambda: lakeroot.spark.write(data, "t", **options),
        lambda: data.write.mode("overwrite").parquet(parquet),
        max(2, repeats - 2),
        1.4,
    )
    lakeroot.spark.use_catalog(spark, "lake", root=root)
    spark.read.parquet(parquet).createOrReplaceTempView("parquet_t")
    queries = {
        "all columns": ("SELECT sum(hash(*)) FROM {}", 1.5),
        "one column of seven": ("SELECT sum(a) FROM {}", 2.0),
        "filter 0.1 %": ("SELECT sum(a), max(name) FROM {} WHERE k = 7", 1.5),
        "count(*)": ("SELECT count(*) FROM {}", 1.2),
        "group by string": ("SELECT name, sum(a) FROM {} GROUP BY name", 2.5),
    }
    for name, (text, most) in queries.items():
        ours, theirs = (
            partial(_ask, spark, text.format(table)) for table in ("lake.t", "parquet_t")
        )
        yield measured(f"{name}, SQL", ours, theirs, repeats, most)
    yield from _frames(spark, root, parquet, repeats)
    lakeroot.spark.index(spark, "t", root=root, column="id", kind="BTREE")
    key = rows // 3
    yield measured(
        "point lookup by an indexed key, SQL",
        lambda: spark.sql(f"SELECT * FROM lake.t WHERE id = {key}").collect(),
        lambda: spark.sql(f"SELECT * FROM parquet_t WHERE id = {key}").collect(),
        repeats,
        0.2,
    )


def _ask(spark: Any, text: str) -> Any:
    return spark.sql(text).collect()


def _frames(spark: Any, root: str, parquet: str, repeats: int) -> Iterator[Row]:
    def ours(**options: Any) -> Any:
        return lakeroot.spark.read(spark, "t", root=root, **options)

    yield measured(
        "one column of seven, DataFrame",
        lambda: ours(columns=["a"]).selectExpr("sum(a)").collect(),
        lambda: spark.read.parquet(parquet).selectExpr("sum(a)").collect(),
        repeats,
        2.0,
    )
    yield measured(
        "filter 0.1 %, DataFrame",
        lambda: (
            ours(columns=["a", "name"], filter="k = 7").selectExpr("sum(a)", "max(name)").collect()
        ),
        lambda: (
            spark.read.parquet(parquet).where("k = 7").selectExpr("sum(a)", "max(name)").collect()
        ),
        repeats,
        1.5,
    )
