"""What the child processes of the fault tests do. Each is a real process with its own client."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

from lance_namespace import LanceNamespaceError

from lakeroot.namespace.directory import DirectoryNamespace
from tests.asking import Lake

Spawn = get_context("spawn")


def opened(root: str, properties: dict[str, str]) -> Lake:
    return Lake(DirectoryNamespace(root=root, **properties))


def keep_working(root: str, properties: dict[str, str], name: str) -> None:
    """Make, rename and drop things for ever, telling each that is acknowledged on stdout."""
    lake = opened(root, properties)
    flat = properties.get("manifest_enabled") == "false"
    for number in range(1_000_000):
        table = f"{name}-{number}"
        lake.declare_table(table)
        _tell(f"+ {table}")
        if not flat:
            lake.create_namespace(f"ns-{table}")
            _tell(f"+ ns-{table}")
        if number % 3 == 1 and not flat:
            _tell(f"? {table}")
            lake.rename_table(table, to=f"{table}-moved")
            _tell(f"- {table}")
            _tell(f"+ {table}-moved")
        elif number % 3 == 2:
            _tell(f"? {table}")
            lake.drop_table(table)
            _tell(f"- {table}")


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


Race = tuple[str, str, dict[str, str]]


def keep_racing(races: "Queue[Race | None]", start: Barrier, answers: "Queue[int]") -> None:
    """Do one thing at the same moment as the others, and answer with the code of the outcome."""
    while (race := races.get()) is not None:
        call, root, properties = race
        lake = opened(root, properties)
        lake.namespaces()
        start.wait()
        answers.put(outcome(lambda call=call, lake=lake: CALLS[call](lake)))  # type: ignore[misc]


def declare_many(
    root: str, who: str, count: int, start: Barrier, answers: "Queue[list[int]]"
) -> None:
    """Declare tables of one's own while others do the same."""
    lake = opened(root, {})
    lake.namespaces()
    start.wait()
    answers.put([outcome(lambda n=n: lake.declare_table(f"{who}-{n}")) for n in range(count)])  # type: ignore[misc]


def outcome(call: Callable[[], object]) -> int:
    """Give the code of a refusal, or -1 for success."""
    try:
        call()
    except LanceNamespaceError as error:
        return int(error.code)
    return -1


CALLS: dict[str, Callable[[Lake], object]] = {
    "create_namespace": lambda lake: lake.create_namespace("a", "new"),
    "declare_root": lambda lake: lake.declare_table("new"),
    "declare_child": lambda lake: lake.declare_table("a", "new"),
    "create_root": lambda lake: lake.create_table("new"),
    "create_child": lambda lake: lake.create_table("a", "new"),
    "drop_table": lambda lake: lake.drop_table("t"),
    "deregister": lambda lake: lake.deregister_table("t"),
    "rename": lambda lake: lake.rename_table("t", to=f"t-{os.getpid()}"),
    "register": lambda lake: lake.register_table(f"r-{os.getpid()}", location="gone.lance"),
    "drop_namespace": lambda lake: lake.drop_namespace("empty"),
}


def without_rights(root: str, answers: "Queue[Any]") -> None:
    """Try to change a catalog that this process may only read."""
    if os.getuid() == 0:  # Nothing is forbidden to root, so it becomes somebody else.
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    lake = opened(root, {})
    answers.put((lake.tables(), lake.namespaces()))
    answers.put(_refusals(lake))


def on_a_full_disk(root: str, answers: "Queue[Any]") -> None:
    """Try to change a catalog on a disk that has no room for another byte."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    lake = opened(root, {})
    answers.put((lake.tables(), lake.namespaces()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    told = _refusals(lake)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    answers.put(told)
    answers.put((lake.tables(), lake.namespaces()))


CHANGES: list[Callable[[Lake], object]] = [
    lambda lake: lake.create_namespace("new"),
    lambda lake: lake.declare_table("new"),
    lambda lake: lake.create_table("new"),
    lambda lake: lake.declare_table("a", "new"),
    lambda lake: lake.rename_table("t", to="u"),
    lambda lake: lake.deregister_table("t"),
    lambda lake: lake.drop_table("t"),
    lambda lake: lake.drop_namespace("a"),
]


def _refusals(lake: Lake) -> list[tuple[int, str]]:
    told = []
    for change in CHANGES:
        try:
            change(lake)
        except LanceNamespaceError as error:
            told.append((int(error.code), str(error)))
        else:
            told.append((-1, ""))
    return told


if __name__ == "__main__":
    keep_working(sys.argv[1], dict(pair.split("=") for pair in sys.argv[3:]), sys.argv[2])
