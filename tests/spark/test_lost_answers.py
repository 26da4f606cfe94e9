"""Crashes and lost answers around a commit: files of the table are never taken for leavings."""

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st

from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.commits import JOB
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.source_writing import WrittenMessage
from lakeroot.spark.streaming import BATCH, STREAM, stream_sink
from lakeroot.spark.write_tasks import write_rows
from lakeroot.spark.writing import abort, append_fragments, finish, prepare
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
