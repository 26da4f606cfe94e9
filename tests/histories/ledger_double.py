"""A catalog of a few lists with transactions and versions, right or wrong on purpose."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.histories.events import NEVER, Outcome
from tests.histories.ledger import Entry

TABLES = ("x", "y", "z")
Held = dict[str, tuple[str, ...]]


class LedgerDouble:
    """Correct: a transaction reads a version, and commits if nobody changed what it changes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.versions: list[Held] = [dict.fromkeys(TABLES, ())]

    def newest(self) -> int:
        return len(self.versions) - 1

    def look(self, version: int) -> Held:
        return self.versions[version]

    def commit(self, entry: Entry) -> bool:
        """Publish what a transaction appends, unless another writer was first."""
        held = self.versions[-1]
        if not self.may_commit(entry, held):
            return False
        self.versions.append(self.after(held, entry))
        return True

    def may_commit(self, entry: Entry, held: Held) -> bool:
        return all(held[table] == entry.saw[table] for table in entry.appends if table in entry.saw)

    def after(self, held: Held, entry: Entry) -> Held:
        return {**held, **{table: (*held[table], entry.name) for table in entry.appends}}


class Tears(LedgerDouble):
    """Publishes the tables of a transaction in two versions."""

    def commit(self, entry: Entry) -> bool:
        halves = [replace(entry, appends=(table,)) for table in entry.appends]
        if not self.may_commit(entry, self.versions[-1]):
            return False
        for half in halves:
            self.versions.append(self.after(self.versions[-1], half))
        return True


class LosesUpdates(LedgerDouble):
    """Lets every transaction commit, whatever it had read."""

    def may_commit(self, entry: Entry, held: Held) -> bool:
        return True


class WritesBack(LedgerDouble):
    """Writes the whole list as it was read, over what others appended since."""

    def may_commit(self, entry: Entry, held: Held) -> bool:
        return True

    def after(self, held: Held, entry: Entry) -> Held:
        return super().after(
            {**held, **{t: entry.saw.get(t, held[t]) for t in entry.appends}}, entry
        )


class ShowsAborted(LedgerDouble):
    """Refuses a transaction after it has published it."""

    def commit(self, entry: Entry) -> bool:
        if not self.may_commit(entry, self.versions[-1]):
            self.versions.append(self.after(self.versions[-1], entry))
            return False
        return super().commit(entry)


class LosesAcknowledged(LedgerDouble):
    """Says yes to some transactions and publishes nothing."""

    def commit(self, entry: Entry) -> bool:
        return self.chance.random() < 0.1 or super().commit(entry)


class LooksLate(LedgerDouble):
    """Tells a version that is older than the newest."""

    def newest(self) -> int:
        return max(0, super().newest() - self.chance.choice([0, 0, 3]))


class ChangesThePast(LedgerDouble):
    """Puts late arrivals into a version that others have read."""

    def commit(self, entry: Entry) -> bool:
        if not self.may_commit(entry, self.versions[-1]) or self.chance.random() > 0.2:
            return super().commit(entry)
        self.versions[-1] = self.after(self.versions[-1], entry)
        return True


class Forks(LedgerDouble):
    """Reads every table from a version of its own."""

    def look(self, version: int) -> Held:
        older = self.versions[max(0, version - 2)]
        return {**self.versions[version], "x": older["x"]}


class Reorders(LedgerDouble):
    """Puts some entries before the last one."""

    def after(self, held: Held, entry: Entry) -> Held:
        found = super().after(held, entry)
        if self.chance.random() < 0.2:
            for table in entry.appends:
                *first, last, own = ("", *found[table]) if len(found[table]) < 2 else found[table]
                found[table] = tuple(name for name in (*first, own, last) if name)
        return found


class CommitsTwice(LedgerDouble):
    """Repeats a commit whose answer it did not hear."""

    def commit(self, entry: Entry) -> bool:
        done = super().commit(entry)
        if done and self.chance.random() < 0.1:
            self.versions.append(self.after(self.versions[-1], entry))
        return done


LEDGER_BUGS: dict[str, tuple[Callable[[random.Random], LedgerDouble], set[str]]] = {
    "torn transaction": (Tears, {"torn"}),
    "lost update": (LosesUpdates, {"lost update"}),
    "written back": (WritesBack, {"reordered", "lost", "stale", "backwards"}),
    "aborted and visible": (ShowsAborted, {"aborted and visible"}),
    "acknowledged and lost": (LosesAcknowledged, {"lost"}),
    "stale snapshot": (LooksLate, {"stale"}),
    "changed past": (ChangesThePast, {"the past changed"}),
    "long fork": (Forks, {"torn", "forked", "stale"}),
    "reordered versions": (Reorders, {"reordered"}),
    "applied twice": (CommitsTwice, {"twice"}),
}


@dataclass
class _Client:
    name: str
    entry: Entry | None = None
    is_decided: bool = False


def ledger_history(
    make: Callable[[random.Random], LedgerDouble], seed: int, count: int = 80, clients: int = 4
) -> list[Entry]:
    """Let clients append and look, in an order that a seed decides."""
    chance = random.Random(seed)
    double = make(chance)
    people = [_Client(f"c{number}") for number in range(clients)]
    found: list[Entry] = []
    clock = 0
    while len(found) < count:
        clock += 1
        someone = chance.choice(people)
        if someone.entry is None:
            someone.entry = _begun(double, chance, someone.name, clock)
            someone.is_decided = False
        elif not someone.is_decided:
            someone.entry = _decided(double, chance, someone.entry)
            someone.is_decided = True
        else:
            lost = chance.random() < 0.02 and someone.entry.appends
            ended = Outcome.UNKNOWN if lost else someone.entry.outcome
            found.append(replace(someone.entry, ended=NEVER if lost else clock, outcome=ended))
            someone.entry = None
    found += [
        replace(one.entry, outcome=Outcome.UNKNOWN)
        for one in people
        if one.entry is not None and one.entry.appends
    ]
    last = double.newest()
    look = Entry("last", "l", saw=double.look(last), version=last, began=clock + 1, ended=clock + 2)
    return [*found, replace(look, outcome=Outcome.OK)]


def _begun(double: LedgerDouble, chance: random.Random, client: str, clock: int) -> Entry:
    entry = Entry(client, "l", began=clock)
    if chance.random() < 0.4:
        return entry
    tables = tuple(chance.sample(TABLES, chance.choice([1, 2, 2, 3])))
    name = f"{client}.{clock}"
    if chance.random() < 0.5:
        return replace(entry, name=name, appends=tables)
    saw = double.look(double.newest())
    return replace(entry, name=name, appends=tables, saw={table: saw[table] for table in tables})


def _decided(double: LedgerDouble, chance: random.Random, entry: Entry) -> Entry:
    if entry.appends:
        done = double.commit(entry)
        return replace(entry, outcome=Outcome.OK if done else Outcome.REFUSED)
    newest = double.newest()
    is_past = chance.random() < 0.3
    version = chance.randint(0, newest) if is_past else newest
    return replace(
        entry, saw=double.look(version), version=version, is_past=is_past, outcome=Outcome.OK
    )
