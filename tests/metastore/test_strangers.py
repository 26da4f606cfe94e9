"""Another implementation commits to the same catalog: it is found, and its files are respected."""

import time
from collections.abc import Callable

import pytest

from lakeroot.metastore import Metastore, foreign, naming, recovery, transaction
from lakeroot.metastore.entries import Entry, EntryKind, write_entry
from lakeroot.metastore.index import Index
from lakeroot.metastore.naming import Layout, commit_path
from lakeroot.metastore.transaction import Transaction
from lakeroot.model.errors import ConcurrentModificationError

from .conftest import append, urls, with_table
from .memory import MemoryObjects
from .test_faults import DELTACATS_VERSION

MINUTE_NS = 60 * 10**9
Work = Callable[[Transaction], object]


@pytest.fixture
def catalog(objects: MemoryObjects) -> Metastore:
    """A catalog in which deltacat has left its version."""
    objects.now_ms = lambda: time.time_ns() // 1_000_000
    made = with_table(Metastore(objects, layout="deltacat-2"))
    objects.put(DELTACATS_VERSION, b"")
    return made


def written_by_a_stranger(
    objects: MemoryObjects, work: Work, *, behind_ns: int = 0
) -> dict[str, tuple[bytes, int]]:
    """Give the files that another implementation leaves: all but those of our log."""
    own = MemoryObjects(dict(objects.held))
    own.now_ms = objects.now_ms
    real = time.time_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() - behind_ns)
        txn = Metastore(own).transaction()
        work(txn)
        txn.commit()
    return {
        path: held
        for path, held in own.held.items()
        if path not in objects.held and not path.startswith("txn/_")
    }


def without_its_success(files: dict[str, tuple[bytes, int]]) -> dict[str, tuple[bytes, int]]:
    return {path: held for path, held in files.items() if not path.startswith("txn/")}


def update(properties: dict[str, str]) -> Work:
    return lambda txn: txn.update_namespace("ns", properties=properties)


def test_what_a_stranger_commits_is_seen_by_the_next_reader(
    catalog: Metastore, objects: MemoryObjects
) -> None:
    catalog.view()
    objects.held |= written_by_a_stranger(objects, lambda txn: txn.create_namespace("theirs"))

    for client in (catalog, Metastore(MemoryObjects(objects.held))):
        assert [one.name for one in client.view().namespaces()] == ["ns", "theirs"]
    assert catalog.log.has_strangers


def test_a_stranger_is_taken_in_although_somebody_else_takes_the_next_number(
    catalog: Metastore, objects: MemoryObjects
) -> None:
    catalog.view()
    objects.held |= written_by_a_stranger(objects, lambda txn: txn.create_namespace("theirs"))
    put, quicker = objects.put_if_absent, [Entry(EntryKind.FENCE, "somebody")]

    def overtaken(path: str, data: bytes) -> bool:
        if quicker and path.startswith(naming.COMMITS):
            put(path, write_entry(quicker.pop()))
        return put(path, data)

    objects.put_if_absent = overtaken  # type: ignore[method-assign]
    assert catalog.view().find_namespace("theirs") is not None
    assert quicker == []
    assert "somebody" in catalog.log.index.fenced


@pytest.mark.parametrize("minutes", [3, 9])
def test_a_stranger_whose_clock_is_behind_is_found(
    catalog: Metastore, objects: MemoryObjects, minutes: int
) -> None:
    files = written_by_a_stranger(
        objects, lambda txn: txn.create_namespace("theirs"), behind_ns=minutes * MINUTE_NS
    )
    objects.held |= files

    fresh = Metastore(MemoryObjects(objects.held))
    assert fresh.view().find_namespace("theirs") is not None
    catalog.log.look_wide()
    assert catalog.view().find_namespace("theirs") is not None


def test_a_stranger_that_was_seen_running_is_found_however_late_it_ends(
    catalog: Metastore, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written_by_a_stranger(
        objects, lambda txn: txn.create_namespace("theirs"), behind_ns=60 * MINUTE_NS
    )
    (success,) = [path for path in files if path.startswith("txn/")]
    running = naming.running_path(Layout.DELTACAT_2, success.split("/")[-2])
    objects.put(running, b"\x80")
    catalog.view()
    monkeypatch.setattr(foreign, "WIDE_EVERY_NS", 10**18)
    del objects.held[running]
    objects.held |= files

    assert catalog.view().find_namespace("theirs") is not None


def test_strangers_take_their_places_in_the_order_they_ended(
    catalog: Metastore, objects: MemoryObjects
) -> None:
    first = written_by_a_stranger(objects, update({"v": "1"}))
    objects.held |= first
    second = written_by_a_stranger(objects, update({"v": "2"}))
    for path in first:
        del objects.held[path]
    objects.held |= second | first

    assert catalog.view().namespace("ns").properties == {"v": "2"}
    newest = next(iter(catalog.transactions()))
    assert catalog.view(newest.id).namespace("ns").properties == {"v": "2"}
    before = list(catalog.transactions())[1]
    assert catalog.view(before.id).namespace("ns").properties == {"v": "1"}


def test_a_commit_goes_past_the_file_of_a_stranger_that_died(
    catalog: Metastore, objects: MemoryObjects
) -> None:
    left = without_its_success(written_by_a_stranger(objects, update({"v": "dead"})))
    objects.held |= left
    (dead,) = [naming.understand(path) for path in left]
    assert isinstance(dead, naming.RevisionPath)
    with catalog.transaction() as txn:
        txn.update_namespace("ns", properties={"v": "ours"})

    ours = [
        path
        for path in map(naming.understand, objects.held)
        if isinstance(path, naming.RevisionPath)
        and (path.txn_id, path.is_name) == (txn.txn_id, False)
    ]
    assert [path.number for path in ours] == [dead.number + 1]
    assert Metastore(MemoryObjects(objects.held)).view().namespace("ns").properties == {"v": "ours"}


def test_a_stranger_that_is_writing_the_same_object_is_waited_for(
    catalog: Metastore, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = without_its_success(written_by_a_stranger(objects, update({"v": "theirs"})))
    (path,) = map(naming.understand, left)
    assert isinstance(path, naming.RevisionPath)
    objects.held |= left
    objects.put(naming.running_path(Layout.DELTACAT_2, path.txn_id), b"\x80")
    monkeypatch.setattr(transaction, "STRANGER_ATTEMPTS", 1)
    late = catalog.transaction()
    late.update_namespace("ns", properties={"v": "ours"})

    with pytest.raises(ConcurrentModificationError, match="or is about to"):
        late.commit()
    objects.now_ms = lambda: time.time_ns() // 1_000_000 - foreign.ABANDONED_MS - 1
    objects.put(naming.running_path(Layout.DELTACAT_2, path.txn_id), b"\x80")
    with catalog.transaction() as txn:
        txn.update_namespace("ns", properties={"v": "ours"})
    assert catalog.view().namespace("ns").properties == {"v": "ours"}


def test_what_a_stranger_committed_first_is_a_conflict(
    catalog: Metastore, objects: MemoryObjects
) -> None:
    late = catalog.transaction()
    late.update_namespace("ns", properties={"v": "ours"})
    objects.held |= written_by_a_stranger(objects, update({"v": "theirs"}))

    with pytest.raises(ConcurrentModificationError, match="has changed"):
        late.commit()
    assert catalog.view().namespace("ns").properties == {"v": "theirs"}


def test_what_is_forgotten_of_a_stranger_does_not_come_back(
    catalog: Metastore, objects: MemoryObjects
) -> None:
    files = written_by_a_stranger(objects, lambda txn: txn.create_namespace("theirs"))
    objects.held |= files
    catalog.view()
    with catalog.transaction() as txn:
        txn.delete_namespace("theirs")
    append(catalog, "data/1.pq")
    catalog.vacuum(retention_ms=0)
    objects.held |= files  # as if their deletion had been undone

    for client in (catalog, Metastore(MemoryObjects(objects.held))):
        client.log.look_wide()
        assert [one.name for one in client.view().namespaces()] == ["ns"]


def test_commits_that_the_log_lost_are_found_with_the_times_they_ended(
    metastore: Metastore, objects: MemoryObjects, layout: str
) -> None:
    with_table(metastore)
    append(metastore, "data/1.pq")
    lost = recovery.lost_commits(objects, Index(Layout(layout)))

    told = [(one.id, one.end_time) for one in metastore.transactions()]
    assert [(entry.txn_id, entry.end_time) for entry in lost] == told[::-1]
    assert all(entry.writes for entry in lost)


def test_a_log_without_its_first_entry_is_made_of_the_files_and_goes_on(
    metastore: Metastore, objects: MemoryObjects, layout: str
) -> None:
    with_table(metastore)
    append(metastore, "data/1.pq")
    objects.put(commit_path(0), b"LRC1 damaged")

    again = Metastore(MemoryObjects(objects.held))
    assert again.layout is Layout(layout)
    assert urls(again) == ["data/1.pq"]
    assert len(list(again.transactions())) == len(list(metastore.transactions())) == 2
    append(again, "data/2.pq")
    assert urls(Metastore(MemoryObjects(objects.held))) == ["data/1.pq", "data/2.pq"]


def test_a_number_that_is_missing_in_the_log_is_noticed_and_its_commit_found(
    metastore: Metastore, objects: MemoryObjects
) -> None:
    with_table(metastore)
    for name in ("data/1.pq", "data/2.pq"):
        append(metastore, name)
    head = metastore.log.sync().head
    assert not recovery.has_gap(objects, head)
    del objects.held[commit_path(head - 1)]

    assert recovery.has_gap(objects, head - 2)
    assert set(urls(Metastore(MemoryObjects(objects.held)))) == {"data/1.pq", "data/2.pq"}
