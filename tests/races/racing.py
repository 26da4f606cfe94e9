"""Real processes that want the same thing at the same moment, and what each was answered."""

import time
import traceback
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

import lance_namespace
from lance_namespace import LanceNamespaceError

from tests.asking import Lake

Spawn = get_context("spawn")
PATIENCE = 900
"""Seconds until a process that never came is given up: many share few cores."""

Client = tuple[str, dict[str, str]]
"""Which implementation of the namespace a process uses, and with what properties."""


@dataclass(frozen=True)
class Race:
    """What every process does: names for all and names of its own, round by round."""

    clients: tuple[Client, ...]
    rounds: int
    crowd: int
    """How many names of its own each makes at the end, as fast as it can."""
    parent: tuple[str, ...] = ("race",)
    makes_namespaces: bool = True
    takes_away: tuple[str, ...] = ("drop", "rename", "deregister")
    """How names for all are taken away again, one way in each round."""


Answer = tuple[str, str, int]
"""The step, the name and the code of the refusal, or -1."""


@dataclass(frozen=True)
class Told:
    """What one process was answered, and how long the slowest name of its own took."""

    answers: list[Answer]
    longest_seconds: float = 0.0
    defect: str = ""


def take_part(
    number: int,
    races: "Queue[Race | None]",
    starts: dict[int, Barrier],
    told: "Queue[tuple[int, Told]]",
) -> None:
    """Run one race after the other, with a client of its own for each."""
    while (race := races.get()) is not None:
        start = starts[len(race.clients)]
        try:
            told.put((number, _run(race, number, start)))
        except Exception:
            start.abort()  # Nobody is to wait for one that will not come.
            told.put((number, Told([], defect=traceback.format_exc())))


def _run(race: Race, number: int, start: Barrier) -> Told:
    implementation, properties = race.clients[number]
    lake = Lake(lance_namespace.connect(implementation, properties))
    lake.tables(*race.parent)
    answers: list[Answer] = []

    def ask(step: str, name: str, call: Any, *names: str, **more: Any) -> None:
        try:
            call(*race.parent, *names, **more)
        except LanceNamespaceError as error:
            answers.append((step, name, int(error.code)))
        else:
            answers.append((step, name, -1))

    for round_ in range(race.rounds):
        shared, own = f"shared-{round_}", f"own-{number}-{round_}"
        start.wait(PATIENCE)
        ask("shared", shared, lake.declare_table, shared)
        ask("own", own, lake.declare_table, own)
        if race.makes_namespaces:
            space = f"space-{round_}"
            ask("space", space, lambda *names: lake.create_namespace(names[-1]), space)
        start.wait(PATIENCE)
        if race.takes_away:
            way = race.takes_away[round_ % len(race.takes_away)]
            if way == "rename":
                moved = f"moved-{number}-{round_}"
                ask(way, shared, lake.rename_table, shared, to=moved)
            else:
                ask(way, shared, getattr(lake, f"{way}_table"), shared)
    start.wait(PATIENCE)
    longest = 0.0
    for turn in range(race.crowd):
        name = f"crowd-{number}-{turn}"
        before = time.perf_counter()
        ask("own", name, lake.declare_table, name)
        longest = max(longest, time.perf_counter() - before)
    return Told(answers, longest)


class Racers:
    """Processes that wait to race, for as many races as there are."""

    def __init__(self, count: int) -> None:
        self._told: Any = Spawn.Queue()
        self._races: list[Any] = [Spawn.Queue() for _ in range(count)]
        # Kept: a barrier that nobody here holds is gone before a process has looked at it.
        self._starts = {size: Spawn.Barrier(size) for size in range(2, count + 1)}
        self._processes = [
            Spawn.Process(
                target=take_part, args=(number, races, self._starts, self._told), daemon=True
            )
            for number, races in enumerate(self._races)
        ]
        for process in self._processes:
            process.start()

    def run(self, race: Race) -> list[Told]:
        """Let as many as there are clients run a race; give what each was told."""
        size = len(race.clients)
        for races in self._races[:size]:
            races.put(race)
        told: dict[int, Told] = dict(self._told.get(timeout=2 * PATIENCE) for _ in range(size))
        defects = [one.defect for one in told.values() if one.defect]
        assert not defects, "\n".join(defects)
        return [told[number] for number in range(size)]

    def close(self) -> None:
        for races in self._races:
            races.put(None)
        for process in self._processes:
            process.join(60)
            process.terminate()
