"""Version management is switched off while others commit versions: no row is left behind."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as PylanceNamespace
from lance_namespace import ConcurrentModificationError, DeclareTableRequest

from lakeroot import DirectoryNamespace
from lakeroot.catalog.versions import TableVersions
from lakeroot.metastore import Transaction
from lakeroot.model.commits import (
    Change,
    Commit,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    ManageTableVersions,
    PointTableVersions,
)
from lakeroot.model.errors import VersionsNotKeptError
from lakeroot.model.records import Table, TableVersion
from lakeroot.objects import parse_root
from lakeroot.storage.contract import Store
from lakeroot.storage.deltacat import DeltaCatStore
from lakeroot.storage.lance_dir import DirectorySettings, LanceDirStore
from lakeroot.storage.lance_dir.commits import Pending
from lakeroot.storage.memory import MemoryStore
from tests.versions.disk import version_rows
from tests.versions.kinds import MANAGED, Opened, append, opener, place_of
from tests.versions.staging import ROWS, direct_append, make_table, numbers, row_count, stage
from tests.versions.storage import opened_on


@pytest.fixture(params=MANAGED)
def catalog(request: pytest.FixtureRequest, root: Path) -> Opened:
    return opener(request.param, root)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Callable[[], object]], None]:
    """Do something between the last look of a catalog and its next commit."""

    def arrange(namespace: Any, deed: Callable[[], object]) -> None:
        store = namespace.catalog.store
        commit = store.commit

        def after_the_deed(given: Commit) -> Any:
            monkeypatch.setattr(store, "commit", commit)
            deed()
            return commit(given)

        monkeypatch.setattr(store, "commit", after_the_deed)

    return arrange


def switched_off(catalog: Opened) -> Callable[[], None]:
    return TableVersions(catalog().catalog).disable


def assert_nothing_is_kept(catalog: Opened, *names: str) -> None:
    store = catalog().catalog.store
    view = store.read()
    assert not store.keeps_versions
    for name in names:
        table = view.get((name,))
        assert isinstance(table, Table)
        assert not store.versions(table, None)


def test_an_append_goes_the_way_without_management(catalog: Opened, between: Any) -> None:
    writer: Any = catalog()
    make_table(writer, "t")
    between(writer, switched_off(catalog))

    append(writer, "t")

    assert_nothing_is_kept(catalog, "t")
    assert numbers(catalog(), "t") == [1, 2]
    assert row_count(catalog(), "t") == 6
    assert catalog().check() == []


def test_so_do_batches(catalog: Opened, between: Any) -> None:
    writer: Any = catalog()
    for name in ("a", "b"):
        make_table(writer, name)
    entries = [stage(writer, name).request() for name in ("a", "b")]
    between(writer, switched_off(catalog))

    writer.batch_create_table_versions({"entries": entries})

    assert_nothing_is_kept(catalog, "a", "b")
    assert [row_count(catalog(), name) for name in ("a", "b")] == [6, 6]


def test_and_those_that_delete_and_declare(catalog: Opened, between: Any) -> None:
    writer: Any = catalog()
    make_table(writer, "t", versions=3)
    ranges = [{"start_version": 0, "end_version": -1}]
    operations = [
        {"declare_table": {"id": ["new"]}},
        {"delete_table_versions": {"id": ["t"], "ranges": ranges}},
        {"create_table_version": stage(writer, "t").request()},
    ]
    between(writer, switched_off(catalog))

    writer.batch_commit_tables({"operations": operations})

    assert_nothing_is_kept(catalog, "t", "new")
    assert numbers(catalog(), "t") == [4]
    assert row_count(catalog(), "t") == 12


def test_a_transaction_is_refused_and_nothing_is_changed(catalog: Opened) -> None:
    writer: Any = catalog()
    for name in ("a", "b"):
        make_table(writer, name)

    def run() -> None:
        with writer.transaction("long") as tx:
            tx.append(["a"], ROWS)
            tx.append(["b"], ROWS)
            tx.create(["c"], ROWS)
            switched_off(catalog)()

    with pytest.raises(ConcurrentModificationError, match="switched off"):
        run()

    assert_nothing_is_kept(catalog, "a", "b")
    assert [row_count(catalog(), name) for name in ("a", "b")] == [3, 3]
    assert catalog().catalog.store.read().get(("c",)) is None


def test_a_deletion_is_done_all_the_same(catalog: Opened, between: Any) -> None:
    writer: Any = catalog()
    make_table(writer, "t", versions=3)
    between(writer, switched_off(catalog))
    ranges = [{"start_version": 1, "end_version": 3}]

    writer.batch_delete_table_versions({"id": ["t"], "ranges": ranges})

    assert_nothing_is_kept(catalog, "t")
    assert numbers(catalog(), "t") == [3]


def test_a_version_that_comes_at_the_moment_is_kept_by_its_file(
    catalog: Opened, between: Any
) -> None:
    writer, other = catalog(), catalog()
    make_table(writer, "t")  # type: ignore[arg-type]
    lance.write_dataset(ROWS, namespace_client=other, table_id=["u"])

    def write() -> None:
        append(other, "t")
        lance.write_dataset(ROWS, namespace_client=other, table_id=["new"])

    between(writer, write)
    TableVersions(writer.catalog).disable()

    assert_nothing_is_kept(catalog, "t", "u", "new")
    assert row_count(catalog(), "t") == 6
    assert row_count(catalog(), "new") == 3


def test_a_metastore_is_asked_at_the_very_commit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = opener("metastore", root)
    writer: Any = catalog()
    make_table(writer, "t")
    commit = Transaction.commit

    def after_another(self: Transaction, *given: Any) -> Any:
        monkeypatch.undo()
        switched_off(catalog)()
        return commit(self, *given)

    monkeypatch.setattr(Transaction, "commit", after_another)
    append(writer, "t")

    assert_nothing_is_kept(catalog, "t")
    assert row_count(catalog(), "t") == 6


def test_commits_that_share_a_version_of_the_manifest_see_each_other(root: Path) -> None:
    store = directory(root, keeps=True)
    assert isinstance(store, LanceDirStore)
    store.commit(Commit((DeclareTable(("t",), store.place(("t",))),)))
    together = [Pending(Commit((one,)), before=lambda: None) for one in (OFF, CREATE)]

    store._committer.commit_each(together)

    assert together[0].outcome is not None
    assert isinstance(together[1].error, VersionsNotKeptError)
    assert version_rows(root) == {}


def test_pylance_can_write_the_catalog_afterwards(
    managed: DirectoryNamespace, root: Path, between: Any
) -> None:
    make_table(managed, "t")
    other = DirectoryNamespace(root=str(root))
    between(managed, other.disable_version_management)

    append(managed, "t")

    assert version_rows(root) == {}
    assert PylanceNamespace(root=str(root)).declare_table(DeclareTableRequest(id=["p"])).location


def test_who_gives_way_when_it_is_off_leaves_no_file_of_its_batch(root: Path) -> None:
    namespace: Any
    namespace, disk = opened_on(str(root))
    for name in ("a", "b"):
        make_table(namespace, name)
    batch = [{"create_table_version": stage(namespace, name).request()} for name in ("a", "b")]
    batch.append({"declare_table": {"id": ["new"]}})
    place = place_of(namespace, "b")

    def interfere(path: str) -> None:
        if path.startswith("b.lance/_versions/"):
            disk.before_put = None
            direct_append(place)
            DirectoryNamespace(root=str(root)).disable_version_management()

    disk.before_put = interfere
    with pytest.raises(ConcurrentModificationError):
        namespace.batch_commit_tables({"operations": batch})

    assert version_rows(root) == {}
    assert lance.dataset(str(place_of(namespace, "a"))).version == 1
    assert row_count(namespace, "b") == 6
    assert namespace.catalog.store.read().get(("new",)) is None


def test_the_past_is_not_told_by_rows_that_were_left(
    managed: DirectoryNamespace, root: Path
) -> None:
    make_table(managed, "t")
    row = version_rows(root)["t$1"]
    managed.disable_version_management()
    leave_row(root, "t$1", row)
    append(managed, "t")
    time.sleep(0.02)

    past = managed.at(timestamp_ms=int(time.time() * 1000))

    assert row_count(past, "t") == 6


def leave_row(root: Path, object_id: str, metadata: dict[str, Any]) -> None:
    place = str(root / "__manifest")
    row = {"object_id": object_id, "object_type": "table_version", "metadata": json.dumps(metadata)}
    schema = lance.dataset(place).schema
    lance.write_dataset(pa.Table.from_pylist([row], schema), place, mode="append")


# The rule, in every store


def memory(root: Path, keeps: bool) -> Store:
    return MemoryStore(parse_root(str(root)), keeps_versions=keeps)


def directory(root: Path, keeps: bool) -> Store:
    return LanceDirStore(parse_root(str(root)), DirectorySettings(table_version_management=keeps))


def metastore(root: Path, keeps: bool) -> Store:
    return DeltaCatStore(parse_root(str(root)), keeps_versions=keeps)


ON, OFF = ManageTableVersions(enabled=True), ManageTableVersions(enabled=False)
FIRST = TableVersion(1, "t/_versions/1.manifest")
CREATE = CreateTableVersions(("t",), (FIRST,))
POINT = PointTableVersions(("t",), (FIRST,))
DELETE = DeleteTableVersions(("t",), (1,))


@pytest.mark.parametrize("kind", [memory, directory, metastore])
@pytest.mark.parametrize(
    ("keeps", "changes", "is_allowed"),
    [
        (True, [CREATE], True),
        (True, [CREATE, POINT, OFF], True),
        (False, [CREATE], False),
        (False, [POINT], False),
        (False, [DELETE], True),
        (False, [ON, CREATE], True),
        (True, [OFF, CREATE], False),
        (True, [CREATE, OFF, POINT], False),
    ],
)
def test_versions_are_added_only_while_the_catalog_keeps_them(
    root: Path,
    kind: Callable[[Path, bool], Store],
    keeps: bool,
    changes: list[Change],
    is_allowed: bool,
) -> None:
    store = kind(root, keeps)
    store.commit(Commit((DeclareTable(("t",), store.place(("t",))),)))
    table = store.read().get(("t",))
    assert isinstance(table, Table)

    if not is_allowed:
        with pytest.raises(VersionsNotKeptError) as error:
            store.commit(Commit(tuple(changes)))
        assert error.value.code == 14
        assert store.keeps_versions is keeps
        assert not store.versions(table, None)
        return
    store.commit(Commit(tuple(changes)))
    is_there = CREATE in changes and OFF not in changes
    assert bool(store.versions(table, None)) is is_there
