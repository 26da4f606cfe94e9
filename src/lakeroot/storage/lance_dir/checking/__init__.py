"""Finding everything that can be wrong in a directory catalog, whoever made it.

Nothing is changed by looking. Writers may be active: what they are doing right now is told from
damage by its age, and by a second look at whatever seems to be missing.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from lakeroot.model.identifiers import Identifier
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Objects, Root
from lakeroot.storage.findings import worst_first
from lakeroot.storage.lance_dir.checking.findings import KINDS, Finding, Severity
from lakeroot.storage.lance_dir.checking.leftovers import examine_unfinished
from lakeroot.storage.lance_dir.checking.looking import Looked, Looking
from lakeroot.storage.lance_dir.checking.rows import examine_rows
from lakeroot.storage.lance_dir.checking.survey import Survey
from lakeroot.storage.lance_dir.checking.versions import examine_unmanaged, examine_version_rows
from lakeroot.storage.lance_dir.dropped import Dropped
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.spans import GRACE

__all__ = ["GRACE", "KINDS", "Finding", "Severity", "Survey", "check"]


class Checkable(Protocol):
    """A catalog in a directory, as far as looking at it needs."""

    root: Root
    objects: Objects
    settings: DirectorySettings


def check(store: Checkable, grace: timedelta = GRACE, spread: Spread = here) -> list[Finding]:
    """Find everything that is wrong, the worst first; change nothing.

    The directories are listed and looked at by whomever `spread` finds for it.
    """
    survey = Survey(store.root, store.objects, store.settings, grace)
    found = [*survey.manifest.findings, *_examined(survey, spread)]
    found += examine_unfinished(store.objects, survey.cutoff_ms)
    return worst_first(found)


def _examined(survey: Survey, spread: Spread) -> Iterator[Finding]:
    if not survey.manifest.is_readable:
        return  # Without the rows nothing can be said about the directories.
    looks = survey.looks()
    looking = Looking(
        survey.rows,
        survey.objects,
        survey.cutoff_ms,
        manages_versions=survey.manages_versions,
        has_manifest=survey.manifest.exists,
    )
    looked = list(zip(looks, spread(looking, looks), strict=True))
    tables: set[Identifier] = {look.identifier for look, seen in looked if seen.is_table}
    yield from examine_rows(survey.table.index)
    if survey.has_stopped_managing:
        yield from examine_unmanaged(sorted(survey.table.index.listings.versions))
    else:
        yield from examine_version_rows(survey.table.index, tables)
    dropped = Dropped(survey.objects)
    for look, seen in looked:
        yield from (one for one in seen.place if _is_so(survey, dropped, look.location, seen, one))
        yield from seen.table


def _is_so(survey: Survey, dropped: Dropped, location: str, seen: Looked, one: Finding) -> bool:
    """Tell whether a directory without a row is worth a word, looking at the rows again."""
    # In the trash it waits to be collected, or for its table to come back.
    is_trash = one.code == "directory-orphan" and dropped.is_last(location, seen.youngest_ms)
    return not is_trash and not survey.rows.has_owner_now(location)
