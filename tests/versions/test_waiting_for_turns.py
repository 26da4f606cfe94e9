"""Those who wait for a turn: in line, in threads that nothing leaves behind, and not for ever."""

import fcntl
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakeroot.catalog import turns
from lakeroot.catalog.turns import Turns
from tests.versions.locks import FOREVER, is_taken, open_below, wait_until


def make_a_version(mine: Turns, table: Path) -> None:
    """Take a turn and do with it what a writer does."""
    mine.take(str(table), lambda: None)
    mine.committed([str(table)])


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
    # Its thread gets the turn first, and lets it go.
    wait_until(lambda: not loser._table(str(table)).asked and not is_taken(table))


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
    monkeypatch.setattr(turns, "LONGEST_WAIT", FOREVER)
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


def test_who_goes_without_a_turn_takes_none_when_it_loses(table: Path, endless: None) -> None:
    mine = Turns()
    mine._table(str(table)).without_until = time.monotonic() + FOREVER
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
    mine._table(str(table)).meets_others_until = time.monotonic() + FOREVER
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
    monkeypatch.setattr(turns, "LONGEST_WAIT", FOREVER)
    other, mine = Turns(), Turns()
    other.take(str(table), lambda: None)

    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    # A run in the background ignores the signal from its start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            mine.take(str(table), interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    other.committed([str(table)])
    wait_until(lambda: not mine._table(str(table)).asked)
    assert not is_taken(table)


@pytest.mark.usefixtures("endless")
def test_who_meets_others_stays_for_the_next_version_but_not_for_ever(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_STAY", FOREVER)
    monkeypatch.setattr(turns, "_BACK", FOREVER)
    mine = Turns()
    known = mine._table(str(table))
    make_a_version(mine, table)
    assert not is_taken(table), "nobody else wanted it"

    known.meets_others_until = time.monotonic() + FOREVER
    for _ in range(3):
        make_a_version(mine, table)
        assert is_taken(table)

    known.stays_until = 0.0
    make_a_version(mine, table)
    assert not is_taken(table)


@pytest.mark.usefixtures("endless")
def test_who_stays_and_is_not_back_gives_way_and_does_not_stay_for_a_while(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LONGEST_STAY", FOREVER)
    monkeypatch.setattr(turns, "_NO_STAY", FOREVER)
    mine = Turns()
    mine._table(str(table)).meets_others_until = time.monotonic() + FOREVER
    make_a_version(mine, table)

    wait_until(lambda: not is_taken(table))

    mine.take(str(table), lambda: None)
    assert is_taken(table), "it still takes turns"
    mine.committed([str(table)])
    assert not is_taken(table)


def test_a_directory_that_is_gone_has_no_turns(tmp_path: Path) -> None:
    mine = Turns()
    mine.committed([])
    mine.take(str(tmp_path / "gone" / "_versions"), lambda: None)
    mine.lost(str(tmp_path / "gone" / "_versions"))
    mine.committed([str(tmp_path / "gone" / "_versions")])
