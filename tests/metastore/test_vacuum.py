"""Vacuum removes what nobody can reach, and nothing else."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeroot.metastore import Metastore
from lakeroot.metastore.data import TableWriter, read_rows
from lakeroot.metastore.entries import EntryKind
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    PermissionDeniedError,
    TransactionNotFoundError,
)

from .conftest import SCHEMA, with_table
from .memory import Crash, CrashingObjects, MemoryObjects
from .test_golden import ends, everything
from .test_index import sizes
from .test_rows import KEYED, PLAIN, change, row, rows, table_in

HOUR = 60 * 60 * 1000


@pytest.fixture
def objects() -> MemoryObjects:
    """A storage with a clock that a test can turn forward."""
    made = MemoryObjects()
    made.ahead = 0  # type: ignore[attr-defined]
    made.now_ms = lambda: time.time_ns() // 1_000_000 + made.ahead  # type: ignore[attr-defined]
    return made


def later(objects: Any, ms: int) -> None:
    objects.ahead += ms


def data_files(objects: MemoryObjects) -> set[str]:
    return {path for path in objects.held if path.startswith("data/")}


def test_old_states_and_their_files_go_and_the_present_stays(
    metastore: Metastore, objects: MemoryObjects, another: Callable[[], Metastore]
) -> None:
    table_in(metastore, KEYED)
    for number in range(10):
        change(metastore, "upsert", [row(number, "x", number)])
    present = rows(metastore)
    old = next(iter(reversed(list(metastore.transactions())))).id
    planned = metastore.vacuum(retention_ms=0, dry_run=True)
    held = dict(objects.held)
    assert len(data_files(objects)) == 10
    done = metastore.vacuum(retention_ms=0)

    assert planned.is_dry
    assert set(planned.data) == set(done.data)
    assert set(planned.revisions) == set(done.revisions)
    assert len(data_files(objects)) == 1
    assert len(objects.held) < len(held) / 2
    for reader in (metastore, another()):
        assert rows(reader) == present
        with pytest.raises(TransactionNotFoundError):
            reader.view(old)
    change(metastore, "upsert", [row(99, "y", 99)])
    assert len(rows(another())) == 11


def test_a_dry_run_changes_nothing(metastore: Metastore, objects: MemoryObjects) -> None:
    table_in(metastore, KEYED)
    for number in range(3):
        change(metastore, "upsert", [row(number, "x", number)])
    before = dict(objects.held)
    metastore.vacuum(retention_ms=0, dry_run=True)

    assert objects.held == before


def test_states_within_the_retention_can_still_be_visited(
    metastore: Metastore, objects: MemoryObjects, another: Callable[[], Metastore]
) -> None:
    table_in(metastore, KEYED)
    for number in range(5):
        change(metastore, "upsert", [row(number, "x", number)])
    ids = [record.id for record in metastore.transactions()]
    expected = [read_rows(metastore.view(i), "n", "t").to_pylist() for i in ids[:-1]]
    metastore.vacuum(retention_ms=HOUR)

    found = [read_rows(another().view(i), "n", "t").to_pylist() for i in ids[:-1]]
    assert found == expected


def test_dropped_tables_and_everything_below_them_go(
    metastore: Metastore, objects: MemoryObjects, another: Callable[[], Metastore]
) -> None:
    with_table(metastore, "n", "kept")
    start = len(objects.held)
    for round_ in range(3):
        table_in(metastore, PLAIN)
        change(metastore, "append", [row(round_, "x")])
        with metastore.transaction() as txn:
            txn.delete_table("n", "t")
    metastore.vacuum(retention_ms=0)
    objects_left = [p for p in objects.held if p.endswith(".mpk")]

    assert data_files(objects) == set()
    assert len(objects_left) == 4
    assert len(objects.held) < start + 20
    assert [table.name for table in another().view().tables("n")] == ["kept"]
    table_in(another(), PLAIN)


def test_a_running_transaction_keeps_its_files_until_its_lease_ends(
    metastore: Metastore, objects: MemoryObjects, another: Callable[[], Metastore]
) -> None:
    table_in(metastore, PLAIN)
    txn = metastore.transaction("slow")
    TableWriter(txn, "n", "t").append([row(1, "x")])
    before = data_files(objects)
    assert another().vacuum(retention_ms=0).fenced == ()
    assert data_files(objects) == before
    later(objects, HOUR)
    done = another().vacuum(retention_ms=0)

    assert done.fenced == (txn.txn_id,)
    assert data_files(objects) == set()
    with pytest.raises(ConcurrentModificationError, match="clean-up"):
        txn.commit()
    assert rows(another()) == []
    assert [r.message for r in another().transactions(status="failed")] == ["fenced by vacuum"]
    change(metastore, "append", [row(2, "x")])
    assert len(rows(another())) == 1


def test_a_transaction_that_shows_that_it_lives_is_not_fenced(
    metastore: Metastore, objects: MemoryObjects, another: Callable[[], Metastore]
) -> None:
    table_in(metastore, PLAIN)
    txn = metastore.transaction()
    TableWriter(txn, "n", "t").append([row(1, "x")])
    later(objects, HOUR)
    txn.lease._renewed = None
    txn.lease.renew()
    assert another().vacuum(retention_ms=0).fenced == ()
    txn.commit()

    assert len(rows(another())) == 1


def test_what_nobody_announced_has_to_be_old_to_go(
    metastore: Metastore, objects: MemoryObjects
) -> None:
    table_in(metastore, PLAIN)
    objects.put("data/p/stranger.pq", b"?")
    metastore.vacuum(retention_ms=0)
    assert "data/p/stranger.pq" in objects.held
    later(objects, 25 * HOUR)
    metastore.vacuum(retention_ms=0)
    assert "data/p/stranger.pq" not in objects.held


def test_a_shortened_log_is_read_by_those_who_were_behind(
    metastore: Metastore, objects: MemoryObjects, another: Callable[[], Metastore]
) -> None:
    with_table(metastore)
    behind = another()
    for number in range(20):
        with metastore.transaction() as txn:
            txn.update_namespace("ns", properties={"v": number})
    metastore.vacuum(retention_ms=0)
    entry = metastore.log.entry(3)
    assert entry is not None
    assert entry.kind is EntryKind.SLIM

    assert behind.view().namespace("ns").properties == {"v": 19}
    with behind.transaction() as txn:
        txn.update_namespace("ns", properties={"v": 20})
    assert metastore.view().namespace("ns").properties == {"v": 20}
    # Even without the checkpoint that the shortened log needs, the files tell everything.
    for path in [p for p in objects.held if "_checkpoint" in p]:
        del objects.held[path]
    assert another().view().namespace("ns").properties == {"v": 20}
    with another().transaction() as txn:
        txn.update_namespace("ns", properties={"v": 21})
    assert behind.view().namespace("ns").properties == {"v": 21}


def test_vacuuming_twice_finds_nothing_more(metastore: Metastore, objects: MemoryObjects) -> None:
    table_in(metastore, KEYED)
    for number in range(3):
        change(metastore, "upsert", [row(number, "x", number)])
    metastore.vacuum(retention_ms=0)
    again = metastore.vacuum(retention_ms=0)

    assert (again.revisions, again.data, again.fenced) == ((), (), ())


@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_crash_at_any_write_of_a_vacuum_loses_nothing(layout: str, how: str) -> None:
    def prepared() -> tuple[MemoryObjects, list[dict[str, Any]]]:
        objects = MemoryObjects()
        objects.now_ms = lambda: time.time_ns() // 1_000_000
        metastore = Metastore(objects, layout=layout)
        table_in(metastore, KEYED)
        for number in range(4):
            change(metastore, "upsert", [row(number, "x", number)])
        return objects, rows(metastore)

    counting = CrashingObjects(prepared()[0], -1, how)
    Metastore(counting).vacuum(retention_ms=0)  # type: ignore[arg-type]
    assert counting.writes > 5
    for at in range(1, counting.writes + 1):
        objects, expected = prepared()
        with pytest.raises(Crash):
            Metastore(CrashingObjects(objects, at, how)).vacuum(retention_ms=0)  # type: ignore[arg-type]
        assert rows(Metastore(objects)) == expected
        Metastore(objects).vacuum(retention_ms=0)
        assert rows(Metastore(objects)) == expected
        assert len(data_files(objects)) == 1
        change(Metastore(objects), "upsert", [row(9, "y", 9)])
        assert len(rows(Metastore(objects))) == 5


def test_a_catalog_of_deltacat_is_cleaned_of_its_dead_writers(golden: Path) -> None:
    long_ago = time.time() - 10 * 24 * 60 * 60
    for path in golden.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    metastore = Metastore.open(str(golden))
    state = everything(metastore.view())
    moments = sorted(ends(golden).values())
    counts = {
        table.name: read_rows(metastore.view(), "sales", table.name).num_rows
        for table in metastore.view().tables("sales")
    }
    with metastore.transaction() as txn:
        txn.create_namespace("ours")
    done = metastore.vacuum(retention_ms=365 * 24 * HOUR)
    assert len(done.fenced) == 1
    assert everything(Metastore.open(str(golden)).view(moments[3] + 1))
    metastore.vacuum(retention_ms=0)
    view = Metastore.open(str(golden)).view()

    assert state < everything(view)
    for name, count in counts.items():
        assert read_rows(view, "sales", name).num_rows == count


def test_bad_requests_are_refused(metastore: Metastore, objects: MemoryObjects) -> None:
    with_table(metastore)
    with pytest.raises(InvalidInputError):
        metastore.vacuum(retention_ms=-1)
    with pytest.raises(PermissionDeniedError):
        Metastore(objects, read_only=True).vacuum()
    Metastore(objects, read_only=True).vacuum(dry_run=True)


def test_a_transaction_from_before_the_history_that_is_kept_cannot_commit(
    metastore: Metastore, another: Callable[[], Metastore]
) -> None:
    with_table(metastore)
    late = another().transaction()
    late.update_table("ns", "t", description="written too late")
    child = another().transaction()
    child.create_table("ns", "new")
    for work in ("delete_table", "delete_namespace"):
        with metastore.transaction() as txn:
            getattr(txn, work)(*(("ns", "t") if work == "delete_table" else ("ns",)))
    metastore.vacuum(retention_ms=0)

    # What was dropped is forgotten, the drop included: nothing is left to tell of the conflict.
    for spoiled in (late, child):
        with pytest.raises(ConcurrentModificationError, match="forgotten"):
            spoiled.commit()
    assert another().view().namespaces() == []


def test_a_transaction_of_the_history_that_is_kept_commits_after_a_vacuum(
    metastore: Metastore, another: Callable[[], Metastore]
) -> None:
    with_table(metastore)
    slow = another().transaction()
    slow.update_table("ns", "t", description="in time")
    metastore.vacuum(retention_ms=0)
    slow.commit()
    assert another().view().table("ns", "t").description == "in time"


def test_of_what_is_forgotten_nothing_stays_in_memory(metastore: Metastore) -> None:
    with_table(metastore)
    metastore.vacuum(retention_ms=0)
    before, held = sizes(metastore.log.index), len(metastore.log.contents)
    for number in range(20):
        with metastore.transaction() as txn:
            txn.create_table("ns", f"t{number}", schema=SCHEMA)
        assert len(metastore.view().tables("ns")) == 2
        with metastore.transaction() as txn:
            txn.delete_table("ns", f"t{number}")
    metastore.vacuum(retention_ms=0)
    after = sizes(metastore.log.index)

    # The last deletion is the state that is kept.
    assert all(after[name] <= before[name] + 1 for name in before), (before, after)
    assert len(metastore.log.contents) <= held + 2
    assert [table.name for table in metastore.view().tables("ns")] == ["t"]


def test_files_that_a_change_named_again_stay(
    metastore: Metastore, objects: MemoryObjects, another: Callable[[], Metastore]
) -> None:
    table_in(metastore, KEYED, properties={"records_per_compacted_file": 10})
    change(metastore, "upsert", [row(n, "x", n) for n in range(40)])
    first = data_files(objects)
    change(metastore, "delete", [{"a": 12, "b": "x"}])
    expected = rows(metastore)
    metastore.vacuum(retention_ms=0)

    assert len(data_files(objects)) == 4
    assert len(data_files(objects) & first) == 3
    assert rows(another()) == expected


def test_a_transaction_whose_files_a_vacuum_has_removed_is_to_be_begun_again(
    metastore: Metastore, another: Callable[[], Metastore]
) -> None:
    table_in(metastore, KEYED)
    change(metastore, "upsert", [row(1, "x", 1), row(2, "x", 2)])

    def overtaken() -> None:
        with metastore.transaction() as txn:
            writer, other = TableWriter(txn, "n", "t"), another()
            change(other, "upsert", [row(1, "x", 5)])
            other.vacuum(retention_ms=0)
            writer.delete([{"a": 2, "b": "x"}])

    with pytest.raises(ConcurrentModificationError, match="is forgotten"):
        overtaken()
    assert len(rows(metastore)) == 2
