"""Several worker processes behind one socket, which are there as soon as the first process is.

uvicorn starts each worker as a new interpreter, which takes as long again as starting the command.
As long as nothing is loaded that does not survive it, a worker is forked instead: that takes
milliseconds, and all of them share what is loaded already.
"""

import multiprocessing
import signal
import socket
import sys
from inspect import signature
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.supervisors import Multiprocess, multiprocess
from uvicorn.supervisors.multiprocess import SIGNALS, Process

_WITH_THREADS: Final = ("lance", "pyarrow", "lancedb", "obstore")
_OWN_THREADS: Final = Path("/proc/self/task")


class Forked(Process):
    """A worker that begins as a copy of this process."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        self.config = config
        self._server = None
        self.parent_conn, self.child_conn = multiprocessing.Pipe()
        context: Any = multiprocessing.get_context("fork")
        self.process = context.Process(target=self._begin, args=(sockets,))

    def _begin(self, sockets: list[socket.socket]) -> None:
        # What the first process does on a signal is not what a worker does.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self.target(sockets)


def supervisor(config: uvicorn.Config, sockets: list[socket.socket]) -> Multiprocess:
    """What starts the workers, starts them again when they end, and stops them."""
    if _can_fork():
        # There is no other way to say which kind of worker the supervisor makes.
        multiprocess.Process = Forked  # type: ignore[misc]
    return Multiprocess(config, sockets=sockets)


def _can_fork() -> bool:
    """Tell whether a copy of this process can work: no threads, and nothing that had any."""
    return (
        sys.platform == "linux"
        and list(signature(Process).parameters) == ["config", "sockets"]  # the uvicorn we know
        and len(list(_OWN_THREADS.iterdir())) == 1  # those that are not Python's as well
        and not any(name in sys.modules for name in _WITH_THREADS)
    )
