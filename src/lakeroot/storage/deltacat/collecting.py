"""Collecting the garbage of a metastore catalog: its own, and what is inside its Lance tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from lakeroot.metastore import Metastore
from lakeroot.metastore.index import Revision
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.records import Delta, Record
from lakeroot.metastore.records import Table as StoredTable
from lakeroot.metastore.states import Operation
from lakeroot.metastore.vacuum import Vacuumed, storage_time
from lakeroot.model.identifiers import Identifier
from lakeroot.model.progress import each
from lakeroot.model.records import Table
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Below, Objects
from lakeroot.storage.deltacat.cleaning import garbage_of
from lakeroot.storage.deltacat.translation import own_facts, read_version
from lakeroot.storage.deltacat.view import DeltaCatView
from lakeroot.storage.garbage import Collected, Garbage, Moments, moments, require_window
from lakeroot.storage.lance_dir.checking.leftovers import examine_unfinished
from lakeroot.storage.lance_dir.checking.survey import list_files
from lakeroot.storage.lance_dir.checking.versions import Kept
from lakeroot.storage.lance_dir.removing import remove, size_of
from lakeroot.storage.sweeping import Inside, sweep

_TABLE_DEPTH: Final = 1
_DELTA_DEPTH: Final = 5


class Collectable(Protocol):
    """A metastore catalog, as far as collecting needs; it pickles."""

    objects: Objects

    @property
    def metastore(self) -> Metastore:
        """The metastore below."""
        ...

    def read(self) -> DeltaCatView:
        """Take a view that shows everything acknowledged before this call."""
        ...

    def vacuum(
        self, *, retention_ms: int, dry_run: bool = False, spread: Spread = here
    ) -> Vacuumed:
        """Clean the metastore, and delete directories of tables that are nobody's."""
        ...


def collect(
    store: Collectable, older_than: timedelta, *, dry_run: bool = False, spread: Spread = here
) -> Collected:
    """Remove the garbage of a catalog; with ``dry_run`` only say what it is.

    The tables are looked at and cleaned by whomever `spread` finds for it.
    """
    require_window(older_than)
    retention_ms = int(older_than.total_seconds() * 1000)
    # First: what of the past is forgotten by it does not need its files any more.
    done = store.vacuum(retention_ms=retention_ms, dry_run=dry_run, spread=spread)
    then = moments(older_than, storage_time(store.metastore.log, dry_run=dry_run))
    names = store.read().all_tables(None, None)
    swept = spread(_Sweeping(store, then, dry_run=dry_run), names)
    garbage = [*garbage_of(done), *(one for found in swept for one in found)]
    for one in examine_unfinished(store.objects, then.left_ms):
        size = size_of(store.objects, one)
        if dry_run or remove(store.objects, one, lambda _: False):
            garbage.append(Garbage(one.path, size, one.why))
    return Collected(tuple(garbage), dry_run)


@dataclass(frozen=True, slots=True)
class _Sweeping:
    """Removes what is left in tables one by one, here or in another process; it pickles."""

    store: Collectable = field(repr=False)
    then: Moments
    dry_run: bool

    def __call__(self, names: Sequence[Identifier]) -> list[list[Garbage]]:
        """Sweep some tables; give what was removed from each."""
        return [list(self._swept(name)) for name in each(names, "Looking for garbage")]

    def _swept(self, name: Identifier) -> Iterator[Garbage]:
        found = self.store.read().get(name)
        if not isinstance(found, Table):
            return  # dropped since it was listed
        location = found.location

        def kept_now() -> Kept | None:
            view = self.store.read()
            now = view.get(name)
            is_there = isinstance(now, Table) and now.location == location
            return view.versions(now) if is_there and isinstance(now, Table) else None

        table = Inside(
            location,
            Below(self.store.objects, location),
            kept_now,
            lambda: _shown_by_history(self.store, location),
            lambda below: self.store.read().owner_of(below) is not None,
        )
        files = list_files(self.store.objects, location)
        yield from sweep(table, files, self.then, dry_run=self.dry_run)


def _shown_by_history(store: Collectable, location: str) -> Collection[str]:
    """Give the paths of the manifests in a place that any state shows that can still be visited.

    Whatever table was there: one that is registered again is another object than it was before.
    """
    log = store.metastore.log
    chains = log.index.objects.copy()
    above = {
        place
        for place, record in _revisions(log, chains, _TABLE_DEPTH)
        if isinstance(record, StoredTable) and own_facts(record).get("location") == location
    }
    below = {
        place: chain
        for place, chain in chains.items()
        if "/".join(place.split("/")[: _TABLE_DEPTH + 1]) in above
    }
    records = (record for _, record in _revisions(log, below, _DELTA_DEPTH))
    return {read_version(one).manifest_path for one in records if isinstance(one, Delta)}


def _revisions(
    log: CommitLog, chains: Mapping[str, Sequence[Revision]], depth: int
) -> Iterator[tuple[str, Record]]:
    """Read all that was ever said of the objects at a depth, and where they are."""
    for place, chain in chains.items():
        if place.count("/") == depth:
            for revision in tuple(chain):
                if revision.operation != Operation.DELETE:
                    yield place, log.record(place, revision)
