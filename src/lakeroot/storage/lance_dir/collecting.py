"""Collecting garbage: what no row, no version and no running writer can reach.

A directory goes only if no row means it, it holds nothing that Lance would not write, nobody has
touched it for the whole window, and either nothing was ever committed in it, or a commit of the
catalog says that the table there was dropped, and nothing in it is younger than that. Any other
is somebody's data, even without a row: it may have been deregistered, and stays.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, Protocol

from msgspec import Struct

from lakeroot.model.errors import InvalidInputError, InvalidTableStateError
from lakeroot.model.progress import each
from lakeroot.objects import Objects, Root
from lakeroot.storage.lance_dir import checking, placement, versions
from lakeroot.storage.lance_dir.checking import Finding, Survey
from lakeroot.storage.lance_dir.checking.leftovers import examine_unfinished
from lakeroot.storage.lance_dir.checking.places import examine_unowned, is_lance_directory
from lakeroot.storage.lance_dir.checking.tables import MANIFEST, Files
from lakeroot.storage.lance_dir.dropped import Dropped
from lakeroot.storage.lance_dir.markers import delete_table
from lakeroot.storage.lance_dir.removing import remove, size_of
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.vacuum import Vacuumed

SHORTEST: Final = timedelta(hours=1)
"""However short the window: what is younger may be a writer's who is at work."""


class Garbage(Struct, frozen=True):
    """Something that was removed, or would be."""

    path: str
    size_bytes: int
    why: str


class Collected(Struct, frozen=True):
    """Everything that was removed, or would be."""

    garbage: tuple[Garbage, ...]
    dry_run: bool

    @property
    def size_bytes(self) -> int:
        """Sum up what was freed."""
        return sum(one.size_bytes for one in self.garbage)


class Collectable(Protocol):
    """A catalog in a directory, as far as collecting needs."""

    root: Root
    objects: Objects
    settings: DirectorySettings

    def vacuum(self, older_than: timedelta, *, dry_run: bool = False, author: str = "") -> Vacuumed:
        """Delete the files of the manifest that no version within a window of time needs."""
        ...


def collect(
    store: Collectable, older_than: timedelta, *, dry_run: bool = False, author: str = ""
) -> Collected:
    """Remove the garbage of a catalog; with ``dry_run`` only say what it is."""
    if older_than < timedelta(0):
        raise InvalidInputError("The window cannot be negative", fix="Keep zero days or more")
    survey = Survey(store.root, store.objects, store.settings, max(older_than, SHORTEST))
    if not survey.manifest.is_readable:
        broken = survey.manifest.findings[0]
        raise InvalidTableStateError(
            "No garbage was collected",
            f"the rows of the catalog cannot be read, so what is in use is not known: {broken.why}",
            "Run `lakeroot fsck` to see what is whole",
        )
    garbage = [*_orphans(survey, dry_run=dry_run), *_leftovers(survey, dry_run=dry_run)]
    if survey.manifest.exists and store.settings.manifest_enabled:
        done = store.vacuum(older_than, dry_run=dry_run, author=author)
        if done.files:
            what = f"{len(done.files)} files that versions from {done.oldest_version} do not need"
            garbage.append(Garbage(versions.TABLE, done.size_bytes, what))
    return Collected(tuple(garbage), dry_run)


def _orphans(survey: Survey, *, dry_run: bool) -> Iterator[Garbage]:
    dropped = Dropped(survey.objects)
    for location in each(survey.unowned, "Looking for garbage"):
        # Looked at again, at the last moment: by now it may be somebody's.
        files = survey.list_files(location)
        if not files or not is_lance_directory(files):
            continue
        if max(info.modified_ms for info in files.values()) > survey.cutoff_ms:
            continue
        dropped_ms = dropped.dropped_ms(location, files)
        if dropped_ms is not None and dropped_ms <= survey.cutoff_ms:
            why = "its table was dropped"
        elif _was_never_committed(location, files):
            why = "no table is there, and nothing was ever committed"
        else:
            continue
        if survey.has_owner_now(location):
            continue
        if not dry_run:
            delete_table(survey.objects, location)
        yield Garbage(location, sum(info.size for info in files.values()), why)


def _was_never_committed(location: str, files: Files) -> bool:
    return (
        not placement.is_flat(location)
        and files.keys() != {placement.RESERVED}
        and placement.DEREGISTERED not in files
        and not any(map(MANIFEST.fullmatch, files))
    )


def _leftovers(survey: Survey, *, dry_run: bool) -> Iterator[Garbage]:
    for one in _removable(survey):
        size = size_of(survey.objects, one)
        if dry_run or remove(survey.objects, one, survey.has_owner_now):
            yield Garbage(one.path, size, one.why)


def _removable(survey: Survey) -> Iterator[Finding]:
    yield from checking.leftovers(survey)
    for location in survey.unowned:
        found = examine_unowned(
            location,
            survey.files[location],
            survey.objects,
            survey.cutoff_ms,
            has_manifest=survey.manifest.exists,
        )
        yield from (one for one in found if one.code == "marker-reserved")
    for one in examine_unfinished(survey.objects, survey.cutoff_ms):
        if not one.path.startswith(f"{versions.TABLE}/"):  # Those the vacuum collects.
            yield one
