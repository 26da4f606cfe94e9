"""Threads that share a client: while one takes commits in, the others look at the same index."""

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from lakeroot.metastore import Metastore
from lakeroot.metastore.index import Revision
from lakeroot.metastore.states import Operation

from .conftest import with_table
from .memory import MemoryObjects

NAMES = 3_000


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def taken_in(metastore: Metastore, kind: str, number: int) -> None:
    """Take in what another client has committed."""
    index = metastore.log.index
    target = f"target{number}" if kind == "name" else None
    index.add(f"{kind}/{number:040x}", Revision(1, "t", 1, Operation.CREATE, target))
    index.marks[-number] = index.marks[1]


WORK: dict[str, Callable[[Metastore], object]] = {
    "delete": lambda metastore: metastore.transaction().delete_table("ns", "t"),
    "vacuum": lambda metastore: metastore.vacuum(dry_run=True),
    "history": lambda metastore: list(metastore.transactions(limit=3)),
    "list": lambda metastore: metastore.view().tables("ns"),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("work", WORK)
def test_commits_that_are_taken_in_meanwhile_disturb_nobody(
    objects: MemoryObjects, work: str
) -> None:
    metastore = with_table(Metastore(objects))
    for number in range(NAMES):
        taken_in(metastore, "name", number)
    is_over = threading.Event()
    rounds = 2 if work == "vacuum" else 20  # which looks at everything

    def others() -> None:
        for number in range(NAMES, 2 * rounds * NAMES):
            if is_over.is_set():
                return
            taken_in(metastore, ("name", "object")[number % 2], number)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(rounds):
            WORK[work](metastore)
    finally:
        is_over.set()
        thread.join()
