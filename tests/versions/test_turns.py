"""Writers of one table take turns: for speed alone, and nobody waits for one who is gone."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.catalog import turns
from lakeroot.catalog.turns import Turns
from lakeroot.namespace.border import TableVersionAlreadyExistsError
from tests.versions.staging import ROWS, make_table, numbers, row_count, stage

_FOREVER = 3600.0
NEWEST = {"id": ["t"], "limit": 1, "descending": True}

# A writer that takes its turn and neither commits nor ends it by itself.
_HOLDER = """
import sys
import lance, pyarrow as pa
from lakeroot import DirectoryNamespace
from lakeroot.catalog import turns
turns.LONGEST_TURN = turns._WRITER = 3600.0
namespace = DirectoryNamespace(root=sys.argv[1])
rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["a", "b", "c"]})
lance.write_dataset(rows, namespace_client=namespace, table_id=["t"], mode="append")
namespace.list_table_versions({"id": ["t"], "limit": 1, "descending": True})
print("holding", flush=True)
sys.stdin.readline()
"""


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


def append(namespace: DirectoryNamespace) -> None:
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"], mode="append")


@pytest.fixture
def table(managed: DirectoryNamespace) -> Path:
    return make_table(managed, "t") / "_versions"


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let turns last, so that a busy machine does not end them before a test has looked."""
    monkeypatch.setattr(turns, "LONGEST_TURN", _FOREVER)
    monkeypatch.setattr(turns, "_WRITER", _FOREVER)


@pytest.fixture
def holder(table: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path / "lake")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
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
    monkeypatch.setattr(turns, "_WRITER", _FOREVER)
    monkeypatch.setattr(turns, "_WITHOUT", _FOREVER)
    append(managed)
    managed.list_table_versions(NEWEST)

    wait_until(lambda: not is_taken(table))

    append(managed)
    managed.list_table_versions(NEWEST)
    assert not is_taken(table)
    assert row_count(managed, "t") == 9


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


@pytest.mark.usefixtures("endless")
def test_who_loses_while_others_take_turns_has_the_turn_after_theirs(table: Path) -> None:
    other, loser = Turns(), Turns()
    other.take(str(table), lambda: None)

    loser.lost(str(table))
    assert is_taken(table)
    other.committed([str(table)])

    wait_until(lambda: loser._table(str(table)).handle is not None)
    assert is_taken(table)
    loser.committed([str(table)])
    assert not is_taken(table)


@pytest.mark.usefixtures("endless")
def test_a_retry_that_needed_no_turn_leaves_none_behind(table: Path) -> None:
    other, loser = Turns(), Turns()
    other.take(str(table), lambda: None)
    loser.lost(str(table))

    loser.committed([str(table)])

    other.committed([str(table)])
    wait_until(lambda: not loser._table(str(table)).asked)
    assert not is_taken(table)


def test_a_line_that_does_not_move_is_left(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT", 0.01)
    other, mine = Turns(), Turns()
    other.take(str(table), lambda: None)

    mine.take(str(table), lambda: None)

    known = mine._table(str(table))
    assert known.handle is None
    assert known.without_until > time.monotonic()
    other.committed([str(table)])
    wait_until(lambda: not known.asked)
    assert not is_taken(table)
    assert open_below(table.parent) == 0


@pytest.mark.usefixtures("endless")
def test_a_line_that_moves_is_waited_in(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT", 0.01)
    # Whoever looks whether the table has changed sees that it has, but in the end it does not.
    changes = iter(range(20))
    monkeypatch.setattr(turns, "_changed_at", lambda _: next(changes, -1))
    other, mine = Turns(), Turns()
    other.take(str(table), lambda: None)

    mine.take(str(table), lambda: None)

    assert mine._table(str(table)).handle is None
    assert next(changes, None) is None


@pytest.mark.usefixtures("endless")
def test_those_who_wait_have_the_turn_one_after_the_other(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT", _FOREVER)
    first, *others = (Turns() for _ in range(4))
    first.take(str(table), lambda: None)
    inside: list[int] = []
    seen: list[list[int]] = []

    def write(number: int) -> None:
        others[number].take(str(table), lambda: None)
        inside.append(number)
        time.sleep(0.02)
        seen.append(list(inside))
        inside.remove(number)
        others[number].end()

    with ThreadPoolExecutor(3) as writers:
        written = [writers.submit(write, number) for number in range(3)]
        wait_until(lambda: all(one._table(str(table)).asked for one in others))
        assert seen == []
        first.committed([str(table)])
        for one in written:
            one.result()
    assert sorted(seen) == [[0], [1], [2]]
    assert not is_taken(table)


@pytest.mark.usefixtures("endless")
def test_who_meets_others_stays_for_the_next_version_but_not_for_ever(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_STAY", _FOREVER)
    monkeypatch.setattr(turns, "_BACK", _FOREVER)
    mine = Turns()
    known = mine._table(str(table))
    mine.take(str(table), lambda: None)
    mine.committed([str(table)])
    assert not is_taken(table), "nobody else wanted it"

    known.meets_others_until = time.monotonic() + _FOREVER
    for _ in range(3):
        mine.take(str(table), lambda: None)
        mine.committed([str(table)])
        assert is_taken(table)

    known.stays_until = 0.0
    mine.take(str(table), lambda: None)
    mine.committed([str(table)])
    assert not is_taken(table)


@pytest.mark.usefixtures("endless")
def test_who_stays_and_is_not_back_gives_way_and_does_not_stay_for_a_while(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_STAY", _FOREVER)
    monkeypatch.setattr(turns, "_NO_STAY", _FOREVER)
    mine = Turns()
    mine._table(str(table)).meets_others_until = time.monotonic() + _FOREVER
    mine.take(str(table), lambda: None)
    mine.committed([str(table)])

    wait_until(lambda: not is_taken(table))

    mine.take(str(table), lambda: None)
    assert is_taken(table), "it still takes turns"
    mine.committed([str(table)])
    assert not is_taken(table)


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
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
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
turns.LONGEST_TURN = turns._WRITER = 3600.0
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
    process = subprocess.Popen(
        [sys.executable, "-c", _FORKING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "held\n"
    assert is_taken(tmp_path)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "given back\n"
    assert not is_taken(tmp_path)
    process.communicate("\n")
    assert process.returncode == 0


def test_a_directory_that_is_gone_has_no_turns(tmp_path: Path) -> None:
    mine = Turns()
    mine.committed([])
    mine.take(str(tmp_path / "gone" / "_versions"), lambda: None)
    mine.lost(str(tmp_path / "gone" / "_versions"))
    mine.committed([str(tmp_path / "gone" / "_versions")])


def test_who_goes_without_a_turn_takes_none_when_it_loses(table: Path, endless: None) -> None:
    mine = Turns()
    mine._table(str(table)).without_until = time.monotonic() + _FOREVER
    mine.lost(str(table))
    assert not is_taken(table)

    mine._table(str(table)).without_until = 0.0
    mine.lost(str(table))
    assert is_taken(table)
    mine.committed([str(table)])
    assert not is_taken(table)


def test_whatever_fails_while_the_first_in_line_reads_locks_the_line_for_nobody(
    table: Path,
) -> None:
    other, mine = Turns(), Turns()
    other.take(str(table), lambda: None)

    def broken() -> None:
        raise RuntimeError

    mine.take(str(table), broken)
    other.committed([str(table)])
    mine.committed([str(table)])
    wait_until(lambda: not is_taken(table.parent))
    assert not mine._table(str(table)).asked


def test_where_no_thread_can_be_started_there_are_no_turns(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    mine = Turns()
    mine.take(str(table), lambda: None)
    assert not is_taken(table), "nobody would watch it"
    holder = os.open(table, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    mine.lost(str(table))
    mine.take(str(table), lambda: None)
    os.close(holder)
    assert open_below(table.parent) == 0


@pytest.mark.usefixtures("endless")
def test_a_table_that_was_forgotten_while_a_thread_waited_is_known_again(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT", 60.0)
    mine = Turns()
    mine.take(str(table), lambda: None)
    mine._table(str(table)).meets_others_until = time.monotonic() + _FOREVER
    with ThreadPoolExecutor(1) as writer:
        waits = writer.submit(mine.take, str(table), lambda: None)
        wait_until(lambda: bool(vars(mine._changed)["_waiters"]))
        with mine._changed:
            mine._table(str(table)).meets_others_until = 0.0
            mine.committed([str(table)])
            for number in range(turns._KNOWN + 2):
                mine._table(f"/other/{number}")
        waits.result()
    assert is_taken(table)
    mine.committed([str(table)])
    assert not is_taken(table)


@pytest.mark.usefixtures("endless")
def test_who_stands_still_is_waited_for_once_by_a_loser_too(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT", 0.01)
    other, mine = Turns(), Turns()
    other.take(str(table), lambda: None)
    mine.lost(str(table))
    mine.take(str(table), lambda: None)
    assert mine._table(str(table)).without_until > time.monotonic()
    other.committed([str(table)])


@pytest.mark.usefixtures("endless")
def test_a_turn_that_was_waited_for_and_interrupted_is_nobodys(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_WAIT", _FOREVER)
    other, mine = Turns(), Turns()
    other.take(str(table), lambda: None)

    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        mine.take(str(table), interrupt)
    other.committed([str(table)])
    wait_until(lambda: not mine._table(str(table)).asked)
    assert not is_taken(table)
