"""Child processes that write to one directory, with our client or with the reference."""

from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from lance.namespace import DirectoryNamespace as Reference
from lance_namespace import LanceNamespaceError

from lakeroot.namespace.directory import DirectoryNamespace
from tests.asking import Lake

Spawn = get_context("spawn")
Told = tuple[list[str], list[tuple[str, int]], list[tuple[str, int]]]


def write(
    root: str, who: str, rounds: int, start: Barrier, answers: "Queue[tuple[str, Told]]"
) -> None:
    """Create tables and namespaces of its own and race for shared ones; tell what was answered."""
    client = Reference(root=root) if who.startswith("them") else DirectoryNamespace(root=root)
    lake = Lake(client)
    done: list[str] = []
    refused: list[tuple[str, int]] = []
    shared: list[tuple[str, int]] = []
    start.wait()
    for number in range(rounds):
        for name, call in (
            (f"{who}-{number}", lake.create_namespace),
            (f"{who}-{number}$t", lambda *names: lake.declare_table(*names)),
        ):
            try:
                call(*name.split("$"))
            except LanceNamespaceError as error:
                refused.append((name, int(error.code)))
            else:
                done.append(name)
        try:
            lake.create_namespace(f"shared-{number}")
        except LanceNamespaceError as error:
            shared.append((f"shared-{number}", int(error.code)))
        else:
            shared.append((f"shared-{number}", -1))
    answers.put((who, (done, refused, shared)))
