"""A catalog that exists only in a test, right or wrong on purpose, and its clients.

The clients run in one thread: a seeded scheduler decides who begins, whose call takes effect and
who gets an answer, so every history can be made again. Each planted bug is a small subclass.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.histories.events import NEVER, Call, Outcome
from tests.histories.objects import EXISTS, MISSING, Names

NAMES = ("a", "b", "c")


class Refused(Exception):  # noqa: N818
    """The rule that a call broke."""


class Double:
    """A correct catalog of three names and a counter; a call takes effect at one moment."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.held: dict[str, str | None] = dict.fromkeys(NAMES)
        self.past: list[dict[str, str | None]] = [dict(self.held)]
        self.total = 0

    def begin(self, call: Call) -> None:
        """Something a wrong catalog does when a call arrives."""

    def do(self, call: Call) -> Any:
        """Let a call take effect, and give its answer."""
        answer = self.read(call) if call.verb in ("read", "exists", "list", "count") else None
        if answer is None and call.verb not in ("read", "exists", "list", "count"):
            self.change(call)
            self.past.append(dict(self.held))
        return answer

    def end(self, call: Call) -> None:
        """Something a wrong catalog does when a call is answered."""

    def read(self, call: Call) -> Any:
        return self.answer(call, self.held)

    def answer(self, call: Call, held: dict[str, str | None]) -> Any:
        if call.verb == "count":
            return self.total
        if call.verb == "list":
            return frozenset(name for name, value in held.items() if value is not None)
        value = held[call.names[0]]
        return value if call.verb == "read" else value is not None

    def change(self, call: Call) -> None:
        if call.verb == "add":
            self.total += 1
            return
        first = self.held[call.names[0]]
        if call.verb == "create" and any(self.held[name] is not None for name in call.names):
            raise Refused(EXISTS)
        if call.verb in ("drop", "rename") and first is None:
            raise Refused(MISSING)
        if call.verb == "rename":
            if self.held[call.names[1]] is not None:
                raise Refused(EXISTS)
            self.move(*call.names)
        elif call.verb == "drop":
            self.held[call.names[0]] = None
        else:
            for name in call.names:
                self.held[name] = call.value

    def move(self, old: str, new: str) -> None:
        self.held[new], self.held[old] = self.held[old], None


class LosesUpdates(Double):
    """Adds one to what the number was when the call arrived."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.found: dict[str, int] = {}

    def begin(self, call: Call) -> None:
        self.found[call.client] = self.total

    def change(self, call: Call) -> None:
        super().change(call)
        if call.verb == "add":
            self.total = self.found[call.client] + 1


class ReadsStale(Double):
    """Answers some reads from a copy that is two changes old."""

    def read(self, call: Call) -> Any:
        is_old = self.chance.random() < 0.2
        return self.answer(call, self.past[-3:][0] if is_old else self.held)


class ReadsDirty(Double):
    """Shows a change as soon as it was asked for, refused or not."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.wanted: dict[str, Call] = {}

    def begin(self, call: Call) -> None:
        self.wanted[call.client] = call

    def end(self, call: Call) -> None:
        self.wanted.pop(call.client, None)

    def read(self, call: Call) -> Any:
        held = dict(self.held)
        for wanted in self.wanted.values():
            if wanted.verb in ("create", "put"):
                held.update(dict.fromkeys(wanted.names, wanted.value))
        return self.answer(call, held)


class LosesAcknowledged(Double):
    """Says yes to some changes and forgets them."""

    def change(self, call: Call) -> None:
        before = dict(self.held)
        super().change(call)
        if self.chance.random() < 0.05:
            self.held = before


class CrownsTwo(Double):
    """Looks whether a name is free when the call arrives, not when it takes effect."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.free: set[str] = set()

    def begin(self, call: Call) -> None:
        self.free.discard(call.client)
        if call.verb == "create" and all(self.held[name] is None for name in call.names):
            self.free.add(call.client)

    def change(self, call: Call) -> None:
        if call.verb == "create" and call.client in self.free:
            self.held.update(dict.fromkeys(call.names, call.value))
        else:
            super().change(call)


class Resurrects(Double):
    """Brings a dropped name back at some later change, as a late flush would."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.late: list[tuple[str, str]] = []

    def change(self, call: Call) -> None:
        before = dict(self.held)
        if self.late and self.chance.random() < 0.3:
            name, value = self.late.pop()
            if self.held[name] is None and name not in call.names:
                self.held[name] = value
        super().change(call)
        if call.verb == "drop" and (value := before[call.names[0]] or ""):
            self.late.append((call.names[0], value))


class ListsPhantoms(Double):
    """Lists names that were dropped before."""

    def read(self, call: Call) -> Any:
        found = super().read(call)
        if call.verb == "list" and self.chance.random() < 0.1:
            return found | {name for name, value in self.past[-4:][0].items() if value is not None}
        return found


class TearsBatches(Double):
    """Makes the names of a batch visible one after the other."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.rest: dict[str, Call] = {}

    def change(self, call: Call) -> None:
        super().change(call)
        if call.verb == "create" and len(call.names) > 1:
            self.held[call.names[-1]] = None
            self.rest[call.client] = call

    def end(self, call: Call) -> None:
        late = self.rest.pop(call.client, None)
        if late is not None:
            self.held[late.names[-1]] = late.value


class HalvesRenames(Double):
    """Gives a table its new name first and takes the old one away when the call is answered."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.rest: list[str] = []

    def move(self, old: str, new: str) -> None:
        self.held[new] = self.held[old]
        self.rest.append(old)

    def end(self, call: Call) -> None:
        if call.verb == "rename" and self.rest:
            self.held[self.rest.pop(0)] = None


class RefusesWhatItDid(Double):
    """Repeats a change whose answer it lost, and tells the second answer."""

    def change(self, call: Call) -> None:
        super().change(call)
        if call.verb in ("create", "drop") and self.chance.random() < 0.05:
            super().change(call)


class ReadsBackwards(Double):
    """Reads from one of two copies, of which one lags behind until something is listed."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.copy = dict(self.held)

    def read(self, call: Call) -> Any:
        if call.verb == "list":
            self.copy = dict(self.held)
        return self.answer(call, self.held if self.chance.random() < 0.7 else self.copy)


class ReordersVersions(Double):
    """Applies two changes that are under way in an order that one of the answers denies."""

    def change(self, call: Call) -> None:
        if call.verb == "put" and self.chance.random() < 0.1:
            later = self.held[call.names[0]]
            super().change(call)
            if later is not None:
                self.held[call.names[0]] = later  # the older value wins over the newer one
            return
        super().change(call)


BUGS: dict[str, Callable[[random.Random], Double]] = {
    "lost update": LosesUpdates,
    "stale read": ReadsStale,
    "dirty read": ReadsDirty,
    "acknowledged and lost": LosesAcknowledged,
    "two winners": CrownsTwo,
    "resurrected after a drop": Resurrects,
    "phantom in a list": ListsPhantoms,
    "torn batch": TearsBatches,
    "half a rename": HalvesRenames,
    "refused and done": RefusesWhatItDid,
    "reads that go backwards": ReadsBackwards,
    "reordered versions": ReordersVersions,
}


@dataclass
class _Client:
    name: str
    call: Call | None = None
    answered: Call | None = None


def history(
    make: Callable[[random.Random], Double], seed: int, count: int = 120, clients: int = 4
) -> list[Call]:
    """Let clients call a double; some of them never hear the answer."""
    chance = random.Random(seed)
    double = make(chance)
    people = [_Client(f"c{number}") for number in range(clients)]
    found: list[Call] = []
    clock = 0
    while len(found) < count:
        clock += 1
        someone = chance.choice(people)
        if someone.call is None:
            someone.call = _invented(chance, someone.name, clock, len(found))
            double.begin(someone.call)
        elif someone.answered is None:
            someone.answered = _effect(double, someone.call)
        else:
            double.end(someone.call)
            lost = chance.random() < 0.02
            ended = NEVER if lost else clock
            outcome = Outcome.UNKNOWN if lost else someone.answered.outcome
            answer = None if lost else someone.answered.answer
            found.append(replace(someone.answered, ended=ended, outcome=outcome, answer=answer))
            someone.call = someone.answered = None
            if lost:  # a client that died, and another in its place
                someone.name += "'"
    return found + [someone.call for someone in people if someone.call is not None]


def _effect(double: Double, call: Call) -> Call:
    try:
        return replace(call, outcome=Outcome.OK, answer=double.do(call))
    except Refused as error:
        return replace(call, outcome=Outcome.REFUSED, answer=str(error))


def _invented(chance: random.Random, client: str, clock: int, number: int) -> Call:
    verb = chance.choice(
        [
            "create",
            "create",
            "batch",
            "put",
            "drop",
            "rename",
            "read",
            "read",
            "list",
            "list",
            "exists",
            "add",
            "count",
        ]
    )
    names: tuple[str, ...] = (chance.choice(NAMES),)
    if verb in ("rename", "batch"):
        names = tuple(chance.sample(NAMES, 2))
    if verb in ("list", "add", "count"):
        names = ()
    group = "counter" if verb in ("add", "count") else "names"
    value = f"{client}.{clock}" if verb in ("create", "put", "batch") else None
    return Call(client, group, "create" if verb == "batch" else verb, names, value, began=clock)


MODEL = Names(NAMES)
