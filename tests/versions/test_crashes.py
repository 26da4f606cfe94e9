"""A writer dies at every call it makes to the storage; what it leaves behind is whole."""

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.border import TableVersionAlreadyExistsError
from tests.versions.disk import version_rows
from tests.versions.staging import (
    ROWS,
    direct_append,
    directory_of,
    make_table,
    numbers,
    row_count,
    stage,
)
from tests.versions.storage import Death, opened_on

TABLES = ("a", "b")
Act = Callable[[LakerootNamespace], object]


@pytest.fixture
def lake_root(tmp_path: Path) -> Path:
    """Two managed tables of two versions each, and the next version of each staged."""
    root = tmp_path / "lake"
    namespace = DirectoryNamespace(root=str(root), table_version_management="true")
    for name in TABLES:
        make_table(namespace, name, versions=2)
        staged = stage(namespace, name)
        staged.file.rename(staged.file.with_name(staged.file.name.partition("-")[0] + "-next"))
    return root


def next_version(root: Path, name: str) -> dict[str, object]:
    (staged,) = (root / f"{name}.lance" / "_versions").glob("*-next")
    return {"id": [name], "version": 3, "manifest_path": str(staged).lstrip("/")}


def commit_one(root: Path) -> Act:
    request = next_version(root, "a")
    return lambda namespace: namespace.create_table_version(request)


def commit_batch(root: Path) -> Act:
    entries = [next_version(root, name) for name in TABLES]
    return lambda namespace: namespace.batch_create_table_versions({"entries": entries})


def delete_versions(root: Path) -> Act:
    request = {"id": ["a"], "ranges": [{"start_version": 1, "end_version": 2}]}
    return lambda namespace: namespace.batch_delete_table_versions(request)


def delete_the_newest(root: Path) -> Act:
    request = {"id": ["a"], "ranges": [{"start_version": 2, "end_version": -1}]}
    return lambda namespace: namespace.batch_delete_table_versions(request)


def deregister(root: Path) -> Act:
    return lambda namespace: namespace.deregister_table({"id": ["a"]})


def rename(root: Path) -> Act:
    return lambda namespace: namespace.rename_table({"id": ["a"], "new_table_name": "renamed"})


def dying(root: Path, act: Callable[[Path], Act], call: int, *, after: bool) -> bool:
    """Do it and die at a call; tell whether it came so far."""
    namespace, disk = opened_on(str(root))
    do = act(root)
    namespace.list_table_versions({"id": ["a"], "limit": 1, "descending": True})
    disk.calls, disk.dies_at, disk.dies_after = 0, call, after
    try:
        do(namespace)
    except Death:
        return True
    return False


def assert_whole(root: Path, name: str) -> int:
    """Check that a table can be read and written by everybody; give its newest version."""
    namespace = DirectoryNamespace(root=str(root))
    newest = numbers(namespace, name)[-1]
    table = directory_of(namespace, name)
    assert row_count(namespace, name) == 3 * newest
    assert lance.dataset(str(table)).version == newest
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=[name], mode="append")
    assert row_count(namespace, name) == lance.dataset(str(table)).count_rows() == 3 * newest + 3
    kept = [int(row.rpartition("$")[2]) for row in version_rows(root) if row.startswith(name + "$")]
    assert sorted(kept) == sorted(set(kept))
    return newest


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_while_the_newest_versions_are_deleted_leaves_no_gap(
    lake_root: Path, tmp_path: Path, after: bool
) -> None:
    namespace = DirectoryNamespace(root=str(lake_root))
    for _ in range(3):
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=["a"], mode="append")
    call, died = 0, True
    while died:
        call += 1
        kept = tmp_path / "kept"
        shutil.copytree(lake_root, kept)
        died = dying(lake_root, delete_the_newest, call, after=after)
        left = numbers(DirectoryNamespace(root=str(lake_root)), "a")
        assert left == list(range(1, len(left) + 1)), f"after call {call}"
        assert_whole(lake_root, "a")
        shutil.rmtree(lake_root)
        kept.rename(lake_root)
    assert left == [1]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "act", [commit_one, commit_batch, delete_versions, deregister, rename], ids=lambda a: a.__name__
)
def test_death_at_any_call_leaves_whole_tables(
    lake_root: Path, tmp_path: Path, act: Callable[[Path], Act], after: bool
) -> None:
    call = 0
    while True:
        call += 1
        # In the same place, because rows name their manifests by their whole path.
        kept = tmp_path / "kept"
        shutil.copytree(lake_root, kept)
        died = dying(lake_root, act, call, after=after)
        namespace = DirectoryNamespace(root=str(lake_root))
        tables = namespace.list_tables({"id": []}).tables
        newest = {name: assert_whole(lake_root, name) for name in tables}
        if act is commit_batch:
            assert newest["a"] == newest["b"], f"half of a batch after call {call}"
        assert "b" in tables
        assert act in (deregister, rename) or "a" in tables
        shutil.rmtree(lake_root)
        kept.rename(lake_root)
        if not died:
            break
    assert call >= 3, "the disk was hardly used: nothing was tested"


def test_a_version_put_there_directly_in_the_middle_wins(lake_root: Path) -> None:
    namespace, disk = opened_on(str(lake_root))
    table = lake_root / "b.lance"
    requests = [next_version(lake_root, name) for name in TABLES]

    def interfere(path: str) -> None:
        # The rows are committed; the first final file is about to appear.
        if path.startswith("a.lance/_versions/"):
            disk.before_put = None
            direct_append(table)

    disk.before_put = interfere
    with pytest.raises(TableVersionAlreadyExistsError):
        namespace.batch_create_table_versions({"entries": requests})

    assert numbers(namespace, "a") == [1, 2]
    assert numbers(namespace, "b") == [1, 2, 3]
    for name, rows in (("a", 6), ("b", 9)):
        fresh = DirectoryNamespace(root=str(lake_root))
        assert row_count(fresh, name) == rows
        assert lance.dataset(str(lake_root / f"{name}.lance")).count_rows() == rows
    assert assert_whole(lake_root, "a") == 2
    assert assert_whole(lake_root, "b") == 3
