"""Executors that are killed in the middle of jobs, and a driver that is killed before it commits.

The tasks of a write and of a merge kill the Java that runs them, once; Spark has to do them again.
"""

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import lakeroot
import lakeroot.spark
from lakeroot.spark import row_changes, write_tasks
from lakeroot.spark.row_changes import Changed, change_rows
from lakeroot.spark.write_tasks import WritePlan, Written, write_rows
from tests.spark.every_job import rows_of

FILE_ROWS = 10
JOB = "lost"
SEEN = {"written": [1, 120, 12], "merged": [2, 20, 20]}
BEFORE = ("grows", "merges", "computes")


def killed_executors(spark: SparkSession, root: str) -> dict[str, Any]:
    """Lose one executor in a write, and one in a merge."""
    lake = lakeroot.open(root)
    lake.create_namespace("shop")
    seen: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_tasks, "write_rows", partial(_dying_write, f"{root}-write"))
        small, large = words(spark, 0, 20, "old", 1), words(spark, 20, 120, "old", 1)
        done = lakeroot.spark.write(
            small.union(large), "shop.t", root=root, max_rows_per_file=FILE_ROWS
        )
        seen["written"] = [done.version, done.rows, done.files]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_changes, "change_rows", partial(_dying_merge, f"{root}-merge"))
        merged = lakeroot.spark.merge(
            words(spark, 100, 140, "new"), "shop.t", root=root, on="id", strategy="spark"
        )
        seen["merged"] = [merged.version, merged.updated, merged.inserted]
    seen["killed"] = [Path(f"{root}-{job}").exists() for job in ("write", "merge")]
    return seen


def words(spark: SparkSession, start: int, end: int, word: str, tasks: int = 2) -> DataFrame:
    """Make rows."""
    return spark.range(start, end, 1, tasks).withColumn("word", sf.lit(word))


def _dying_write(mark: str, plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write, and die once when some files are whole and others are not begun."""
    data = Path(plan.table.location.removeprefix("file://")) / "data"

    def until_some_are_whole() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, FILE_ROWS):
                if start == batch.num_rows // 2 > FILE_ROWS:
                    end = time.monotonic() + 60
                    # The other task has two.
                    while len(list(data.glob("*.lance"))) < 3:
                        assert time.monotonic() < end, "no file was finished"
                        time.sleep(0.02)
                    kill_executor(mark)
                yield batch.slice(start, FILE_ROWS)

    return write_rows(plan, until_some_are_whole())


def _dying_merge(mark: str, plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Changed:
    """Change rows, and die once when all of it is written and the driver has not heard of it."""
    done = change_rows(plan, batches)
    kill_executor(mark)
    return done


def kill_executor(mark: str) -> None:
    """Kill the Java that this worker works for, and the worker, unless somebody did it before."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return
    # Workers are forked by a daemon, which the executor has started.
    daemon = Path(f"/proc/{os.getppid()}/status").read_text()
    executor = int(daemon.partition("PPid:")[2].split()[0])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def prepared(spark: SparkSession, root: str) -> None:
    """Make the tables for jobs that will be cut off."""
    lakeroot.open(root).create_namespace("shop")
    for name in BEFORE:
        lakeroot.spark.write(words(spark, 0, 20, "old"), f"shop.{name}", root=root)


def state(root: str) -> dict[str, Any]:
    """Give the versions and the rows of the tables that were there before."""
    tables = [f"shop.{name}" for name in BEFORE]
    lake = lakeroot.open(root)
    return {name: [lake[name].version, rows_of(root, name)] for name in tables}


def jobs(spark: SparkSession, root: str) -> dict[str, Any]:
    """Give jobs by the names of their tables; each can be run again as the same job."""
    at: dict[str, Any] = {"root": root, "job_id": JOB}
    rows = words(spark, 15, 40, "new")
    merge = partial(lakeroot.spark.merge, rows, on="id", strategy="spark")
    return {
        "grows": partial(lakeroot.spark.write, rows, "shop.grows", **at),
        "begins": partial(lakeroot.spark.write, rows, "shop.begins", **at),
        "merges": partial(merge, "shop.merges", **at),
        "computes": partial(
            lakeroot.spark.backfill, spark, "shop.computes", values={"twice": "id * 2"}, **at
        ),
    }


def die_before_commits(spark: SparkSession, root: str) -> None:
    """Run them side by side, and kill this process when all have written and none has committed."""
    running = jobs(spark, root)
    ready = threading.Barrier(len(running), lambda: os.kill(os.getpid(), signal.SIGKILL))
    lance.LanceDataset.commit = lambda *_, **__: ready.wait()
    threads = [threading.Thread(target=job) for job in running.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
