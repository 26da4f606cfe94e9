"""Both write at the same time, from several real processes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.asking import Lake
from tests.interop.conftest import object_ids
from tests.interop.writers import Spawn, Told, write

WHO = ["us1", "us2", "them1", "them2"]
ROUNDS = 8


def test_processes_of_both_write_at_the_same_time(
    root: Path, ours: Callable[..., Lake], theirs: Callable[..., Lake]
) -> None:
    # The manifest is there: see "The first commit" in docs/directory.md.
    ours().create_namespace("first")
    start = Spawn.Barrier(len(WHO))
    answers: Any = Spawn.Queue()
    writers = [
        Spawn.Process(target=write, args=(str(root), who, ROUNDS, start, answers)) for who in WHO
    ]
    for writer in writers:
        writer.start()
    told: dict[str, Told] = dict(answers.get(timeout=300) for _ in writers)
    for writer in writers:
        writer.join(60)

    acknowledged = [name for done, _, _ in told.values() for name in done]
    winners = Counter(name for _, _, shared in told.values() for name, code in shared if code == -1)
    there = object_ids(root)  # Refuses that one is there twice.
    assert set(acknowledged) <= set(there)
    assert max(winners.values(), default=1) == 1
    assert set(winners) <= set(there)
    assert {code for _, _, shared in told.values() for _, code in shared} <= {-1, 2, 14}
    # Names of one's own meet no conflict of ours; the reference may give up under contention.
    assert all(not refused for who, (_, refused, _) in told.items() if who.startswith("us"))
    assert ours().namespaces() == sorted(theirs().namespaces())
    for name in ours().namespaces():
        assert ours().tables(name) == sorted(theirs().tables(name))
    theirs().create_namespace("still")
    ours().create_namespace("going")
    assert {"still", "going"} <= set(object_ids(root))
