"""Cleaning a metastore catalog: the metastore itself, and directories that no table owns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakeroot.metastore import Metastore
from lakeroot.metastore.vacuum import DAY_MS, Vacuumed, storage_time
from lakeroot.model.records import Table
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Objects
from lakeroot.storage.deltacat.view import DeltaCatView
from lakeroot.storage.garbage import LONGEST_JOB, Garbage
from lakeroot.storage.lance_dir.checking.tables import MANIFEST

TABLES = "_lance"
"""The directory of the tables that a catalog places; deltacat passes over it."""


def collect_unowned(
    metastore: Metastore, retention_ms: int, *, dry_run: bool, spread: Spread = here
) -> dict[str, int]:
    """Delete directories of tables that are nobody's, still for a good while; give their sizes.

    A drop takes the name away before it deletes the data, so a directory that has changed within a
    day (or the retention) is left alone; one that never had a name for seven days, because a job
    may take as long until it names what it has written. So is one that a table was deregistered
    from, if it holds a version: that is somebody's data.
    """
    now_ms = storage_time(metastore.log, dry_run=dry_run)
    cutoff_ms = now_ms - max(retention_ms, DAY_MS)
    unnamed_ms = now_ms - max(retention_ms, int(LONGEST_JOB.total_seconds() * 1000))
    looking = Looking(metastore.objects, cutoff_ms, unnamed_ms)
    # The directories first: a table that gets its name meanwhile is found by the view after them.
    found = [f"{TABLES}/{name}" for name in metastore.objects.list_directory(TABLES).directories]
    owned = taken(DeltaCatView(metastore.view()))
    found = [location for location in found if location not in owned]
    seen = dict(zip(found, spread(looking, found), strict=True))
    # Again: looking has taken its time, and a table may have been registered there.
    view = DeltaCatView(metastore.view())
    owned = taken(view)
    nobodys = [
        location
        for location, state in seen.items()
        if (state.is_still if view.is_claimed(location) else state.is_old)
        and location not in owned
        and view.owner_of(location) is None
        and not (view.is_claimed(location) and state.has_version)
    ]
    if nobodys and not dry_run:
        nobodys = _those(nobodys, spread(Deleting(looking), nobodys))
    return {location: seen[location].size for location in nobodys}


def taken(view: DeltaCatView) -> set[str]:
    """Give the directories of all tables; a claim may be missing, and the table is there still."""
    tables = (view.get(identifier) for identifier in view.all_tables(None, None))
    return {table.location for table in tables if isinstance(table, Table)}


@dataclass(frozen=True, slots=True)
class State:
    """What a directory holds."""

    files: int
    size: int
    is_still: bool
    """Whether nobody has changed it for a good while."""
    is_old: bool
    """Whether nobody has changed it for longer than any job takes."""
    has_version: bool


@dataclass(frozen=True, slots=True)
class Looking:
    """Looks at directories of tables, here or in another process; it pickles."""

    objects: Objects = field(repr=False)
    cutoff_ms: int
    unnamed_ms: int = 0

    def __call__(self, locations: Sequence[str]) -> list[State]:
        """Say what some directories hold."""
        return [self.state(location) for location in locations]

    def state(self, location: str) -> State:
        """Say what a directory holds."""
        files = list(self.objects.list(location))
        below = (info.path.removeprefix(f"{location}/") for info in files)
        youngest_ms = max((info.modified_ms for info in files), default=0)
        return State(
            len(files),
            sum(info.size for info in files),
            youngest_ms < self.cutoff_ms,
            youngest_ms < self.unnamed_ms,
            any(map(MANIFEST.fullmatch, below)),
        )


@dataclass(frozen=True, slots=True)
class Deleting:
    """Deletes directories that nobody has changed or owns even now; it pickles."""

    looking: Looking

    def __call__(self, locations: Sequence[str]) -> list[bool]:
        """Delete some directories; tell which of them are gone."""
        # Read anew where this arrives: by now a table may have been registered there.
        metastore = Metastore(self.looking.objects, read_only=True)
        return [self._delete(location, metastore) for location in locations]

    def _delete(self, location: str, metastore: Metastore) -> bool:
        if not self.looking.state(location).is_still:
            return False
        if DeltaCatView(metastore.view()).owner_of(location) is not None:
            return False
        self.looking.objects.delete_directory(location)
        return True


def garbage_of(done: Vacuumed) -> tuple[Garbage, ...]:
    """Say of everything that a vacuum removes what it is, and how large."""
    found = [(path, "no state that is kept has it") for path in done.revisions]
    found += [(path, "no delta that is kept has it") for path in done.data]
    found += [(path, "nobody needs it any more") for path in done.other]
    return tuple(Garbage(path, done.sizes[path], why) for path, why in found)


def _those(locations: Sequence[str], are: Sequence[bool]) -> list[str]:
    return [location for location, is_one in zip(locations, are, strict=True) if is_one]
