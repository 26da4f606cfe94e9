"""Merges into one table: what they change, and what they do beside other writers."""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakeroot.model import errors
from lakeroot.tables import indexes, rows
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.rows import MergeRule
from lakeroot.tables.strictly import commit_strictly
from tests.tables.conftest import ROWS, ipc_stream, names

Snapshot = Callable[[TableHandle], dict[str, int]]
UPSERT = MergeRule(on=("id",), when_matched_update_all=True, when_not_matched_insert_all=True)


def people(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": ["new"] * len(ids)})


def test_a_merge_updates_and_inserts(table: TableHandle) -> None:
    data = ROWS.slice(2).set_column(1, "name", [["cyd"]])
    fourth = data.set_column(0, "id", [pa.array([4], pa.int64())])

    merged = rows.merge_insert(table, ipc_stream(pa.concat_tables([data, fourth])), UPSERT)

    assert (merged.num_updated_rows, merged.num_inserted_rows, merged.num_deleted_rows) == (1, 1, 0)
    assert merged.version == 2
    assert names(table) == {1: "ann", 2: "bob", 3: "cyd", 4: "cyd"}


@pytest.mark.parametrize("is_declared", [False, True])
def test_merges_at_once_insert_a_new_key_only_once(tmp_path: Path, is_declared: bool) -> None:
    metadata = {"lance-schema:unenforced-primary-key": "true"} if is_declared else None
    schema = pa.schema([pa.field("id", pa.int64(), False, metadata)])
    table = TableHandle(str(tmp_path / "t"))
    rows.create(table, pa.table({"id": [1]}, schema=schema))
    racers = 3
    start = threading.Barrier(racers)

    def merge(number: int) -> int:
        start.wait()
        new = pa.table({"id": [number]}, schema=schema)
        return rows.merge_insert(table, new, UPSERT).num_inserted_rows

    with ThreadPoolExecutor(racers) as pool:
        for number in range(2, 7):
            assert sorted(pool.map(merge, [number] * racers)) == [0, 0, 1]

    assert rows.count_rows(table) == 6


def test_a_merge_finds_a_table_by_a_path_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = TableHandle("./t.lance")
    rows.create(table, people(1))

    assert rows.merge_insert(table, people(1, 2), UPSERT).version == 2


def test_a_merge_goes_on_top_of_what_inserts_no_keys(table: TableHandle) -> None:
    found = lance.dataset(table.location)
    upsert = found.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = upsert.execute_uncommitted(people(2, 3, 4))
    rows.insert(table, people(7, 8))
    indexes.create_index(table, indexes.IndexRequest("id", "BTREE"))
    rows.insert(table, people(9))

    merged = commit_strictly(table, found, transaction, None)

    assert merged.version == found.version + 4
    assert sorted(merged.to_table()["id"].to_pylist()) == [1, 2, 3, 4, 7, 8, 9]
    again, _ = upsert.execute_uncommitted(people(5))
    with pytest.raises(errors.ConcurrentModificationError, match="may have the same keys"):
        commit_strictly(table, found, again, None)


def test_a_merge_knows_a_table_that_was_made_anew_in_its_place(table: TableHandle) -> None:
    found = lance.dataset(table.location)
    upsert = found.merge_insert(["id"]).when_not_matched_insert_all()
    transaction, _ = upsert.execute_uncommitted(people(9))
    shutil.rmtree(table.location)
    for _ in range(found.version - 1):
        lance.write_dataset(people(1), table.location, mode="append")
    for versions in (found.version, found.version + 1):
        lance.write_dataset(people(1), table.location, mode="append")
        with pytest.raises(errors.ConcurrentModificationError):
            commit_strictly(table, found, transaction, None)

        assert lance.dataset(table.location).version == versions


def test_a_merge_that_was_committed_and_not_told_so_finds_itself(table: TableHandle) -> None:
    found = lance.dataset(table.location)
    upsert = found.merge_insert(["id"]).when_not_matched_insert_all()
    transaction, _ = upsert.execute_uncommitted(people(9))
    first = commit_strictly(table, found, transaction, None)
    rows.insert(table, people(10))

    assert commit_strictly(table, found, transaction, None).version == first.version
    assert rows.count_rows(table) == 5


def test_a_merge_may_update_only_some_rows(table: TableHandle) -> None:
    rule = MergeRule(
        on=("id",), when_matched_update_all=True, when_matched_update_all_filt="target.id < 2"
    )

    merged = rows.merge_insert(table, ROWS.set_column(1, "name", [["x", "y", "z"]]), rule)

    assert merged.num_updated_rows == 1
    assert names(table) == {1: "x", 2: "bob", 3: "cy"}


def test_a_merge_may_delete_what_the_source_lacks(table: TableHandle) -> None:
    rule = MergeRule(
        on=("id",),
        when_not_matched_insert_all=True,
        when_not_matched_by_source_delete=True,
        when_not_matched_by_source_delete_filt="id < 2",
        timeout=timedelta(seconds=30),
        use_index=True,
    )

    merged = rows.merge_insert(table, ROWS.slice(2), rule)

    assert merged.num_deleted_rows == 1
    assert names(table) == {2: "bob", 3: "cy"}


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (MergeRule(on=("id",)), errors.InvalidInputError),
        (MergeRule(when_matched_update_all=True), errors.InvalidInputError),
        (MergeRule(on=("zz",), when_matched_update_all=True), errors.TableColumnNotFoundError),
        (
            MergeRule(("id",), True, "target.zz > 1"),
            errors.TableColumnNotFoundError,
        ),
        (MergeRule(("id",), True, "id >"), errors.InvalidInputError),
    ],
)
def test_a_merge_that_makes_no_sense_is_refused(
    table: TableHandle, rule: MergeRule, error: type[Exception], snapshot: Snapshot
) -> None:
    before = snapshot(table)

    with pytest.raises(error):
        rows.merge_insert(table, ROWS, rule)
    assert snapshot(table) == before


def test_a_merge_whose_rows_match_twice_is_refused(table: TableHandle) -> None:
    rule = MergeRule(on=("id",), when_matched_update_all=True)

    with pytest.raises(errors.InvalidInputError, match="id = 1"):
        rows.merge_insert(table, pa.concat_tables([ROWS, ROWS]), rule)
    assert lance.dataset(table.location).version == 1


def test_a_filter_without_its_clause_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError):
        MergeRule(on=("id",), when_matched_update_all_filt="id > 1")
    with pytest.raises(errors.InvalidInputError):
        MergeRule(on=("id",), when_not_matched_by_source_delete_filt="id > 1")
