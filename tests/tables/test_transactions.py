"""Transactions: found by id and by version, and noted beside."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace

from lakeroot.model import errors
from lakeroot.tables import refs, rows, transactions
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.transactions import SetProperty, SetStatus, UnsetProperty
from tests.tables.conftest import ROWS

MORE = pa.table({"id": pa.array([9], pa.int64())})


def test_a_change_is_found_by_its_id_and_by_its_version(table: TableHandle) -> None:
    inserted = rows.insert(table, MORE)
    rows.delete(table, "id = 1")
    assert inserted.transaction_id is not None

    by_id = transactions.describe_transaction(table, inserted.transaction_id)
    by_version = transactions.describe_transaction(table, "2")

    assert by_id == by_version
    assert by_id.status == "SUCCEEDED"
    assert by_id.properties == {
        "uuid": inserted.transaction_id,
        "version": "2",
        "read_version": "1",
        "operation": "Append",
    }


def test_a_change_of_a_branch_is_found_by_its_id(table: TableHandle) -> None:
    refs.create_branch(table, "dev/one")
    inserted = rows.insert(table, MORE, branch="dev/one")
    assert inserted.transaction_id is not None

    assert transactions.describe_transaction(table, inserted.transaction_id).version == 2


@pytest.mark.parametrize(
    "transaction_id",
    ["99", "0", "9" * 30, "", "zz", "../1", "00000000-0000-0000-0000-000000000000", "-1"],
)
def test_an_unknown_transaction_is_not_found(table: TableHandle, transaction_id: str) -> None:
    with pytest.raises(errors.TransactionNotFoundError):
        transactions.describe_transaction(table, transaction_id)
    with pytest.raises(errors.TransactionNotFoundError):
        transactions.alter_transaction(table, transaction_id, [SetProperty("a", "b")])


def test_a_transaction_of_no_table_is_a_missing_table(empty: TableHandle) -> None:
    with pytest.raises(errors.TableNotFoundError):
        transactions.describe_transaction(empty, "1")


def test_notes_are_kept_beside_a_transaction(table: TableHandle) -> None:
    altered = transactions.alter_transaction(
        table, "1", [SetProperty("owner", "ann"), SetProperty("run", "7"), SetStatus("Running")]
    )

    assert altered.status == "RUNNING"
    assert altered.properties.items() >= {"owner": "ann", "run": "7", "version": "1"}.items()
    again = transactions.alter_transaction(
        table, altered.transaction_id, [UnsetProperty("run"), SetStatus("succeeded")]
    )
    assert again == transactions.describe_transaction(table, "1")
    assert again.status == "SUCCEEDED"
    assert "run" not in again.properties
    assert transactions.alter_transaction(table, "1", []) == again


@pytest.mark.parametrize(
    ("action", "value"),
    [
        (SetProperty("k", "new"), "new"),
        (SetProperty("k", "new", "Overwrite"), "new"),
        (SetProperty("k", "new", "skip"), "old"),
        (UnsetProperty("k"), None),
        (UnsetProperty("zz", "Skip"), "old"),
    ],
)
def test_modes_decide_about_what_is_there(
    table: TableHandle, action: SetProperty | UnsetProperty, value: str | None
) -> None:
    transactions.alter_transaction(table, "1", [SetProperty("k", "old")])

    assert transactions.alter_transaction(table, "1", [action]).properties.get("k") == value


@pytest.mark.parametrize(
    "action",
    [
        SetProperty("k", "new", "fail"),
        SetProperty("k", "new", "whatever"),
        SetProperty("", "new"),
        SetProperty("version", "7"),
        UnsetProperty("zz", "Fail"),
        UnsetProperty("uuid"),
        SetStatus("Exploded"),
    ],
)
def test_one_bad_action_refuses_all_of_them(
    table: TableHandle, action: SetProperty | UnsetProperty | SetStatus
) -> None:
    before = transactions.alter_transaction(table, "1", [SetProperty("k", "old")])

    with pytest.raises(errors.InvalidInputError):
        transactions.alter_transaction(table, "1", [SetProperty("other", "1"), action])
    assert transactions.describe_transaction(table, "1") == before


def test_no_note_of_many_writers_is_lost(table: TableHandle) -> None:
    def note(number: int) -> None:
        transactions.alter_transaction(table, "1", [SetProperty(f"k{number}", "x")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(note, range(12)))

    properties = transactions.describe_transaction(table, "1").properties
    assert {f"k{number}" for number in range(12)} <= properties.keys()


def test_unreadable_notes_are_reported(table: TableHandle) -> None:
    found = transactions.describe_transaction(table, "1")
    notes = Path(table.location, transactions.NOTES)
    notes.mkdir()
    (notes / f"{found.transaction_id}.json").write_bytes(b"{")

    with pytest.raises(errors.InvalidTableStateError):
        transactions.describe_transaction(table, "1")


def test_both_catalogs_answer_alike(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, ROWS)
    lance.write_dataset(
        MORE, table.location, mode="append", commit_message="m", transaction_properties={"p": "q"}
    )
    ours = transactions.alter_transaction(
        table, "2", [SetProperty("note", "1"), UnsetProperty("p"), SetStatus("Canceled")]
    )

    theirs = DirectoryNamespace(root=str(tmp_path)).describe_transaction(
        lance_namespace.DescribeTransactionRequest(id=["t", ours.transaction_id])
    )

    assert theirs.status == ours.status == "CANCELED"
    assert theirs.properties == ours.properties
