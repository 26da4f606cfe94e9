"""Spark: the two scans of TPC-H, over Lance and over Parquet, same session, same answers."""

import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.spark.test_tpch import Q1, Q6

import lakeroot.spark
from benchmarks.report import Row
from benchmarks.sparks import measured, spark_and_directory

TITLE = "Spark: TPC-H"
PEER = "native Parquet"


def run(*, quick: bool) -> Iterator[Row]:
    scale = "0.1" if quick else "1"
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts"))
    with spark_and_directory() as (spark, directory):
        command = [str(program), "parquet", "-s", scale, "-T", "lineitem", "-o", str(directory)]
        subprocess.run(command, check=True, capture_output=True)
        root, written = str(directory / "lake"), str(directory / "written")
        # Both are written by the same two tasks, because the generator's one file is one task.
        rows = spark.read.parquet(str(directory / "lineitem.parquet")).repartition(2)
        lakeroot.spark.write(rows, "lineitem", root=root)
        rows.write.parquet(written)
        lakeroot.spark.use_catalog(spark, "lake", root=root)
        spark.read.parquet(written).createOrReplaceTempView("parquet_lineitem")
        for name, query in (("Q1", Q1), ("Q6", Q6)):
            ours, theirs = (
                partial(_ask, spark, query.format(lineitem=table))
                for table in ("lake.lineitem", "parquet_lineitem")
            )
            if ours() != theirs():
                raise AssertionError(f"{name} is answered differently")
            yield measured(f"TPC-H {name}, SF {scale}, SQL", ours, theirs, 3, 1.5)


def _ask(spark: Any, text: str) -> Any:
    return spark.sql(text).collect()
