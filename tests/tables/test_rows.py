"""Rows: create, count, insert, update, delete, with and without an arbiter."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace

from lakeroot.model import errors
from lakeroot.tables import rows
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.options import CreateMode, InsertMode, read_mode, read_timeout
from lakeroot.tables.rows import MergeRule
from tests.tables.conftest import ROWS, ipc_stream, names

Snapshot = Callable[[TableHandle], dict[str, int]]
MORE = pa.table({"id": pa.array([3, 4], pa.int64()), "name": ["cyd", "dee"]})


def test_a_created_table_holds_its_rows(empty: TableHandle) -> None:
    created = rows.create(empty, ipc_stream(ROWS))

    assert (created.version, created.num_inserted_rows) == (1, 3)
    assert created.transaction_id is not None
    assert rows.count_rows(empty) == 3
    assert lance.dataset(empty.location).schema == ROWS.schema


def test_a_table_can_be_created_without_rows(empty: TableHandle) -> None:
    assert rows.create(empty, ipc_stream(ROWS.slice(0, 0))).version == 1
    assert rows.count_rows(empty) == 0


def test_creating_twice_is_refused(table: TableHandle, snapshot: Snapshot) -> None:
    before = snapshot(table)

    with pytest.raises(errors.TableAlreadyExistsError):
        rows.create(table, ROWS)
    assert snapshot(table) == before


def test_exist_ok_keeps_the_table(table: TableHandle, snapshot: Snapshot) -> None:
    before = snapshot(table)

    kept = rows.create(table, MORE, mode=CreateMode.EXIST_OK)

    assert (kept.version, kept.num_inserted_rows) == (1, 0)
    assert snapshot(table) == before


def test_creating_with_overwrite_replaces_rows_and_schema(table: TableHandle) -> None:
    replaced = rows.create(table, MORE, mode=CreateMode.OVERWRITE)

    assert (replaced.version, replaced.num_inserted_rows) == (2, 2)
    assert lance.dataset(table.location).schema == MORE.schema


def test_of_many_creators_one_wins(empty: TableHandle) -> None:
    def attempt(number: int) -> int:
        try:
            rows.create(empty, pa.table({"writer": [number]}))
        except errors.TableAlreadyExistsError:
            return 0
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(attempt, range(1, 9)) if number]

    dataset = lance.dataset(empty.location)
    assert [dataset.to_table()["writer"][0].as_py()] == winners
    assert dataset.version == 1


def test_counting_takes_a_predicate_and_a_version(table: TableHandle) -> None:
    rows.insert(table, MORE)

    assert rows.count_rows(table) == 5
    assert rows.count_rows(table, version=1) == 3
    assert rows.count_rows(table, predicate="id > 2 and name like 'c%'") == 2


def test_appended_rows_may_leave_out_columns(table: TableHandle) -> None:
    inserted = rows.insert(table, ipc_stream(MORE))

    assert (inserted.version, inserted.num_inserted_rows) == (2, 2)
    assert rows.count_rows(table, predicate="vector is null") == 2


def test_overwriting_replaces_every_row(table: TableHandle) -> None:
    inserted = rows.insert(table, MORE, mode=InsertMode.OVERWRITE)

    assert inserted.version == 2
    assert names(table) == {3: "cyd", 4: "dee"}


def test_a_reader_is_streamed(table: TableHandle) -> None:
    inserted = rows.insert(
        table, pa.RecordBatchReader.from_batches(MORE.schema, MORE.to_batches(max_chunksize=1))
    )

    assert inserted.num_inserted_rows == 2
    assert rows.count_rows(table) == 5


def test_an_arrow_file_is_taken_as_well_as_a_stream(table: TableHandle) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, MORE.schema) as writer:
        writer.write_table(MORE)

    assert rows.insert(table, sink.getvalue().to_pybytes()).num_inserted_rows == 2


def test_a_branch_takes_rows_of_its_own(table: TableHandle) -> None:
    lance.dataset(table.location).create_branch("dev")

    rows.insert(table, MORE, branch="dev")

    assert rows.count_rows(table, branch="dev") == 5
    assert rows.count_rows(table, branch="main") == rows.count_rows(table) == 3


STREAM = ipc_stream(ROWS)


@pytest.mark.parametrize(
    "body",
    [b"", b"garbage", STREAM[: len(STREAM) // 2], STREAM[:-20][:300], b"ARROW1", "text", None],
    ids=["empty", "garbage", "half", "cut", "magic", "text", "none"],
)
def test_garbage_instead_of_arrow_changes_nothing(
    table: TableHandle, body: bytes, snapshot: Snapshot
) -> None:
    before = snapshot(table)

    with pytest.raises(errors.InvalidInputError):
        rows.insert(table, body)
    assert snapshot(table) == before


def test_a_reader_that_breaks_commits_nothing(table: TableHandle) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield MORE.to_batches()[0]
        raise pa.ArrowInvalid("the line went dead")

    with pytest.raises(errors.InvalidInputError, match="the line went dead"):
        rows.insert(table, pa.RecordBatchReader.from_batches(MORE.schema, batches()))
    assert lance.dataset(table.location).version == 1


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"other": [1]}),
        pa.table({"id": ["one"]}),
        pa.table({"id": pa.array([1], pa.int64()), "name": ["x"], "more": [1]}),
    ],
    ids=["unknown", "type", "extra"],
)
def test_rows_of_another_schema_are_refused(
    table: TableHandle, data: pa.Table, snapshot: Snapshot
) -> None:
    before = snapshot(table)

    with pytest.raises(errors.TableSchemaValidationError):
        rows.insert(table, data)
    assert snapshot(table) == before


def test_nulls_where_none_may_be_are_refused(empty: TableHandle) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    rows.create(empty, pa.table({"id": [1]}, schema=schema))

    with pytest.raises(errors.TableSchemaValidationError):
        rows.insert(empty, pa.table({"id": pa.array([None], pa.int64())}))
    assert rows.count_rows(empty) == 1


def test_an_update_sets_columns_by_expressions(table: TableHandle) -> None:
    updated = rows.update(table, [["name", "upper(name)"]], predicate="id < 3")

    assert (updated.updated_rows, updated.version) == (2, 2)
    assert names(table) == {1: "ANN", 2: "BOB", 3: "cy"}
    assert rows.update(table, {"id": "id + 10"}).updated_rows == 3


@pytest.mark.parametrize(
    ("updates", "predicate", "error"),
    [
        ([], None, errors.InvalidInputError),
        ([["name"]], None, errors.InvalidInputError),
        ([["name", 1]], None, errors.InvalidInputError),
        ([["name", "1"], ["name", "2"]], None, errors.InvalidInputError),
        ([["zz", "1"]], None, errors.TableColumnNotFoundError),
        ([["name", "zz"]], None, errors.TableColumnNotFoundError),
        ([["name", "1 +"]], None, errors.InvalidInputError),
        ([["id", "'abc'"]], None, errors.InvalidInputError),
        ([["name", "'x'"]], "id >", errors.InvalidInputError),
        ([["name", "'x'"]], "zz > 1", errors.TableColumnNotFoundError),
    ],
)
def test_an_update_that_makes_no_sense_is_refused(
    table: TableHandle,
    updates: list[list[str]],
    predicate: str | None,
    error: type[Exception],
    snapshot: Snapshot,
) -> None:
    before = snapshot(table)

    with pytest.raises(error):
        rows.update(table, updates, predicate=predicate)
    assert snapshot(table) == before


def test_a_deletion_takes_the_rows_of_a_predicate(table: TableHandle) -> None:
    deleted = rows.delete(table, "id = 2")

    assert (deleted.num_deleted_rows, deleted.version) == (1, 2)
    assert names(table) == {1: "ann", 3: "cy"}
    assert rows.delete(table, "true").num_deleted_rows == 2
    assert rows.count_rows(table) == 0


@pytest.mark.parametrize(
    ("predicate", "code"),
    [("", 13), ("  ", 13), ("id >", 13), ("id", 13), ("zz = 1", 12), ("nofunction(id) = 1", 13)],
)
def test_a_predicate_that_makes_no_sense_is_refused(
    table: TableHandle, predicate: str, code: int, snapshot: Snapshot
) -> None:
    before = snapshot(table)

    with pytest.raises(errors.LakerootError) as refused:
        rows.delete(table, predicate)
    assert refused.value.code == code
    assert snapshot(table) == before


def test_writers_that_change_the_same_rows_all_succeed(table: TableHandle) -> None:
    with ThreadPoolExecutor(4) as pool:
        changes = [pool.submit(rows.update, table, {"id": "id + 1"}) for _ in range(8)]
        assert [change.result().updated_rows for change in changes] == [3] * 8

    assert set(names(table)) == {9, 10, 11}


def test_both_catalogs_answer_alike(tmp_path: Path) -> None:
    """The same steps through pylance's own catalog and through ours give the same answers."""
    theirs = DirectoryNamespace(root=str(tmp_path))
    theirs.create_table(lance_namespace.CreateTableRequest(id=["theirs"]), ipc_stream(ROWS))
    ours = TableHandle(str(tmp_path / "ours.lance"))
    rows.create(ours, ipc_stream(ROWS))

    answers = [
        (
            theirs.insert_into_table(
                lance_namespace.InsertIntoTableRequest(id=["theirs"]), ipc_stream(ROWS.slice(1))
            ),
            rows.insert(ours, ipc_stream(ROWS.slice(1))),
        ),
        (
            theirs.update_table(
                lance_namespace.UpdateTableRequest(
                    id=["theirs"], predicate="id = 2", updates=[["name", "'x'"]]
                )
            ),
            rows.update(ours, [["name", "'x'"]], predicate="id = 2"),
        ),
        (
            theirs.delete_from_table(
                lance_namespace.DeleteFromTableRequest(id=["theirs"], predicate="id = 3")
            ),
            rows.delete(ours, "id = 3"),
        ),
        (
            theirs.merge_insert_into_table(
                lance_namespace.MergeInsertIntoTableRequest(
                    id=["theirs"], on=["id"], when_not_matched_insert_all=True
                ),
                ipc_stream(ROWS),
            ),
            rows.merge_insert(ours, ROWS, MergeRule(("id",), when_not_matched_insert_all=True)),
        ),
    ]

    for their, our in answers:
        for field in (
            "version",
            "num_inserted_rows",
            "num_updated_rows",
            "num_deleted_rows",
            "updated_rows",
        ):
            if hasattr(their, field):
                assert getattr(their, field) == getattr(our, field)
    count = theirs.count_table_rows(lance_namespace.CountTableRowsRequest(id=["theirs"]))
    assert count.count == rows.count_rows(ours)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (None, CreateMode.CREATE),
        ("", CreateMode.CREATE),
        ("Create", CreateMode.CREATE),
        ("ExistOk", CreateMode.EXIST_OK),
        ("exist_ok", CreateMode.EXIST_OK),
        ("EXIST_OK", CreateMode.EXIST_OK),
        ("existok", CreateMode.EXIST_OK),
        ("OVERWRITE", CreateMode.OVERWRITE),
    ],
)
def test_a_mode_is_read_in_any_case(text: str | None, mode: CreateMode) -> None:
    assert read_mode(CreateMode, text, CreateMode.CREATE) is mode


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError):
        read_mode(InsertMode, "upsert", InsertMode.APPEND)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("500ms", 0.5), ("1h30m", 5400), ("7", 7), ("1.5s", 1.5)],
)
def test_a_timeout_is_read(text: str, seconds: float) -> None:
    assert read_timeout(text) == timedelta(seconds=seconds)
    assert read_timeout(None) is None


@pytest.mark.parametrize("text", ["soon", "5 parsecs", "-1s", "1s!", "9" * 40 + "d"])
def test_a_timeout_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInputError):
        read_timeout(text)


def column(kind: pa.DataType, offsets: list[int], values: bytes) -> pa.Array:
    """A column of two values, put together without looking at them."""
    return pa.Array.from_buffers(
        kind, 2, [None, pa.array(offsets, pa.int32()).buffers()[1], pa.py_buffer(values)]
    )


@pytest.mark.parametrize(
    "broken",
    [
        column(pa.string(), [0, 3, 6], b"\xff\xfe\xfdabc"),
        column(pa.string(), [0, 6, 3], b"abcdef"),
        column(pa.string(), [0, 99, 6], b"abcdef"),
        pa.Array.from_buffers(
            pa.list_(pa.string()),
            2,
            [None, pa.array([0, 99, 1], pa.int32()).buffers()[1]],
            children=[pa.array(["a"])],
        ),
        pa.DictionaryArray.from_arrays(pa.array([0, 99], pa.int32()), pa.array(["a"]), safe=False),
    ],
    ids=["text", "order", "offset", "list", "dictionary"],
)
def test_arrow_that_nobody_could_read_again_is_refused(
    table: TableHandle, snapshot: Snapshot, broken: pa.Array
) -> None:
    before = snapshot(table)
    body = ipc_stream(pa.Table.from_arrays([pa.array([8, 9]), broken], names=["id", "name"]))
    rule = MergeRule(on=("id",), when_not_matched_insert_all=True)

    for act in (
        lambda: rows.insert(table, body),
        lambda: rows.insert(table, body, mode=InsertMode.OVERWRITE),
        lambda: rows.merge_insert(table, body, rule),
        lambda: rows.create(table, body, mode=CreateMode.OVERWRITE),
    ):
        with pytest.raises(errors.InvalidInputError, match="not a whole Arrow IPC stream"):
            act()
    assert snapshot(table) == before
