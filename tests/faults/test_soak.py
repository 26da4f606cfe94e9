"""A catalog that is used for long while its writers are killed: nothing is lost, nothing grows.

A few seconds here; `LAKEROOT_SOAK_SECONDS=3600` makes an hour of it, and with `pytest -s` each
eighth of it is reported. Who takes the place of a writer that was killed drops what that one has
left, so the catalog stays as large as it was, and what still grows is a leak.

A metastore remembers every change until it is older than the history that is kept, so there an
operator collects garbage meanwhile, and keeps a minute of each hour.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from lakeroot.lake import Lake
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.namespace.directory import DirectoryNamespace

SECONDS = float(os.environ.get("LAKEROOT_SOAK_SECONDS", "5"))
SLICES = 8
WRITERS = 2
KEPT = 16
"""How many tables each writer leaves alone at most."""
PAUSE = 0.02
"""How long a writer rests before each change: an hour as fast as it can is millions of files."""
HISTORY = timedelta(seconds=SECONDS / 60)
"""How much of its past a catalog keeps that has to be collected."""
LONG_SECONDS = 600
"""From here on there are enough listings to compare what they cost."""
ROOM_MB = 64
"""Allocators and caches settle during the first rounds; a leak grows with every commit."""

STORES = {True: ("lance_dir", "LanceDirStore"), False: ("deltacat", "DeltaCatStore")}
WRITER = """
import sys, time
from lakeroot.catalog import Catalog
from lakeroot.objects import parse_root
from lakeroot.storage.{module} import {store}
catalog = Catalog({store}(parse_root(sys.argv[1])))
from lakeroot.model.errors import TableNotFoundError

def drop(name, may_be_gone=False):
    time.sleep({pause})
    print("dropping", name, flush=True)
    try:
        catalog.drop_table(("soak", name))
    except TableNotFoundError:
        if not may_be_gone:
            raise
    print("dropped", name, flush=True)

name, number, kept = sys.argv[2], 0, []
for left in sys.argv[3:]:
    drop(left, may_be_gone=True)
while True:
    number += 1
    table = name + "-" + str(number)
    time.sleep({pause})
    print("declaring", table, flush=True)
    catalog.declare_table(("soak", table))
    print("declared", table, flush=True)
    if number % 4:
        drop(table)
    else:
        kept.append(table)
    if len(kept) > {kept}:
        drop(kept.pop(0))
"""

COLLECTOR = """
import sys
from datetime import timedelta
from lakeroot.namespace.deltacat import DeltaCatNamespace
DeltaCatNamespace(root=sys.argv[1]).gc(timedelta(seconds=float(sys.argv[2])))
"""


class Writer:
    """A process that declares and drops tables, says so, and is killed at some moment."""

    def __init__(self, root: Path, kind: type, name: str, left: Iterable[str] = ()) -> None:
        module, store = STORES[kind is DirectoryNamespace]
        code = WRITER.format(module=module, store=store, kept=KEPT, pause=PAUSE)
        command = [sys.executable, "-c", code, str(root), name, *sorted(left)]
        self.name = name
        self.left = set(left)
        self.said = root.with_name(f"{name}.txt")
        with self.said.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out)

    def killed(self) -> list[tuple[str, str]]:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        lines = self.said.read_text().splitlines()
        self.said.unlink()
        return [(verb, name) for verb, _, name in (line.partition(" ") for line in lines) if name]


class Collector:
    """What an operator does meanwhile, in a process of its own, one after the other."""

    def __init__(self, root: Path) -> None:
        history = str(HISTORY.total_seconds())
        self._command = [sys.executable, "-c", COLLECTOR, str(root), history]
        self._process: subprocess.Popen[bytes] | None = None
        self._due = time.monotonic()
        self.runs = 0

    def go_on(self) -> None:
        """Begin to collect when it is time, unless it is still being done."""
        is_busy = self._process is not None and self._process.poll() is None
        if not is_busy and time.monotonic() >= self._due:
            self.end()
            self._process = subprocess.Popen(self._command)
            self._due = time.monotonic() + HISTORY.total_seconds()

    def end(self) -> None:
        if self._process is not None:
            assert self._process.wait() == 0, "garbage could not be collected"
            self.runs += 1
            self._process = None


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Load:
    """Writers that are killed and replaced, and what the catalog must hold after that."""

    def __init__(self, root: Path, kind: type) -> None:
        self._root, self._kind = root, kind
        self._chance = random.Random(7)
        self._writers = [Writer(root, kind, f"w{number}-0") for number in range(WRITERS)]
        self.must_be: set[str] = set()
        self.may_be: set[str] = set()
        self.kills = self.acknowledged = 0

    def kill_one(self) -> None:
        """Kill a writer now and then, one that has said something."""
        number = self._chance.randrange(WRITERS)
        victim = self._writers[number]
        if self._chance.random() < 0.1 and victim.said.stat().st_size:
            self._hear(victim)
            self.kills += 1
            left = {
                name
                for name in self.must_be | self.may_be
                if name in victim.left or name.startswith(f"{victim.name}-")
            }
            name = f"w{number}-{self.kills}"
            self._writers[number] = Writer(self._root, self._kind, name, left)

    def end(self) -> None:
        for writer in self._writers:
            self._hear(writer)

    def _hear(self, writer: Writer) -> None:
        self.acknowledged += note(writer.killed(), self.must_be, self.may_be)


def soak(root: Path, kind: type) -> None:
    lake = Lake(kind(root=str(root)), str(root))
    lake.create_namespace("soak")
    load = Load(root, kind)
    collector = Collector(root)
    sizes: list[tuple[float, int]] = []
    costs: list[float] = []
    started = time.monotonic()
    for slice_ in range(1, SLICES + 1):
        taken: list[float] = []
        worked: list[float] = []
        while time.monotonic() - started < SECONDS * slice_ / SLICES or not taken:
            for _ in range(50):
                before, work = time.perf_counter(), time.thread_time()
                names = lake.tables("soak")
                taken.append(time.perf_counter() - before)
                worked.append(time.thread_time() - work)
                time.sleep(0.002)
            load.kill_one()
            if kind is DeltaCatNamespace:
                collector.go_on()
        sizes.append((resident_mb(), open_files()))
        costs.append(statistics.median(worked))
        report(slice_, taken, costs[-1], len(names), load, sizes[-1])
    while load.kills < WRITERS:
        time.sleep(0.1)
        load.kill_one()
    load.end()
    collector.end()
    assert (collector.runs > 0) == (kind is DeltaCatNamespace)

    there = {name.partition(".")[2] for name in Lake(kind(root=str(root)), "").tables("soak")}
    assert load.must_be - load.may_be <= there <= load.must_be | load.may_be
    assert len(there) <= WRITERS * (KEPT + 2), "what killed writers left is not dropped"
    settled, last = sizes[SLICES // 2], sizes[-1]
    assert last[1] <= settled[1] + 16, "files are left open"
    assert last[0] - settled[0] < ROOM_MB, "memory grows"
    if SECONDS >= LONG_SECONDS:
        # By the processor's time, which does not know what else the machine has to do.
        assert costs[-1] < 3 * costs[SLICES // 2] + 0.001, "listings cost more and more"
    tidy = Lake(kind(root=str(root)), "")
    tidy.repair(tidy.check(timedelta(0)))
    assert [one for one in tidy.check(timedelta(0)) if one.severity == "error"] == []


def report(
    slice_: int,
    taken: list[float],
    cost: float,
    tables: int,
    load: Load,
    size: tuple[float, int],
) -> None:
    """Say what a part of the load looked like."""
    in_order = sorted(taken)
    late = in_order[int(len(in_order) * 0.99)]
    sys.stdout.write(
        f"\n{slice_}/{SLICES}: {len(taken)} listings of {tables} tables, half within "
        f"{statistics.median(taken) * 1000:.2f} ms, 99% within {late * 1000:.1f} ms, "
        f"half with {cost * 1000:.2f} ms of the processor; "
        f"{load.kills} kills, {load.acknowledged} changes heard of; {size[0]:.0f} MB, "
        f"{size[1]} open files"
    )


def note(said: list[tuple[str, str]], must_be: set[str], may_be: set[str]) -> int:
    """Take in what a writer said before it died; what it had begun may be done or not."""
    for verb, name in said:
        if verb == "declared":
            must_be.add(name)
        elif verb == "dropped":
            must_be.discard(name)
            may_be.discard(name)
    if said and said[-1][0] in ("declaring", "dropping"):
        may_be.add(said[-1][1])
    return sum(verb in ("declared", "dropped") for verb, _ in said)


def test_a_directory_whose_writers_are_killed_loses_nothing_and_nothing_grows(
    tmp_path: Path,
) -> None:
    soak(tmp_path / "lake", DirectoryNamespace)


def test_a_metastore_whose_writers_are_killed_loses_nothing_and_nothing_grows(
    tmp_path: Path,
) -> None:
    soak(tmp_path / "lake", DeltaCatNamespace)
