"""Rows in the metastore beside deltacat: the same million rows, the same changes, in turns.

deltacat lives in an environment of its own; `make interop` makes it. LAKEROOT_DELTACAT_PYTHON says
where its Python is; without it only our side is measured.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.interop.deltacat.peer import DeltaCat

from benchmarks.report import Row, size_label
from lakeroot.metastore import Metastore
from lakeroot.metastore.data import TableWriter, inferred, read_rows

TITLE = "Metastore: rows (medians of three rounds, copy-on-write as in deltacat)"
PEER = "deltacat 2.0.0.post4"

# What takes milliseconds is done several times in each round, or chance decides.
_REPEATS = {"append": 5, "get table": 5}

# (measure, table, our verb, deltacat's verb, rows, bar)
_STEPS = [
    ("append", "plain", "append", "append", 1_000_000, 3.0),
    ("read", "plain", "read", "read", _REPEATS["append"] * 1_000_000, None),
    ("upsert into empty", "keyed", "upsert", "merge", 1_000_000, 3.0),
    ("upsert", "keyed", "upsert", "merge", 100_000, 3.0),
    ("delete", "keyed", "delete", "delete", 1_000, 3.0),
    ("get table", "plain", "get", "get_table", 1, None),
]
_ROUNDS = 3


def run(*, quick: bool) -> Iterator[Row]:
    python = os.environ.get("LAKEROOT_DELTACAT_PYTHON")
    scale, rounds = (100, 1) if quick else (1, _ROUNDS)
    root = Path(tempfile.mkdtemp(prefix="lakeroot-bench-"))
    peer = DeltaCat(root / "theirs") if python else None
    taken: dict[str, tuple[list[float], list[float]]] = {}
    for serial in range(rounds):
        ours = Metastore.open(str(root / f"ours-{serial}"), layout="deltacat-2")
        _create(ours)
        for table in ("plain", "keyed"):
            if peer is not None:
                peer.ask("bench", "n", f"{table}{serial}", "create", 1)
        for what, table, verb, their_verb, count, _ in _STEPS:
            sides = taken.setdefault(what, ([], []))
            size = max(count // scale, 1)
            rows = _rows(size) if verb not in ("read", "get") else None
            for _ in range(_REPEATS.get(what, 1)):
                sides[0].append(_timed(ours, table, verb, rows))
                if peer is not None:
                    sides[1].append(peer.ask("bench", "n", f"{table}{serial}", their_verb, size))
    for what, _, _, _, count, bar in _STEPS:
        mine, theirs = taken[what]
        other = _median(theirs) * 1000 if theirs else None
        label = f"{size_label(max(count // scale, 1))} rows"
        yield Row(what, label, _median(mine) * 1000, other, "ms", bar if theirs else None)
    if peer is not None:
        peer.__exit__()


def _create(metastore: Metastore) -> None:
    sample = _rows(1)
    with metastore.transaction() as txn:
        txn.create_namespace("n")
        txn.create_table("n", "plain", schema=inferred(sample))
        txn.create_table("n", "keyed", schema=inferred(sample, ["id"]))


def _rows(count: int) -> Any:
    ids = list(range(count))
    return pa.table({"id": ids, "name": [f"name-{i}" for i in ids], "x": [i / 7 for i in ids]})


def _timed(metastore: Metastore, table: str, verb: str, rows: Any) -> float:
    start = time.perf_counter()
    if verb == "read":
        read_rows(metastore.view(), "n", table)
    elif verb == "get":
        metastore.view().table("n", table)
    else:
        with metastore.transaction() as txn:
            getattr(TableWriter(txn, "n", table), verb)(rows)
    return time.perf_counter() - start


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
