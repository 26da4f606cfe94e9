"""Looking at the locks that are turns, from outside of whoever takes them."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

FOREVER = 3600.0


def is_taken(directory: Path) -> bool:
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        fcntl.flock(handle, fcntl.LOCK_UN)
        return False
    finally:
        os.close(handle)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came to this"
        time.sleep(0.01)


def open_below(directory: Path) -> int:
    """Count the directories of a table that this process has open."""
    places = (directory, directory / "_versions")
    found = 0
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += handle.readlink() in places
    return found
