"""Collecting the garbage of Lance tables in an Iceberg REST catalog.

The catalog keeps no history, so what was dropped cannot be told from what was deregistered. A
directory goes only if this client chose its place, no table of the catalog is there, it holds
nothing that Lance would not write, nobody has touched it for the whole window, and no version is in
it: nothing was ever committed, or a drop had begun to delete it, which takes the versions first.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Final

from lakeroot.model.errors import (
    InvalidTableStateError,
    LakerootError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.progress import each
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Objects, Root, open_root, parse_root
from lakeroot.storage.garbage import Collected, Garbage, Moments, moments
from lakeroot.storage.iceberg_rest.checking import PLACED, Checkable
from lakeroot.storage.iceberg_rest.creating import Creation
from lakeroot.storage.iceberg_rest.placing import brings_credentials
from lakeroot.storage.iceberg_rest.telling import AT_ONCE
from lakeroot.storage.iceberg_rest.versions import Versions
from lakeroot.storage.lance_dir.checking.leftovers import examine_unfinished
from lakeroot.storage.lance_dir.checking.places import is_lance_directory
from lakeroot.storage.lance_dir.checking.tables import MANIFEST
from lakeroot.storage.lance_dir.checking.versions import Kept
from lakeroot.storage.lance_dir.removing import remove, size_of
from lakeroot.storage.sweeping import Inside, sweep

_LOG: Final = logging.getLogger(__name__)
_SAME: Final = re.compile(r"^s3[an]://")


def collect(
    store: Checkable,
    older_than: timedelta,
    *,
    under: Identifier = (),
    dry_run: bool = False,
    spread: Spread = here,
) -> Collected:
    """Remove the garbage of a catalog, or of the tables of a namespace at any depth.

    The tables are looked at and cleaned by whomever `spread` finds for it.
    """
    then = moments(older_than)
    if store.client.server.is_native:
        raise UnsupportedOperationError(
            "The garbage of this catalog is not for its clients to collect",
            "the server keeps Lance tables by itself",
            "Run `lakeroot gc` on the directory that the server serves",
        )
    names = store.entries.all_names(under)
    # All that can fail by looking fails before the first thing is removed.
    orphans = [] if under else list(_orphans(store, then.left_ms))
    swept = spread(_Sweeping(store, then, dry_run=dry_run), names)
    garbage = [one for found in swept for one in found]
    garbage += _reservations(store, names, under, then.left_ms, dry_run=dry_run)
    for objects, path, address, size in orphans:
        # Looked at again, at the last moment: by now it may be somebody's.
        if not dry_run:
            if _plain(address) in _owned(store) or not _is_dead(objects, path, then.left_ms):
                continue
            objects.delete_directory(path)
        garbage.append(Garbage(address, size, "no table is there, and it has no version"))
    return Collected(tuple(garbage), dry_run)


@dataclass(frozen=True, slots=True)
class _Sweeping:
    """Removes what is left in tables one by one, here or in another process; it pickles."""

    store: Checkable = field(repr=False)
    then: Moments
    dry_run: bool

    def __call__(self, names: Sequence[Identifier]) -> list[list[Garbage]]:
        """Sweep some tables; give what was removed from each."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = [pool.submit(self._sweep, name) for name in names]
            return [done.result() for done in each(found, "Looking for garbage")]

    def _sweep(self, name: Identifier) -> list[Garbage]:
        return list(_left_in(self.store, name, self.then, dry_run=self.dry_run))


def _left_in(
    store: Checkable, name: Identifier, then: Moments, *, dry_run: bool
) -> Iterator[Garbage]:
    """Remove what dead writers left in the directory of a table."""
    entry = store.entries.find(name)
    if entry is None:
        return
    location, below = entry.location, store.files_of(entry)

    def kept_now() -> Kept | None:
        now = store.entries.find(name)
        if now is None or now.location != location or now.definition.managed_by is None:
            return None  # What nobody understands is for `fsck` to tell.
        return Versions(store.client, store.entries).kept(now)

    @cache
    def owned() -> set[str] | None:
        try:
            return _owned(store)
        except LakerootError as error:
            _LOG.warning("Branches without a name stay in %s: %s", location, error)
            return None

    def is_owned(directory: str) -> bool:
        places = owned()  # The whole catalog is read for it, so once.
        return places is None or _plain(directory) in places

    table = Inside(location, below, kept_now, is_owned=is_owned)
    files = {info.path: info for info in below.list("")}
    yield from sweep(table, files, then, dry_run=dry_run)
    for one in examine_unfinished(below, then.left_ms):
        size = size_of(below, one)
        if dry_run or remove(below, one, lambda _: False):
            yield Garbage(f"{location}/{one.path}", size, one.why)


def _reservations(
    store: Checkable,
    names: Sequence[Identifier],
    under: Identifier,
    cutoff_ms: int,
    *,
    dry_run: bool,
) -> list[Garbage]:
    """Take back names that were reserved for tables whose creation was cut off."""
    creation = Creation(store.client, store.entries)
    known = set(names)
    others = [one for one in store.entries.every_name(under) if one not in known]

    def is_gone(name: Identifier) -> bool:
        try:
            return creation.withdraw(name, cutoff_ms, dry_run=dry_run)
        except (NotFoundError, PermissionDeniedError):
            return False  # dropped since it was listed, or nothing we may touch

    with ThreadPoolExecutor(AT_ONCE) as pool:
        gone = list(pool.map(is_gone, others))
    why = "it was reserved for a table whose creation was cut off"
    return [Garbage(show(one), 0, why) for one, is_one in zip(others, gone, strict=True) if is_one]


_Orphan = tuple[Objects, str, str, int]


def _orphans(store: Checkable, cutoff_ms: int) -> Iterator[_Orphan]:
    owned = _owned(store)
    for root, objects, directory in _places(store):
        for name in sorted(objects.list_directory(directory).directories):
            path = f"{directory}/{name}".lstrip("/")
            address = root.join(path)
            if not PLACED.fullmatch(name) or _plain(address) in owned:
                continue
            if _is_dead(objects, path, cutoff_ms):
                size = sum(info.size for info in objects.list(path))
                yield objects, path, address, size


def _places(store: Checkable) -> Iterator[tuple[Root, Objects, str]]:
    """Give the directories that hold tables: below the root, or where their namespaces are."""
    if store.config.root is not None:
        objects = open_root(store.root)
        for directory in sorted(objects.list_directory("").directories):
            yield store.root, objects, directory
        return
    for namespace in store.entries.all_namespaces():
        try:
            place = store.client.load_namespace(namespace).get("location", "")
        except NotFoundError:
            continue  # dropped since it was listed
        if "://" not in place:
            continue
        root = parse_root(place, store.config.storage_options)
        # What the catalog lends opens its tables, not what is beside them.
        if root.is_local or brings_credentials(store.config.storage_options):
            yield root, open_root(root), ""


def _is_dead(objects: Objects, path: str, cutoff_ms: int) -> bool:
    files = {info.path.removeprefix(f"{path}/"): info for info in objects.list(path)}
    return (
        bool(files)
        and is_lance_directory(files)
        and not any(map(MANIFEST.fullmatch, files))
        and max(info.modified_ms for info in files.values()) <= cutoff_ms
    )


def _owned(store: Checkable) -> set[str]:
    """Give the places of all tables; none is collected while one of them is not known."""
    try:
        return {_plain(entry.location) for entry in store.entries.everything()}
    except LakerootError as error:
        raise InvalidTableStateError(
            "No garbage was collected",
            f"a table of the catalog cannot be read, so what is in use is not known: {error}",
            "Run `lakeroot fsck` to see which",
        ) from error


def _plain(address: str) -> str:
    """Write an address so that two of one place are equal."""
    return _SAME.sub("s3://", parse_root(address).uri.rstrip("/"))
