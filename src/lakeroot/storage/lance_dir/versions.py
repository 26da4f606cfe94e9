"""Finding the versions of the ``__manifest`` table, from a directory of files."""

import json
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from lakeroot.objects import LocalObjects, Objects
from lakeroot.objects.faults import translated

TABLE: Final = "__manifest"
DIRECTORY: Final = f"{TABLE}/_versions"
HINT: Final = f"{DIRECTORY}/latest_version_hint.json"
_LAST: Final = 2**64 - 1
_DIGITS: Final = 20
_HINT_BYTES: Final = 32


@lru_cache(64)
def path_of(version: int) -> str:
    """Give the path of a version file: numbers count down, so that the newest is listed first."""
    return f"{DIRECTORY}/{_LAST - version:0{_DIGITS}d}.manifest"


def version_of(name: str) -> int | None:
    """Read the version from the name of a version file; nothing if it is another file."""
    digits, dot, suffix = name.partition(".")
    if not dot or suffix != "manifest" or not digits.isascii() or not digits.isdigit():
        return None
    return _LAST - int(digits) if len(digits) == _DIGITS else int(digits)


def latest(objects: Objects) -> int:
    """Find the newest version; 0 if the table does not exist."""
    # A local directory is as long as the catalog's history, so the hint that Lance keeps beside
    # the versions is worth a look there; a bucket lists the newest first.
    if isinstance(objects, LocalObjects):
        hinted = number_in(objects.get(HINT))
        if hinted and objects.exists(path_of(hinted)):
            return _gallop(hinted, lambda version: objects.exists(path_of(version)))
    return max(all_versions(objects), default=0)


def all_versions(objects: Objects) -> list[int]:
    """List every version that has a file."""
    return [version for version in map(version_of, objects.list_names(DIRECTORY)) if version]


def write_hint(objects: Objects, version: int, path: str = HINT) -> None:
    """Tell other clients of a local directory where the newest version is; only a hint."""
    if isinstance(objects, LocalObjects):
        # In place: replacing or truncating the file would make the disk flush it at every commit,
        # which takes longer than the commit. Of one length, so that a longer one leaves no rest.
        content = f'{{"version":{version}}}'.encode().ljust(_HINT_BYTES)
        with translated("writing the hint of the newest version"):
            handle = os.open(objects.local_path(path), os.O_WRONLY | os.O_CREAT, 0o666)
            try:
                os.pwrite(handle, content, 0)
            finally:
                os.close(handle)


def number_in(content: bytes | None) -> int | None:
    """Read the version that a small JSON file names: a hint or a tag."""
    try:
        found = json.loads(content or b"null")
    except ValueError:
        return None
    version = found.get("version") if isinstance(found, dict) else None
    return version if isinstance(version, int) and 0 < version < _LAST else None


def _gallop(known: int, exists: Callable[[int], bool]) -> int:
    # Versions are never removed, so they are contiguous: double the step until one is missing,
    # then search between.
    step = 1
    while exists(known + step):
        known += step
        step *= 2
    low, high = known, known + step
    while high - low > 1:
        middle = (low + high) // 2
        if exists(middle):
            low = middle
        else:
            high = middle
    return low
