"""What the Python workers of Spark do beside their tasks, and how Java talks with them."""

import atexit
import functools
import gc
import os
import shutil
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lakeroot.objects.locks import locked_now, unlock

_tasks = 0
_PREFIX = "lakeroot-sockets-"
# Held until this process ends, however it ends: by them others see that a directory is used.
_LOCKS: list[int | None] = []
# The address of a Unix socket has at most 104 bytes, and Spark's names of them 43.
_LONGEST_DIRECTORY = 60


def begin() -> None:
    """Say in a worker that a task of ours begins.

    Spark collects garbage in a worker after every task. Going through all that pyarrow, pandas and
    Lance have loaded took it 50 to 100 ms each time, which for a short task is most of its time. So
    what is there when the second task begins is left out of every later collection: imports, and
    nothing that is garbage, because Spark has just collected it.
    """
    global _tasks  # A worker is a process, and this is about the process
    _tasks += 1
    if _tasks == 2:
        gc.freeze()


@functools.cache
def unix_sockets() -> Mapping[str, str]:
    """Let Java and its Python workers on this machine talk through Unix sockets.

    Over TCP each of them waits for the other's acknowledgement when a task begins and ends, which
    makes it 40 ms longer. There is no password on these sockets, so they lie in a directory that
    nobody else can enter.
    """
    if not hasattr(socket, "AF_UNIX"):
        return {}
    _remove_left_behind()
    directory = tempfile.mkdtemp(prefix=_PREFIX)
    _LOCKS.append(locked_now(directory))
    remove_at_exit(directory)
    if len(os.fsencode(directory)) > _LONGEST_DIRECTORY:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
    }


def _remove_left_behind() -> None:
    """Remove the directories of programs that were killed and could not do it themselves."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (handle := locked_now(str(directory))) is not None:
            shutil.rmtree(directory, ignore_errors=True)
            unlock(handle)


def remove_at_exit(directory: str) -> None:
    """Remove a directory at the end of this process, not of one forked from it."""
    atexit.register(_remove, directory, os.getpid())


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _unless_nobody_hears(print_error: Callable[..., None]) -> Callable[..., None]:
    """Keep a worker from printing that Java is gone, as it is when it ends a worker.

    Spark ends workers that had nothing to do for a minute. Over a Unix socket the worker notices
    that its farewell cannot be sent, and would show the user a trace; over TCP it does not notice.
    """

    def print_other_errors(*given: Any, **named: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            print_error(*given, **named)

    return print_other_errors


# At import, because workers that only plan begin no task; the driver is another program.
_program = getattr(sys.modules.get("__main__"), "__spec__", None)
if getattr(_program, "name", None) == "pyspark.daemon":
    traceback.print_exc = _unless_nobody_hears(traceback.print_exc)
