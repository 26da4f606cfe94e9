"""Finding everything that can be wrong in a directory catalog, whoever made it.

Nothing is changed by looking. Writers may be active: what they are doing right now is told from
damage by its age, and by a second look at whatever seems to be missing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Protocol

from lakeroot.model.identifiers import Identifier
from lakeroot.model.progress import each
from lakeroot.objects import Below, Objects, Root, open_root
from lakeroot.storage.findings import worst_first
from lakeroot.storage.lance_dir.checking.findings import KINDS, Finding, Severity
from lakeroot.storage.lance_dir.checking.leftovers import (
    examine_leftovers,
    examine_unfinished,
    needed_of,
)
from lakeroot.storage.lance_dir.checking.places import examine_owned, examine_unowned
from lakeroot.storage.lance_dir.checking.rows import examine_rows
from lakeroot.storage.lance_dir.checking.survey import Survey, list_files, rows_of
from lakeroot.storage.lance_dir.checking.tables import Files, examine_table
from lakeroot.storage.lance_dir.checking.versions import (
    Kept,
    examine_version_rows,
    examine_versions,
)
from lakeroot.storage.lance_dir.dropped import Dropped
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.version_rows import KeptVersions
from lakeroot.storage.spans import GRACE

__all__ = [
    "GRACE",
    "KINDS",
    "Elsewhere",
    "Finding",
    "Look",
    "Severity",
    "Spread",
    "Survey",
    "check",
    "leftovers",
]


class Checkable(Protocol):
    """A catalog in a directory, as far as looking at it needs."""

    root: Root
    objects: Objects
    settings: DirectorySettings


@dataclass(frozen=True, slots=True)
class Look:
    """A table to be looked at, here or in another process."""

    identifier: Identifier
    location: str
    has_row: bool
    kept: Kept


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What another process must know to look at tables of this catalog; it pickles."""

    root: Root = field(repr=False)
    cutoff_ms: int
    manages_versions: bool

    def __call__(self, tables: Sequence[Look]) -> list[Finding]:
        """List the files of some tables, and look at them."""
        objects = open_root(self.root)
        kept_now = partial(_kept_by_now, self.root, objects)
        return [
            one
            for table in tables
            for one in _examined_table(
                table, list_files(objects, table.location), objects, kept_now, self
            )
        ]


Spread = Callable[[Sequence[Look], Elsewhere], Iterable[Finding]]
"""Lets other processes look at the tables, and gives what they have found."""


def check(
    store: Checkable, grace: timedelta = GRACE, spread: Spread | None = None
) -> list[Finding]:
    """Find everything that is wrong, the worst first; change nothing.

    With `spread` the tables that have rows are listed and looked at by other processes.
    """
    survey = Survey(store.root, store.objects, store.settings, grace, lists_owned=spread is None)
    found = [*survey.manifest.findings, *_examined(survey, store.root, spread)]
    found += examine_unfinished(store.objects, survey.cutoff_ms)
    return worst_first(found)


def leftovers(survey: Survey) -> Iterator[Finding]:
    """Find what dead writers have left in the directories of tables."""
    for identifier, location in {**survey.flat_tables, **survey.owned}.items():
        files = survey.files[location]
        needed = needed_of(survey.kept(identifier), files)
        yield from examine_leftovers(location, files, needed, survey.cutoff_ms)


def _is_trash(survey: Survey, dropped: Dropped, location: str) -> bool:
    """Tell whether a directory waits to be collected, or for its table to come back."""
    return dropped.dropped_ms(location, survey.files[location]) is not None


def _kept_by_now(root: Root, objects: Objects, identifier: Identifier) -> Kept:
    table = rows_of(root, objects)
    table.refresh()
    return KeptVersions(dict(table.index.listings.versions.get(identifier, {})))


def _examined(survey: Survey, root: Root, spread: Spread | None) -> Iterator[Finding]:
    if not survey.manifest.is_readable:
        return  # Without the rows nothing can be said about the directories.
    flat = survey.flat_tables
    tables = {**flat, **survey.owned}
    yield from examine_rows(survey.table.index)
    yield from examine_version_rows(survey.table.index, tables)
    dropped = Dropped(survey.objects)
    for location in survey.unowned:
        for one in examine_unowned(
            location,
            survey.files[location],
            survey.objects,
            survey.cutoff_ms,
            has_manifest=survey.manifest.exists,
        ):
            if one.code == "directory-orphan" and _is_trash(survey, dropped, location):
                continue
            if not survey.has_owner_now(location):
                yield one
    what = Elsewhere(root, survey.cutoff_ms, survey.manages_versions)
    looks = [
        Look(identifier, location, identifier in survey.owned, survey.kept(identifier))
        for identifier, location in tables.items()
    ]
    if spread is not None:
        yield from spread([one for one in looks if one.location not in survey.files], what)
        looks = [one for one in looks if one.location in survey.files]
    for table in each(looks, "Checking tables"):
        files = survey.files[table.location]
        yield from _examined_table(table, files, survey.objects, survey.kept_now, what)


def _examined_table(
    table: Look,
    files: Files,
    objects: Objects,
    kept_now: Callable[[Identifier], Kept],
    what: Elsewhere,
) -> Iterator[Finding]:
    identifier, location, kept = table.identifier, table.location, table.kept
    if table.has_row:
        yield from examine_owned(identifier, location, files, what.cutoff_ms)
    if files:
        below = Below(objects, location)
        yield from examine_table(identifier, location, files, below)
        if what.manages_versions:
            yield from examine_versions(identifier, location, files, below, kept, kept_now)
    yield from examine_leftovers(location, files, needed_of(kept, files), what.cutoff_ms)
