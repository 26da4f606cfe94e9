"""Others change a table between the rows of a job and its commit; no Spark session is needed."""

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.sql import types as st

from lakeroot.model.errors import ConcurrentModificationError, InternalError
from lakeroot.spark import passing, streaming, writing
from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.commits import commit
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.publishing import (
    NotPublished,
    Pending,
    publish_one_by_one,
    publish_together,
)
from lakeroot.spark.row_changes import ADDRESS, COMES, change_rows, committed
from lakeroot.spark.streaming import stream_sink
from lakeroot.spark.write_tasks import watched, write_rows
from lakeroot.spark.writing import finish, newest_of, prepare
from tests.spark.test_writing import data_files, orphans

SCHEMA = st.StructType([st.StructField("a", st.LongType()), st.StructField("b", st.StringType())])
ROW = pa.record_batch({"a": pa.array([2]), "b": pa.array(["mine"])})
FIRST = pa.table({"a": [1], "b": ["first"]})


def overwritten_with_another_type(location):
    lance.write_dataset(pa.table({"a": [1], "b": [7]}), location, mode="overwrite")


def overwritten_with_the_same_columns(location):
    lance.write_dataset(FIRST, location, mode="overwrite")


def changed_in_type(location):
    lance.dataset(location).alter_columns({"path": "a", "data_type": pa.int32()})


CHANGES = [overwritten_with_another_type, overwritten_with_the_same_columns, changed_in_type]


@pytest.fixture
def table(tmp_path):
    """A table whose columns do not have the numbers that a new one would give them."""
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"z": [0], "a": [1], "b": ["first"]}), location)
    lance.dataset(location).drop_columns(["z"])
    return location


def begun(location):
    plan = watched(prepare(TableRef(None, (), location), SCHEMA, WriteOptions()))
    return plan, write_rows(plan, [ROW])


def read(location):
    return lance.dataset(location).to_table().to_pylist()


def losing(error):
    """Commit, and lose the answer of the first time."""
    lost: list[int] = []

    def losing_commit(*given, **rest):
        done = commit(*given, **rest)
        if not lost:
            lost.append(done.version)
            raise error
        return done

    return losing_commit


@pytest.mark.parametrize("change", CHANGES)
def test_an_append_to_a_table_with_other_columns_by_now_is_refused(table, change):
    plan, part = begun(table)
    change(table)
    before, files = read(table), data_files(table)
    with pytest.raises(ConcurrentModificationError, match="schema of table"):
        finish(plan, [part])
    assert read(table) == before
    assert data_files(table) < files


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_columns_in_the_moment_of_the_commit_is_seen(table, change, monkeypatch):
    plan, part = begun(table)
    changed: list[None] = []

    def late(*given, **rest):
        if not changed:
            changed.append(change(table))
        return commit(*given, **rest)

    monkeypatch.setattr(writing, "commit", late)
    with pytest.raises(ConcurrentModificationError, match="schema of table"):
        finish(plan, [part])
    assert [row["a"] for row in read(table)] == [1]


def test_an_append_takes_notes_on_columns_and_rows_of_others(table):
    plan, part = begun(table)
    lance.dataset(table).update_field_metadata({"a": {"comment": "a number"}})
    lance.write_dataset(FIRST, table, mode="append")
    finish(plan, [part])
    assert [row["b"] for row in read(table)] == ["first", "first", "mine"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_micro_batch_to_a_table_with_other_columns_by_now_is_refused(table, change):
    sink = stream_sink({"location": table, "streamId": "s"}, SCHEMA)
    message = sink.write(iter([ROW]))
    change(table)
    before = read(table)
    with pytest.raises(ConcurrentModificationError, match="schema of table"):
        sink.commit([message], 0)
    assert read(table) == before


@pytest.mark.parametrize("together", [True, False])
def test_a_run_publishes_nothing_into_other_columns(root, together):
    catalog = Catalog.at(root, {"table_version_management": "true"})
    catalog.connect().create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    ref = TableRef(catalog, ("shop", "t"))
    made = prepare(ref, SCHEMA, WriteOptions())
    finish(made, [write_rows(made, [ROW])])
    plan = prepare(ref, SCHEMA, WriteOptions())
    part = write_rows(plan, [ROW])
    operation = lance.LanceOperation.Append(list(part.fragments))
    pending = Pending(plan, operation, tuple(part.files), {"lakeroot.job": plan.job})
    other = st.StructType([SCHEMA["a"], st.StructField("b", st.LongType())])
    theirs = prepare(ref, other, WriteOptions(mode="overwrite"))
    row = pa.record_batch({"a": pa.array([1]), "b": pa.array([7])})
    finish(theirs, [write_rows(theirs, [row])])

    if together:
        with pytest.raises(NotPublished) as raised:
            publish_together(catalog, [pending], "")
        assert isinstance(raised.value.__cause__, ConcurrentModificationError)
    else:
        with pytest.raises(ConcurrentModificationError, match="schema of table"):
            publish_one_by_one([pending])

    assert newest_of(plan).to_table().to_pylist() == [{"a": 1, "b": 7}]


ERRORS = [ConcurrentModificationError("The number is taken"), InternalError("No answer")]


@pytest.mark.parametrize("error", ERRORS)
def test_an_append_whose_answer_was_lost_is_made_once(table, error, monkeypatch):
    plan, part = begun(table)
    monkeypatch.setattr(writing, "commit", losing(error))
    assert finish(plan, [part]).version == 3
    assert [row["a"] for row in read(table)] == [1, 2]
    assert orphans(table) == set()


@pytest.mark.parametrize("error", ERRORS)
def test_a_change_of_rows_whose_answer_was_lost_is_made_once(table, error, monkeypatch):
    """Whoever tries again would change the changed rows."""
    plan = prepare(TableRef(None, (), table), SCHEMA, WriteOptions())
    monkeypatch.setattr(passing, "commit", losing(error))
    gone = pa.record_batch({ADDRESS: pa.array([0]), COMES: [True], "a": [2], "b": ["mine"]})
    done = committed(plan, lambda: [change_rows(plan, [gone])])
    assert (done.version, done.updated, done.already_done) == (3, 1, False)
    assert [row["a"] for row in read(table)] == [2]


def attempt_at(table, value):
    sink = stream_sink({"location": table, "streamId": "s"}, SCHEMA)
    row = pa.record_batch({"a": pa.array([value]), "b": pa.array(["mine"])})
    return sink, [sink.write(iter([row]))]


def test_of_two_attempts_at_a_micro_batch_at_once_one_is_committed(table, monkeypatch):
    """The other comes after the first has looked for it, and before the first commits."""
    sink, messages = attempt_at(table, 2)
    others = [attempt_at(table, 2)]

    def late(*given, **rest):
        if others:
            other, its_messages = others.pop()
            other.commit(its_messages, 0)
        return commit(*given, **rest)

    monkeypatch.setattr(writing, "commit", late)
    sink.commit(messages, 0)
    assert [row["a"] for row in read(table)] == [1, 2]
    assert orphans(table) == set()


def test_a_micro_batch_whose_answer_was_lost_keeps_its_files(table, monkeypatch):
    sink, messages = attempt_at(table, 2)
    monkeypatch.setattr(writing, "commit", losing(ERRORS[0]))
    sink.commit(messages, 0)
    assert [row["a"] for row in read(table)] == [1, 2]
    assert streaming.last_batch(lance.dataset(table), "s") == 0


@pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
def test_the_main_branch_of_a_new_table_is_written_by_its_name(root, mode):
    ref = TableRef(Catalog.at(root), ("new",))
    plan = prepare(ref, SCHEMA, WriteOptions(mode=mode, branch="main"))
    finish(plan, [write_rows(plan, [ROW])])
    assert [row["a"] for row in read(plan.table.location)] == [2]


def test_the_main_branch_is_overwritten_by_its_name(table):
    ref = TableRef(None, (), table)
    plan = prepare(ref, SCHEMA, WriteOptions(mode="overwrite", branch="main"))
    finish(plan, [write_rows(plan, [ROW])])
    assert [row["a"] for row in read(table)] == [2]
