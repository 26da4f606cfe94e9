"""V1: a table is a directory ``<name>.lance`` that is not empty and not deregistered."""

import itertools
import os
import time
from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct

from lakeroot.model.errors import InvalidInputError
from lakeroot.objects import LocalObjects, Objects
from lakeroot.objects.faults import translated
from lakeroot.storage.lance_dir.placement import (
    DEREGISTERED,
    MARK_FOR_ROW,
    RESERVED,
    SUFFIX,
    flat,
    is_component,
)
from lakeroot.tables.versions import VERSIONS

# A directory that changed this recently may change again without its time telling.
_SETTLED_NS: Final = 2_000_000_000
_AT_ONCE: Final = 32
_ENOUGH: Final = 10


class Probe(Struct, frozen=True):
    """What is in the directory of a root table."""

    has_files: bool
    is_deregistered: bool

    @property
    def is_table(self) -> bool:
        """Tell whether V1 shows a table there."""
        return self.has_files and not self.is_deregistered


NOTHING: Final = Probe(has_files=False, is_deregistered=False)


class Directory:
    """The tables of a root directory, found by looking.

    ``beside_manifest``, a reservation that was made for a row is no table of its own: the row is,
    or will be, or the writer has died.
    """

    def __init__(self, objects: Objects, *, beside_manifest: bool = False) -> None:
        self._objects = objects
        self._beside_manifest = beside_manifest
        self._settled: dict[str, tuple[int, bool]] = {}

    def probe(self, name: str) -> Probe:
        """Look for the table of a name."""
        if not is_component(name):
            return NOTHING
        try:
            # All names of one moment: a look at each of them in turn could see the files of a
            # table that is being dropped, and then no longer the marker that hides them.
            names = set(self._objects.list_names(flat(name)))
        except InvalidInputError:
            return NOTHING  # A bucket cannot even hold an object of this name.
        if DEREGISTERED in names:
            return Probe(has_files=True, is_deregistered=True)
        if names == {RESERVED} and self._is_for_row(name):
            return NOTHING
        # Most tables have versions, which costs less to ask than whether there is anything.
        has_files = (
            RESERVED in names
            or (VERSIONS in names and self._objects.has_any(f"{flat(name)}/{VERSIONS}"))
            or (bool(names) and self._objects.has_any(flat(name)))
        )
        return Probe(has_files, is_deregistered=False)

    def _is_for_row(self, name: str) -> bool:
        return (
            self._beside_manifest and self._objects.get(f"{flat(name)}/{RESERVED}") == MARK_FOR_ROW
        )

    def names(self, known_locations: Container[str]) -> list[str]:
        """List the tables whose directories are not known already."""
        if isinstance(self._objects, LocalObjects):
            return self._local_names(self._objects, known_locations)
        found = [
            directory.removesuffix(SUFFIX)
            for directory in self._objects.list_directory("").directories
            if directory.endswith(SUFFIX) and directory not in known_locations
        ]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            shown = pool.map(self._is_remote_table, found)
            return [name for name, is_shown in zip(found, shown, strict=True) if is_shown]

    def _is_remote_table(self, name: str) -> bool:
        # Some buckets show directories that are empty. One request tells both: names are sorted
        # there, so the marker, if it is there, is among the first.
        first = itertools.islice(self._objects.list(flat(name)), _ENOUGH)
        names = [item.path.rpartition("/")[2] for item in first]
        if names == [RESERVED] and self._is_for_row(name):
            return False
        return bool(names) and DEREGISTERED not in names

    def _local_names(self, objects: LocalObjects, known_locations: Container[str]) -> list[str]:
        settled_before = time.time_ns() - _SETTLED_NS
        with translated("listing the root"):
            try:
                with os.scandir(objects.root) as entries:
                    return [
                        entry.name.removesuffix(SUFFIX)
                        for entry in entries
                        if entry.name.endswith(SUFFIX)
                        and entry.name not in known_locations
                        and self._is_local_table(entry, settled_before)
                    ]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _is_local_table(self, entry: os.DirEntry[str], settled_before: int) -> bool:
        # Looking into every directory costs more than the whole rest of a listing, so what was
        # seen is remembered for as long as the directory's own time does not change.
        try:
            changed = entry.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        seen = self._settled.get(entry.name)
        if seen is not None and seen[0] == changed:
            return seen[1]
        if not entry.is_dir():
            return False
        probe = self.probe(entry.name.removesuffix(SUFFIX))
        if changed < settled_before and probe.has_files:
            self._settled[entry.name] = (changed, probe.is_table)
        return probe.is_table
