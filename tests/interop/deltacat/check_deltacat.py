"""Lakeroot and released deltacat on one catalog, taking turns. Run by `make interop`.

The name of this file keeps it out of `make test`: it needs an environment of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeroot.metastore import Metastore
from lakeroot.metastore.data import TableWriter, inferred, read_rows

from .peer import DeltaCat

ROWS = [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake") / "catalog"


@pytest.fixture(scope="module")
def ours(root: Path) -> Metastore:
    metastore = Metastore.open(str(root), layout="deltacat-2")
    with metastore.transaction("written by lakeroot") as txn:
        txn.create_namespace("sales", {"owner": "lakeroot"})
        txn.create_table("sales", "orders", schema=inferred(ROWS))
        txn.create_table("sales", "users", schema=inferred(ROWS, ["id"]))
    with metastore.transaction("first rows") as txn:
        TableWriter(txn, "sales", "orders").append(ROWS)
        TableWriter(txn, "sales", "users").upsert(ROWS)
    return metastore


@pytest.fixture(scope="module")
def theirs(ours: Metastore, root: Path) -> Iterator[DeltaCat]:
    with DeltaCat(root) as peer:
        yield peer


def rows(metastore: Metastore, namespace: str, table: str, as_of: str | None = None) -> list[Any]:
    found = read_rows(metastore.view(as_of), namespace, table).to_pylist()
    return sorted(found, key=lambda row: (row["id"], row["name"]))


def by_id(found: list[Any]) -> list[Any]:
    return sorted(found, key=lambda row: (row["id"], row["name"]))


def test_deltacat_lists_and_reads_what_we_wrote(theirs: DeltaCat) -> None:
    assert "sales" in theirs.ask("namespaces")
    assert theirs.ask("tables", "sales") == ["orders", "users"]
    assert by_id(theirs.ask("read", "sales", "orders")) == ROWS
    assert by_id(theirs.ask("read", "sales", "users")) == ROWS


def test_every_reader_of_deltacat_reads_our_encodings(ours: Metastore, theirs: DeltaCat) -> None:
    numbers = range(20_000)
    large = pa.table(
        {
            "id": numbers,
            "name": [f"{n * 7919 % 20_011}" for n in numbers],
            "few": [n % 7 for n in numbers],
            "x": [n / 8 for n in numbers],
        }
    )
    with ours.transaction() as txn:
        txn.create_namespace("encodings")
        txn.create_table("encodings", "large", schema=inferred(large))
        TableWriter(txn, "encodings", "large").append(large)

    for column in ("id", "few", "x"):
        told = theirs.ask("sums", "encodings", "large", column)
        assert set(told.values()) == {sum(large[column].to_pylist())}, (column, told)
        assert len(told) == 4


def test_deltacat_appends_to_what_we_wrote_and_we_read_it(
    ours: Metastore, theirs: DeltaCat
) -> None:
    theirs.ask("write", "sales", "orders", [{"id": 3, "name": "cy"}], "append")
    assert [row["id"] for row in rows(ours, "sales", "orders")] == [1, 2, 3]
    with ours.transaction() as txn:
        TableWriter(txn, "sales", "orders").append([{"id": 4, "name": "di"}])
    theirs.ask("write", "sales", "orders", [{"id": 5, "name": "ed"}], "append")

    assert [row["id"] for row in rows(ours, "sales", "orders")] == [1, 2, 3, 4, 5]
    assert [row["id"] for row in by_id(theirs.ask("read", "sales", "orders"))] == [1, 2, 3, 4, 5]


def test_deltacat_merges_into_what_we_wrote(ours: Metastore, theirs: DeltaCat) -> None:
    theirs.ask("write", "sales", "users", [{"id": 2, "name": "BOB"}], "merge")
    assert [row["name"] for row in rows(ours, "sales", "users")] == ["ann", "BOB"]
    with ours.transaction() as txn:
        TableWriter(txn, "sales", "users").upsert([{"id": 1, "name": "ANN"}])

    assert [row["name"] for row in by_id(theirs.ask("read", "sales", "users"))] == ["ANN", "BOB"]


def test_deltacat_reads_and_merges_where_only_some_files_were_copied(
    ours: Metastore, theirs: DeltaCat
) -> None:
    many = [{"id": number, "name": f"n{number}"} for number in range(40)]
    small = {"records_per_compacted_file": 10}
    with ours.transaction() as txn:
        txn.create_table("sales", "many", schema=inferred(many, ["id"]), properties=small)
        TableWriter(txn, "sales", "many").upsert(many)
    for verb, change in (
        ("delete", [{"id": 12}]),
        ("upsert", [{"id": 33, "name": "new"}, {"id": 50, "name": "added"}]),
    ):
        with ours.transaction() as txn:
            getattr(TableWriter(txn, "sales", "many"), verb)(change)
    expected = rows(ours, "sales", "many")

    assert [row["id"] for row in expected] == [n for n in [*range(40), 50] if n != 12]
    assert by_id(theirs.ask("read", "sales", "many")) == expected
    theirs.ask("write", "sales", "many", [{"id": 0, "name": "theirs"}], "merge")
    assert rows(ours, "sales", "many") == [{"id": 0, "name": "theirs"}, *expected[1:]]
    assert by_id(theirs.ask("read", "sales", "many")) == rows(ours, "sales", "many")
    with ours.transaction() as txn:
        txn.delete_table("sales", "many")


def test_renames_go_both_ways(ours: Metastore, theirs: DeltaCat) -> None:
    theirs.ask("rename_table", "sales", "orders", "purchases")
    assert len(rows(ours, "sales", "purchases")) == 5
    with ours.transaction() as txn:
        txn.update_table("sales", "purchases", new_name="orders")
        txn.update_namespace("sales", new_name="shop")
    assert theirs.ask("tables", "shop") == ["orders", "users"]
    assert len(theirs.ask("read", "shop", "orders")) == 5
    theirs.ask("rename_namespace", "shop", "sales")

    assert len(rows(ours, "sales", "orders")) == 5


def test_we_append_to_rename_and_time_travel_what_deltacat_wrote(
    ours: Metastore, theirs: DeltaCat
) -> None:
    theirs.ask("create_namespace", "theirs", {"k": "v"})
    theirs.ask("create_keyed", "theirs", "t", ROWS, ["id"])
    theirs.ask("write", "theirs", "t", ROWS, "merge")
    before = next(ours.transactions()).id
    with ours.transaction() as txn:
        TableWriter(txn, "theirs", "t").upsert([{"id": 9, "name": "ours"}])
        txn.update_table("theirs", "t", new_name="u")

    assert [row["id"] for row in by_id(theirs.ask("read", "theirs", "u"))] == [1, 2, 9]
    assert [row["id"] for row in rows(ours, "theirs", "t", before)] == [1, 2]
    assert ours.view().namespace("theirs").properties == {"k": "v"}


def test_drops_and_new_starts_go_both_ways(ours: Metastore, theirs: DeltaCat) -> None:
    theirs.ask("drop_table", "theirs", "u")
    assert ours.view().find_table("theirs", "u") is None
    with ours.transaction() as txn:
        txn.create_table("theirs", "u", schema=inferred(ROWS))
        TableWriter(txn, "theirs", "u").append(ROWS)
    assert by_id(theirs.ask("read", "theirs", "u")) == ROWS
    with ours.transaction() as txn:
        txn.delete_table("theirs", "u")

    assert theirs.ask("tables", "theirs") == []


def test_deltacat_tells_our_history(theirs: DeltaCat) -> None:
    told = theirs.ask("messages")
    assert "written by lakeroot" in told
    assert "first rows" in told


def test_a_vacuum_leaves_what_deltacat_reads(ours: Metastore, theirs: DeltaCat) -> None:
    expected = by_id(theirs.ask("read", "sales", "orders"))
    ours.vacuum(retention_ms=0)

    assert by_id(theirs.ask("read", "sales", "orders")) == expected
    assert [row["name"] for row in by_id(theirs.ask("read", "sales", "users"))] == ["ANN", "BOB"]
    theirs.ask("write", "sales", "orders", [{"id": 6, "name": "fy"}], "append")
    assert len(rows(ours, "sales", "orders")) == 6
