"""What a local disk promises, and waiting for it: for few files one by one, for many at once."""

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

MANY: Final = 8
"""How many files are better flushed together than one by one."""
LITTLE: Final = 32 << 10
"""Kilobytes that may wait for a disk, of whoever, for all of it to be flushed at once."""

_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
# They write down changes of names in the order in which they were made.
_ORDERED: Final = frozenset({"ext3", "ext4", "xfs", "btrfs"}) | _IN_MEMORY
# They write them down in one journal: whoever waits for a change waits for all before it. Btrfs
# does not; a file that is flushed there gets an entry of its own.
_ONE_JOURNAL: Final = frozenset({"ext3", "ext4", "xfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")
_MEMORY: Final = Path("/proc/meminfo")
_WAITING: Final = re.compile(r"^(?:Dirty|Writeback):\s*([0-9]+) kB$", re.MULTILINE)
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_AT_ONCE: Final = 16


class Disk(Struct, frozen=True):
    """The file system that a directory is on."""

    device: int
    kind: str = ""

    @property
    def is_memory(self) -> bool:
        """Tell whether nothing on it outlives the machine, so that there is nothing to wait for."""
        return self.kind in _IN_MEMORY

    @property
    def is_ordered(self) -> bool:
        """Tell whether a power failure takes back the last changes of names, and never others.

        Where one name was given and then another taken away, one of the two is always there.
        """
        return self.kind in _ORDERED

    def brings_along(self, directory: str) -> bool:
        """Tell whether a name that is flushed later brings those in a directory to the disk."""
        return self.kind in _ONE_JOURNAL and self.holds(directory)

    def holds(self, place: str) -> bool:
        """Tell whether a file or a directory is on this disk."""
        return os.stat(place).st_dev == self.device  # noqa: PTH116


def disk_of(directory: str) -> Disk:
    """Tell what a directory is on, or will be once it is made."""
    place = os.path.realpath(directory)
    while not os.path.lexists(place):
        place = os.path.dirname(place)  # noqa: PTH120
    try:
        mounts = os.fsdecode(_MOUNTS.read_bytes())  # Names need not be texts.
    except OSError:  # Only Linux tells.
        mounts = ""
    found, kind = "", ""
    for line in mounts.splitlines():
        mount, _, described = line.partition(" - ")
        at = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), mount.split(" ")[4])
        is_above = place == at or place.startswith(at.rstrip("/") + "/")
        if is_above and len(at) >= len(found):  # The last of equals hides those before it.
            found, kind = at, described.partition(" ")[0]
    return Disk(os.stat(place).st_dev, kind)  # noqa: PTH116


def flush(place: str) -> None:
    """Wait until a file or a directory is on the disk; one that is gone needs no waiting."""
    try:
        handle = os.open(place, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_all(places: Sequence[str], disk: Disk, *, are_named_later: bool = False) -> None:
    """Wait until files and their names are on the disk.

    A disk takes nearly as long for one file as for all that is waiting, so many files are flushed
    with everything else on it, if that is little. Names come to the disk with one that is given
    later to what names the files, where the disk is of that kind.
    """
    directories = list(dict.fromkeys(os.path.dirname(place) for place in places))  # noqa: PTH120
    if len(places) < MANY:
        for place in places:
            flush(place)
        for place in directories:
            if not (are_named_later and disk.brings_along(place)):
                flush(place)
    elif not _is_flushed_whole(directories, disk):
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            # Contents before names: a name without its content is worse than neither.
            list(pool.map(flush, places))
            list(pool.map(flush, directories))


def _is_flushed_whole(directories: Sequence[str], disk: Disk) -> bool:
    """Flush a whole disk; tell whether that was possible, and cheap.

    Only where it is known to wait: some file systems take the call and do nothing.
    """
    sync = _syncfs()
    if sync is None or not disk.is_ordered or not _little_waits():
        return False
    try:
        if not all(map(disk.holds, directories)):
            return False
        handle = os.open(directories[0], os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        sync(handle)
    finally:
        os.close(handle)
    return True


@cache
def _syncfs() -> Callable[[int], None] | None:
    """Give the call that flushes a whole file system, where there is one; Python has none."""
    import ctypes  # Takes milliseconds, which most commands do not have.

    found = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if found is None:
        return None

    def sync(handle: int) -> None:
        if found(handle):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return sync


def _little_waits() -> bool:
    try:
        waiting = _WAITING.findall(_MEMORY.read_text())
    except OSError:
        return False
    return bool(waiting) and sum(map(int, waiting)) <= LITTLE
