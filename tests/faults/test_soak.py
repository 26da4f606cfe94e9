"""A catalog that is used for long while its writers are killed: nothing is lost, nothing grows.

A few seconds here; `LAKEROOT_SOAK_SECONDS=3600` makes an hour of it, and `-s` shows the figures.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from lakeroot.lake import Lake
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.namespace.directory import DirectoryNamespace

SECONDS = float(os.environ.get("LAKEROOT_SOAK_SECONDS", "5"))
WRITERS = 2
ROOM_MB = 64
"""Allocators and caches settle during the first rounds; a leak grows with every commit."""

STORES = {True: ("lance_dir", "LanceDirStore"), False: ("deltacat", "DeltaCatStore")}
WRITER = """
import sys
from lakeroot.catalog import Catalog
from lakeroot.objects import parse_root
from lakeroot.storage.{module} import {store}
catalog = Catalog({store}(parse_root(sys.argv[1])))
name, number = sys.argv[2], 0
while True:
    number += 1
    identifier = ("soak", name + "-" + str(number))
    print("declaring", identifier[-1], flush=True)
    catalog.declare_table(identifier)
    print("declared", identifier[-1], flush=True)
    if number % 4:
        print("dropping", identifier[-1], flush=True)
        catalog.drop_table(identifier)
        print("dropped", identifier[-1], flush=True)
"""


class Writer:
    """A process that declares and drops tables, says so, and is killed at some moment."""

    def __init__(self, root: Path, kind: type, name: str) -> None:
        module, store = STORES[kind is DirectoryNamespace]
        code = WRITER.format(module=module, store=store)
        command = [sys.executable, "-c", code, str(root), name]
        self.said = root.with_name(f"{name}.txt")
        with self.said.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out)

    def killed(self) -> list[tuple[str, str]]:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        lines = self.said.read_text().splitlines()
        self.said.unlink()
        return [(verb, name) for verb, _, name in (line.partition(" ") for line in lines) if name]


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def soak(root: Path, kind: type) -> None:
    chance = random.Random(7)
    lake = Lake(kind(root=str(root)), str(root))
    lake.create_namespace("soak")
    writers = {n: Writer(root, kind, f"w{n}") for n in range(WRITERS)}
    must_be: set[str] = set()
    may_be: set[str] = set()
    taken: list[float] = []
    sizes: list[tuple[float, int]] = []
    started, kills, acknowledged = time.monotonic(), 0, 0
    while time.monotonic() - started < SECONDS or kills < WRITERS:
        for _ in range(50):
            before = time.perf_counter()
            lake.tables("soak")
            taken.append(time.perf_counter() - before)
            time.sleep(0.002)
        sizes.append((resident_mb(), open_files()))
        victim = chance.randrange(WRITERS)
        if chance.random() < 0.5 and writers[victim].said.stat().st_size:
            said = writers[victim].killed()
            kills += 1
            acknowledged += note(said, must_be, may_be)
            writers[victim] = Writer(root, kind, f"w{victim}k{kills}")
    for writer in writers.values():
        acknowledged += note(writer.killed(), must_be, may_be)

    there = {name.partition(".")[2] for name in Lake(kind(root=str(root)), "").tables("soak")}
    assert must_be - may_be <= there <= must_be | may_be
    settled, last = sizes[len(sizes) // 4], sizes[-1]
    assert last[1] <= settled[1] + 16, "files are left open"
    assert last[0] - settled[0] < ROOM_MB, "memory grows"
    tidy = Lake(kind(root=str(root)), "")
    tidy.repair(tidy.check(timedelta(0)))
    assert [one for one in tidy.check(timedelta(0)) if one.severity == "error"] == []
    quarter = max(1, len(taken) // 4)
    sys.stdout.write(
        f"\n{kind.__name__}: {time.monotonic() - started:.0f} s, {kills} kills, {acknowledged} "
        f"acknowledged changes, {len(taken)} listings of {len(there)} tables: median "
        f"{statistics.median(taken[:quarter]) * 1000:.2f} ms at first, "
        f"{statistics.median(taken[-quarter:]) * 1000:.2f} ms at last; "
        f"{settled[0]:.0f} MB, then {last[0]:.0f} MB; {settled[1]} files, then {last[1]}\n"
    )


def note(said: list[tuple[str, str]], must_be: set[str], may_be: set[str]) -> int:
    """Take in what a writer said before it died; what it had begun may be done or not."""
    for verb, name in said:
        if verb == "declared":
            must_be.add(name)
        elif verb == "dropped":
            must_be.discard(name)
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
