"""Transactions beside other writers: made again on top of them, or refused with their name."""
# ruff: noqa: PT012, SIM117 (the whole transaction is what must raise)

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    ConcurrentModificationError,
    TableAlreadyExistsError,
)

from lakeroot import DirectoryNamespace
from lakeroot.namespace.caring import CaredNamespace
from lakeroot.namespace.staging import StagingClient
from lakeroot.namespace.transaction import Transaction
from lakeroot.storage.lance_dir.threads import on_own_thread
from tests.fsck.killing import orphans
from tests.versions.conftest import Open
from tests.versions.kinds import MANAGED, opener
from tests.versions.staging import (
    ROWS,
    direct_append,
    directory_of,
    files_below,
    make_table,
    numbers,
    row_count,
)
from tests.versions.test_transactions import MORE, words


@pytest.mark.parametrize("rival", ["append", "overwrite", "delete"])
def test_changes_are_made_again_on_top_of_another_writer(
    tables: DirectoryNamespace, open_lake: Open, root: Path, rival: str
) -> None:
    other = open_lake(author="rival")

    with tables.transaction() as tx:
        tx.append(["a"], MORE)
        tx.update(["b"], {"word": "upper(word)"})
        tx.create(["new"], ROWS)
        if rival == "append":
            lance.write_dataset(ROWS, namespace_client=other, table_id=["b"], mode="append")
        elif rival == "overwrite":
            lance.write_dataset(MORE, namespace_client=other, table_id=["b"], mode="overwrite")
        else:
            other.delete_from_table({"id": ["b"], "predicate": "id = 1"})

    expected = {
        "append": sorted([(1, "A"), (2, "B"), (3, "C")] * 2),
        "overwrite": [(3, "C"), (4, "D")],
        "delete": [(2, "B"), (3, "C")],
    }
    assert words(tables, "b") == expected[rival]
    assert row_count(tables, "a") == 5
    assert numbers(tables, "b") == [1, 2, 3]
    assert row_count(tables, "new") == 3
    leftovers = [name for name in files_below(root) if "_lakeroot-" in name or "manifest-" in name]
    assert leftovers == []


def disturb(monkeypatch: pytest.MonkeyPatch, table: Path, look: int = 1) -> list[object]:
    """Let another writer append when a step has looked at a table; give the looks."""
    listed = StagingClient.list_table_versions
    tried: list[object] = []

    def disturbed(client: StagingClient, request: object) -> object:
        found = listed(client, request)
        tried.append(request)
        if len(tried) == look:
            on_own_thread(direct_append, table)
        return found

    monkeypatch.setattr(StagingClient, "list_table_versions", disturbed)
    return tried


def test_an_append_stands_on_what_another_writer_commits_in_the_middle_of_it(
    tables: DirectoryNamespace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = directory_of(tables, "a")
    tried = disturb(monkeypatch, table)
    with tables.transaction() as tx:
        tx.append(["a"], MORE)

    assert len(tried) == 1  # Its rows are the same on top of any version.
    assert numbers(tables, "a") == [1, 2, 3]
    assert row_count(tables, "a") == 8
    assert len(list((table / "data").iterdir())) == 3
    assert not [name for name in files_below(root) if "manifest-" in name]


def append_twice(tx: Transaction) -> None:
    tx.append(["a"], MORE)
    tx.append(["a"], MORE)


CHANGES: dict[str, tuple[Callable[[Transaction], None], int]] = {
    "a merge": (lambda tx: tx.merge(["a"], MORE, "id"), 7),
    "an update": (lambda tx: tx.update(["a"], {"word": "'x'"}), 6),
    "a deletion": (lambda tx: tx.delete(["a"], "id = 1"), 4),
    "an overwrite": (lambda tx: tx.overwrite(["a"], MORE), 2),
    "a second append": (append_twice, 10),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_another_writer_disturbs_is_made_again_and_leaves_no_trace(
    tables: DirectoryNamespace, root: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    make, expected = CHANGES[change]
    table = directory_of(tables, "a")
    look = 2 if change == "a second append" else 1
    tried = disturb(monkeypatch, table, look)
    with tables.transaction() as tx:
        make(tx)

    assert len(tried) <= 5, "not again and again"
    assert row_count(tables, "a") == expected
    if change != "an overwrite":
        versions = lance.dataset(namespace_client=tables, table_id=["a"]).versions()
        assert [one["version"] for one in versions] == numbers(tables, "a")
    assert not [name for name in files_below(root) if "manifest-" in name or "_lakeroot-" in name]
    assert orphans(table) == set()


def test_what_was_read_inside_is_not_silently_outdated(
    tables: DirectoryNamespace, open_lake: Open, root: Path
) -> None:
    with (
        pytest.raises(ConcurrentModificationError) as refused,
        tables.transaction() as tx,
    ):
        total = tx.dataset(["a"]).count_rows()
        tx.append(["b"], pa.table({"id": pa.array([total], pa.int64()), "word": ["total"]}))
        rival = open_lake(author="rival")
        with rival.transaction("rival load") as other:
            other.append(["b"], MORE)
        before = files_below(root)

    message = str(refused.value)
    assert "Version 2 of b was committed by rival first (rival load)" in message
    assert "Nothing was changed" in message
    assert row_count(tables, "b") == 5
    gone = before - files_below(root)
    assert gone
    assert files_below(root) - before == set()


def test_a_table_that_another_writer_created_first_is_named(
    tables: DirectoryNamespace, open_lake: Open, root: Path
) -> None:
    with pytest.raises(TableAlreadyExistsError, match=r"new.*by rival"), tables.transaction() as tx:
        tx.append(["a"], MORE)
        tx.create(["new"], ROWS)
        make_table(open_lake(author="rival"), "new")

    assert row_count(tables, "a") == 3
    assert row_count(tables, "new") == 3


def test_a_table_that_another_writer_dropped_is_named(
    tables: DirectoryNamespace, open_lake: Open
) -> None:
    with pytest.raises(ConcurrentModificationError) as refused, tables.transaction() as tx:
        tx.append(["a"], MORE)
        tx.append(["b"], MORE)
        open_lake(author="rival").drop_table({"id": ["b"]})

    assert "no table b" in str(refused.value)
    assert "by rival" in str(refused.value)

    assert row_count(tables, "a") == 3


def test_a_table_that_was_replaced_is_not_given_versions_of_the_old_one(
    tables: DirectoryNamespace, open_lake: Open
) -> None:
    with pytest.raises(ConcurrentModificationError, match="b is another table now"):
        with tables.transaction() as tx:
            assert tx.dataset(["b"]).count_rows() == 3
            tx.append(["b"], MORE)
            other = open_lake()
            other.drop_table({"id": ["b"]})
            make_table(other, "b")

    assert row_count(tables, "b") == 3


def _drop(catalog: CaredNamespace) -> None:
    catalog.drop_table({"id": ["b"]})


def _rename(catalog: CaredNamespace) -> None:
    catalog.rename_table({"id": ["b"], "new_table_name": "moved"})


@pytest.mark.parametrize("kind", MANAGED)
@pytest.mark.parametrize("take_away", [_drop, _rename])
@pytest.mark.parametrize("at_the_end", [True, False])
def test_rows_for_a_table_do_not_get_into_another_that_has_its_name(
    root: Path, kind: str, take_away: Callable[[CaredNamespace], None], at_the_end: bool
) -> None:
    catalog = opener(kind, root)()
    for name in ("a", "b"):
        lance.write_dataset(ROWS, namespace_client=catalog, table_id=[name])

    with pytest.raises(ConcurrentModificationError) as refused:
        with catalog.transaction("load") as tx:
            tx.append(["a"], MORE)
            tx.append(["b"], MORE)
            take_away(opener(kind, root)())
            lance.write_dataset(MORE, namespace_client=opener(kind, root)(), table_id=["b"])
            if not at_the_end:
                tx.append(["b"], MORE)

    assert "b is another table now" in str(refused.value)
    assert "version" in str(refused.value), "who did it"
    assert row_count(catalog, "a") == 3
    assert row_count(catalog, "b") == 2
    if take_away is _rename:
        assert row_count(catalog, "moved") == 3


def test_rows_that_can_be_read_once_survive_a_conflict(
    tables: DirectoryNamespace, open_lake: Open
) -> None:
    with tables.transaction() as tx:
        tx.append(["a"], MORE.to_reader())
        lance.write_dataset(ROWS, namespace_client=open_lake(), table_id=["a"], mode="append")

    assert row_count(tables, "a") == 8


def test_a_change_that_is_not_possible_any_more_is_refused_with_the_winner_and_leaves_nothing(
    tables: DirectoryNamespace, open_lake: Open, root: Path
) -> None:
    rival = open_lake(author="rival")
    with pytest.raises(ConcurrentModificationError) as refused, tables.transaction() as tx:
        before = files_below(root)
        tx.append(["b"], MORE)
        tx.create(["new"], ROWS)
        tx.update(["a"], {"word": "upper(word)"})
        ours = files_below(root) - before
        rename = {"path": "word", "rename": "text"}
        rival.alter_table_alter_columns({"id": ["a"], "alterations": [rename]})
        theirs = files_below(root) - before - ours

    message = str(refused.value)
    assert "a was changed meanwhile" in message
    assert "no column 'word'" in message
    assert "by rival" in message
    assert "Nothing was changed" in message
    assert files_below(root) - before <= theirs
    assert row_count(tables, "b") == 3


def test_half_of_a_transaction_is_not_published_although_its_error_was_caught(
    tables: DirectoryNamespace, open_lake: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_lake(author="rival")
    make_table(tables, "c")
    place = directory_of(tables, "c")

    with pytest.raises(ConcurrentModificationError, match="not published"):
        with tables.transaction() as tx:
            tx.append(["a"], MORE)
            tx.append(["b"], MORE)
            other.drop_table({"id": ["b"]})
            disturb(monkeypatch, place)
            # Another writer is in the way, so everything is made again; the rows of `b` cannot be.
            with pytest.raises(ConcurrentModificationError, match="no table b"):
                tx.delete(["c"], "id = 1")

    assert row_count(tables, "a") == 3
    assert row_count(tables, "c") == 6


def test_transactions_get_through_beside_a_busy_writer(
    tables: DirectoryNamespace, root: Path
) -> None:
    """One that appends all the time: whoever lost takes turns with it."""
    busy = subprocess.Popen(
        [sys.executable, "-c", _BUSY, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert busy.stdout is not None
    assert busy.stdout.readline() == "busy\n"
    published = 0
    for _ in range(15):  # On a busy machine turns end early, and a transaction may lose after all.
        with contextlib.suppress(ConcurrentModificationError):
            with tables.transaction() as tx:
                tx.append(["a"], MORE)
                tx.append(["a"], MORE)
                tx.append(["b"], MORE)
            published += 1
        if published == 5:
            break
    said, _ = busy.communicate("enough\n")

    assert published == 5
    assert row_count(tables, "b") == 3 + 10
    assert row_count(tables, "a") == 3 + 20 + 3 * int(said)


_BUSY = """
import sys, threading
import lance, pyarrow as pa
from lakeroot import DirectoryNamespace
namespace = DirectoryNamespace(root=sys.argv[1])
rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["a", "b", "c"]})
enough = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), enough.set()), daemon=True).start()
written = 0
while not enough.is_set():
    lance.write_dataset(rows, namespace_client=namespace, table_id=["a"], mode="append")
    written += 1
    if written == 3:
        print("busy", flush=True)
print(written)
"""
