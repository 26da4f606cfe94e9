"""Finding everything that can be wrong in a metastore catalog, in both layouts.

Nothing is changed by looking. Writers may be active: what they are doing right now is told from
damage by its age, and by a second look at whatever seems to be missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.progress import each
from lakeroot.model.records import Table
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Below, Objects, Root
from lakeroot.storage.deltacat.checking.findings import KINDS, OWN_KINDS, finding
from lakeroot.storage.deltacat.checking.logs import examine_log, examine_transactions
from lakeroot.storage.deltacat.checking.names import examine_locations, examine_names
from lakeroot.storage.deltacat.checking.revisions import (
    examine_data,
    examine_orphans,
    examine_positions,
    examine_revisions,
)
from lakeroot.storage.deltacat.checking.survey import Survey
from lakeroot.storage.deltacat.cleaning import TABLES, Looking, taken
from lakeroot.storage.deltacat.view import DeltaCatView, said_of_versions
from lakeroot.storage.findings import Finding, worst_first
from lakeroot.storage.lance_dir.checking.leftovers import (
    examine_leftovers,
    examine_unfinished,
    needed_of,
)
from lakeroot.storage.lance_dir.checking.survey import list_files
from lakeroot.storage.lance_dir.checking.tables import examine_table
from lakeroot.storage.lance_dir.checking.versions import (
    Kept,
    examine_unmanaged,
    examine_versions,
)

__all__ = ["KINDS", "OWN_KINDS", "check"]


class Checkable(Protocol):
    """A metastore catalog, as far as looking at it needs."""

    root: Root
    objects: Objects

    @property
    def keeps_versions(self) -> bool:
        """Tell whether the catalog arbitrates its tables' versions."""
        ...

    def read(self) -> DeltaCatView:
        """Take a view that shows everything acknowledged before this call."""
        ...


def check(store: Checkable, grace: timedelta, spread: Spread = here) -> list[Finding]:
    """Find everything that is wrong, the worst first; change nothing.

    What the log says is compared here; files are listed and read, and Lance tables looked at, by
    whomever `spread` finds for it.
    """
    try:
        survey = Survey(store.objects, store.root.uri, grace, spread)
    except (LakerootError, ValueError, KeyError, TypeError) as error:
        why = str(error) or type(error).__name__
        return [finding("log-unreadable", "txn", "The catalog cannot be opened", why, path="txn")]
    found = [
        *examine_log(survey),
        *examine_transactions(survey),
        *examine_revisions(survey),
        *examine_names(survey),
        *examine_locations(survey),
        *examine_positions(survey),
        *examine_data(survey),
        *examine_orphans(survey),
        *_lance_tables(survey, store),
        *_directories(survey),
        *examine_unfinished(store.objects, survey.cutoff_ms),
    ]
    return worst_first(found)


def _lance_tables(survey: Survey, store: Checkable) -> Iterator[Finding]:
    view = DeltaCatView(survey.state)
    found = (view.get(identifier) for identifier in _readable(view))
    looks = [_Look(table, _kept(view, table)) for table in found if isinstance(table, Table)]
    if said_of_versions(view) is False:
        yield from examine_unmanaged([look.table.identifier for look in looks if look.kept])
        looks = [_Look(look.table, {}) for look in looks]
    for findings in survey.spread(_Looking(store, survey.cutoff_ms), looks):
        yield from findings


def _kept(view: DeltaCatView, table: Table) -> Kept:
    try:
        return dict(view.versions(table))
    except LakerootError:
        return {}  # told as a revision that is lost


class _Look(NamedTuple):
    """A Lance table to be looked at, and its versions."""

    table: Table
    kept: Kept


@dataclass(frozen=True, slots=True)
class _Looking:
    """Looks at Lance tables one by one, here or in another process; it pickles."""

    store: Checkable = field(repr=False)
    cutoff_ms: int

    def __call__(self, looks: Sequence[_Look]) -> list[list[Finding]]:
        """Look at some tables; give what is wrong with each."""
        return [list(self._table(*look)) for look in each(looks, "Checking tables")]

    def _table(self, table: Table, kept: Kept) -> Iterator[Finding]:
        identifier, location = table.identifier, table.location
        files = list_files(self.store.objects, location)
        if not files:
            if kept and self._is_there_now(table):
                yield _missing(identifier, location)
            return
        below = Below(self.store.objects, location)
        for one in examine_table(identifier, location, files, below):
            if not kept or one.code != "table-without-version":  # Then its versions are looked for.
                yield one
        if kept:
            yield from examine_versions(
                identifier, location, files, below, kept, lambda one: _kept_now(self.store, one)
            )
        yield from examine_leftovers(location, files, needed_of(kept, files), self.cutoff_ms)

    def _is_there_now(self, table: Table) -> bool:
        now = self.store.read().get(table.identifier)
        return isinstance(now, Table) and now.location == table.location


def _readable(view: DeltaCatView) -> list[Identifier]:
    try:
        return view.all_tables(None, None)
    except LakerootError:
        return []  # a record is damaged, and told as that


def _kept_now(store: Checkable, identifier: Identifier) -> Kept:
    view = store.read()
    table = view.get(identifier)
    return dict(view.versions(table)) if isinstance(table, Table) else {}


def _missing(identifier: Identifier, location: str) -> Finding:
    name = show(identifier)
    why = f"its directory {location} is missing or empty"
    what = f"{name} cannot be opened"
    return finding("table-missing", name, what, why, identifier=identifier, path=location)


def _directories(survey: Survey) -> Iterator[Finding]:
    names = sorted(survey.objects.list_directory(TABLES).directories)
    view = DeltaCatView(survey.state)
    try:
        owned = taken(view)
    except LakerootError:
        return  # Whoever cannot be read may own any of them.
    locations = [location for name in names if (location := f"{TABLES}/{name}") not in owned]
    looking = Looking(survey.objects, survey.cutoff_ms + 1)
    for location, state in zip(locations, survey.spread(looking, locations), strict=True):
        if not state.files or not state.is_still:
            continue
        try:
            if view.owner_of(location) is not None:
                continue
        except LakerootError:
            continue  # Whoever cannot be read may own it.
        what = f"No table is at {location}"
        why = "it was deregistered, or the writer that created or dropped it has died"
        yield finding("directory-orphan", location, what, why, path=location)
