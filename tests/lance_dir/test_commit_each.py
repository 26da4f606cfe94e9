"""Many commits in one hand: each has its own outcome, and all share versions of the manifest."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import lakeroot
from lakeroot.catalog import Catalog
from lakeroot.model.commits import Commit, Committed, CreateNamespace, DeclareTable, DropNamespace
from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from lakeroot.model.records import Table
from lakeroot.objects import Root
from lakeroot.storage.lance_dir.store import LanceDirStore
from lakeroot.storage.memory.store import MemoryStore


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with lakeroot.DirectoryNamespace(root=str(tmp_path)) as namespace:
        namespace.catalog.create_namespace(("a",))
        yield namespace.catalog


def _version(catalog: Catalog) -> int:
    store = catalog.store
    assert isinstance(store, LanceDirStore)
    assert store.manifest is not None
    return store.manifest.head.version


def _directories(root: Path) -> set[str]:
    return {found.name for found in root.iterdir() if found.name != "__manifest"}


def test_many_declarations_are_one_version(catalog: Catalog) -> None:
    before = _version(catalog)
    made = catalog.declare_each([(("a", f"t{n}"), {"n": str(n)}, None) for n in range(50)])
    assert [one.identifier for one in made if isinstance(one, Table)] == [
        ("a", f"t{n}") for n in range(50)
    ]
    assert _version(catalog) == before + 1
    found = catalog.table(("a", "t7"))
    assert replace(found, created_at_ms=None) == made[7]


def test_each_fails_alone_and_leaves_nothing_behind(catalog: Catalog, tmp_path: Path) -> None:
    catalog.declare_table(("a", "taken"))
    before = _directories(tmp_path)
    made = catalog.declare_each(
        [
            (("a", "good"), None, None),
            (("a", "taken"), None, None),
            (("nowhere", "t"), None, None),
            (("a", "twice"), {"by": "the first"}, None),
            (("a", "twice"), {"by": "the second"}, None),
            (("a", "b/c"), None, None),
            (("a", "t"), {"lakeroot.x": "1"}, None),
            ((), None, None),
        ]
    )
    assert [type(one) for one in made] == [
        Table,
        TableAlreadyExistsError,
        NamespaceNotFoundError,
        Table,
        TableAlreadyExistsError,
        InvalidInputError,
        InvalidInputError,
        InvalidInputError,
    ]
    assert catalog.table(("a", "twice")).properties == {"by": "the first"}
    assert catalog.list_tables(("a",)).items == ["good", "taken", "twice"]
    new = _directories(tmp_path) - before
    assert sorted(name.partition("_")[2] for name in new) == ["a$good", "a$twice"]


def test_tables_inside_each_others_directories_are_kept_apart(catalog: Catalog) -> None:
    made = catalog.declare_each([(("a", "out"), None, "x/y"), (("a", "in"), None, "x/y/z")])
    assert isinstance(made[0], Table)
    assert isinstance(made[1], InvalidInputError)
    assert catalog.list_tables(("a",)).items == ["out"]


def test_no_commits_are_no_version(catalog: Catalog) -> None:
    before = _version(catalog)
    assert catalog.declare_each([]) == []
    assert _version(catalog) == before


def test_commits_that_take_names_away_are_made_too(catalog: Catalog) -> None:
    store = catalog.store
    assert isinstance(store, LanceDirStore)
    outcomes = store.commit_each(
        [
            Commit((CreateNamespace(("b",), {}),)),
            Commit((DropNamespace(("a",)),)),
            Commit((DropNamespace(("never",)),)),
        ]
    )
    assert [isinstance(one, Committed) for one in outcomes] == [True, True, False]
    assert catalog.list_namespaces().items == ["b"]


def test_those_who_hold_many_share_their_turns_with_threads_that_hold_one(catalog: Catalog) -> None:
    failed: list[object] = []

    def many(who: int) -> None:
        for turn in range(5):
            tables = [(("a", f"many{who}-{turn}-{n}"), None, None) for n in range(20)]
            failed.extend(
                one for one in catalog.declare_each(tables) if isinstance(one, LakerootError)
            )

    def single(who: int) -> None:
        for turn in range(20):
            try:
                catalog.declare_table(("a", f"single{who}-{turn}"))
            except LakerootError as error:
                failed.append(error)

    threads = [threading.Thread(target=many, args=(n,)) for n in range(3)]
    threads += [threading.Thread(target=single, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(catalog.list_tables(("a",)).items) == 3 * 5 * 20 + 6 * 20


def test_the_past_takes_none_of_them(catalog: Catalog) -> None:
    made = catalog.at(_version(catalog)).declare_each([(("a", "t"), None, None)])
    assert isinstance(made[0], UnsupportedOperationError)


def test_a_store_without_turns_takes_them_one_by_one(tmp_path: Path) -> None:
    catalog = Catalog(MemoryStore(Root(str(tmp_path), is_local=True)))
    made = catalog.declare_each([(("t",), None, None), (("t",), None, None)])
    assert [type(one) for one in made] == [Table, TableAlreadyExistsError]


def test_a_root_without_a_manifest_takes_them_one_by_one(tmp_path: Path) -> None:
    with lakeroot.DirectoryNamespace(root=str(tmp_path), manifest_enabled="false") as namespace:
        made = namespace.catalog.declare_each([(("t",), None, None), (("t",), None, None)])
        assert [type(one) for one in made] == [Table, TableAlreadyExistsError]


def test_an_interrupted_wait_leaves_nobody_waiting_for_a_leader(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = catalog.store
    assert isinstance(store, LanceDirStore)
    committer = store._committer

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(committer, "_lead", interrupted)
        commits = [Commit((DeclareTable(("a", f"t{n}"), f"{n:08x}_t", {}),)) for n in range(3)]
        with pytest.raises(KeyboardInterrupt):
            store.commit_each(commits)
    catalog.declare_table(("a", "after"))
    assert catalog.list_tables(("a",)).items == ["after"]
