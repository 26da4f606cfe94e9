"""Writers of one table take turns: for speed alone, and nobody waits for one who is gone."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.catalog import turns
from lakeroot.namespace.border import TableVersionAlreadyExistsError
from tests.versions.locks import FOREVER, is_taken, open_below, wait_until
from tests.versions.staging import ROWS, make_table, numbers, row_count, stage

NEWEST = {"id": ["t"], "limit": 1, "descending": True}

# A writer that takes its turn and neither commits nor ends it by itself.
_HOLDER = """
import sys
import lance, pyarrow as pa
from lakeroot import DirectoryNamespace
from lakeroot.catalog import turns
turns.LONGEST_TURN = turns.LONG_WORK = turns._WRITER = 3600.0
namespace = DirectoryNamespace(root=sys.argv[1])
rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["a", "b", "c"]})
lance.write_dataset(rows, namespace_client=namespace, table_id=["t"], mode="append")
namespace.list_table_versions({"id": ["t"], "limit": 1, "descending": True})
print("holding", flush=True)
sys.stdin.readline()
"""


def append(namespace: DirectoryNamespace) -> None:
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"], mode="append")


def started(script: str, place: Path, says: str) -> subprocess.Popen[str]:
    """Start a process and wait for its first word."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"{says}\n"
    return process


@pytest.fixture
def holder(table: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = started(_HOLDER, tmp_path / "lake", "holding")
    yield process
    process.kill()
    process.communicate()


def test_a_killed_writer_leaves_no_turn_behind(
    managed: DirectoryNamespace, table: Path, holder: subprocess.Popen[str]
) -> None:
    assert is_taken(table)

    holder.send_signal(signal.SIGKILL)
    holder.wait()

    assert not is_taken(table)
    append(managed)
    append(managed)
    assert row_count(managed, "t") == 12


def test_a_writer_that_stands_still_stops_nobody(
    managed: DirectoryNamespace, table: Path, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGSTOP)

    for _ in range(3):
        append(managed)

    assert is_taken(table)
    assert row_count(managed, "t") == 15
    assert numbers(managed, "t") == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("endless")
def test_a_turn_is_given_back_with_the_version(managed: DirectoryNamespace, table: Path) -> None:
    append(managed)
    managed.list_table_versions(NEWEST)
    assert is_taken(table)

    append(managed)

    assert not is_taken(table)


def test_a_turn_ends_by_itself_and_is_not_taken_again_for_a_while(
    managed: DirectoryNamespace, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_WRITER", FOREVER)
    monkeypatch.setattr(turns, "_WITHOUT", FOREVER)
    append(managed)
    managed.list_table_versions(NEWEST)

    wait_until(lambda: not is_taken(table))

    append(managed)
    managed.list_table_versions(NEWEST)
    assert not is_taken(table)
    assert row_count(managed, "t") == 9


@pytest.mark.usefixtures("endless")
def test_who_works_for_long_on_a_version_does_so_beside_others(
    managed: DirectoryNamespace, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(managed)
    managed.list_table_versions(NEWEST)
    assert is_taken(table)

    monkeypatch.setattr(turns, "LONG_WORK", -FOREVER)
    append(managed)
    managed.list_table_versions(NEWEST)
    assert not is_taken(table)

    monkeypatch.setattr(turns, "LONG_WORK", FOREVER)
    append(managed)
    managed.list_table_versions(NEWEST)
    assert is_taken(table), "its last version was little work again"


def test_readers_take_no_turns(managed: DirectoryNamespace, table: Path) -> None:
    make_table(managed, "other")
    reader = DirectoryNamespace(root=managed.catalog.store.root.uri)

    for _ in range(3):
        assert row_count(reader, "t") == 3
        reader.list_table_versions(NEWEST)
        assert not is_taken(table)


@pytest.mark.usefixtures("endless")
def test_who_loses_a_race_has_the_next_turn(managed: DirectoryNamespace, table: Path) -> None:
    staged = stage(managed, "t")
    loser = DirectoryNamespace(root=managed.catalog.store.root.uri)
    append(managed)

    with pytest.raises(TableVersionAlreadyExistsError):
        loser.create_table_version(staged.request())
    assert is_taken(table)

    append(loser)
    assert not is_taken(table)
    assert row_count(managed, "t") == 9


_ENDING = """
import atexit, sys
# What is registered first is run last: the process has ended its turns, and is not gone.
atexit.register(lambda: (print("ending", flush=True), sys.stdin.readline()))
from lakeroot.catalog import turns
turns.LONGEST_TURN = 3600.0
mine = turns.Turns()
mine.take(sys.argv[1], lambda: None)
"""


def test_a_writer_that_ends_does_not_keep_its_turn_until_it_is_gone(tmp_path: Path) -> None:
    process = started(_ENDING, tmp_path, "ending")
    assert not is_taken(tmp_path)
    process.communicate("\n")
    assert process.returncode == 0


def test_no_row_of_several_threads_is_lost_and_no_file_stays_open(
    managed: DirectoryNamespace, table: Path
) -> None:
    append(managed)

    def write(number: int) -> None:
        for attempt in range(3):
            rows = pa.table({"id": pa.array([number * 10 + attempt], pa.int64()), "word": ["x"]})
            lance.write_dataset(rows, namespace_client=managed, table_id=["t"], mode="append")

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(1, 5)))

    assert numbers(managed, "t") == list(range(1, 15))
    found = lance.dataset(namespace_client=managed, table_id=["t"]).to_table()["id"].to_pylist()
    written = [number * 10 + attempt for number in range(1, 5) for attempt in range(3)]
    assert sorted(found) == sorted([1, 2, 3, 1, 2, 3, *written])
    wait_until(lambda: not is_taken(table))
    wait_until(lambda: open_below(table.parent) == 0)


_FORKING = """
import os, sys
from lakeroot.catalog import turns
turns.LONGEST_TURN = turns.LONG_WORK = turns._WRITER = 3600.0
mine = turns.Turns()
mine.committed([])
mine.take(sys.argv[1], lambda: None)
ready, go = os.pipe(), os.pipe()
if os.fork() == 0:
    assert not mine.are_taken
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os._exit(0)
os.read(ready[0], 1)
print("held", flush=True)
sys.stdin.readline()
mine.committed([sys.argv[1]])
print("given back", flush=True)
sys.stdin.readline()
os.write(go[1], b"x")
os.wait()
"""


def test_a_child_of_a_writer_does_not_prolong_its_turn(tmp_path: Path) -> None:
    process = started(_FORKING, tmp_path, "held")
    assert process.stdout is not None
    assert process.stdin is not None
    assert is_taken(tmp_path)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "given back\n"
    assert not is_taken(tmp_path)
    process.communicate("\n")
    assert process.returncode == 0
