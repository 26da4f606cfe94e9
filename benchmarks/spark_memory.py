"""Spark: a table ten times as large as the memory of the executor, through every job."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lakeroot.spark
from benchmarks.report import Row
from lakeroot import DirectoryNamespace
from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.schemes import PartitionKey, PartitionScheme, Transform

TITLE = "Spark: a table ten times as large as the executor's memory"
PEER = "the table"
_HEAP_MB = 512
_ROW_BYTES = 4096


def run(*, quick: bool) -> Iterator[Row]:
    size = _HEAP_MB * (1 if quick else 10)
    with tempfile.TemporaryDirectory() as directory:
        # A process of its own: a session keeps the memory that it was started with.
        command = [sys.executable, "-m", "benchmarks.spark_memory", str(size), directory]
        done = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert done.stdout is not None
        for text in done.stdout:
            if text.startswith("{"):
                each = json.loads(text)
                note = f"passed in {each['seconds']:.0f} s; JVM {each['jvm']} MB at most"
                label = f"{size} MB, heap {_HEAP_MB} MB"
                yield Row(each["job"], label, each["worker"], size, "MB", None, note=note)
        if done.wait():
            raise AssertionError("a job did not pass")


def _jobs(spark: Any, root: str, directory: Path) -> dict[str, Callable[[], Any]]:
    from lakeroot import spark as on
    from lakeroot.spark import metastore as deltas

    where: dict[str, Any] = {"root": root}
    there = _metastore(str(directory / "metastore"))
    rows = on.read(spark, "t", **where)
    changed = rows.where("id % 3 = 0").selectExpr("id", "k + 1 AS k", "body")
    parquet = str(directory / "out")

    def streamed() -> None:
        stream = spark.readStream.format("lakeroot").options(**where).load("t")
        writer = stream.writeStream.format("lakeroot").options(**where)
        writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
        writer.trigger(availableNow=True).start("streamed").awaitTermination()

    def lengths(batch: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        return pa.record_batch([pc.binary_length(batch.column("body"))], names=["length"])

    return {
        "scan": lambda: rows.selectExpr("sum(k)", "sum(length(body))").collect(),
        "write (a copy)": lambda: on.write(rows, "copy", **where),
        "merge a third": lambda: on.merge(changed, "copy", on="id", strategy="spark", **where),
        "update by predicate": lambda: on.update(
            spark, "copy", set={"k": "k * 2"}, where="id % 7 = 1", **where
        ),
        "delete by predicate": lambda: on.delete(spark, "copy", where="id % 5 = 2", **where),
        "update by keys": lambda: on.merge(
            changed.select("id", "k"), "copy", on="id", when_not_matched="nothing", **where
        ),
        "delete by keys": lambda: on.merge(
            rows.where("id % 4 = 1").select("id"),
            "copy",
            on="id",
            when_matched="delete",
            when_not_matched="nothing",
            **where,
        ),
        "compact": lambda: on.compact(spark, "copy", **where),
        "backfill by a function": lambda: on.backfill(
            spark, "t", values=lengths, reads=["body"], job_id="lengths", **where
        ),
        "index": lambda: on.index(spark, "t", column="id", kind="BTREE", **where),
        "stream": streamed,
        "convert to another catalog": lambda: on.convert(
            spark, "t", "t", source=where, target={"root": str(directory / "other")}
        ),
        "export to Parquet": lambda: on.export(spark, "t", parquet, format="parquet", **where),
        "ingest Parquet": lambda: on.ingest(spark, parquet, "ingested", **where),
        "fsck": lambda: on.fsck(spark, **where),
        "gc": lambda: on.gc(spark, **where),
        "metastore: upsert all": lambda: deltas.upsert(rows, "n.t", **there),
        "metastore: upsert a third": lambda: deltas.upsert(changed, "n.t", **there),
        "metastore: delete a quarter": lambda: deltas.delete(
            rows.where("id % 4 = 1").select("id"), "n.t", **there
        ),
        "metastore: scan": lambda: (
            deltas.read(spark, "n.t", **there).selectExpr("sum(k)", "sum(length(body))").collect()
        ),
        "metastore: append": lambda: deltas.append(rows, "n.plain", **there),
        "metastore: append a third": lambda: deltas.append(changed, "n.plain", **there),
        "metastore: compact": lambda: deltas.compact(spark, "n.plain", **there),
        "metastore: replace": lambda: deltas.replace(rows, "n.plain", **there),
    }


def _discards(root: str, directory: Path) -> dict[str, Callable[[], Any]]:
    """Say what nobody needs any more after some jobs: all of it together fills a disk."""

    def drop(table: str) -> None:
        DirectoryNamespace(root=root).drop_table({"id": [table]})

    def vacuum() -> None:
        Metastore.open(str(directory / "metastore")).vacuum(retention_ms=0)

    deltas = ("upsert all", "upsert a third", "delete a quarter", "append a third", "compact")
    return {
        "convert to another catalog": lambda: shutil.rmtree(directory / "other"),
        "export to Parquet": lambda: drop("streamed"),
        "ingest Parquet": lambda: drop("ingested"),
        "fsck": lambda: shutil.rmtree(directory / "out"),
        "gc": lambda: drop("copy"),
        **{f"metastore: {job}": vacuum for job in deltas},
    }


def _metastore(root: str) -> dict[str, Any]:
    """Make two tables of a metastore in buckets, because a task holds one partition."""
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("body", pa.binary())])
    buckets = Transform("bucket", {"numBuckets": 64})
    scheme = PartitionScheme((PartitionKey(("id",), buckets),), "by id", "by-id")
    with Metastore.open(root).transaction() as txn:
        txn.create_namespace("n")
        keyed = schema_of(schema, merge_keys=["id"])
        txn.create_table("n", "t", schema=keyed, partition_scheme=scheme)
        txn.create_table("n", "plain", schema=schema_of(schema), partition_scheme=scheme)
    return {"root": root}


def _make(root: str, size: int) -> None:
    """Write the table with pylance: bytes at random, so that they stay as large in files."""
    rows = size * (1 << 20) // _ROW_BYTES
    step = 16_384

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, step):
            count = min(step, rows - start)
            ids = pa.array(np.arange(start, start + count))
            offsets = pa.array(np.arange(count + 1, dtype=np.int32) * _ROW_BYTES)
            data = pa.py_buffer(os.urandom(count * _ROW_BYTES))
            body = pa.Array.from_buffers(pa.binary(), count, [None, offsets.buffers()[1], data])
            yield pa.record_batch([ids, ids, body], names=["id", "k", "body"])

    import lance_namespace as ln

    client = ln.connect("lakeroot.DirectoryNamespace", {"root": root})
    location = client.declare_table(ln.DeclareTableRequest(id=["t"])).location
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("body", pa.binary())])
    lance.write_dataset(batches(), location, schema, mode="overwrite", max_rows_per_file=rows // 8)


class _Peaks:
    """The largest resident sizes of the JVM and of one Python worker, seen while a job runs."""

    def __init__(self, jvm: int) -> None:
        self.jvm_process = jvm
        self.jvm = self.worker = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Peaks":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.jvm = max(self.jvm, _resident(self.jvm_process))
            workers = (_resident(one) for one in _below(self.jvm_process))
            self.worker = max(self.worker, *workers, 0)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 >> 20
    except OSError:
        return 0


def _below(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task").iterdir()
        found = [int(one) for each in text for one in (each / "children").read_text().split()]
    except OSError:
        return []
    return [*found, *(one for child in found for one in _below(child))]


def _passed(size: int, directory: Path) -> None:
    root = str(directory / "lake")
    _make(root, size)
    spark: Any = lakeroot.spark.session(
        "memory",
        master="local[2]",
        config={"spark.driver.memory": f"{_HEAP_MB}m", "spark.local.dir": str(directory)},
    )
    spark.sparkContext.setLogLevel("OFF")
    process = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    discards = _discards(root, directory)
    for name, job in _jobs(spark, root, directory).items():
        start = time.perf_counter()
        with _Peaks(process) as peaks:
            job()
        seconds = time.perf_counter() - start
        line = {"job": name, "seconds": seconds, "worker": peaks.worker, "jvm": peaks.jvm}
        print(json.dumps(line), flush=True)
        discards.get(name, lambda: None)()
    spark.stop()


if __name__ == "__main__":
    _passed(int(sys.argv[1]), Path(sys.argv[2]))
