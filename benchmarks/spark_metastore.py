"""Spark: tables of a metastore beside deltacat: the same rows, the same changes, in turns.

deltacat lives in an environment of its own; `make interop` makes it. LAKEROOT_DELTACAT_PYTHON says
where its Python is; without it only our side is measured.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.interop.deltacat.peer import DeltaCat

from benchmarks.report import Row, size_label
from benchmarks.sparks import spark_and_directory
from lakeroot.metastore import Metastore
from lakeroot.metastore.data import inferred
from lakeroot.spark import metastore as on_spark

TITLE = "Spark: metastore tables (medians of five rounds, copy-on-write as in deltacat)"
PEER = "deltacat 2.0.0.post4"
_ROUNDS = 5

# (measure, table, our verb, deltacat's verb, rows, bar). An append has none: deltacat writes rows
# that lie in its memory, and Spark has to make them and to hand them over.
_STEPS: list[tuple[str, str, str, str, int, float | None]] = [
    ("append", "plain", "append", "append", 1_000_000, None),
    ("upsert into empty", "keyed", "upsert", "merge", 1_000_000, 3.0),
    ("upsert", "keyed", "upsert", "merge", 100_000, 3.0),
    ("delete", "keyed", "delete", "delete", 1_000, 3.0),
]


def run(*, quick: bool) -> Iterator[Row]:
    scale, rounds = (100, 1) if quick else (1, _ROUNDS)
    with spark_and_directory() as (spark, directory):
        there = "LAKEROOT_DELTACAT_PYTHON" in os.environ
        peer = DeltaCat(directory / "theirs") if there else None
        try:
            yield from _measured(spark, directory, peer, scale, rounds)
        finally:
            if peer is not None:
                peer.__exit__()


def _measured(
    spark: Any, directory: Path, peer: DeltaCat | None, scale: int, rounds: int
) -> Iterator[Row]:
    mine: dict[str, list[float]] = {step[0]: [] for step in _STEPS}
    theirs: dict[str, list[float]] = {step[0]: [] for step in _STEPS}
    # The first round warms Spark and deltacat up, and does not count.
    for serial in range(rounds + 1):
        root = str(directory / f"ours-{serial}")
        _create(root)
        for table in ("plain", "keyed"):
            if peer is not None:
                peer.ask("bench", "n", f"{table}{serial}", "create", 1)
        for what, table, verb, their_verb, count, _ in _STEPS:
            size = max(count // scale, 1)
            rows = spark.range(0, size, 1, 2).selectExpr(
                "id", "concat('name-', id) AS name", "id / 7 AS x"
            )
            start = time.perf_counter()
            getattr(on_spark, verb)(rows, f"n.{table}", root=root)
            taken = time.perf_counter() - start
            other = peer and peer.ask("bench", "n", f"{table}{serial}", their_verb, size)
            if serial:
                mine[what].append(taken)
                theirs[what].append(other or 0.0)
    for what, _, _, _, count, bar in _STEPS:
        label = f"{size_label(max(count // scale, 1))} rows"
        other = median(theirs[what]) if peer is not None else None
        yield Row(what, label, median(mine[what]), other, "s", bar if peer else None)


def _create(root: str) -> None:
    sample = [{"id": 1, "name": "a", "x": 0.5}]
    with Metastore.open(root, layout="deltacat-2").transaction() as txn:
        txn.create_namespace("n")
        txn.create_table("n", "plain", schema=inferred(sample))
        txn.create_table("n", "keyed", schema=inferred(sample, ["id"]))
