"""Whether transactions over several tables are snapshot-isolated, after Elle's lists.

Each transaction appends its own name to one or more lists; a snapshot reads all lists of a ledger
as of one version of the catalog. From the lists alone the order of the transactions is known, so
every anomaly is seen in the answers, without guessing.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.histories.events import NEVER, Outcome

Lists = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A transaction (it appends, and may have read what it appends to), or a snapshot."""

    client: str
    ledger: str
    name: str = ""
    appends: tuple[str, ...] = ()
    saw: Lists = field(default_factory=dict)
    version: int | None = None
    began: int = 0
    ended: int = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    is_past: bool = False
    """A snapshot of a version that was chosen before, not of the newest."""


def anomalies(entries: Sequence[Entry]) -> list[str]:
    """Tell everything in a history of one ledger that snapshot isolation forbids."""
    by_name = {entry.name: entry for entry in entries if entry.appends}
    told = [entry for entry in entries if entry.outcome is Outcome.OK]
    snapshots = [entry for entry in told if not entry.appends]
    lists = _longest(told)
    return [
        *_reordered(told, lists),
        *_invented(lists, by_name),
        *_torn(told, by_name),
        *_forked(snapshots),
        *_changed_pasts(snapshots),
        *_out_of_time(told, lists, by_name),
        *_lost_updates(told, lists),
    ]


def _longest(told: Sequence[Entry]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for entry in told:
        for table, seen in entry.saw.items():
            found[table] = max(found[table], seen, key=len)
    return found


def _reordered(told: Sequence[Entry], lists: Lists) -> list[str]:
    return [
        f"reordered: {entry.client} saw {table} as {seen}, which is no beginning of {lists[table]}"
        for entry in told
        for table, seen in entry.saw.items()
        if lists[table][: len(seen)] != seen
    ]


def _invented(lists: Lists, by_name: Mapping[str, Entry]) -> list[str]:
    found = []
    for table, whole in lists.items():
        for name in whole:
            writer = by_name.get(name)
            if writer is None or table not in writer.appends:
                found.append(f"invented: nobody appended {name} to {table}")
            elif writer.outcome is Outcome.REFUSED:
                found.append(f"aborted and visible: {name} of {writer.client} is in {table}")
        if len(set(whole)) < len(whole):
            found.append(f"twice: {table} is {whole}")
    return found


def _torn(told: Sequence[Entry], by_name: Mapping[str, Entry]) -> list[str]:
    found = []
    for entry in told:
        seen = {table: set(names) for table, names in entry.saw.items()}
        for name in set().union(*seen.values()) if seen else ():
            writer = by_name.get(name)
            missing = [
                t for t in (writer.appends if writer else ()) if name not in seen.get(t, {name})
            ]
            if missing:
                found.append(f"torn: {entry.client} saw {name} without its part in {missing}")
    return found


def _forked(snapshots: Sequence[Entry]) -> list[str]:
    """Snapshots of a whole ledger form one line: of any two, one holds the other."""
    line = sorted(snapshots, key=lambda entry: sum(map(len, entry.saw.values())))
    return [
        f"forked: {one.client} and {two.client} saw {dict(one.saw)} and {dict(two.saw)}"
        for one, two in itertools.pairwise(line)
        if any(len(one.saw[table]) > len(two.saw[table]) for table in one.saw)
    ]


def _changed_pasts(snapshots: Sequence[Entry]) -> list[str]:
    """A version of the catalog shows the same for ever, and a later one never less."""
    known = sorted(
        (entry for entry in snapshots if entry.version is not None),
        key=lambda entry: (entry.version, entry.began),
    )
    found = []
    for one, two in itertools.pairwise(known):
        if one.version == two.version and one.saw != two.saw:
            found.append(f"the past changed: version {one.version} was {one.saw}, then {two.saw}")
        elif any(len(one.saw[table]) > len(two.saw[table]) for table in one.saw):
            found.append(f"backwards: version {two.version} holds less than {one.version}")
    return found


def _out_of_time(told: Sequence[Entry], lists: Lists, by_name: Mapping[str, Entry]) -> list[str]:
    """What ended before a look began is seen by it; what began after it ended is not."""
    moments = [(entry.began, 1, place) for place, entry in enumerate(told)]
    moments += [(entry.ended, 2, place) for place, entry in enumerate(told)]
    places = {t: {name: at + 1 for at, name in enumerate(whole)} for t, whole in lists.items()}
    least: dict[str, int] = defaultdict(int)
    because: dict[str, str] = {}
    found = []
    for _, kind, place in sorted(moments):
        entry = told[place]
        if kind == 1:
            if entry.is_past:
                continue
            for table, seen in entry.saw.items():
                if len(seen) < least[table]:
                    found.append(
                        f"stale: {entry.client} saw {len(seen)} entries of {table} at "
                        f"{entry.began}, after {because[table]} had ended with {least[table]}"
                    )
            continue
        seen_now = {table: len(seen) for table, seen in entry.saw.items()}
        for table in entry.appends:
            if entry.name not in places.get(table, {}):
                found.append(f"lost: {entry.name} was acknowledged, and nobody saw it in {table}")
            else:
                seen_now[table] = max(seen_now.get(table, 0), places[table][entry.name])
        for table, size in seen_now.items():
            if size > least[table]:
                least[table], because[table] = size, entry.name or entry.client
        for table, seen in entry.saw.items():
            found += [
                f"from the future: {entry.client} saw {name} in {table}"
                for name in seen
                if name in by_name and by_name[name].began > entry.ended
            ]
    return found


def _lost_updates(told: Sequence[Entry], lists: Lists) -> list[str]:
    """Of two transactions that change what both have read, one must fail."""
    return [
        f"lost update: {entry.name} appended to {table} after {entry.saw[table]}, "
        f"but it is number {lists[table].index(entry.name)} there"
        for entry in told
        for table in entry.appends
        if table in entry.saw and entry.name in lists[table]
        if lists[table].index(entry.name) != len(entry.saw[table])
    ]
