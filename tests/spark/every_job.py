"""The jobs on a table and its catalog, one after the other, in one session of any kind."""

from datetime import timedelta
from typing import Any

import lance_namespace
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import InvalidInputError
from lakeroot.spark import caring, distribute


def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Compute a new column."""
    return pa.record_batch({"letters": pc.utf8_length(batch["word"])})


def every_job(spark: SparkSession, root: str) -> dict[str, Any]:
    """Run them in tasks, however little there is to do; give what they said, and the rows left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribute, "SMALL", 0)
        patch.setattr(caring, "_FEWEST", 1)
        return _every_job(spark, root)


def _every_job(spark: SparkSession, root: str) -> dict[str, Any]:
    client = lakeroot.DirectoryNamespace(root=root)
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    at: dict[str, Any] = {"root": root}
    seen: dict[str, Any] = {}

    def words(start: int, end: int, word: str) -> DataFrame:
        return spark.range(start, end, 1, 2).withColumn("word", sf.lit(word))

    lakeroot.spark.write(words(0, 120, "first"), "shop.t", max_rows_per_file=15, **at)
    made = lakeroot.spark.compact(spark, "shop.t", target_rows_per_fragment=30, **at)
    seen["compact"] = [made.fragments_before, made.fragments_after, made.tasks]
    done = lakeroot.spark.merge(words(100, 130, "merged"), "shop.t", on="id", job_id="m", **at)
    again = lakeroot.spark.merge(words(100, 130, "twice"), "shop.t", on="id", job_id="m", **at)
    seen["merge"] = [done.updated, done.inserted, again.already_done]
    keys = spark.range(120, 140, 1, 2)
    gone = lakeroot.spark.merge(
        keys, "shop.t", on="id", when_matched="delete", when_not_matched="nothing", **at
    )
    seen["merge that deletes"] = [gone.deleted, gone.inserted]
    kept = lakeroot.spark.merge(
        spark.range(10, 1000, 1, 2),
        "shop.t",
        on="id",
        when_not_matched="nothing",
        when_not_matched_by_source="delete",
        **at,
    )
    seen["merge by the source"] = [kept.updated, kept.inserted, kept.deleted]
    update: dict[str, Any] = {"set": {"word": "concat(word, '!')"}, "where": "id % 2 = 0"}
    seen["update"] = lakeroot.spark.update(spark, "shop.t", **update, **at).updated
    seen["delete"] = lakeroot.spark.delete(spark, "shop.t", where="id % 10 = 3", **at).deleted
    seen["backfill"] = [
        lakeroot.spark.backfill(spark, "shop.t", values=each, job_id=job, **at).already_done
        for each, job in (({"twice": "id * 2"}, "b"), (lengths, "f"), (lengths, "f"))
    ]
    seen["index"] = lakeroot.spark.index(spark, "shop.t", column="id", kind="BTREE", **at).name
    found = lakeroot.spark.read(spark, "shop.t", filter="id = 50", **at).collect()
    seen["found"] = [list(row) for row in found]
    seen["rows"] = rows_of(root, "shop.t")
    seen["search"] = _searched(spark, at)
    seen["moved"] = _moved(spark, root, at)
    other = {"root": f"{root}-other"}
    lakeroot.spark.convert(spark, "shop.t", "copy", source=at, target=other)
    seen["copied"] = rows_of(other["root"], "copy") == seen["rows"]
    seen["refused"] = _refused(spark, root, at)
    seen["streamed"] = _upserted(spark, root, at)
    seen["findings"] = [each.code for each in lakeroot.spark.fsck(spark, grace=timedelta(0), **at)]
    seen["garbage"] = len(lakeroot.spark.gc(spark, **at).garbage)
    return seen


def rows_of(root: str, table: str) -> list[list[Any]]:
    """Read a table without Spark, in the order of its first column."""
    rows = lakeroot.open(root)[table].to_arrow()
    return sorted(list(row.values()) for row in rows.to_pylist())


def _searched(spark: SparkSession, at: dict[str, Any]) -> list[Any]:
    """Build an index of so many bytes that tasks share them, and search it."""
    values = "transform(sequence(0, 8191), x -> float(hash(id, x)))"
    vectors = spark.range(0, 300, 1, 2).selectExpr("id", f"{values} AS v")
    lakeroot.spark.write(vectors, "shop.v", vectors="v:8192", **at)
    kind: dict[str, Any] = {"column": "v", "kind": "IVF_FLAT", "partitions": 2}
    made = lakeroot.spark.index(spark, "shop.v", **kind, **at)
    wanted = vectors.where("id = 7").first()
    assert wanted is not None
    near = lakeroot.spark.read(spark, "shop.v", vector=list(wanted.v), k=1, columns=["id"], **at)
    return [made.segments, [row.id for row in near.collect()]]


def _moved(spark: SparkSession, root: str, at: dict[str, Any]) -> list[Any]:
    """Take rows out as files, and bring them in again, once."""
    place, rows = f"{root}-orc", {"format": "orc", **at}
    out = lakeroot.spark.export(spark, "shop.t", place, columns=["id", "word"], **rows)
    loads = [
        lakeroot.spark.ingest(spark, place, "shop.loaded", job_id="load", **rows) for _ in range(2)
    ]
    come = rows_of(root, "shop.loaded")
    same = come == [row[:2] for row in rows_of(root, "shop.t")]
    return [out, loads[0].rows, loads[1].already_done, same]


def _refused(spark: SparkSession, root: str, at: dict[str, Any]) -> dict[str, str]:
    """Bring in what cannot be read: no table is made of it."""
    sources: dict[str, dict[str, Any]] = {
        "missing": {"format": "orc"},
        "avro": {"format": "avro"},
        "orc": {"format": "csv", "schema": "id lng"},
    }
    said = {}
    for name, options in sources.items():
        with pytest.raises(InvalidInputError) as error:
            lakeroot.spark.ingest(spark, f"{root}-{name}", "shop.none", **options, **at)
        said[name] = str(error.value)
    assert "shop.none" not in lakeroot.open(root).tables("shop")
    return said


def _upserted(spark: SparkSession, root: str, at: dict[str, Any]) -> list[list[Any]]:
    """Let a stream merge its counts into a table, batch after batch."""

    def upsert(batch: DataFrame, _: int) -> None:
        lakeroot.spark.merge(batch, "shop.counts", on="word", **at)

    for start in (0, 30):
        rows = spark.range(start, start + 30).selectExpr("id", "string(id % 3) AS word")
        lakeroot.spark.write(rows, "shop.from", **at)
    each = {"startingVersion": "0", "maxVersionsPerTrigger": "1"}
    stream = spark.readStream.format("lakeroot").options(root=root, **each).load("shop.from")
    counts = stream.groupBy("word").count().writeStream.outputMode("update")
    counts = counts.foreachBatch(upsert).option("checkpointLocation", f"{root}-counts")
    counts.trigger(availableNow=True).start().awaitTermination()
    return rows_of(root, "shop.counts")


def check(seen: dict[str, Any]) -> None:
    """Hold what was seen against what should be."""
    assert seen["compact"] == [8, 4, 4]
    assert seen["merge"] == [20, 10, True]
    assert seen["merge that deletes"] == [10, 0]
    assert seen["merge by the source"] == [110, 0, 10]
    assert [seen["update"], seen["delete"]] == [55, 11]
    assert seen["backfill"] == [False, False, True]
    assert seen["index"] == "id_idx"
    words = {n: ("first", "merged")[n >= 100] + "!" * (n % 2 == 0) for n in range(10, 120)}
    rows = [[n, word, n * 2, len(word)] for n, word in words.items() if n % 10 != 3]
    assert seen["rows"] == rows
    assert seen["found"] == [row for row in rows if row[0] == 50]
    assert seen["search"] == [2, [7]]
    assert seen["moved"] == [99, 99, True, True]
    assert seen["copied"]
    assert "cannot be read as orc. [PATH_NOT_FOUND]" in seen["refused"]["missing"]
    assert "org.apache.spark:spark-avro_2.13:4." in seen["refused"]["avro"]
    assert 'Unsupported data type "LNG"' in seen["refused"]["orc"]
    assert seen["streamed"] == [["0", 20], ["1", 20], ["2", 20]]
    assert [seen["findings"], seen["garbage"]] == [[], 0]
