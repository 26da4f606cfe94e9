"""Columns of blobs, which Lance keeps in its own way, with its own numbers for their fields."""

from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.model import errors
from lakeroot.tables import rows
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.options import CreateMode, InsertMode
from lakeroot.tables.rows import MergeRule
from tests.tables.conftest import ROWS, ipc_stream, managed_handle
from tests.tables.test_faults import Refusing

LARGE = 100_000


def pictures(*ids: int, size: int = 10) -> pa.Table:
    """Rows with a blob, and another column after it."""
    blob = pa.field("picture", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    return pa.table(
        [pa.array(ids, pa.int64()), [bytes([one]) * size for one in ids], [0.5] * len(ids)],
        schema=pa.schema([pa.field("id", pa.int64()), blob, pa.field("weight", pa.float64())]),
    )


def shown(handle: TableHandle) -> dict[int, bytes]:
    dataset = lance.dataset(handle.location)
    ids = dataset.to_table(columns=["id"])["id"].to_pylist()
    blobs = dataset.take_blobs("picture", indices=list(range(len(ids))))
    return {one: blob.read() for one, blob in zip(ids, blobs, strict=True)}


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_table_with_blobs_before_other_columns_is_created_and_changed(
    empty: TableHandle, size: int
) -> None:
    rows.create(empty, ipc_stream(pictures(1, 2, size=size)))
    rows.insert(empty, ipc_stream(pictures(3, size=size)))
    rule = MergeRule(on=("id",), when_matched_update_all=True, when_not_matched_insert_all=True)
    rows.merge_insert(empty, ipc_stream(pictures(3, 4, size=size)), rule)

    assert shown(empty) == {one: bytes([one]) * size for one in (1, 2, 3, 4)}

    rows.insert(empty, ipc_stream(pictures(5, size=size)), mode=InsertMode.OVERWRITE)
    assert shown(empty) == {5: bytes([5]) * size}
    rows.create(empty, ipc_stream(pictures(6, size=size)), mode=CreateMode.OVERWRITE)
    assert shown(empty) == {6: bytes([6]) * size}


def test_a_created_table_has_the_schema_that_lance_gives_it(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, pictures(1))

    like = lance.write_dataset(pictures(1), tmp_path / "like.lance")
    assert lance.dataset(table.location).schema == like.schema


@pytest.mark.parametrize("managed", ["true", "false"])
def test_a_catalog_creates_tables_with_blobs(tmp_path: Path, managed: str) -> None:
    catalog = DirectoryNamespace(root=str(tmp_path), table_version_management=managed)

    catalog.create_table({"id": ["t"]}, ipc_stream(pictures(1)))

    assert catalog.list_tables({"id": [], "include_declared": False}).tables == ["t"]


def test_a_creation_that_is_refused_leaves_no_data(tmp_path: Path) -> None:
    table = managed_handle(tmp_path)
    refused = lance_namespace.InvalidInputError("not this one")
    client = Refusing(table.namespace_client, refused)
    handle = TableHandle(table.location, namespace_client=client, table_id=("t",), managed=True)

    for data in (ROWS, pictures(1, size=LARGE)):
        with pytest.raises(errors.InvalidInputError, match="not this one"):
            rows.create(handle, data)
        assert [file for file in Path(table.location, "data").rglob("*") if file.is_file()] == []
