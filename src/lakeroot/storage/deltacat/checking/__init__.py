"""Finding everything that can be wrong in a metastore catalog, in both layouts.

Nothing is changed by looking. Writers may be active: what they are doing right now is told from
damage by its age, and by a second look at whatever seems to be missing.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Table
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
from lakeroot.storage.deltacat.cleaning import TABLES
from lakeroot.storage.deltacat.view import DeltaCatView
from lakeroot.storage.findings import Finding, worst_first
from lakeroot.storage.lance_dir.checking.leftovers import (
    examine_leftovers,
    examine_unfinished,
    needed_of,
)
from lakeroot.storage.lance_dir.checking.tables import Files, examine_table
from lakeroot.storage.lance_dir.checking.versions import Kept, examine_versions

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


def check(store: Checkable, grace: timedelta) -> list[Finding]:
    """Find everything that is wrong, the worst first; change nothing."""
    try:
        survey = Survey(store.objects, store.root.uri, grace)
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
    for identifier in _readable(view):
        table = view.get(identifier)
        if not isinstance(table, Table):
            continue
        try:
            kept: Kept = dict(view.versions(table))
        except LakerootError:
            kept = {}  # told as a revision that is lost
        files = list_files(store.objects, table.location)
        if not files:
            if kept:
                yield _missing(identifier, table.location)
            continue
        below = Below(store.objects, table.location)
        for one in examine_table(identifier, table.location, files, below):
            if not kept or one.code != "table-without-version":  # Then its versions are looked for.
                yield one
        if kept:
            yield from examine_versions(
                identifier, table.location, files, below, kept, lambda one: _kept_now(store, one)
            )
        needed = needed_of(kept, files)
        yield from examine_leftovers(table.location, files, needed, survey.cutoff_ms)


def list_files(objects: Objects, location: str) -> Files:
    """List the files of a directory by their path below it."""
    return {info.path.removeprefix(f"{location}/"): info for info in objects.list(location)}


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
    names = survey.objects.list_directory(TABLES).directories
    view = DeltaCatView(survey.state)
    for location in (f"{TABLES}/{name}" for name in sorted(names)):
        files = list_files(survey.objects, location)
        youngest = max((info.modified_ms for info in files.values()), default=0)
        if not files or youngest > survey.cutoff_ms:
            continue
        try:
            if view.owner_of(location) is not None or _is_somebodys(view, location):
                continue
        except LakerootError:
            continue  # Whoever cannot be read may own it.
        what = f"No table is at {location}"
        why = "it was deregistered, or the writer that created or dropped it has died"
        yield finding("directory-orphan", location, what, why, path=location)


def _is_somebodys(view: DeltaCatView, location: str) -> bool:
    found = (view.get(one) for one in view.all_tables(None, None))
    return any(isinstance(one, Table) and one.location == location for one in found)
