"""Crashes and lost answers around a commit: files of the table are never taken for leavings."""

import base64
import contextlib
import functools
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st

import lakeroot.spark
from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.objects import LocalObjects
from lakeroot.spark import changing, passing, receipts
from lakeroot.spark.catalogs import Catalog, TableRef, files_of
from lakeroot.spark.commits import JOB, commit
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.source_writing import WrittenMessage
from lakeroot.spark.spark_sql.answers import Answers
from lakeroot.spark.spark_sql.tasks import PICKLE
from lakeroot.spark.streaming import BATCH, STREAM, stream_sink
from lakeroot.spark.write_tasks import watched, write_rows
from lakeroot.spark.writing import abort, append_fragments, finish, prepare
from tests.spark.conftest import put
from tests.spark.test_writing import data_files, orphans, rows

SCHEMA = st.StructType([st.StructField("id", st.LongType())])


@pytest.fixture
def table(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [0]}), location)
    return location


def batch(*ids):
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def sink(table):
    return stream_sink({"location": table, "streamId": "s"}, SCHEMA)


def crash_after_commit(table, number, *ids):
    """Commit a micro-batch and die before its receipts are removed."""
    dying = sink(table)
    written = write_rows(dying.plan, [batch(*ids)])
    append_fragments(dying.plan, list(written.fragments), {STREAM: "s", BATCH: str(number)})
    return dying, written


def test_a_replay_after_a_crash_keeps_the_committed_files(table):
    crash_after_commit(table, 0, 1, 2)
    again = sink(table)
    again.commit([WrittenMessage(write_rows(again.plan, [batch(1, 2)]))], 0)
    assert rows(table) == [0, 1, 2]
    following = sink(table)
    following.commit([WrittenMessage(write_rows(following.plan, [batch(3)]))], 1)
    assert rows(table) == [0, 1, 2, 3]
    assert orphans(table) == set()


def test_an_abort_after_a_lost_answer_keeps_the_committed_files(table):
    dying, written = crash_after_commit(table, 0, 1, 2)
    dying.abort([WrittenMessage(written)], 0)
    assert rows(table) == [0, 1, 2]


def test_an_abort_before_the_commit_removes_the_files(table):
    before = data_files(table)
    failing = sink(table)
    failing.abort([WrittenMessage(write_rows(failing.plan, [batch(1)])), None], 0)
    assert data_files(table) == before


@pytest.fixture
def branch(table):
    """A branch with data files of its own."""
    lance.dataset(table).create_branch("team/trial")
    side = lance.dataset(table).checkout_version(("team/trial", None))
    lance.write_dataset(pa.table({"id": [1]}), side, mode="append")
    return "team/trial"


def every_data_file(table):
    return sorted(str(path) for path in Path(table).rglob("*.lance") if path.is_file())


def test_a_failed_write_to_a_branch_removes_its_files(table, branch):
    before = every_data_file(table)
    options = WriteOptions(mode="append", branch=branch)
    plan = prepare(TableRef(None, (), table), SCHEMA, options)
    write_rows(plan, [batch(2)])
    assert len(every_data_file(table)) == len(before) + 1
    abort(plan)
    assert every_data_file(table) == before
    assert not list(Path(table).glob("_lakeroot/jobs/*"))


def test_a_write_to_a_branch_removes_what_repeated_tasks_left(table, branch):
    before = every_data_file(table)
    options = WriteOptions(mode="append", branch=branch)
    plan = prepare(TableRef(None, (), table), SCHEMA, options)
    write_rows(plan, [batch(2)])
    finish(plan, [write_rows(plan, [batch(2)])])
    assert len(every_data_file(table)) == len(before) + 1
    side = lance.dataset(table).checkout_version((branch, None))
    assert side.to_table().column("id").to_pylist() == [0, 1, 2]


def test_a_failed_micro_batch_into_a_branch_removes_its_files(table, branch):
    before = every_data_file(table)
    given = {"location": table, "streamId": "s", "branch": branch}
    failing = stream_sink(given, SCHEMA)
    failing.abort([WrittenMessage(write_rows(failing.plan, [batch(2)])), None], 0)
    assert every_data_file(table) == before


def begun(table):
    return watched(prepare(TableRef(None, (), table), SCHEMA, WriteOptions(mode="append")))


def test_a_task_that_ends_after_its_job_has_failed_removes_its_files(table):
    """Spark does not wait for the tasks beside the one that failed."""
    before = every_data_file(table)
    plan = begun(table)
    write_rows(plan, [batch(1)])
    abort(plan)
    with pytest.raises(ConcurrentModificationError, match="is over"):
        write_rows(plan, [batch(2)])
    assert every_data_file(table) == before
    assert not list(Path(table).glob("_lakeroot/jobs/*"))


def test_a_task_that_ends_after_another_attempt_was_committed_removes_its_files(table):
    plan = begun(table)
    finish(plan, [write_rows(plan, [batch(1)])])
    with pytest.raises(ConcurrentModificationError, match="is over"):
        write_rows(plan, [batch(1)])
    assert rows(table) == [0, 1]
    assert len(every_data_file(table)) == 2
    assert not list(Path(table).glob("_lakeroot/jobs/*"))


def test_a_task_of_an_insert_that_ends_after_the_statement_has_failed_removes_its_files(
    root, catalog
):
    table = put(catalog, "shop.t", pa.table({"id": [0]}))
    before = every_data_file(table)
    answers = Answers(Catalog.at(root), 1, "message", columnar=True)
    request = {"table": {"id": ["shop", "t"]}, "options": {}, "overwrite": False}
    begun = answers.op_prepare_write({**request, "schema": SCHEMA.json()})
    write, _ = PICKLE.loads(base64.b64decode(begun["function"]))
    assert len(list(write([batch(1)]))) == 1
    answers.op_abort_write({"write": begun["write"]})
    with pytest.raises(ConcurrentModificationError, match="is over"):
        list(write([batch(2)]))
    assert every_data_file(table) == before


def test_a_task_that_leaves_its_receipt_while_the_driver_settles_removes_its_files(
    table, monkeypatch
):
    """Whichever call of the driver it comes between, one of the two sees the other."""
    before = every_data_file(table)
    for number in range(4):
        plan = begun(table)
        calls: list[str] = []

        def late(name, *given, plan=plan, calls=calls, number=number):
            calls.append(name)
            if len(calls) == number + 1:
                with contextlib.suppress(ConcurrentModificationError):
                    write_rows(plan, [batch(1)])
            return getattr(LocalObjects, name)(*given)

        with monkeypatch.context() as patch:
            opened = files_of(plan.table)
            for name in ("delete", "list", "prune_directory"):
                patch.setattr(opened, name, functools.partial(late, name, opened), raising=False)
            patch.setattr(receipts, "files_of", once(opened, files_of))
            receipts.settle(plan.table, plan.attempt, ())
        assert len(calls) > number
        assert every_data_file(table) == before, calls


def once(first, others):
    """Give something the first time, and the others from then on."""
    given = [first]
    return lambda table: given.pop() if given else others(table)


def test_a_batch_write_that_was_committed_survives_its_abort(table):
    plan = prepare(TableRef(None, (), table), SCHEMA, WriteOptions(mode="append"))
    written = write_rows(plan, [batch(1)])
    append_fragments(plan, list(written.fragments), {JOB: plan.job})
    abort(plan)
    assert rows(table) == [0, 1]


def test_a_job_that_is_run_again_keeps_what_its_first_run_left(table):
    options = WriteOptions(mode="append", job_id="daily")
    first = prepare(TableRef(None, (), table), SCHEMA, options)
    written = write_rows(first, [batch(1)])
    append_fragments(first, list(written.fragments), {JOB: "daily"})
    second = prepare(TableRef(None, (), table), SCHEMA, options)
    finish(second, [write_rows(second, [batch(2)])])
    assert rows(table) == [0, 1, 2]


def test_a_new_table_that_failed_is_forgotten(root):
    catalog = Catalog.at(root)
    plan = prepare(TableRef(catalog, ("t",)), SCHEMA, WriteOptions(mode="create"))
    write_rows(plan, [batch(1)])
    abort(plan)
    made = prepare(TableRef(catalog, ("t",)), SCHEMA, WriteOptions(mode="create"))
    assert finish(made, [write_rows(made, [batch(2)])]).version == 1
    assert rows(made.table.location) == [2]


def test_a_delete_and_an_update_whose_answers_were_lost_are_made_once(spark, table, monkeypatch):
    """Done again, the update would double what it has doubled."""
    lance.write_dataset(pa.table({"id": [1, 2]}), table, mode="append")
    for module in (changing, passing):
        monkeypatch.setattr(module, "commit", losing_once())
    gone = lakeroot.spark.delete(spark, location=table, where="id = 1")
    assert (gone.deleted, gone.version) == (1, 3)
    doubled = lakeroot.spark.update(spark, location=table, set={"id": "id * 2"})
    assert (doubled.updated, doubled.version) == (2, 4)
    assert rows(table) == [0, 4]


def losing_once():
    """Commit, and lose the answer of the first time."""
    lost: list[int] = []

    def losing(*given, **rest):
        done = commit(*given, **rest)
        if not lost:
            lost.append(done.version)
            raise ConcurrentModificationError("The number is taken")
        return done

    return losing
