"""Many writers at once: processes with distinct tables, and threads of one process."""

import multiprocessing
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lance_namespace import DeclareTableRequest, LanceNamespaceError, ListTablesRequest

from benchmarks import catalogs
from benchmarks.catalogs import catalog, namespace_name, ours_at, peer_at
from benchmarks.report import HIGHER, Row, size_label

TITLE = "Writers at the same time"
PEER = catalogs.PEER
PROCESSES = 8
THREADS = 64
OPENERS = {"ours": ours_at, "peer": peer_at}


def run(*, quick: bool) -> Iterable[Row]:
    seconds = 1.0 if quick else 4.0
    for objects in (1_000,) if quick else (1_000, 100_000):
        yield from _processes(objects, seconds, quick=quick)
        yield from _threads(objects, seconds)


def _processes(objects: int, seconds: float, *, quick: bool) -> Iterable[Row]:
    """Declare from eight processes; two turns for each side, in turns."""
    rates: dict[str, list[float]] = {side: [] for side in OPENERS}
    fewest: dict[str, int] = {}
    failures = dict.fromkeys(OPENERS, 0)
    for _ in range(1 if quick else 2):
        for side in OPENERS:
            with catalog(objects) as root:
                outcomes = _race(side, root, seconds)
                done = [len(names) for names, _, _ in outcomes]
                _require_all_present(root, [name for names, _, _ in outcomes for name in names])
                rates[side].append(sum(len(names) / taken for names, _, taken in outcomes))
                fewest[side] = min(fewest.get(side, done[0]), *done)
                failures[side] += sum(failed for _, failed, _ in outcomes)
    note = (
        f"all present; fewest by one process {fewest['ours']} : {fewest['peer']}; "
        f"failed calls {failures['ours']} : {failures['peer']}"
    )
    best = max(rates["ours"]), max(rates["peer"])
    yield Row(
        f"declares by {PROCESSES} processes",
        size_label(objects),
        *best,
        unit="/s",
        bar=5.0,
        better=HIGHER,
        note=note,
    )


def _race(side: str, root: Path, seconds: float) -> list[tuple[list[str], int, float]]:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        start = manager.Barrier(PROCESSES)
        arguments = [(side, str(root), worker, start, seconds) for worker in range(PROCESSES)]
        with context.Pool(PROCESSES) as pool:
            return pool.starmap(_declare_for, arguments, chunksize=1)


def _declare_for(
    side: str, root: str, worker: int, start: Any, seconds: float
) -> tuple[list[str], int, float]:
    namespace = OPENERS[side](Path(root))
    namespace.list_tables(ListTablesRequest(id=[namespace_name(0)], limit=1))
    start.wait()
    begun = time.perf_counter()
    names: list[str] = []
    failed = serial = 0
    while time.perf_counter() - begun < seconds:
        name = f"made-{worker}-{serial}"
        serial += 1
        try:
            namespace.declare_table(DeclareTableRequest(id=[namespace_name(0), name]))
            names.append(name)
        except LanceNamespaceError:
            failed += 1
    return names, failed, time.perf_counter() - begun


def _threads(objects: int, seconds: float) -> Iterable[Row]:
    rates: dict[str, float] = {}
    for side, opener in OPENERS.items():
        with catalog(objects) as root:
            namespace = opener(root)
            begun = time.perf_counter()
            until = begun + seconds

            def work(worker: int, namespace: Any = namespace, until: float = until) -> list[str]:
                names: list[str] = []
                while time.perf_counter() < until:
                    name = f"made-{worker}-{len(names)}"
                    namespace.declare_table(DeclareTableRequest(id=[namespace_name(0), name]))
                    names.append(name)
                return names

            # The peer has no group commit and loses races against itself, so it gets the number
            # of threads that it does best with: one.
            threads = THREADS if side == "ours" else 1
            with ThreadPoolExecutor(threads) as pool:
                made = [name for names in pool.map(work, range(threads)) for name in names]
            rates[side] = len(made) / (time.perf_counter() - begun)
            _require_all_present(root, made)
    yield Row(
        f"declares by {THREADS} threads of one process (peer: 1 thread)",
        size_label(objects),
        rates["ours"],
        rates["peer"],
        unit="/s",
        bar=20.0,
        better=HIGHER,
        note="all present",
    )


def _require_all_present(root: Path, names: list[str]) -> None:
    found = set(peer_at(root).list_tables(ListTablesRequest(id=[namespace_name(0)])).tables)
    missing = set(names) - found
    assert not missing, f"{len(missing)} acknowledged tables are not there"
