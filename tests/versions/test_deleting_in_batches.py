"""A batch that deletes versions and creates one: only what was there before it goes."""

from pathlib import Path
from typing import Any

import lance
import pytest
from lance_namespace import ConcurrentModificationError

from lakeroot.catalog.batches import Batches, DeleteVersionsOperation
from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.tables.versions import VersionRange, manifest_name
from tests.versions.kinds import KINDS, append, delete, opener, place_of
from tests.versions.staging import (
    ROWS,
    files_below,
    make_table,
    numbers,
    row_count,
    stage,
)
from tests.versions.storage import opened_on


@pytest.fixture(params=KINDS)
def catalog(request: pytest.FixtureRequest, root: Path) -> Any:
    opened: Any = opener(request.param, root)()
    make_table(opened, "t", versions=3)
    return opened


def deletion(start: int, end: int, name: str = "t", **more: str) -> dict[str, Any]:
    ranges = [{"start_version": start, "end_version": end}]
    return {"delete_table_versions": {"id": [name], "ranges": ranges, **more}}


def committed(catalog: Any, *operations: dict[str, Any]) -> list[int]:
    """Commit a batch; give the versions it created, and how many it deleted."""
    results = catalog.batch_commit_tables({"operations": list(operations)})["results"]
    return [
        one["delete_table_versions"]["deleted_count"]
        if "delete_table_versions" in one
        else one["create_table_version"]["version"]["version"]
        for one in results
    ]


def manifests(catalog: Any) -> list[str]:
    names = files_below(place_of(catalog, "t") / "_versions")
    return sorted(name for name in names if ".manifest" in name)


@pytest.mark.parametrize("is_deleted_first", [True, False])
@pytest.mark.parametrize(
    ("start", "end", "deleted", "left"),
    [
        (1, 3, 2, [3, 4]),
        (3, 4, 1, [1, 2, 4]),
        (1, 4, 3, [4]),
        (1, 5, 3, [4]),
        (4, 5, 0, [1, 2, 3, 4]),
        (0, -1, 3, [4]),
    ],
)
def test_what_the_batch_creates_stays(
    catalog: Any, is_deleted_first: bool, start: int, end: int, deleted: int, left: list[int]
) -> None:
    both = [deletion(start, end), {"create_table_version": stage(catalog, "t").request()}]

    told = committed(catalog, *(both if is_deleted_first else reversed(both)))

    assert told == ([deleted, 4] if is_deleted_first else [4, deleted])
    assert numbers(catalog, "t") == left
    assert len(manifests(catalog)) == len(left)
    assert row_count(catalog, "t") == lance.dataset(str(place_of(catalog, "t"))).count_rows() == 12
    append(catalog, "t")
    assert numbers(catalog, "t") == [*left, 5]


def test_a_version_that_is_deleted_is_not_made_again_in_the_same_batch(catalog: Any) -> None:
    staged = stage(catalog, "t")
    append(catalog, "t")
    before = manifests(catalog)

    with pytest.raises(ConcurrentModificationError):
        committed(catalog, deletion(4, 5), {"create_table_version": staged.request()})

    assert numbers(catalog, "t") == [1, 2, 3, 4]
    assert manifests(catalog) == before


def test_all_versions_go_if_none_is_created_as_without_a_batch(catalog: Any) -> None:
    assert committed(catalog, deletion(0, -1)) == [3]

    assert numbers(catalog, "t") == []
    assert manifests(catalog) == []


def test_a_batch_that_is_repeated_does_not_delete_what_it_created(catalog: Any) -> None:
    batch = [deletion(0, -1), {"create_table_version": stage(catalog, "t").request()}]
    file = Path("/", batch[1]["create_table_version"]["manifest_path"])
    content = file.read_bytes()
    assert committed(catalog, *batch) == [3, 4]

    file.write_bytes(content)  # As a client has it that was not told, and asks again.
    assert committed(catalog, *batch) == [0, 4]

    assert numbers(catalog, "t") == [4]
    assert row_count(catalog, "t") == 12


def test_ranges_that_overlap_count_every_version_once(catalog: Any) -> None:
    assert committed(catalog, deletion(1, 3), deletion(2, 4)) == [2, 1]
    assert numbers(catalog, "t") == []


def test_a_version_that_another_client_put_there_directly_goes_with_the_others(
    catalog: Any,
) -> None:
    lance.write_dataset(
        lance.dataset(str(place_of(catalog, "t"))).to_table(), place_of(catalog, "t"), mode="append"
    )
    batch = [deletion(0, -1), {"create_table_version": stage(catalog, "t").request()}]

    assert committed(catalog, *batch) == [4, 5]

    assert numbers(catalog, "t") == [5]
    assert row_count(catalog, "t") == 21


@pytest.mark.parametrize("in_a_batch", [True, False])
def test_a_version_that_was_put_there_directly_and_stays_is_the_newest_of_that_moment(
    catalog: Any, in_a_batch: bool
) -> None:
    place = place_of(catalog, "t")
    lance.write_dataset(lance.dataset(str(place)).to_table(), place, mode="append")
    make_table(catalog, "u")
    if in_a_batch:
        assert committed(catalog, deletion(2, 3), deletion(3, 4)) == [1, 1]
    else:
        assert delete(catalog, 2, 4) == 2
    now = catalog.history(1)[0].version

    assert numbers(catalog, "t") == [1, 4]
    assert row_count(catalog.at(version=now), "t") == row_count(catalog, "t") == 18


def test_eight_versions_go_as_well_as_three(catalog: Any) -> None:
    for _ in range(5):
        append(catalog, "t")
    batch = [deletion(0, -1), {"create_table_version": stage(catalog, "t").request()}]

    assert committed(catalog, *batch) == [8, 9]  # Here rows are pointed to their files, too.

    assert numbers(catalog, "t") == [9]


def test_a_new_version_of_a_branch_spares_none_of_the_main_branch(root: Path) -> None:
    catalog: Any = opener("files decide", root)()
    make_table(catalog, "t", versions=3)
    trial = lance.dataset(str(place_of(catalog, "t"))).create_branch("trial", 2)
    lance.write_dataset(ROWS, trial, mode="append")
    version = place_of(catalog, "t") / "tree" / "trial" / "_versions" / manifest_name(3)
    staged = version.rename(version.with_name(f"{version.name}-next"))
    new = {"id": ["t"], "branch": "trial", "version": 3, "manifest_path": str(staged).lstrip("/")}

    assert committed(catalog, {"create_table_version": new}, deletion(0, -1)) == [3, 3]
    assert numbers(catalog, "t", branch="trial") == [2, 3]


def test_the_main_branch_may_be_named(catalog: Any) -> None:
    assert committed(catalog, deletion(1, 3, branch="main")) == [2]
    assert numbers(catalog, "t") == [3]


def test_a_table_that_takes_the_name_in_the_batch_has_nothing_to_delete(catalog: Any) -> None:
    place = place_of(catalog, "t")

    catalog.batch_commit_tables(
        {
            "operations": [
                {"deregister_table": {"id": ["t"]}},
                {"declare_table": {"id": ["t"], "location": str(place.parent / "new")}},
                deletion(0, -1),
            ]
        }
    )

    assert lance.dataset(str(place)).version == 3
    assert numbers(catalog, "t") == []


@pytest.mark.parametrize("manages", [True, False])
def test_what_another_writer_commits_meanwhile_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch, manages: bool
) -> None:
    namespace: Any = opened_on(str(root), manages=manages)[0]
    other: Any = opened_on(str(root), manages=manages)[0]
    make_table(namespace, "t", versions=3)
    real = VersionCommits.commit_staged
    commit = namespace.catalog.commit

    def after_another(self: VersionCommits, *given: Any) -> Any:
        monkeypatch.undo()
        append(other, "t")
        return real(self, *given)

    def beside_another(*given: Any, **more: Any) -> Any:
        monkeypatch.undo()
        append(other, "t")
        return commit(*given, **more)

    monkeypatch.setattr(VersionCommits, "commit_staged", after_another)
    if not manages:
        monkeypatch.setattr(namespace.catalog, "commit", beside_another)
    declared = {"declare_table": {"id": ["new"]}}
    (_, deleted) = namespace.batch_commit_tables({"operations": [declared, deletion(0, -1)]})[
        "results"
    ]

    assert deleted["delete_table_versions"]["deleted_count"] == 3
    assert numbers(namespace, "t") == [4]
    assert row_count(namespace, "t") == 12


def test_a_table_that_was_replaced_meanwhile_keeps_its_versions(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: Any = opened_on(str(root))[0]
    other: Any = opened_on(str(root))[0]
    make_table(namespace, "t", versions=3)
    batches = Batches(namespace.catalog)
    real = VersionCommits.commit_staged

    def after_another(self: VersionCommits, *given: Any) -> Any:
        monkeypatch.undo()
        other.drop_table({"id": ["t"]})
        make_table(other, "t", versions=2)
        return real(self, *given)

    monkeypatch.setattr(VersionCommits, "commit_staged", after_another)
    with pytest.raises(Exception, match="is another table now"):
        batches.commit([DeleteVersionsOperation(("t",), (VersionRange(0, None),))])

    assert numbers(namespace, "t") == [1, 2]
