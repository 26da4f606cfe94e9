"""Finding everything that can be wrong in a directory catalog, whoever made it.

Nothing is changed by looking. Writers may be active: what they are doing right now is told from
damage by its age, and by a second look at whatever seems to be missing.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from lakeroot.model.progress import each
from lakeroot.objects import Below, Objects, Root
from lakeroot.storage.findings import worst_first
from lakeroot.storage.lance_dir.checking.findings import KINDS, Finding, Severity
from lakeroot.storage.lance_dir.checking.leftovers import (
    examine_leftovers,
    examine_unfinished,
    needed_of,
)
from lakeroot.storage.lance_dir.checking.places import examine_owned, examine_unowned
from lakeroot.storage.lance_dir.checking.rows import examine_rows
from lakeroot.storage.lance_dir.checking.survey import Survey
from lakeroot.storage.lance_dir.checking.tables import examine_table
from lakeroot.storage.lance_dir.checking.versions import examine_version_rows, examine_versions
from lakeroot.storage.lance_dir.dropped import Dropped
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.spans import GRACE

__all__ = ["GRACE", "KINDS", "Finding", "Severity", "Survey", "check", "leftovers"]


class Checkable(Protocol):
    """A catalog in a directory, as far as looking at it needs."""

    root: Root
    objects: Objects
    settings: DirectorySettings


def check(store: Checkable, grace: timedelta = GRACE) -> list[Finding]:
    """Find everything that is wrong, the worst first; change nothing."""
    survey = Survey(store.root, store.objects, store.settings, grace)
    found = [*survey.manifest.findings, *_examined(survey)]
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


def _examined(survey: Survey) -> Iterator[Finding]:
    if not survey.manifest.is_readable:
        return  # Without the rows nothing can be said about the directories.
    tables = {**survey.flat_tables, **survey.owned}
    yield from examine_rows(survey.table.index)
    yield from examine_version_rows(survey.table.index, tables)
    for identifier, location in survey.owned.items():
        yield from examine_owned(identifier, location, survey.files[location], survey.cutoff_ms)
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
    for identifier, location in each(tables.items(), "Checking tables"):
        files = survey.files[location]
        if not files:
            continue
        below = Below(survey.objects, location)
        yield from examine_table(identifier, location, files, below)
        if survey.manages_versions:
            kept = survey.kept(identifier)
            yield from examine_versions(identifier, location, files, below, kept, survey.kept_now)
    yield from leftovers(survey)
