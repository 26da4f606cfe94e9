"""Tags, branches and restoring, with and without an arbiter."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance_namespace
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace

from lakeroot.model import errors
from lakeroot.tables import refs, rows
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.refs import Tag
from tests.tables.conftest import ROWS

Snapshot = Callable[[TableHandle], dict[str, int]]


@pytest.fixture
def history(table: TableHandle) -> TableHandle:
    """A table of three versions, with 3, 4 and 5 rows."""
    for number in (4, 5):
        rows.insert(table, pa.table({"id": pa.array([number], pa.int64())}))
    return table


def test_a_tag_names_a_version_for_ever(history: TableHandle) -> None:
    refs.create_tag(history, "v1", 1)

    assert refs.get_tag(history, "v1").version == 1
    assert refs.get_tag(history, "v1").branch is None
    assert rows.count_rows(history, tag="v1") == 3

    refs.update_tag(history, "v1", 2)
    assert rows.count_rows(history, tag="v1") == 4

    refs.delete_tag(history, "v1")
    with pytest.raises(errors.TableTagNotFoundError):
        refs.get_tag(history, "v1")


def test_tags_are_listed_in_pages(history: TableHandle) -> None:
    for name in ("b", "a", "c"):
        refs.create_tag(history, name, 1)

    first = refs.list_tags(history, limit=2)
    second = refs.list_tags(history, limit=2, page_token=first.next_token)

    assert (list(first.items), first.next_token) == (["a", "b"], "b")
    assert (list(second.items), second.next_token) == (["c"], None)
    assert refs.list_tags(history, limit=0).items == {}
    assert all(tag.manifest_size > 0 for tag in first.items.values())


def test_a_tag_can_name_a_version_of_a_branch(history: TableHandle) -> None:
    refs.create_branch(history, "dev", from_version=1)
    rows.delete(history, "id = 1", branch="dev")

    refs.create_tag(history, "on-dev", 2, branch="dev")

    assert refs.get_tag(history, "on-dev") == Tag(
        2, "dev", refs.get_tag(history, "on-dev").manifest_size
    )
    assert rows.count_rows(history, tag="on-dev") == 2
    refs.update_tag(history, "on-dev", 1, branch="main")
    assert refs.get_tag(history, "on-dev").branch is None


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda t: refs.create_tag(t, "taken", 1), 9),
        (lambda t: refs.create_tag(t, "new", 99), 11),
        (lambda t: refs.create_tag(t, "new", 0), 11),
        (lambda t: refs.create_tag(t, "new", -1), 13),
        (lambda t: refs.create_tag(t, "new", 1, branch="zz"), 22),
        (lambda t: refs.create_tag(t, "", 1), 13),
        (lambda t: refs.create_tag(t, "a/b", 1), 13),
        (lambda t: refs.create_tag(t, "../x", 1), 13),
        (lambda t: refs.create_tag(t, "a b", 1), 13),
        (lambda t: refs.create_tag(t, "gr\u00fcn", 1), 13),
        (lambda t: refs.create_tag(t, "a\udc80", 1), 13),
        (lambda t: refs.create_branch(t, "gr\u00fcn"), 13),
        (lambda t: refs.create_tag(t, "x" * 300, 1), 13),
        (lambda t: refs.update_tag(t, "zz", 1), 8),
        (lambda t: refs.update_tag(t, "taken", 99), 11),
        (lambda t: refs.delete_tag(t, "zz"), 8),
        (lambda t: refs.delete_tag(t, "../../x"), 13),
        (lambda t: refs.get_tag(t, "zz"), 8),
        (lambda t: refs.create_branch(t, "dev"), 23),
        (lambda t: refs.create_branch(t, "dev", from_version=2), 23),
        (lambda t: refs.create_branch(t, "new", from_branch="zz"), 22),
        (lambda t: refs.create_branch(t, "new", from_version=99), 11),
        (lambda t: refs.create_branch(t, "new", from_branch="dev", from_version=99), 11),
        (lambda t: refs.create_branch(t, "main"), 13),
        (lambda t: refs.create_branch(t, ""), 13),
        (lambda t: refs.create_branch(t, "../x"), 13),
        (lambda t: refs.create_branch(t, "/x"), 13),
        (lambda t: refs.create_branch(t, "a b"), 13),
        (lambda t: refs.create_branch(t, "x" * 300), 13),
        (lambda t: refs.delete_branch(t, "zz"), 22),
        (lambda t: refs.delete_branch(t, "main"), 13),
        (lambda t: refs.delete_branch(t, "../.."), 22),
        (lambda t: refs.restore(t, 99), 11),
        (lambda t: refs.restore(t, 0), 11),
        (lambda t: refs.restore(t, -5), 13),
        (lambda t: refs.restore(t, 1, branch="zz"), 22),
        (lambda t: refs.restore(t, 99, branch="dev"), 11),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    history: TableHandle, act: Callable[[TableHandle], object], code: int, snapshot: Snapshot
) -> None:
    refs.create_tag(history, "taken", 1)
    refs.create_branch(history, "dev")
    before = snapshot(history)

    with pytest.raises(errors.LakerootError) as refused:
        act(history)

    assert refused.value.code == code
    assert snapshot(history) == before


def test_a_branch_starts_where_it_is_told(history: TableHandle) -> None:
    refs.create_branch(history, "latest")
    refs.create_branch(history, "old/one", from_version=1)
    refs.create_branch(history, "second", from_branch="old/one")

    assert rows.count_rows(history, branch="latest") == 5
    assert rows.count_rows(history, branch="old/one") == 3
    assert rows.count_rows(history, branch="second") == 3
    listed = refs.list_branches(history).items
    assert (listed["old/one"].parent_branch, listed["old/one"].parent_version) == (None, 1)
    assert listed["second"].parent_branch == "old/one"
    assert all(branch.created_at_s > 0 for branch in listed.values())


@pytest.mark.parametrize("version", [None, 1])
def test_a_branch_that_was_begun_and_not_finished_is_taken(
    history: TableHandle, version: int | None
) -> None:
    refs.create_branch(history, "fix/one")
    (name,) = Path(history.location.removeprefix("file://"), "_refs", "branches").iterdir()
    name.unlink()

    with pytest.raises(errors.TableBranchAlreadyExistsError) as refused:
        refs.create_branch(history, "fix/one", from_version=version)

    assert "was begun" in str(refused.value)
    assert not refs.list_branches(history).items
    refs.create_branch(history, "fix/two", from_version=version)


def test_of_several_who_create_a_branch_at_once_one_does_and_the_others_are_told(
    history: TableHandle,
) -> None:
    racers = 4
    start = threading.Barrier(racers)

    def create(name: str) -> int:
        start.wait()
        try:
            refs.create_branch(history, name)
        except errors.LakerootError as error:
            return error.code
        return 0

    with ThreadPoolExecutor(racers) as pool:
        for name in ("a", "b", "c"):
            outcomes = sorted(pool.map(create, [name] * racers))
            assert outcomes == [0] + [23] * (racers - 1)
    assert list(refs.list_branches(history).items) == ["a", "b", "c"]


def test_whoever_looks_at_tags_and_branches_does_not_mind_that_others_are_deleted(
    history: TableHandle,
) -> None:
    refs.create_branch(history, "keep")
    refs.create_tag(history, "keep", 1)
    is_over = threading.Event()

    def churn(name: str) -> int:
        done = 0
        while not is_over.is_set():
            refs.create_branch(history, f"{name}{done}")
            refs.create_tag(history, f"{name}{done}", 1)
            refs.delete_branch(history, f"{name}{done}")
            refs.delete_tag(history, f"{name}{done}")
            done += 1
        return done

    with ThreadPoolExecutor(2) as pool:
        churning = [pool.submit(churn, name) for name in ("a", "b")]
        try:
            for _ in range(30):
                assert rows.count_rows(history, branch="keep") == 5
                assert rows.count_rows(history, tag="keep") == 3
                assert "keep" in refs.list_branches(history).items
                assert "keep" in refs.list_tags(history).items
        finally:
            is_over.set()
        assert all(one.result() for one in churning)


def test_a_tag_that_several_delete_is_gone_for_all_but_one(history: TableHandle) -> None:
    racers = 3
    start = threading.Barrier(racers)

    def delete(tag: str) -> int:
        start.wait()
        try:
            refs.delete_tag(history, tag)
        except errors.LakerootError as error:
            return error.code
        return 0

    with ThreadPoolExecutor(racers) as pool:
        for tag in ("a", "b", "c", "d"):
            refs.create_tag(history, tag, 1)
            assert set(pool.map(delete, [tag] * racers)) <= {0, 8}
    assert not refs.list_tags(history).items


def test_branches_are_listed_in_pages(history: TableHandle) -> None:
    for name in ("b", "a", "c"):
        refs.create_branch(history, name)

    first = refs.list_branches(history, limit=2)
    rest = refs.list_branches(history, page_token=first.next_token)

    assert (list(first.items), list(rest.items), rest.next_token) == (["a", "b"], ["c"], None)


def test_a_deleted_branch_is_gone_and_its_name_is_free(history: TableHandle) -> None:
    refs.create_branch(history, "dev")
    rows.delete(history, "true", branch="dev")
    refs.delete_branch(history, "dev")

    with pytest.raises(errors.TableBranchNotFoundError):
        rows.count_rows(history, branch="dev")
    refs.create_branch(history, "dev")
    assert rows.count_rows(history, branch="dev") == rows.count_rows(history) == 5


def test_restoring_makes_a_new_version_with_the_old_rows(history: TableHandle) -> None:
    restored = refs.restore(history, 1)

    assert restored.version == 4
    assert restored.transaction_id
    assert rows.count_rows(history) == 3
    assert rows.count_rows(history, version=3) == 5


def test_a_branch_can_be_restored(history: TableHandle) -> None:
    refs.create_branch(history, "dev")
    rows.delete(history, "true", branch="dev")

    refs.restore(history, 3, branch="dev")

    assert rows.count_rows(history, branch="dev") == 5
    assert rows.count_rows(history) == 5


def test_both_catalogs_answer_alike(tmp_path: Path) -> None:
    theirs = DirectoryNamespace(root=str(tmp_path))
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, ROWS)
    refs.create_branch(table, "ours")
    theirs.create_table_branch(lance_namespace.CreateTableBranchRequest(id=["t"], name="theirs"))
    refs.create_tag(table, "our", 1, branch="ours")
    theirs.create_table_tag(
        lance_namespace.CreateTableTagRequest(id=["t"], tag="their", version=1, branch="theirs")
    )

    branches = theirs.list_table_branches(lance_namespace.ListTableBranchesRequest(id=["t"]))
    tags = theirs.list_table_tags(lance_namespace.ListTableTagsRequest(id=["t"]))

    mine = refs.list_branches(table).items
    assert branches.branches.keys() == mine.keys()
    for name, branch in branches.branches.items():
        assert branch.parent_branch == mine[name].parent_branch
        assert branch.parent_version == mine[name].parent_version
        assert branch.create_at == mine[name].created_at_s
        assert branch.manifest_size == mine[name].manifest_size
    found = refs.list_tags(table).items
    assert {name: (tag.version, tag.manifest_size) for name, tag in tags.tags.items()} == {
        name: (tag.version, tag.manifest_size) for name, tag in found.items()
    }
