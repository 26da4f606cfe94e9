"""Runs a history: many clients on one catalog, some of them killed, and judges what they saw."""

import json
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakeroot.server import Settings, serving
from tests.asking import Lake
from tests.histories.catalogs import KINDS, opened
from tests.histories.clients import Log, play
from tests.histories.events import Call, Outcome, read
from tests.histories.groups import Group, groups_of, prepare
from tests.histories.linear import counterexample, is_linearizable
from tests.histories.objects import Model
from tests.server.processes import served

_REPOSITORY = Path(__file__).parents[2]


@dataclass
class Judged:
    """What came of a history."""

    calls: int = 0
    unknown: int = 0
    given_up: int = 0
    seconds: float = 0.0
    strange: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@contextmanager
def at_hand(catalog: str, directory: Path) -> Iterator[str]:
    """Give the place of a catalog; Lance's clients meet a server of two processes."""
    where = str(directory / "lake")
    if catalog == "server":
        with served("--workers", "2", root=where) as server:
            yield server.url
    elif catalog == "iceberg":
        settings = Settings("lakeroot.DirectoryNamespace", {"root": where}, port=0)
        with serving(replace(settings, log_requests=False)) as url:
            yield url
    else:
        yield where


def by_threads(catalog: str, directory: Path, seed: int, count: int, clients: int = 6) -> Judged:
    """Let threads of this process make the calls; half of them share one client."""
    with at_hand(catalog, directory) as where:
        shared = opened(catalog, where)
        prepare(Lake(shared), groups_of(catalog, count))
        log = Log()

        def one(number: int) -> None:
            own = shared if catalog == "memory" or number % 2 else opened(catalog, where)
            play(Lake(own), catalog, where, f"c{number}", seed, clients, count, log.tell)

        started = time.monotonic()
        with ThreadPoolExecutor(clients) as pool:
            for done in [pool.submit(one, number) for number in range(clients)]:
                done.result()
        return judged(catalog, count, log.calls(), time.monotonic() - started)


def by_processes(
    catalog: str, directory: Path, seed: int, count: int, clients: int = 3, killed: int = 1
) -> Judged:
    """Let processes make the calls; some of them are killed in the middle."""
    chance = random.Random(seed)
    with at_hand(catalog, directory) as where:
        prepare(Lake(opened(catalog, where)), groups_of(catalog, count))
        log = Log()
        given = {"catalog": catalog, "where": where, "seed": seed, "share": clients, "count": count}
        people = [
            _Person(
                {**given, "client": f"p{number}"}, log, count // clients, chance, number < killed
            )
            for number in range(clients)
        ]
        for person in people:
            person.is_ready()
        started = time.monotonic()
        for person in people:
            person.go()
        for person in people:
            person.join()
        return judged(catalog, count, log.calls(), time.monotonic() - started)


class _Person:
    """One process, and a thread that listens to it."""

    def __init__(
        self, given: dict[str, object], log: Log, share: int, chance: random.Random, dies: bool
    ) -> None:
        self._log = log
        # Two lines are told of each call: it may die before, in, or after one.
        self._last = chance.randint(share, share + share // 2) if dies else None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.histories.clients", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_REPOSITORY,
        )
        self._thread = threading.Thread(target=self._listen)

    def is_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for number, line in enumerate(self._process.stdout):
            if line.endswith("\n"):
                self._log.tell(read(line))
            if number == self._last:
                self._process.kill()

    def join(self) -> None:
        self._thread.join()
        code = self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert (code == 0) == (self._last is None), code


def judged(catalog: str, count: int, calls: list[Call], seconds: float) -> Judged:
    """Judge every group by itself."""
    found = Judged(len(calls), seconds=seconds)
    by_group: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.verb == "given up":
            found.given_up += 1
            continue
        if call.outcome is Outcome.UNKNOWN:
            found.unknown += 1
            if call.answer is not None:
                found.strange.append(f"{call.verb} {call.names}: {call.answer}")
        by_group[call.group].append(call)
    for group in groups_of(catalog, count):
        for model, own in _parts(catalog, group, by_group[group.key]):
            if not is_linearizable(own, model):
                found.wrong.append(counterexample(group.key, own, model))
    return found


def _parts(catalog: str, group: Group, calls: list[Call]) -> list[tuple[Model, list[Call]]]:
    """Give what must be explained together: in V1, where a list is a walk, each name by itself."""
    model = group.model
    if KINDS[catalog].is_flat and group.kind == "tables":
        return [model.only(frozenset({name}), calls) for name in group.names]
    return [(model, calls)]
