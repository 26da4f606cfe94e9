"""Collecting garbage: what no row, no version and no running writer can reach.

A directory goes only if no row means it, it holds nothing that Lance would not write, nobody has
touched it for the whole window, and either nothing was ever committed in it, or a commit of the
catalog says that the table there was dropped, and nothing in it is younger than that. Any other
is somebody's data, even without a row: it may have been deregistered, and stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from lakeroot.model.errors import InvalidTableStateError
from lakeroot.model.progress import each
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Below, Objects, Root
from lakeroot.storage.garbage import SHORTEST, Collected, Garbage, Moments, moments
from lakeroot.storage.lance_dir import placement, versions
from lakeroot.storage.lance_dir.checking import Finding, Survey
from lakeroot.storage.lance_dir.checking.leftovers import examine_unfinished
from lakeroot.storage.lance_dir.checking.places import examine_unowned, is_lance_directory
from lakeroot.storage.lance_dir.checking.survey import (
    Look,
    Rows,
    is_flat_table,
    list_all,
    list_files,
)
from lakeroot.storage.lance_dir.checking.tables import MANIFEST, Files
from lakeroot.storage.lance_dir.checking.versions import Kept
from lakeroot.storage.lance_dir.dropped import Dropped
from lakeroot.storage.lance_dir.markers import delete_table
from lakeroot.storage.lance_dir.removing import remove, size_of
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.vacuum import Vacuumed
from lakeroot.storage.sweeping import Inside, sweep


class Collectable(Protocol):
    """A catalog in a directory, as far as collecting needs."""

    root: Root
    objects: Objects
    settings: DirectorySettings

    def vacuum(self, older_than: timedelta, *, dry_run: bool = False, author: str = "") -> Vacuumed:
        """Delete the files of the manifest that no version within a window of time needs."""
        ...


def collect(
    store: Collectable,
    older_than: timedelta,
    *,
    dry_run: bool = False,
    author: str = "",
    spread: Spread = here,
) -> Collected:
    """Remove the garbage of a catalog; with ``dry_run`` only say what it is.

    The directories are looked at and cleaned by whomever `spread` finds for it.
    """
    then = moments(older_than)
    survey = Survey(store.root, store.objects, store.settings, max(older_than, SHORTEST))
    if not survey.manifest.is_readable:
        broken = survey.manifest.findings[0]
        raise InvalidTableStateError(
            "No garbage was collected",
            f"the rows of the catalog cannot be read, so what is in use is not known: {broken.why}",
            "Run `lakeroot fsck` to see what is whole",
        )
    times = Dropped(survey.objects).times if survey.unowned else {}
    sweeping = _Sweeping(
        survey.rows,
        survey.objects,
        then,
        has_manifest=survey.manifest.exists,
        dry_run=dry_run,
    )
    places = [_Place(look, times.get(look.location)) for look in survey.looks()]
    garbage = [one for found in spread(sweeping, places) for one in found]
    for one in examine_unfinished(survey.objects, then.left_ms):
        if not one.path.startswith(f"{versions.TABLE}/"):  # Those the vacuum collects.
            garbage += sweeping.removed(one)
    if survey.manifest.exists and store.settings.manifest_enabled:
        done = store.vacuum(older_than, dry_run=dry_run, author=author)
        if done.files:
            what = f"{len(done.files)} files that versions from {done.oldest_version} do not need"
            garbage.append(Garbage(versions.TABLE, done.size_bytes, what))
    return Collected(tuple(garbage), dry_run)


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory to be swept, and when a table was dropped there, if one was."""

    look: Look
    dropped_ms: int | None


@dataclass(frozen=True, slots=True)
class _Sweeping:
    """Removes the garbage of directories one by one, here or in another process; it pickles."""

    rows: Rows
    objects: Objects = field(repr=False)
    then: Moments
    has_manifest: bool
    dry_run: bool

    def __call__(self, places: Sequence[_Place]) -> list[list[Garbage]]:
        """Sweep some directories; give what was removed from each."""
        files = list_all(self.objects, (place.look.location for place in places))
        return [
            list(self._swept(place, files[place.look.location]))
            for place in each(places, "Looking for garbage")
        ]

    def _swept(self, place: _Place, files: Files) -> Iterator[Garbage]:
        look = place.look
        if look.has_row:
            yield from self._left_in_table(look, files)
            return
        orphan = self._orphan(place)
        if orphan is not None:
            yield orphan
            return
        if look.identifier and is_flat_table(files):
            yield from self._left_in_table(look, files)
        for one in examine_unowned(
            look.location, files, self.objects, self.then.left_ms, has_manifest=self.has_manifest
        ):
            if one.code == "marker-reserved":
                yield from self.removed(one)

    def _orphan(self, place: _Place) -> Garbage | None:
        """Remove a directory that is nobody's."""
        location = place.look.location
        # Looked at again, at the last moment: by now it may be somebody's.
        files = list_files(self.objects, location)
        if not files or not is_lance_directory(files):
            return None
        youngest_ms = max(info.modified_ms for info in files.values())
        if youngest_ms > self.then.left_ms:
            return None
        # A directory of this name may have been made and deregistered since it was dropped: its
        # files are younger.
        dropped_ms = place.dropped_ms
        is_dropped = dropped_ms is not None and youngest_ms <= dropped_ms <= self.then.left_ms
        if is_dropped or _is_only_a_mark(files):
            why = "its table was dropped"
        elif youngest_ms <= self.then.unnamed_ms and _was_never_committed(location, files):
            # A job may take days until it publishes what it has written here.
            why = "no table is there, and nothing was ever committed"
        else:
            return None
        if self.rows.has_owner_now(location):
            return None
        if not self.dry_run:
            delete_table(self.objects, location)
        return Garbage(location, sum(info.size for info in files.values()), why)

    def _left_in_table(self, look: Look, files: Files) -> Iterator[Garbage]:
        def kept_now() -> Kept | None:
            kept = self.rows.kept_now(look.identifier)
            is_gone = look.has_row and not self.rows.has_owner_now(look.location)
            return None if is_gone else kept

        below = Below(self.objects, look.location)
        table = Inside(look.location, below, kept_now, is_owned=self.rows.has_owner_now)
        yield from sweep(table, files, self.then, dry_run=self.dry_run)

    def removed(self, one: Finding) -> Iterator[Garbage]:
        """Remove what is left of a dead writer; give it if it is gone."""
        size = size_of(self.objects, one)
        if self.dry_run or remove(self.objects, one, self.rows.has_owner_now):
            yield Garbage(one.path, size, one.why)


def _is_only_a_mark(files: Files) -> bool:
    """Tell whether a drop left nothing but its mark, or late writers what they never committed."""
    return (
        placement.DEREGISTERED in files
        and placement.RESERVED not in files
        and not any(path.endswith(".manifest") for path in files)
    )


def _was_never_committed(location: str, files: Files) -> bool:
    return (
        not placement.is_flat(location)
        and files.keys() != {placement.RESERVED}
        and placement.DEREGISTERED not in files
        and not any(map(MANIFEST.fullmatch, files))
    )
