"""Spark: how jobs gain from a second core, and what a micro-batch of a stream takes."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import lance

import lakeroot.spark
from benchmarks.report import Row
from benchmarks.sparks import spark_and_directory

TITLE = "Spark: jobs"
PEER = "one core"
_REPEATS = 3


def run(*, quick: bool) -> Iterator[Row]:
    # Long enough that starting tasks is not what is measured: ten seconds, and five, on one core.
    rows = 400_000 if quick else 8_000_000
    # In turns, so that the noise of the machine meets both.
    rounds = [(_job_times(1, rows), _job_times(2, rows)) for _ in range(1 if quick else 2)]
    for name in rounds[0][0]:
        one, two = (min(times[side][name] for times in rounds) for side in (0, 1))
        note = f"two cores, best of {_REPEATS * len(rounds)}"
        yield Row(name, f"{rows:,} rows", two, one, "s", bar=1.7, note=note)
    yield _micro_batch(8 if quick else 30)


def _job_times(cores: int, rows: int) -> dict[str, float]:
    """Measure in a process of its own: a session keeps the cores it was started with."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "benchmarks.spark_jobs", str(cores), str(rows), directory]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _micro_batch(count: int) -> Row:
    with spark_and_directory() as (spark, directory):
        where = {"root": str(directory / "lake")}
        for number in range(count):
            rows = spark.range(number * 1000, number * 1000 + 1000, 1, 1)
            lakeroot.spark.write(rows, "source", **where)
        one_by_one = {"startingVersion": "0", "maxVersionsPerTrigger": "1"}
        stream = spark.readStream.format("lakeroot").options(**where, **one_by_one)
        query = (
            stream.load("source")
            .writeStream.format("lakeroot")
            .options(**where, checkpointLocation=str(directory / "checkpoint"))
            .trigger(availableNow=True)
            .start("copy")
        )
        query.awaitTermination()
        # A stream runs for days; the first micro-batches are those that Java still compiles for.
        times = [each.durationMs["triggerExecution"] for each in query.recentProgress]
        times = times[min(10, count // 2) :]
    note = f"at most 300 ms, median of {len(times)} micro-batches"
    return Row("stream micro-batch, warm", "1,000 rows", median(times), 300, "ms", 1.0, note=note)


def _timed_jobs(cores: int, rows: int, directory: Path) -> dict[str, float]:
    import time

    # One task of Lance uses every core it finds, so that one core must be all there is.
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    spark: Any = lakeroot.spark.session(
        "benchmark", master=f"local[{cores}]", config={"spark.driver.memory": "4g"}
    )
    spark.sparkContext.setLogLevel("OFF")
    root = str(directory / "lake")
    data = spark.range(0, rows, 1, 8).selectExpr("id", "rand(1) AS a", "uuid() AS word")
    lakeroot.spark.write(data, "t", root=root, max_rows_per_file=rows // 8)
    lakeroot.spark.backfill(spark, "t", root=root, values={"warm": "a"}, job_id="warm")

    def hashed(batch: Any) -> Any:
        import hashlib

        import pyarrow as pa

        words = batch.column("word").to_pylist()
        digests = [hashlib.sha256(word.encode() * 8).hexdigest() for word in words]
        return pa.record_batch([pa.array(digests)], names=["digest"])

    def backfill(number: int) -> None:
        if number:
            lance.dataset(f"{root}/t.lance").drop_columns(["digest"])
        lakeroot.spark.backfill(
            spark, "t", root=root, values=hashed, reads=["word"], job_id=f"digest {number}"
        )

    def index(number: int) -> None:
        lakeroot.spark.index(spark, "t", root=root, column="word", kind="BTREE", replace=number > 0)

    jobs = {"backfill by a Python function": backfill, "index build (BTREE over strings)": index}
    times = {name: float("inf") for name in jobs}
    for number in range(_REPEATS):
        for name, job in jobs.items():
            start = time.perf_counter()
            job(number)
            times[name] = min(times[name], time.perf_counter() - start)
    spark.stop()
    return times


if __name__ == "__main__":
    print(json.dumps(_timed_jobs(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
