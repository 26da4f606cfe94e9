"""Jobs that name themselves: they are found again, and done once."""

import time
from typing import Any

import pytest

from lakeroot.metastore import ManifestEntry, Metastore, Transaction, View, manifest_of
from lakeroot.metastore.entries import slim, write_entry
from lakeroot.metastore.jobs import HISTORY_SEARCHED, JOB, fact_of, find_job
from lakeroot.metastore.naming import commit_path
from lakeroot.metastore.view import directory_of
from lakeroot.model.errors import ConcurrentModificationError

from .conftest import append, with_table
from .memory import CountingObjects, MemoryObjects


def directory(view: View, table: str = "t") -> str:
    return directory_of(view.table("ns", table))


def named(txn: Transaction, job: str, table: str = "t") -> None:
    txn.append_delta(txn.stream("ns", table), manifest_of([ManifestEntry(f"data/{job}")]))
    txn.facts |= fact_of(job, directory(txn, table), "append", {"rows": 3})


def found(metastore: Metastore, job: str, table: str = "t") -> bool:
    view = metastore.view()
    return find_job(view, directory(view, table), job) is not None


def test_a_job_is_found_by_everybody_with_what_it_did(metastore, another):
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    append(metastore, "data/later")

    view = another().view()
    done = find_job(view, directory(view), "one")

    assert done == (txn.txn_id, "append", {"rows": 3})
    assert not found(metastore, "two")


def test_a_job_is_known_by_its_table_too(metastore):
    with with_table(metastore).transaction() as txn:
        txn.create_table("ns", "other")
        named(txn, "one")

    assert found(metastore, "one")
    assert not found(metastore, "one", "other")


def test_of_two_that_do_one_job_at_once_one_commits(metastore, another):
    first, second = with_table(metastore).transaction(), another().transaction()
    other = another().transaction()
    for txn, job in ((first, "one"), (second, "one"), (other, "two")):
        named(txn, job)

    first.commit()
    other.commit()  # the append moves behind the other, as ever
    with pytest.raises(ConcurrentModificationError, match="same job"):
        second.commit()

    view = another().view()
    (partition,) = view.partitions(view.stream("ns", "t"))
    assert len(view.deltas(partition)) == 2


def test_a_job_gives_way_where_a_clean_up_shortens_the_log_beside_it(metastore, objects):
    late, plain = with_table(metastore).transaction(), metastore.transaction()
    named(late, "one")
    plain.append_delta(plain.stream("ns", "t"), manifest_of([ManifestEntry("data/plain")]))
    with metastore.transaction() as txn:
        named(txn, "one")
    entry = metastore.log.entry(metastore.log.index.head)
    assert entry is not None
    objects.put(commit_path(metastore.log.index.head), write_entry(slim(entry)))

    with pytest.raises(ConcurrentModificationError, match="same job"):
        late.commit()
    plain.commit()


def test_a_job_is_found_after_its_rows_were_replaced(metastore):
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    with metastore.transaction() as txn:
        txn.commit_stream(txn.stage_stream(txn.table_version("ns", "t")))

    assert found(metastore, "one")


def test_a_job_that_a_clean_up_forgot_is_not_found(metastore, objects, another):
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    append(metastore, "data/later")
    metastore.vacuum()
    assert found(another(), "one")

    objects.now_ms = lambda: time.time_ns() // 1_000_000 + 60_000
    metastore.vacuum(retention_ms=0)

    assert not found(metastore, "one")
    assert not found(another(), "one")


def test_a_job_is_found_behind_many_others(metastore):
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    for number in range(40):
        append(metastore, f"data/{number}")

    assert found(metastore, "one")
    assert not found(metastore, "two")


def test_a_job_is_found_though_the_entry_of_its_transaction_was_damaged(
    metastore, objects, another
):
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    append(metastore, "data/later")
    objects.put(commit_path(metastore.log.index.sequences[txn.txn_id]), b"LRC1 damaged")

    view = another().view()

    assert find_job(view, directory(view), "one") == (txn.txn_id, "append", {"rows": 3})
    assert found(another(), "one")


@pytest.mark.parametrize("begins", ["with-a-checkpoint", "with-files"])
def test_a_job_is_found_though_the_log_is_gone(metastore, objects, another, begins):
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    if begins == "with-a-checkpoint":
        metastore.log.checkpoint()
    objects.delete_directory("txn/_commit")

    view = another().view()
    with another().transaction() as later:
        named(later, "two")
    again = another().view()

    for each in (view, again):
        assert find_job(each, directory(each), "one") == (txn.txn_id, "append", {"rows": 3})
    assert find_job(again, directory(again), "two") == (later.txn_id, "append", {"rows": 3})


def test_a_reader_that_may_write_nothing_finds_a_job_whose_entry_was_damaged(metastore, objects):
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    append(metastore, "data/later")
    objects.put(commit_path(metastore.log.index.sequences[txn.txn_id]), b"LRC1 damaged")
    reader = Metastore(MemoryObjects(objects.held), read_only=True)

    view = reader.view()
    assert find_job(view, directory(view), "one") == (txn.txn_id, "append", {"rows": 3})

    with Metastore(objects).transaction() as other:  # where the reader has put the job
        named(other, "two")
    assert find_job(view, directory(view), "one") == (txn.txn_id, "append", {"rows": 3})


@pytest.mark.parametrize("fact", ["j", ["one"], 3, {"id": ["one"]}, {"id": "one", "did": 3}])
def test_a_fact_that_somebody_else_has_written_in_another_form_is_no_job(metastore, another, fact):
    late = with_table(metastore).transaction()
    named(late, "one")
    with another().transaction() as txn:
        named(txn, "one")
        txn.facts[JOB] = fact

    assert not found(metastore, "one")
    late.commit()
    assert found(metastore, "one")


def test_of_the_log_only_what_changed_the_table_of_a_job_is_read_again(objects, layout):
    counting: Any = CountingObjects(objects)
    metastore = with_table(Metastore(counting, layout=layout))
    with metastore.transaction() as txn:
        txn.create_table("ns", "busy")
    late = metastore.transaction()
    named(late, "one")
    for number in range(40):
        append(metastore, f"data/{number}", table="busy")
    append(metastore, "data/quiet")

    counting.take()
    late.commit()

    assert counting.calls["get"] < 10


def test_a_job_is_looked_for_so_far_back_and_no_further(metastore, monkeypatch):
    monkeypatch.setattr("lakeroot.metastore.jobs.HISTORY_SEARCHED", 3)
    with with_table(metastore).transaction() as txn:
        named(txn, "one")
    for number in range(2):
        append(metastore, f"data/{number}")
    assert found(metastore, "one")

    append(metastore, "data/more")

    assert not found(metastore, "one")
    assert HISTORY_SEARCHED == 1000
