"""Real processes: killed at any moment, racing on one name, without rights, without room."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeroot.namespace.directory import DirectoryNamespace
from tests.asking import Lake
from tests.faults import children
from tests.lance_dir.conftest import MODES, files

RACERS = 4


def lake_at(root: Path, mode: str = "compat") -> Lake:
    return Lake(DirectoryNamespace(root=str(root), **MODES[mode]))


@pytest.mark.parametrize("mode", ["v1", "v2", "compat"])
def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path: Path, mode: str) -> None:
    root = tmp_path / "lake"
    acknowledged: set[str] = set()
    unsure: set[str] = set()
    for round_ in range(2 if mode == "compat" else 1):
        properties = [f"{key}={value}" for key, value in MODES[mode].items()]
        command = [sys.executable, "-m", "tests.faults.children", str(root), f"r{round_}"]
        with subprocess.Popen([*command, *properties], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline()]  # It is at work.
            time.sleep(random.uniform(0.05, 0.5))
            child.kill()
            lines += child.stdout.readlines()
        for line in lines:
            if not line.endswith("\n"):
                continue
            kind, _, name = line.strip().partition(" ")
            {"+": acknowledged.add, "-": acknowledged.discard, "?": unsure.add}[kind](name)

        lake = lake_at(root, mode)
        there = {*lake.tables(), *lake.namespaces()}
        assert acknowledged - unsure <= there
        assert not {name for name in unsure if name not in acknowledged and name in there}
        in_doubt = {name for name in unsure & acknowledged if name not in there}
        assert len(in_doubt) <= 1  # Only the call that was cut short.
        acknowledged -= in_doubt
        unsure.clear()
        lake.declare_table(f"after-{round_}")
        lake.drop_table(f"after-{round_}")


def test_no_process_starves_among_others_that_commit_all_the_time(tmp_path: Path) -> None:
    root, processes, count = tmp_path / "lake", 6, 12
    lake = lake_at(root)
    lake.create_namespace("first")
    start = children.Spawn.Barrier(processes)
    answers: Any = children.Spawn.Queue()
    writers = [
        children.Spawn.Process(
            target=children.declare_many, args=(str(root), f"p{number}", count, start, answers)
        )
        for number in range(processes)
    ]
    for writer in writers:
        writer.start()
    outcomes = [answers.get(timeout=300) for _ in writers]
    for writer in writers:
        writer.join(60)

    # A writer that always came second would give up with 14.
    assert outcomes == [[-1] * count] * processes
    assert lake.tables() == sorted(f"p{p}-{n}" for p in range(processes) for n in range(count))


class Racers:
    """Processes that wait to do one thing at the same moment."""

    def __init__(self) -> None:
        self._answers: Any = children.Spawn.Queue()
        self._races: list[Any] = [children.Spawn.Queue() for _ in range(RACERS)]
        self._start = children.Spawn.Barrier(RACERS)
        self._processes = [
            children.Spawn.Process(
                target=children.keep_racing, args=(races, self._start, self._answers)
            )
            for races in self._races
        ]
        for process in self._processes:
            process.start()

    def race(self, call: str, root: Path, mode: str) -> list[int]:
        """Let all of them do it; give the code each got, -1 for success."""
        for races in self._races:
            races.put((call, str(root), MODES[mode]))
        return [self._answers.get(timeout=120) for _ in self._races]

    def close(self) -> None:
        for races in self._races:
            races.put(None)
        for process in self._processes:
            process.join(30)


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    found = Racers()
    yield found
    found.close()


RACES = [
    ("compat", "create_namespace", {2, 14}),
    ("compat", "declare_root", {5, 14}),
    ("v2", "declare_child", {5, 14}),
    ("v1", "declare_root", {5, 14}),
    ("compat", "create_root", {5, 14}),
    ("compat", "create_child", {5, 14}),
    ("compat", "drop_table", {4, 14}),
    ("compat", "deregister", {4, 14}),
    ("compat", "rename", {4, 14}),
    ("compat", "register", {13, 14}),
    ("v2", "drop_namespace", {1, 14}),
]


@pytest.mark.parametrize(("mode", "call", "losing"), RACES)
def test_one_process_wins_a_race(
    racers: Racers, tmp_path: Path, mode: str, call: str, losing: set[int]
) -> None:
    root = tmp_path / "lake"
    lake = lake_at(root, mode)
    lake.create_table("t")
    if mode != "v1":
        lake.create_namespace("a")
        lake.create_namespace("empty")
    if mode == "compat":
        lake.create_table("gone")
        lake.deregister_table("gone")
    before = {path.name for path in root.iterdir()}

    codes = racers.race(call, root, mode)

    assert codes.count(-1) == 1
    assert set(codes) - {-1} <= losing
    made = {path.name for path in root.iterdir()} - before
    assert len(made) == (1 if call.startswith(("declare", "create_root", "create_child")) else 0)
    fresh = lake_at(root, mode)
    if call.startswith(("create", "declare")):
        assert "new" in [*fresh.tables(), *fresh.namespaces(), *_in_a(fresh, mode)]
        assert not list(root.rglob("*#*"))


def _in_a(lake: Lake, mode: str) -> list[str]:
    return [] if mode == "v1" else [*lake.tables("a"), *lake.namespaces("a")]


def test_processes_make_the_first_version_together(racers: Racers, tmp_path: Path) -> None:
    for round_ in range(5):
        codes = racers.race("declare_root", tmp_path / str(round_), "compat")

        assert codes.count(-1) == 1
        assert lake_at(tmp_path / str(round_)).tables() == ["new"]


def furnished(root: Path) -> Lake:
    lake = lake_at(root)
    lake.create_table("t")
    lake.create_namespace("a")
    return lake


def told_by(target: Any, root: Path, count: int) -> list[Any]:
    answers: Any = children.Spawn.Queue()
    child = children.Spawn.Process(target=target, args=(str(root), answers))
    child.start()
    told = [answers.get(timeout=120) for _ in range(count)]
    child.join(30)
    return told


def test_a_catalog_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    root = Path("/tmp") / f"lakeroot-read-only-{os.getpid()}"  # pytest's own is root's alone.
    try:
        furnished(root)
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = files(root)
        listed, refusals = told_by(children.without_rights, root, 2)
        assert files(root) == before
    finally:
        shutil.rmtree(root, ignore_errors=True)

    assert listed == (["t"], ["a"])
    assert [code for code, _ in refusals] == [15] * len(children.CHANGES)
    assert all("permission" in message for _, message in refusals)


def test_a_full_disk_changes_nothing_and_says_so(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    furnished(root)
    before = files(root)

    listed, refusals, later = told_by(children.on_a_full_disk, root, 3)

    assert listed == later == (["t"], ["a"])
    assert files(root) == before
    assert all(code == 18 for code, _ in refusals), refusals
    assert not any("defect" in message for _, message in refusals), refusals
