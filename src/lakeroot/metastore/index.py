"""The index: every revision of every object and name, by the commit that made it visible.

It is a pure function of the commit log. A snapshot is a number of a commit, so a reader that holds
one sees the same state however far the index moves on.
"""

import bisect
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakeroot.metastore.entries import Entry, EntryKind, Write
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.states import Operation


class Revision(NamedTuple):
    """One revision: of an object (its content is in a file) or of a name (it has a target)."""

    number: int
    txn_id: str
    sequence: int
    operation: str
    target: str | None = None
    path: str | None = None
    body: bytes | None = None


class Mark(NamedTuple):
    """A transaction in the order of the log."""

    txn_id: str
    end_time: int


class Snapshot(NamedTuple):
    """A state: all commits up to one, and of these perhaps only those that ended before a time."""

    sequence: int
    before: int | None = None


Chain = list[Revision]


class Index:
    """Chains of revisions by directory. Only `apply` and `expire` change it.

    Other threads may look meanwhile, so whoever walks over a dictionary of it walks over a copy.
    `copy()` is one step; a list of items is not, because memory may be tidied up in the middle.
    """

    def __init__(self, layout: Layout = Layout.SPEC) -> None:
        self.layout = layout
        self.head = -1
        self.horizon = -(2**62)
        self.marks: dict[int, Mark] = {}
        self.sequences: dict[str, int] = {}
        self.objects: dict[str, Chain] = {}
        self.names: dict[str, Chain] = {}
        self.children: dict[str, dict[str, None]] = {}
        # Of these the ones that are not dropped after the newest entry: a list of now costs what
        # it shows, however much was dropped before.
        self._living: dict[str, dict[str, None]] = {}
        self._reached = -1
        self.fenced: set[str] = set()
        self.last_end_time = 0

    def apply(self, sequence: int, entry: Entry) -> None:
        """Take in the next entry of the log."""
        self._reached = sequence  # Before anything changes: see `child_ids`.
        if entry.kind is EntryKind.GENESIS:
            self.layout = Layout(entry.facts["layout"])
            base = entry.facts.get("base", ())
            for offset, (txn_id, end_time, writes) in enumerate(base):
                self._take(
                    offset - len(base), txn_id, end_time, [Write(*write) for write in writes]
                )
        elif entry.kind in (EntryKind.COMMIT, EntryKind.ADOPT):
            self._take(sequence, entry.txn_id, entry.end_time, entry.writes)
        elif entry.kind is EntryKind.FENCE:
            self.fenced.add(entry.txn_id)
        elif entry.kind is EntryKind.EXPIRE:
            self.expire(int(entry.facts["horizon"]))
            self._forget(entry.facts["orphans"], int(entry.facts["seen"]))
        self.head = sequence

    def _forget(self, places: list[str], seen: int) -> None:
        for place in places:
            for chains in (self.objects, self.names):
                kept = [r for r in chains.pop(place, ()) if r.sequence > seen]
                if kept:
                    chains[place] = kept
            if place in self.objects:
                self._enter(place, self.objects[place])
            else:
                self._leave_out(place)

    def _take(self, sequence: int, txn_id: str, end: int, writes: Iterable[Write]) -> None:
        for write in writes:
            body = write.content if write.directory.count("/") <= 1 else None
            revision = Revision(
                write.number, txn_id, sequence, write.operation, write.target, write.path, body
            )
            self.add(write.directory, revision)
        if (known := self.sequences.get(txn_id)) is not None:
            self.marks.pop(known, None)  # files told of it before the log did
        self.marks[sequence] = Mark(txn_id, end)
        self.sequences[txn_id] = sequence
        self.last_end_time = max(self.last_end_time, end)

    def add(self, directory: str, revision: Revision) -> None:
        """Put a revision into its chain; a file that is there already is not put twice."""
        chains = self.objects if revision.target is None else self.names
        chain = chains.get(directory)
        if chain is None:
            chains[directory] = chain = [revision]  # Nobody ever sees a chain without revisions.
        else:
            _put(chain, revision)
        if revision.target is None:
            self._enter(directory, chain)

    def fill(self, objects: dict[str, Chain], head: int) -> None:
        """Begin with the objects of a checkpoint."""
        self.objects, self.head, self._reached = objects, head, head
        for directory, chain in objects.items():
            self._enter(directory, chain)

    def _enter(self, directory: str, chain: Chain) -> None:
        parent, _, name = directory.rpartition("/")
        self.children.setdefault(parent, {})[name] = None
        living = self._living.setdefault(parent, {})
        if _alive(chain[-1]) is None:
            living.pop(name, None)
        else:
            living[name] = None

    def _leave_out(self, directory: str) -> None:
        parent, _, name = directory.rpartition("/")
        for known in (self.children, self._living):
            below = known.get(parent)
            if below is not None:
                below.pop(name, None)
                if not below:
                    del known[parent]  # Of what is forgotten nothing stays, not even emptiness.

    def visible(self, chain: Chain | None, snapshot: Snapshot) -> Revision | None:
        """Find the newest revision of a chain that a snapshot sees, deletions included."""
        for revision in reversed(chain or ()):
            if self.sees(snapshot, revision):
                return revision
        return None

    def sees(self, snapshot: Snapshot, revision: Revision) -> bool:
        """Tell whether a snapshot sees a revision."""
        if revision.sequence > snapshot.sequence:
            return False
        if snapshot.before is None:
            return True
        mark = self.marks.get(revision.sequence)
        # What is older than every mark kept is older than any time that may still be asked for.
        return mark is None or mark.end_time < snapshot.before

    def object(self, directory: str, snapshot: Snapshot) -> Revision | None:
        """Find the revision of an object that a snapshot sees; nothing if it does not exist."""
        return _alive(self.visible(self.objects.get(directory), snapshot))

    def name(self, directory: str, snapshot: Snapshot) -> str | None:
        """Find the id that a name leads to in a snapshot."""
        revision = _alive(self.visible(self.names.get(directory), snapshot))
        return None if revision is None else revision.target

    def child_ids(self, directory: str, snapshot: Snapshot) -> Iterator[tuple[str, Revision]]:
        """List the children of an object that a snapshot sees."""
        prefix = f"{directory}/" if directory else ""
        names = list(self._living.get(directory, ()))
        # Asked after the names were copied: an entry that is being taken in may have changed them.
        if snapshot.before is not None or snapshot.sequence < self._reached:
            names = list(self.children.get(directory, ()))
        for name in names:
            revision = self.object(prefix + name, snapshot)
            if revision is not None:
                yield name, revision

    def horizon_time(self) -> int:
        """Give the end of the oldest transaction whose state is kept; 0 if all are."""
        mark = self.marks.get(self.horizon)
        return 0 if mark is None else mark.end_time

    def last_number(self, directory: str, *, is_name: bool) -> int:
        """Give the number of the newest revision of a chain; 0 if there is none."""
        chain = (self.names if is_name else self.objects).get(directory)
        return chain[-1].number if chain else 0

    def expire(self, horizon: int) -> None:
        """Forget the revisions that no snapshot from the horizon on can see."""
        for chains in (self.objects, self.names):
            for directory in list(chains):
                kept = chains[directory][first_kept(chains[directory], horizon) :]
                if kept:
                    chains[directory] = kept
                    continue
                del chains[directory]
                self._leave_out(directory)
        for sequence in [known for known in self.marks if known < horizon]:
            self.sequences.pop(self.marks.pop(sequence).txn_id, None)
        self.horizon = max(self.horizon, horizon)


def _put(chain: Chain, revision: Revision) -> None:
    if not chain or chain[-1][:2] < revision[:2]:
        chain.append(revision)
        return
    place = bisect.bisect_left(chain, revision[:2], key=lambda known: known[:2])
    if place < len(chain) and chain[place][:2] == revision[:2]:
        chain[place] = revision
    else:
        chain.insert(place, revision)


def _alive(revision: Revision | None) -> Revision | None:
    if revision is None or revision.operation == Operation.DELETE:
        return None
    return revision


def first_kept(chain: Chain, horizon: int) -> int:
    """Give the place in a chain of the first revision that a state from the horizon on can see."""
    at_horizon = [place for place, revision in enumerate(chain) if revision.sequence <= horizon]
    if not at_horizon:
        return 0
    newest = at_horizon[-1]
    return newest + 1 if chain[newest].operation == Operation.DELETE else newest
