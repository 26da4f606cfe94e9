"""Isolation, conflicts, retries, lost replies, time travel."""

import pickle
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakeroot.metastore import ManifestEntry, Metastore, Transaction, manifest_of
from lakeroot.metastore.data import TableWriter, read_rows
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    ServiceUnavailableError,
    TransactionNotFoundError,
)

from .conftest import append, urls, with_table
from .memory import MemoryObjects

Open = Callable[[], Metastore]


def change_much_then_fail(txn: Transaction) -> None:
    txn.create_namespace("other")
    txn.create_table("ns", "second")
    txn.create_namespace("ns")


def test_a_transaction_is_all_or_nothing(metastore: Metastore, another: Open) -> None:
    with_table(metastore)
    with pytest.raises(NamespaceAlreadyExistsError), metastore.transaction() as txn:
        change_much_then_fail(txn)

    assert [n.name for n in another().view().namespaces()] == ["ns"]
    assert [t.name for t in another().view().tables("ns")] == ["t"]


def test_nothing_is_seen_before_the_commit_and_all_of_it_after(
    metastore: Metastore, another: Open
) -> None:
    reader = another()
    txn = metastore.transaction()
    txn.create_namespace("a")
    txn.create_table("a", "t")
    assert txn.table("a", "t").name == "t"
    assert reader.view().namespaces() == []
    txn.commit()

    assert reader.view().table("a", "t").name == "t"


def test_reads_are_repeatable_whatever_others_commit(metastore: Metastore, another: Open) -> None:
    with_table(metastore)
    reader = another()
    txn = reader.transaction()
    seen = txn.table("ns", "t")
    with metastore.transaction() as other:
        other.update_table("ns", "t", new_name="u", description="changed")
        other.create_namespace("new")
    reader.view()

    assert txn.table("ns", "t") == seen
    assert txn.find_table("ns", "u") is None
    assert txn.find_namespace("new") is None


def test_an_uncommitted_rename_disturbs_no_reader(metastore: Metastore, another: Open) -> None:
    with_table(metastore)
    append(metastore, "data/1.pq")
    txn = metastore.transaction()
    txn.update_table("ns", "t", new_name="u")
    other = another()

    assert other.view().stream("ns", "t").locator.parent.parent.table_name == "t"
    assert append(other, "data/2.pq") == 2
    txn.commit()
    assert urls(other, "ns", "u") == ["data/1.pq", "data/2.pq"]


def test_two_changes_of_one_object_conflict(metastore: Metastore, another: Open) -> None:
    with_table(metastore)
    first, second = metastore.transaction(), another().transaction()
    first.update_table("ns", "t", description="first")
    second.update_table("ns", "t", description="second")
    first.commit()

    with pytest.raises(ConcurrentModificationError, match="Begin a new transaction"):
        second.commit()
    assert another().view().table("ns", "t").description == "first"
    with metastore.transaction() as txn:
        txn.update_table("ns", "t", description="third")
    assert another().view().table("ns", "t").description == "third"


def test_two_creations_of_one_name_conflict(metastore: Metastore, another: Open) -> None:
    first, second = metastore.transaction(), another().transaction()
    first.create_namespace("a")
    second.create_namespace("a")
    second.commit()

    with pytest.raises(ConcurrentModificationError):
        first.commit()
    assert len(another().view().namespaces()) == 1


def test_changes_of_different_objects_do_not_conflict(metastore: Metastore, another: Open) -> None:
    with_table(metastore)
    with metastore.transaction() as txn:
        txn.create_table("ns", "other")
    first, second = metastore.transaction(), another().transaction()
    first.update_table("ns", "t", description="first")
    second.update_table("ns", "other", description="second")
    first.commit()
    second.commit()

    assert {t.description for t in another().view().tables("ns")} == {"first", "second"}


def test_dropping_a_namespace_and_creating_a_table_in_it_cannot_both_succeed(
    metastore: Metastore, another: Open
) -> None:
    def drop(txn: Transaction) -> None:
        txn.delete_namespace("empty")

    def create(txn: Transaction) -> None:
        txn.create_table("empty", "t")

    for order in ((drop, create), (create, drop)):
        with metastore.transaction() as txn:
            if txn.find_namespace("empty") is None:
                txn.create_namespace("empty")
        first, second = metastore.transaction(), another().transaction()
        order[0](first)
        order[1](second)
        first.commit()
        with pytest.raises(ConcurrentModificationError):
            second.commit()


def test_renaming_a_namespace_loses_no_table(metastore: Metastore, another: Open) -> None:
    with_table(metastore)
    rename, create = metastore.transaction(), another().transaction()
    rename.update_namespace("ns", new_name="n2")
    create.create_table("ns", "u")
    rename.commit()
    try:
        create.commit()
    except ConcurrentModificationError:
        with another().transaction() as txn:
            txn.create_table("n2", "u")
    view = another().view()

    assert [view.table("n2", t.name).name for t in view.tables("n2")] == ["t", "u"]


def test_write_skew_is_allowed_in_a_snapshot_and_refused_when_serialisable(
    metastore: Metastore, another: Open
) -> None:
    def on_call(store: Metastore, me: str, other: str, *, serializable: bool) -> Transaction:
        txn = store.transaction(serializable=serializable)
        assert (txn.namespace(other).properties or {})["on"] is True
        txn.update_namespace(me, properties={"on": False})
        return txn

    for serializable in (False, True):
        with metastore.transaction() as txn:
            for name in ("a", "b"):
                if txn.find_namespace(name) is None:
                    txn.create_namespace(name)
                txn.update_namespace(name, properties={"on": True})
        first = on_call(metastore, "a", "b", serializable=serializable)
        second = on_call(another(), "b", "a", serializable=serializable)
        first.commit()
        if serializable:
            with pytest.raises(ConcurrentModificationError):
                second.commit()
        else:
            second.commit()


def test_a_serialisable_listing_conflicts_with_a_new_member(
    metastore: Metastore, another: Open
) -> None:
    with_table(metastore)
    txn = metastore.transaction(serializable=True)
    count = len(txn.tables("ns"))
    txn.create_namespace(f"seen-{count}")
    with another().transaction() as other:
        other.create_table("ns", "phantom")

    with pytest.raises(ConcurrentModificationError):
        txn.commit()


def test_appends_to_one_partition_both_succeed(metastore: Metastore, another: Open) -> None:
    with_table(metastore)

    stores = [metastore, another(), another()]
    transactions = [store.transaction() for store in stores]
    for number, txn in enumerate(transactions):
        for part in "ab":
            entry = ManifestEntry(f"data/{number}{part}.pq")
            txn.append_delta(txn.stream("ns", "t"), manifest_of([entry]))
    for txn in transactions:
        txn.commit()

    assert urls(another()) == [f"data/{number}{part}.pq" for number in range(3) for part in "ab"]


def test_an_append_follows_its_partition_through_a_replacement(
    metastore: Metastore, another: Open
) -> None:

    with_table(metastore)
    append(metastore, "data/1.pq")
    txn = another().transaction()
    txn.append_delta(txn.stream("ns", "t"), manifest_of([ManifestEntry("data/2.pq")]))
    with metastore.transaction() as compaction:
        staged = compaction.stage_partition(compaction.stream("ns", "t"))
        compaction.put_delta(staged, 1, manifest_of([ManifestEntry("data/1c.pq")]))
        compaction.commit_partition(staged)
    txn.commit()

    assert urls(another()) == ["data/1c.pq", "data/2.pq"]


def test_an_append_to_a_dropped_table_is_a_conflict(metastore: Metastore, another: Open) -> None:

    with_table(metastore)
    txn = another().transaction()
    txn.append_delta(txn.stream("ns", "t"), manifest_of([]))
    with metastore.transaction() as drop:
        drop.delete_table("ns", "t")

    with pytest.raises(ConcurrentModificationError):
        txn.commit()


def test_work_is_run_again_when_another_writer_was_faster(
    metastore: Metastore, another: Open
) -> None:
    with metastore.transaction() as txn:
        txn.create_namespace("n", {"count": 0})
    other, interruptions = another(), iter(range(3))

    def increment(txn: Transaction) -> None:
        count = (txn.namespace("n").properties or {})["count"]
        if next(interruptions, None) is not None:
            with other.transaction() as rival:
                rival_count = (rival.namespace("n").properties or {})["count"]
                rival.update_namespace("n", properties={"count": rival_count + 10})
        txn.update_namespace("n", properties={"count": count + 1})

    metastore.run(increment)
    assert another().view().namespace("n").properties == {"count": 31}


class LosingReplies(MemoryObjects):
    """Does what it is asked, and then sometimes says that it could not."""

    def __init__(self, held: dict[str, Any], seed: int) -> None:
        super().__init__(held)
        self.random = random.Random(seed)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        fate = self.random.random()
        if fate < 0.2:
            raise ServiceUnavailableError("The request was lost")
        done = super().put_if_absent(path, data)
        if fate < 0.5:
            raise ServiceUnavailableError("The reply was lost")
        # As when a client below sends a request again whose reply was lost.
        return done and fate < 0.8


@pytest.mark.parametrize("seed", range(5))
def test_a_lost_reply_is_recognised_by_reading_back(seed: int) -> None:
    objects = LosingReplies({}, seed)
    metastore = Metastore(objects)
    acknowledged = []
    for number in range(30):
        try:
            with metastore.transaction() as txn:
                txn.create_namespace(f"n{number:02}")
        except ServiceUnavailableError:
            continue
        acknowledged.append(f"n{number:02}")
    names = [n.name for n in Metastore(MemoryObjects(objects.held)).view().namespaces()]

    assert set(acknowledged) <= set(names)
    assert len(names) == len(set(names))
    assert len(acknowledged) > 20


class Unreachable(MemoryObjects):
    """Writes a commit and then does not answer any more."""

    is_down = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "_commit" in path and self.is_down:
            super().put_if_absent(path, data)
            raise ServiceUnavailableError("There is no answer")
        return super().put_if_absent(path, data)

    def get(self, path: str) -> bytes | None:
        if "_commit" in path and self.is_down:
            raise ServiceUnavailableError("There is no answer")
        return super().get(path)


def test_a_commit_whose_fate_is_unknown_keeps_its_files() -> None:
    objects = Unreachable()
    metastore = with_table(Metastore(objects))
    txn = metastore.transaction()
    TableWriter(txn, "ns", "t").append([{"id": 1, "name": "x"}])
    metastore.log.sync()
    txn.log.sync = lambda: txn.log.index  # type: ignore[method-assign]  # the last it heard
    objects.is_down = True
    with pytest.raises(ServiceUnavailableError):
        txn.commit()

    again = Metastore(MemoryObjects(objects.held))
    assert read_rows(again.view(), "ns", "t").num_rows == 1


def test_threads_that_share_a_metastore_lose_no_update(metastore: Metastore) -> None:
    with metastore.transaction() as txn:
        txn.create_namespace("n", {"count": 0})

    def increment(txn: Transaction) -> None:
        count = (txn.namespace("n").properties or {})["count"]
        txn.update_namespace("n", properties={"count": count + 1})

    def work() -> None:
        for _ in range(15):
            while True:
                try:
                    metastore.run(increment)
                except ConcurrentModificationError:
                    continue
                break

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work) for _ in range(6)]:
            future.result()

    assert metastore.view().namespace("n").properties == {"count": 90}


def test_the_past_can_be_visited_by_time_and_by_transaction(
    metastore: Metastore, another: Open
) -> None:
    moments, ids = [], []
    for number in range(4):
        with metastore.transaction(f"step {number}") as txn:
            txn.create_namespace(f"n{number}")
        ids.append(txn.txn_id)
        moments.append(time.time_ns())
    later = another()

    for number, (moment, txn_id) in enumerate(zip(moments, ids, strict=True)):
        for as_of in (moment, txn_id):
            assert len(later.view(as_of).namespaces()) == number + 1
    assert later.view(1).namespaces() == []
    past = later.transaction(as_of=ids[0])
    with pytest.raises(InvalidInputError, match="in the past"):
        past.create_namespace("x")
    with pytest.raises(TransactionNotFoundError):
        later.view("1_00000000-0000-4000-8000-000000000000")
    assert [r.message for r in later.transactions()] == [f"step {n}" for n in (3, 2, 1, 0)]
    assert [r.message for r in later.transactions(limit=1)] == ["step 3"]


@pytest.mark.parametrize("skew_minutes", [-10, 10])
def test_clocks_that_differ_change_no_order(
    metastore: Metastore, another: Open, skew_minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_table(metastore)
    true_time = time.time_ns
    skewed = another()
    for number in range(6):
        shift = skew_minutes * 60 * 10**9 * (number % 2)
        monkeypatch.setattr(time, "time_ns", lambda shift=shift: true_time() + shift)
        append((metastore, skewed)[number % 2], f"data/{number}.pq")
    monkeypatch.undo()
    history = list(another().transactions())

    assert urls(another()) == [f"data/{number}.pq" for number in range(6)]
    times = [record.end_time for record in history]
    assert times == sorted(times, reverse=True, key=lambda end: end or 0)
    for record in history:
        assert record.start_time < (record.end_time or 0)


def test_a_transaction_ends_once(metastore: Metastore) -> None:
    txn = metastore.transaction()
    txn.create_namespace("a")
    txn.commit()
    with pytest.raises(InvalidInputError, match="ended"):
        txn.commit()
    metastore.transaction().commit()


def test_a_transaction_is_not_sent_to_another_process(metastore: Metastore) -> None:
    with pytest.raises(InvalidInputError):
        pickle.dumps(metastore.transaction())
