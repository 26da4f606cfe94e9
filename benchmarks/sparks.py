"""What the Spark benchmarks share: a session with a directory, and measuring two ways in turn."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lakeroot.spark
from benchmarks.report import Row


@contextmanager
def spark_and_directory() -> Iterator[tuple[Any, Path]]:
    """Run a session with two cores, and give it a directory that goes away with it."""
    spark = lakeroot.spark.session(
        "benchmark",
        master="local[2]",
        config={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"},
    )
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as directory:
        try:
            yield spark, Path(directory)
        finally:
            spark.stop()


def measured(
    name: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    repeats: int,
    most: float | None,
) -> Row:
    """Measure both in turn, so that the noise of the machine meets both.

    `most` is how many times the peer's wall time ours may take, if there is a bar.
    """
    ours(), theirs()
    mine: list[float] = []
    peer: list[float] = []
    for _ in range(repeats):
        for work, times in ((ours, mine), (theirs, peer)):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    mine_best, peer_best = min(mine), min(peer)
    note = f"{mine_best / peer_best:.2f}x its time"
    size = f"best of {repeats}"
    if most is None:
        return Row(name, size, mine_best, peer_best, "s", note=note)
    note = f"{note}, at most {most:g}x"
    return Row(name, size, mine_best, peer_best, "s", bar=1 / most, note=note)
