"""Locks on directories of this machine: they end with the process that holds them."""

import contextlib
import fcntl
import os


def locked_now(directory: str) -> int | None:
    """Lock a directory if nobody else has locked it."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # Not every disk has locks, either.
        os.close(handle)
        return None
    return handle


def unlock(handle: int) -> None:
    """Let go of a lock."""
    # Said, and not only closed: a child of this process may have the same file open.
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)
