"""Sweeping the inside of one Lance table: what nothing and nobody needs, in any kind of catalog.

A store says which table, and what its catalog keeps of it; the rules are the same for all. Files
are listed, then the catalog is asked, then they are listed again and the versions read: so
whatever a writer commits meanwhile is seen to need its files.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from lakeroot.objects import Objects
from lakeroot.storage.findings import Finding
from lakeroot.storage.garbage import Garbage, Moments
from lakeroot.storage.lance_dir.checking.leftovers import examine_leftovers, needed_for, needed_of
from lakeroot.storage.lance_dir.checking.tables import Files
from lakeroot.storage.lance_dir.checking.versions import Kept
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.removing import remove, size_of
from lakeroot.storage.unneeded import (
    OF_A_BRANCH,
    OF_A_JOB,
    Now,
    VanishedError,
    unneeded,
    what_is_lost,
)
from lakeroot.tables.litter import branch_of
from lakeroot.tables.receipts import job_of
from lakeroot.tables.versions import DATA, TREE

_LOOKS: Final = 20
_LOG: Final = logging.getLogger(__name__)


def _nothing() -> Collection[str]:
    return ()


def _nobody(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Inside:
    """A table to be swept, and whom to ask about it. It is asked anew each time."""

    location: str
    """What the table's directory is called where garbage is told."""
    objects: Objects = field(repr=False)
    """The files of the table, below its directory."""
    kept_now: Callable[[], Kept | None]
    """Gives the versions that the catalog keeps of it; nothing if it is not there any more."""
    kept_before: Callable[[], Collection[str]] = _nothing
    """Gives the manifests that earlier states of the catalog show, where they can be visited."""
    is_owned: Callable[[str], bool] = _nobody
    """Tells whether a directory below it is a table of its own."""


def sweep(table: Inside, files: Files, moments: Moments, *, dry_run: bool) -> Iterator[Garbage]:
    """Remove what is left in a table, of the files that were listed; give what is gone."""
    left = [
        structs.replace(one, path=one.path.removeprefix(f"{table.location}/"))
        for one in examine_leftovers(table.location, files, (), moments.left_ms)
    ]
    if not left and all(info.modified_ms > moments.unnamed_ms for info in files.values()):
        return
    left, free = _looked_through(table, files, left, moments)
    for one in left:
        size = size_of(table.objects, one)
        if dry_run or remove(table.objects, one, _nobody):
            yield Garbage(f"{table.location}/{one.path}", size, one.why)
    if not dry_run:
        table.objects.delete(free)
        for directory in _emptied(free):
            table.objects.prune_directory(directory)
    for path, why in free.items():
        yield Garbage(f"{table.location}/{path}", files[path].size, why)


def _looked_through(
    table: Inside, files: Files, left: list[Finding], moments: Moments
) -> tuple[list[Finding], dict[str, str]]:
    """Say which of the leftovers can go, and which files nothing needs."""
    has_lost = False
    for _ in range(_LOOKS):
        kept = table.kept_now()
        if kept is None:
            return [], {}
        found = {info.path: info for info in table.objects.list("")}
        going = left
        staged = [one.path for one in left if one.code == "leftover-staged-manifest"]
        if staged:
            needed = needed_of(kept, found) | needed_for(table.kept_before(), found)
            if not kept:  # Another arbiter, who may take longer, may be going to point to them.
                needed |= {one for one in staged if files[one].modified_ms > moments.unnamed_ms}
            going = [one for one in left if one.path not in needed]
        now = Now(table.objects, found, kept, {one.path for one in going})
        try:
            lost = what_is_lost(now)
            if lost and has_lost:
                _pass_over(table, lost)
                return going, {}
            if lost:
                has_lost = True
                continue
            return going, unneeded(
                files, now, moments, lambda below: table.is_owned(f"{table.location}/{below}")
            )
        except VanishedError:
            continue  # A writer has put a staged manifest into its place, or a job is over.
        except MalformedError as error:
            _pass_over(table, str(error))
            return going, {}  # What a damaged version needs is not known.
    _pass_over(table, "it was changed all the time")
    return [], {}


def _pass_over(table: Inside, why: str) -> None:
    """Say that files may be left in a table that nothing needs."""
    _LOG.warning("What nothing names in %s stays, because it is not known: %s", table.location, why)


def _emptied(gone: Mapping[str, str]) -> set[str]:
    """Give directories that nobody writes to again, once their files are gone.

    Others stay: a writer may be about to put a file there.
    """
    found = set()
    for path, why in gone.items():
        branch, above = branch_of(path), path.rpartition("/")[0]
        if why == OF_A_BRANCH and branch is not None:
            found.add(f"{TREE}/{branch}")
        elif why == OF_A_JOB:
            found.add(job_of(path) or above)
        elif above.rpartition("/")[0].endswith(("_indices", DATA)):
            found.add(above)  # of an index, or of the blobs of a data file
    return found
