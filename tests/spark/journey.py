"""Everything a table goes through, in one session of any kind; run as a program by its tests.

The last line it prints is a JSON object of what was seen.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lance_namespace
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import lakeroot
import lakeroot.spark
from lakeroot.spark.sessions import FAST_START_FLAGS
from tests.fsck.conftest import files
from tests.spark import losses
from tests.spark.every_job import every_job

CONNECT = "connect"
CONFIG = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.executor.extraJavaOptions": FAST_START_FLAGS,
    # Executors work in directories of their own and must find the same packages there.
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
}


def opened(where: str) -> SparkSession:
    """Open a session on a master, or one of Spark Connect."""
    place = {"remote": "local[2]"} if where == CONNECT else {"master": where}
    return lakeroot.spark.session("journey", **place, fast_start=True, config=CONFIG)


def homes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say where a task works: every executor of a cluster has a directory of its own."""
    for _ in batches:
        yield pa.record_batch([pa.array([str(Path.cwd())])], names=["home"])


def journey(spark: SparkSession, root: str) -> dict[str, Any]:
    """Write, read, merge, query, delete and stream."""
    client = lakeroot.DirectoryNamespace(root=root)
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    seen: dict[str, Any] = {"session": type(spark).__module__}
    rows = spark.range(4, numPartitions=4).mapInArrow(homes, "home string").collect()
    seen["homes"] = sorted({row.home for row in rows})

    things = spark.range(0, 100, 1, 4).withColumn("word", sf.concat(sf.lit("w"), "id"))
    seen["written"] = lakeroot.spark.write(things, "shop.a", root=root).files
    more = spark.range(100, 120, 1, 2).withColumn("word", sf.lit("more"))
    more.write.format("lakeroot").option("root", root).mode("append").save("shop.a")

    read = lakeroot.spark.read(spark, "shop.a", root=root, filter="id >= 90", columns=["id"])
    seen["read"] = sorted(row.id for row in read.collect())
    source = spark.read.format("lakeroot").option("root", root).load("shop.a")
    seen["sum"] = source.where("id < 10").agg(sf.sum("id")).first()[0]

    changes = spark.range(95, 125, 1, 2).withColumn("word", sf.lit("merged"))
    merged = lakeroot.spark.merge(changes, "shop.a", root=root, on="id", strategy="spark")
    seen["merged"] = [merged.updated, merged.inserted]

    lakeroot.spark.use_catalog(spark, "lake", root=root)
    lakeroot.spark.sql(
        spark,
        "MERGE INTO lake.shop.a t USING (SELECT 0L AS id, 'zero' AS word) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET word = s.word",
    )
    counted = "SELECT word, count(*) AS n FROM lake.shop.a WHERE id IN (0, 1) OR id > 94 GROUP BY 1"
    found = lakeroot.spark.sql(spark, counted).collect()
    seen["sql"] = {row.word: row.n for row in found}

    seen["deleted"] = lakeroot.spark.delete(spark, "shop.a", root=root, where="id = 1").deleted
    by_function = "DELETE FROM lake.shop.a AS t WHERE upper(t.word) = 'W2'"
    seen["deleted by sql"] = lakeroot.spark.sql(spark, by_function).first().deleted
    seen["streamed"] = streamed(spark, root)
    return seen


def streamed(spark: SparkSession, root: str) -> int:
    """Let a stream carry one table into another."""
    rows = spark.range(0, 30, 1, 2).withColumn("word", sf.lit("s"))
    lakeroot.spark.write(rows, "shop.b", root=root)
    stream = spark.readStream.format("lakeroot").option("root", root).load("shop.b")
    sink = stream.writeStream.format("lakeroot").option("root", root)
    sink = sink.option("checkpointLocation", f"{root}-checkpoint").trigger(availableNow=True)
    sink.start("shop.c").awaitTermination()
    return int(lakeroot.spark.read(spark, "shop.c", root=root).count())


def check(seen: dict[str, Any]) -> None:
    """Hold what was seen against what should be."""
    assert seen["written"] == 4
    assert seen["read"] == list(range(90, 120))
    assert seen["sum"] == 45
    assert seen["merged"] == [25, 5]
    assert seen["sql"] == {"zero": 1, "w1": 1, "merged": 30}
    assert seen["deleted"] == 1
    assert seen["deleted by sql"] == 1
    assert seen["streamed"] == 30


def main() -> None:
    """Run the journey on a cluster, from a new catalog on, and die in the middle of jobs."""
    where, root = sys.argv[1:]
    spark, killed = opened(where), f"{root}-killed"
    try:
        seen = journey(spark, root)
        seen["jobs"] = every_job(spark, f"{root}-jobs")
        seen["lost"] = losses.killed_executors(spark, f"{root}-lost")
        losses.prepared(spark, killed)
        seen["before"] = {"state": losses.state(killed), "files": sorted(files(Path(killed)))}
        sys.stdout.write(json.dumps(seen) + "\n")
        sys.stdout.flush()
        losses.die_before_commits(spark, killed)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
