"""Files of a table that are missing or damaged: every operation calls it that."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeroot.model import errors
from lakeroot.tables import columns, indexes, rows, search
from lakeroot.tables.handle import TableHandle
from tests.tables.conftest import ROWS
from tests.tables.test_faults import new_table

OPERATIONS: dict[str, Callable[[TableHandle], object]] = {
    "count": lambda table: rows.count_rows(table, predicate="id > 0"),
    "query": lambda table: search.query(table, search.Query(k=9)).read_all(),
    "update": lambda table: rows.update(table, {"name": "'x'"}),
    "merge": lambda table: rows.merge_insert(
        table, ROWS, rows.MergeRule(on=("id",), when_matched_update_all=True)
    ),
    "index": lambda table: indexes.create_index(table, indexes.IndexRequest("name", "BITMAP")),
    "add a column": lambda table: columns.add_columns(table, {"more": "id + 1"}),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("place", ["data", "_deletions"])
@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut off"])
def test_a_file_that_is_missing_or_damaged_is_called_that_by_every_operation(
    tmp_path: Path, operation: str, place: str, damage: str
) -> None:
    table = new_table(tmp_path / "with a space")
    rows.delete(table, "id = 3")
    (file,) = Path(table.location, place).iterdir()
    changes: dict[str, Callable[[], object]] = {
        "missing": file.unlink,
        "empty": lambda: file.write_bytes(b""),
        "garbage": lambda: file.write_bytes(b"garbage" * 100),
        "cut off": lambda: os.truncate(file, file.stat().st_size // 2),
    }
    changes[damage]()

    with pytest.raises(errors.InvalidTableStateError, match="A file of the table"):
        OPERATIONS[operation](table)


@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_an_index_whose_files_are_gone_is_called_that_when_it_is_described(
    tmp_path: Path, damage: str
) -> None:
    table = new_table(tmp_path)
    indexes.create_index(table, indexes.IndexRequest("id", "BTREE", "by_id"))
    for file in Path(table.location, "_indices").glob("*/*"):
        file.unlink() if damage == "missing" else file.write_bytes(b"")

    with pytest.raises(errors.InvalidTableStateError, match="A file of the table"):
        indexes.describe_index_stats(table, "by_id")
