"""What a transaction reads is of one instant, and still so when it is published."""
# ruff: noqa: PT012, SIM117 (the whole transaction is what must raise)

import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_namespace import ConcurrentModificationError, TableNotFoundError

from lakeroot import DirectoryNamespace, IcebergNamespace
from lakeroot.model.commits import (
    Commit,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    NewestVersion,
    PointTableVersions,
)
from lakeroot.model.errors import ConcurrentModificationError as OutdatedError
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.records import TableVersion
from lakeroot.namespace import transaction
from lakeroot.namespace.caring import CaredNamespace
from lakeroot.namespace.reading import still
from lakeroot.objects import parse_root
from lakeroot.server import Settings, serving
from lakeroot.storage.contract import Store
from lakeroot.storage.deltacat import DeltaCatStore
from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.store import LanceDirStore
from lakeroot.storage.memory import MemoryStore
from tests.versions.conftest import Open
from tests.versions.kinds import MANAGED, append, opener
from tests.versions.staging import ROWS, direct_append, directory_of, files_below, row_count
from tests.versions.test_transactions import MORE

TOTALS = pa.schema({"total": pa.int64()})


def total(number: int) -> pa.Table:
    return pa.table({"total": [number]}, TOTALS)


@pytest.fixture(params=MANAGED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def catalog(kind: str, root: Path) -> CaredNamespace:
    made = opener(kind, root)()
    for name in ("a", "b"):
        lance.write_dataset(ROWS, namespace_client=made, table_id=[name])
    lance.write_dataset(total(6), namespace_client=made, table_id=["sums"])
    return made


@pytest.fixture
def rival(kind: str, root: Path) -> CaredNamespace:
    return opener(kind, root)()


def move(rival: CaredNamespace) -> None:
    """Take the rows of one table into the other, in one step."""
    with rival.transaction("move") as tx:
        tx.delete(["a"], "true")
        tx.append(["b"], ROWS)


def test_half_of_another_transaction_is_never_read(
    catalog: CaredNamespace, rival: CaredNamespace
) -> None:
    with pytest.raises(ConcurrentModificationError) as refused:
        with catalog.transaction("sum up") as tx:
            rows = tx.dataset(["a"]).count_rows()
            move(rival)
            rows += tx.dataset(["b"]).count_rows()
            pytest.fail(f"{rows} rows, of two instants")

    message = str(refused.value)
    assert "a was looked at in version 1 and is at version 2 now" in message
    assert "Version 2 of a was committed first (move)" in message
    assert row_count(catalog, "sums") == 1


def test_a_table_that_was_read_and_has_changed_refuses_the_commit_and_leaves_nothing(
    catalog: CaredNamespace, rival: CaredNamespace, root: Path
) -> None:
    table = directory_of(catalog, "sums")  # type: ignore[arg-type]  # any catalog will do
    before = files_below(table)
    with pytest.raises(ConcurrentModificationError) as refused:
        with catalog.transaction("sum up") as tx:
            rows = tx.dataset(["a"]).count_rows() + tx.dataset(["b"]).count_rows()
            tx.append(["sums"], total(rows))
            move(rival)

    assert "Version 2 of a was committed first (move)" in str(refused.value)
    assert "Nothing was changed" in str(refused.value)
    assert row_count(catalog, "sums") == 1
    assert files_below(table) == before


def test_what_was_read_and_has_not_changed_is_published_whatever_else_has(
    catalog: CaredNamespace, rival: CaredNamespace
) -> None:
    catalog.catalog.declare_table(("other",))
    with catalog.transaction() as tx:
        rows = tx.dataset(["a"]).count_rows()
        append(rival, "b")
        rival.catalog.alter_table(("a",), {"owner": "ml"})
        rival.catalog.declare_table(("another",))
        tx.append(["sums"], total(rows))
        tx.create(["new"], total(rows))

    assert row_count(catalog, "sums") == 2
    assert row_count(catalog, "new") == 1


def test_a_table_that_is_read_again_is_as_it_was(
    catalog: CaredNamespace, rival: CaredNamespace
) -> None:
    with catalog.transaction() as tx:
        first = tx.dataset(["a"])
        append(rival, "a")
        assert first.count_rows() == 3
        assert first.checkout_version(1).count_rows() == 3
        with pytest.raises(ConcurrentModificationError, match="a was looked at in version 1"):
            tx.dataset(["a"])
    # Nothing is published, so nothing is wrong.
    assert row_count(catalog, "a") == 6


def test_changes_before_the_first_look_are_made_again_on_what_it_sees(
    catalog: CaredNamespace, rival: CaredNamespace
) -> None:
    with catalog.transaction() as tx:
        tx.append(["a"], MORE)
        tx.update(["b"], {"word": "'z'"})
        move(rival)
        assert tx.dataset(["b"]).count_rows("word = 'z'") == 6
        assert tx.dataset(["a"]).count_rows() == 2

    assert row_count(catalog, "a") == 2
    assert row_count(catalog, "b") == 6


def test_changes_without_a_look_are_never_refused_for_what_others_do(
    catalog: CaredNamespace, rival: CaredNamespace
) -> None:
    with catalog.transaction() as tx:
        tx.append(["a"], MORE)
        append(rival, "b")
        tx.append(["b"], MORE)
        append(rival, "a")
        append(rival, "b")

    assert row_count(catalog, "a") == 3 + 2 + 3
    assert row_count(catalog, "b") == 3 + 2 + 6


def test_a_table_that_was_missed_must_still_be_missing(
    catalog: CaredNamespace, rival: CaredNamespace
) -> None:
    with pytest.raises(ConcurrentModificationError, match="new was not there, and now it is"):
        with catalog.transaction() as tx:
            with pytest.raises(TableNotFoundError):
                tx.dataset(["new"])
            tx.append(["sums"], total(0))
            lance.write_dataset(ROWS, namespace_client=rival, table_id=["new"])

    assert row_count(catalog, "sums") == 1
    with catalog.transaction() as tx:
        with pytest.raises(TableNotFoundError):
            tx.dataset(["later"])
        tx.create(["later"], ROWS)
        assert tx.dataset(["later"]).count_rows() == 3
    assert row_count(catalog, "later") == 3


def test_a_table_that_was_read_and_is_gone_or_another_refuses_the_commit(
    catalog: CaredNamespace, rival: CaredNamespace
) -> None:
    with pytest.raises(ConcurrentModificationError, match="The table a is gone"):
        with catalog.transaction() as tx:
            tx.append(["sums"], total(tx.dataset(["a"]).count_rows()))
            rival.drop_table({"id": ["a"]})
    with pytest.raises(ConcurrentModificationError, match="b is another table now"):
        with catalog.transaction() as tx:
            tx.append(["sums"], total(tx.dataset(["b"]).count_rows()))
            rival.drop_table({"id": ["b"]})
            lance.write_dataset(ROWS, namespace_client=rival, table_id=["b"])

    assert row_count(catalog, "sums") == 1


def test_a_version_that_was_put_there_directly_counts_as_a_change(
    tables: DirectoryNamespace,
) -> None:
    with pytest.raises(ConcurrentModificationError, match="a was looked at in version 1"):
        with tables.transaction() as tx:
            tx.append(["b"], tx.dataset(["a"]).to_table())
            direct_append(directory_of(tables, "a"))
    with tables.transaction() as tx:
        tx.append(["b"], tx.dataset(["a"]).to_table())

    assert row_count(tables, "b") == 3 + 6


def test_a_change_between_the_last_look_and_the_commit_refuses_it(
    catalog: CaredNamespace, rival: CaredNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    look = still

    def disturbed(*given: object) -> object:
        found = look(*given)  # type: ignore[arg-type]  # whatever it was given
        looks.append(found)
        if len(looks) == 2:  # One when it is read, one for the commit.
            append(rival, "a")
        return found

    monkeypatch.setattr(transaction, "still", disturbed)
    with pytest.raises(ConcurrentModificationError, match="Version 2 of a was committed first"):
        with catalog.transaction() as tx:
            tx.append(["sums"], total(tx.dataset(["a"]).count_rows()))

    assert len(looks) == 2, "the next one has seen it"
    assert row_count(catalog, "sums") == 1


def test_a_declared_table_has_nothing_to_read(tables: DirectoryNamespace, open_lake: Open) -> None:
    tables.declare_table({"id": ["empty"]})
    with pytest.raises(ConcurrentModificationError, match="empty was looked at in version 0"):
        with tables.transaction() as tx:
            with pytest.raises(TableNotFoundError, match="only declared"):
                tx.dataset(["empty"])
            tx.append(["a"], MORE)
            append(open_lake(), "empty")

    assert row_count(tables, "a") == 3


def test_transactions_that_read_what_others_write_come_one_after_the_other(
    catalog: CaredNamespace, kind: str, root: Path
) -> None:
    """Each notes how many notes there are: two that see the same have passed each other by."""
    lanes = ("left", "right")
    for lane in lanes:
        lance.write_dataset(total(0).slice(1), namespace_client=catalog, table_id=[lane])

    def note(lane: str, errors: list[BaseException]) -> None:
        own = opener(kind, root)()
        left = 5
        while left:
            try:
                with own.transaction(lane) as tx:
                    found = sum(tx.dataset([one]).count_rows() for one in lanes)
                    tx.append([lane], total(found))
            except ConcurrentModificationError:
                continue
            except BaseException as error:
                errors.append(error)
                raise
            left -= 1

    errors: list[BaseException] = []
    threads = [threading.Thread(target=note, args=(lane, errors)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    found: list[int] = []
    for lane in lanes:
        notes = lance.dataset(namespace_client=catalog, table_id=[lane]).to_table()
        found += notes["total"].to_pylist()
    assert sorted(found) == list(range(10))


def test_an_iceberg_catalog_is_looked_at_before_the_commit(root: Path) -> None:
    directory = {"root": str(root), "table_version_management": "true"}
    settings = Settings(
        port=0, impl="lakeroot.DirectoryNamespace", properties=directory, log_requests=False
    )
    with serving(settings) as url:
        catalog = IcebergNamespace(
            endpoint=f"{url}/iceberg", managed_by="impl", native_lance_tables="true"
        )
        catalog.create_namespace({"id": ["n"]})
        for name in ("a", "b"):
            lance.write_dataset(ROWS, namespace_client=catalog, table_id=["n", name])
        with catalog.transaction() as tx:
            tx.append("n.b", tx.dataset("n.a").to_table())
        with pytest.raises(ConcurrentModificationError) as refused:
            with catalog.transaction() as tx:
                tx.append("n.b", tx.dataset("n.a").to_table())
                append(opener("catalog decides", root)(), "n", "a")

        # It has no history that would tell who it was.
        assert "is at version 2 now. Nothing was changed" in str(refused.value)
        assert row_count(catalog, "n", "b") == 6
        catalog.close()


def stores(root: Path) -> list[Store]:
    place = parse_root(str(root))
    managed = DirectorySettings(table_version_management=True)
    return [
        MemoryStore(parse_root("memory://required"), keeps_versions=True),
        LanceDirStore(parse_root(str(root / "directory")), managed),
        DeltaCatStore(place),
    ]


def test_every_store_requires_a_newest_version(root: Path) -> None:
    table, other = ("t",), ("u",)
    first, second = (TableVersion(number, f"m{number}") for number in (1, 2))
    for store in stores(root):

        def commit(*changes: object, newest: int, store: Store = store) -> None:
            required = (NewestVersion(table, newest),)
            store.commit(Commit(changes, required))  # type: ignore[arg-type]  # of any kind

        commit(DeclareTable(table, "t.lance"), DeclareTable(other, "u.lance"), newest=0)
        commit(CreateTableVersions(table, (first,)), newest=0)
        commit(CreateTableVersions(other, (first,)), newest=1)
        commit(CreateTableVersions(table, (second,)), newest=1)
        commit(PointTableVersions(table, (second,)), newest=2)
        for outdated in (0, 1, 3):
            with pytest.raises(OutdatedError, match="t has changed since it was read"):
                commit(CreateTableVersions(other, (second,)), newest=outdated)
        commit(DeleteTableVersions(table, (2,)), newest=2)
        commit(CreateTableVersions(other, (second,)), newest=1)


def test_a_commit_sees_the_versions_of_those_before_it_in_the_same_step(root: Path) -> None:
    table = ("t",)
    store = LanceDirStore(parse_root(str(root)), DirectorySettings(table_version_management=True))
    store.commit(Commit((DeclareTable(table, "t.lance"),)))
    rows: dict[object, object] = {}
    draft = store._draft()
    for number in (1, 2):
        new = CreateTableVersions(table, (TableVersion(number, f"m{number}"),))
        required = (NewestVersion(table, number - 1),)
        rows.update(store._check(Commit((new,), required), draft, rows, 0))  # type: ignore[arg-type]
        with pytest.raises(OutdatedError, match="has changed"):
            store._check(Commit((new,), required), draft, rows, 0)  # type: ignore[arg-type]


def test_a_store_that_keeps_no_versions_cannot_require_one(root: Path) -> None:
    from lakeroot.model.rules import apply
    from lakeroot.storage.overlay import Overlay

    store = MemoryStore(parse_root("memory://required"))
    with pytest.raises(UnsupportedOperationError, match="keeps no versions"):
        apply(Commit((), (NewestVersion(("t",), 1),)), Overlay(store.read()), 0)
