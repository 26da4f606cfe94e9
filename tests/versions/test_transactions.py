"""Several tables changed in one atomic step."""
# ruff: noqa: PT012, SIM117 (the whole transaction is what must raise)

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableColumnNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from lakeroot import DirectoryNamespace
from lakeroot.lake.table import ipc
from lakeroot.tables.versions import manifest_name
from tests.versions.conftest import Open
from tests.versions.disk import catalog_version, version_rows
from tests.versions.staging import (
    ROWS,
    directory_of,
    files_below,
    make_table,
    numbers,
    row_count,
)

MORE = pa.table({"id": pa.array([3, 4], pa.int64()), "word": ["C", "D"]})


class ChangedMindError(Exception):
    """The caller changed its mind."""


def words(namespace: DirectoryNamespace, *name: str) -> list[tuple[int, str]]:
    found = lance.dataset(namespace_client=namespace, table_id=list(name)).to_table().to_pylist()
    return sorted((row["id"], row["word"]) for row in found)


def test_changes_of_several_tables_are_published_together(
    tables: DirectoryNamespace, root: Path
) -> None:
    tables.create_namespace(CreateNamespaceRequest(id=["ns"]))
    before = catalog_version(root)

    with tables.transaction("nightly load") as tx:
        tx.append(["a"], MORE)
        tx.merge(["b"], MORE, on=["id"])
        tx.create(["ns", "new"], ROWS, {"owner": "ml"})
        tx.append(["ns", "new"], MORE)
        tx.update(["a"], {"word": "'z'"}, "id = 1")
        tx.delete(["b"], "id = 2")
        assert numbers(tables, "a") == [1]
        assert tables.list_tables({"id": ["ns"]}).tables == []

    assert catalog_version(root) == before + 1
    assert words(tables, "a") == [(1, "z"), (2, "b"), (3, "C"), (3, "c"), (4, "D")]
    assert words(tables, "b") == [(1, "a"), (3, "C"), (4, "D")]
    assert row_count(tables, "ns", "new") == 5
    assert tables.describe_table({"id": ["ns", "new"]}).properties == {"owner": "ml"}
    entry = tables.history(1)[0]
    assert entry.message == "nightly load"
    assert (("a",), 2) in entry.versions
    assert (("ns", "new"), 2) in entry.versions
    for name in (("a",), ("b",), ("ns", "new")):
        plain = lance.dataset(str(directory_of(tables, *name)))
        assert plain.count_rows() == row_count(tables, *name)


def test_a_transaction_sees_its_own_changes(tables: DirectoryNamespace) -> None:
    with tables.transaction() as tx:
        tx.overwrite(["a"], MORE)
        assert tx.dataset(["a"]).count_rows() == 2
        tx.append(["a"], MORE)
        assert tx.dataset(["a"]).count_rows() == 4
        assert row_count(tables, "a") == 3

    assert row_count(tables, "a") == 4


def test_an_exception_leaves_no_trace(tables: DirectoryNamespace, root: Path) -> None:
    before = files_below(root)

    with pytest.raises(ChangedMindError), tables.transaction() as tx:
        tx.append(["a"], MORE)
        tx.merge(["b"], MORE, on=["id"])
        tx.delete(["b"], "id = 1")
        tx.create(["new"], ROWS)
        raise ChangedMindError

    assert files_below(root) - before == set()
    assert before - files_below(root) == set()
    assert (row_count(tables, "a"), row_count(tables, "b")) == (3, 3)
    with pytest.raises(TableNotFoundError):
        tables.describe_table({"id": ["new"]})


def test_a_step_that_fails_takes_the_whole_transaction_back(
    tables: DirectoryNamespace, root: Path
) -> None:
    before = files_below(root)

    with pytest.raises(TableColumnNotFoundError), tables.transaction() as tx:
        tx.append(["a"], MORE)
        tx.delete(["b"], "nope > 1")

    assert files_below(root) == before


def test_a_table_that_is_damaged_meanwhile_takes_the_whole_transaction_back(
    tables: DirectoryNamespace, root: Path
) -> None:
    before = files_below(root)
    newest = directory_of(tables, "a") / "_versions" / manifest_name(1)

    with pytest.raises(InvalidTableStateError), tables.transaction() as tx:
        tx.append(["a"], MORE)
        tx.append(["b"], MORE)
        tx.create(["new"], ROWS)
        newest.unlink()

    # What is new in the damaged table cannot be told any more from what was there.
    left = files_below(root) - before
    assert {Path(file).parts[:2] for file in left} == {
        ("a.lance", "data"),
        ("a.lance", "_transactions"),
    }
    assert row_count(tables, "b") == 3
    with pytest.raises(TableNotFoundError):
        tables.describe_table({"id": ["new"]})


def test_an_empty_transaction_commits_nothing(tables: DirectoryNamespace, root: Path) -> None:
    before = catalog_version(root)

    with tables.transaction("nothing"):
        pass

    assert catalog_version(root) == before


def test_a_transaction_ends_with_its_block(tables: DirectoryNamespace) -> None:
    with tables.transaction() as tx:
        tx.append(["a"], MORE)

    with pytest.raises(InvalidInputError, match="over"):
        tx.append(["a"], MORE)


def test_a_transaction_that_is_used_again_deletes_nothing(
    tables: DirectoryNamespace, root: Path
) -> None:
    tx = tables.transaction()
    with tx:
        tx.append(["a"], MORE)
        tx.create(["new"], ROWS)
    before = files_below(root)

    with pytest.raises(InvalidInputError, match="only once"):
        with tx:
            tx.append(["a"], MORE)

    assert files_below(root) == before
    assert len(words(tables, "a")) == 5
    assert len(words(tables, "new")) == 3


def test_a_transaction_inside_of_itself_is_refused(tables: DirectoryNamespace, root: Path) -> None:
    before = files_below(root)

    with pytest.raises(InvalidInputError, match="only once"), tables.transaction() as tx:
        tx.append(["a"], MORE)
        with tx:
            tx.append(["b"], MORE)

    assert files_below(root) == before


def test_a_transaction_begins_and_ends_with_its_block(tables: DirectoryNamespace) -> None:
    tx = tables.transaction()
    with pytest.raises(InvalidInputError, match="not begun"):
        tx.append(["a"], MORE)
    with tx:
        assert tx.dataset(["a"]).count_rows() == 3
        with pytest.raises(TableNotFoundError):
            tx.dataset(["nope"])
    with pytest.raises(InvalidInputError, match="over"):
        tx.dataset(["a"])


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "dictionaries", "frame", "ipc"])
def test_rows_come_in_every_form_that_a_lake_takes(tables: DirectoryNamespace, kind: str) -> None:
    def given() -> Any:
        batch = MORE.to_batches()[0]
        return {
            "table": lambda: MORE,
            "batch": lambda: batch,
            "reader": MORE.to_reader,
            "dictionaries": MORE.to_pylist,
            "frame": MORE.to_pandas,
            "ipc": lambda: ipc(MORE),
        }[kind]()

    tables.create_namespace(CreateNamespaceRequest(id=["ns"]))
    with tables.transaction() as tx:
        tx.create("ns.new", given())
        tx.append("ns.new", given())
        tx.overwrite("b", given())
        tx.merge("a", given(), on="id")
        assert tx.dataset('ns."new"').count_rows() == 4

    assert words(tables, "ns", "new") == [(3, "C"), (3, "C"), (4, "D"), (4, "D")]
    assert words(tables, "a") == [(1, "a"), (2, "b"), (3, "C"), (4, "D")]
    assert words(tables, "b") == [(3, "C"), (4, "D")]


@pytest.mark.parametrize("data", [7, [7], "rows", {"id": [1]}, None])
def test_what_holds_no_rows_is_told_what_does(tables: DirectoryNamespace, data: object) -> None:
    with pytest.raises(InvalidInputError, match=r"does not hold rows\. Give an Arrow"):
        with tables.transaction() as tx:
            tx.append("a", data)


def test_one_key_of_a_merge_may_be_a_string(tables: DirectoryNamespace) -> None:
    with tables.transaction() as tx:
        tx.merge(["a"], MORE, on="id")

    assert [number for number, _ in words(tables, "a")] == [1, 2, 3, 4]


def test_a_transaction_needs_an_arbiter(open_lake: Open) -> None:
    plain = open_lake()
    make_table(plain, "a")

    with pytest.raises(UnsupportedOperationError, match="table_version_management"):
        plain.transaction().__enter__()


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (lambda tx: tx.append(["nope"], MORE), TableNotFoundError),
        (lambda tx: tx.create(["nope", "t"], MORE), NamespaceNotFoundError),
        (lambda tx: tx.create(["a"], MORE), TableAlreadyExistsError),
        (lambda tx: tx.create([], MORE), InvalidInputError),
        (lambda tx: tx.append("", MORE), InvalidInputError),
        (lambda tx: tx.append('"a', MORE), InvalidInputError),
        (lambda tx: tx.append([7], MORE), InvalidInputError),
        (lambda tx: tx.append("a", [{"id": 1}, {"id": "x"}]), InvalidInputError),
        (lambda tx: tx.create(["c"], MORE, properties={"lakeroot.x": "y"}), InvalidInputError),
        (lambda tx: tx.create(["c"], MORE, properties={"x": 1}), InvalidInputError),
        (lambda tx: tx.create(["c"], MORE, properties={"x": "\ud800"}), InvalidInputError),
        (lambda tx: tx.append(["a"], pa.table({"other": [1]})), LanceNamespaceError),
        (lambda tx: tx.append(["a"], b"garbage"), InvalidInputError),
        (lambda tx: tx.append(["a"], 7), InvalidInputError),
        (lambda tx: tx.merge(["a"], MORE, on=["nope"]), LanceNamespaceError),
        (lambda tx: tx.update(["a"], {"nope": "1"}), LanceNamespaceError),
        (lambda tx: tx.delete(["a"], "word ="), InvalidInputError),
        (lambda tx: tx.delete(["a"], ""), InvalidInputError),
    ],
)
def test_a_bad_step_is_refused_and_nothing_stays(
    tables: DirectoryNamespace, root: Path, step, error
) -> None:
    before = files_below(root)

    with pytest.raises(error), tables.transaction() as tx:
        tx.append(["b"], MORE)
        step(tx)

    assert files_below(root) == before


@pytest.mark.parametrize("message", [7, b"bytes", "half \ud800"])
def test_a_message_that_cannot_be_kept_is_refused_before_anything_is_written(
    tables: DirectoryNamespace, root: Path, message
) -> None:
    before = files_below(root)

    with pytest.raises(InvalidInputError, match="The message of a transaction"):
        with tables.transaction(message) as tx:
            tx.append(["b"], MORE)

    assert files_below(root) == before


_KILLED = """
import os, signal, sys
import pyarrow as pa
from lakeroot import DirectoryNamespace
namespace = DirectoryNamespace(root=sys.argv[1])
rows = pa.table({"id": pa.array([9], pa.int64()), "word": ["x"]})
with namespace.transaction("doomed") as tx:
    tx.append(["a"], rows)
    tx.create(["new"], rows)
    tx.overwrite(["b"], rows)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_transaction_leaves_the_tables_as_they_were(
    tables: DirectoryNamespace, root: Path
) -> None:
    rows_before = version_rows(root)

    done = subprocess.run([sys.executable, "-c", _KILLED, str(root)], check=False)

    assert done.returncode == -signal.SIGKILL
    assert version_rows(root) == rows_before
    for name in ("a", "b"):
        assert row_count(tables, name) == 3
        assert lance.dataset(str(directory_of(tables, name))).count_rows() == 3
    assert tables.list_tables({"id": []}).tables == ["a", "b"]
    with tables.transaction() as tx:
        tx.append(["a"], MORE)
        tx.create(["new"], ROWS)
    assert (row_count(tables, "a"), row_count(tables, "new")) == (5, 3)


_WRITER = """
import sys
import pyarrow as pa
from lakeroot import DirectoryNamespace
namespace = DirectoryNamespace(root=sys.argv[1])
rows = pa.table({"id": pa.array([int(sys.argv[2])], pa.int64()), "word": ["x"]})
for _ in range(int(sys.argv[3])):
    with namespace.transaction("both") as tx:
        tx.append(["a"], rows)
        tx.append(["b"], rows)
print("done")
"""


def test_readers_never_see_half_of_a_transaction(tables: DirectoryNamespace, root: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(root), str(number), "6"],
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        for number in range(2)
    ]
    looks = 0
    while any(writer.poll() is None for writer in writers):
        # One look at the catalog, then both tables as of that look.
        past = tables.at(version=tables.history(1)[0].version)
        assert row_count(past, "a") == row_count(past, "b")
        looks += 1

    assert [writer.communicate()[0].strip() for writer in writers] == [b"done"] * 2
    assert looks > 0
    assert row_count(tables, "a") == row_count(tables, "b") == 3 + 12
