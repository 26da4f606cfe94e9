"""The newest version is deleted, and the next one takes its number: nobody takes it for the old."""

import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pytest
from lance_namespace import (
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    TableVersionNotFoundError,
)

from lakeroot import DirectoryNamespace
from lakeroot.catalog.version_identity import DIGEST, digest_of, is_of
from lakeroot.model.records import TableVersion
from lakeroot.tables.versions import manifest_name
from tests.versions.disk import rewrite_row, version_rows
from tests.versions.kinds import KINDS, MANAGED, append, delete, opener, place_of
from tests.versions.staging import ROWS, direct_append, make_table, numbers, row_count

OTHER_ROWS = ROWS.slice(0, 1)


@pytest.fixture(params=MANAGED)
def catalog(request: pytest.FixtureRequest, root: Path) -> Any:
    return opener(request.param, root)()


@pytest.fixture(params=KINDS)
def any_catalog(request: pytest.FixtureRequest, root: Path) -> Any:
    return opener(request.param, root)()


def newest(catalog: Any) -> int:
    return int(catalog.history(1)[0].version)


def replaced(catalog: Any, versions: int = 3) -> int:
    """Delete the newest version and write another in its place; give the moment before."""
    make_table(catalog, "t", versions=versions)
    then = newest(catalog)
    delete(catalog, versions, versions + 1)
    lance.write_dataset(OTHER_ROWS, namespace_client=catalog, table_id=["t"], mode="append")
    assert numbers(catalog, "t") == list(range(1, versions + 1))
    return then


def test_the_past_does_not_show_the_younger_version(catalog: Any) -> None:
    past = catalog.at(version=replaced(catalog))

    with pytest.raises(ValueError, match="no version 3"):
        row_count(past, "t")
    for version in (None, 3):
        with pytest.raises(TableVersionNotFoundError, match="deleted since"):
            past.describe_table_version({"id": ["t"], "version": version})
    with pytest.raises(LanceNamespaceError) as error:
        past.count_table_rows({"id": ["t"]})
    assert int(error.value.code) == 11
    assert numbers(past, "t") == numbers(past, "t", limit=3) == [1, 2]
    assert numbers(past, "t", descending=True) == [2, 1]
    assert past.describe_table_version({"id": ["t"], "version": 2})["version"]["version"] == 2
    assert row_count(catalog, "t") == 7
    now = catalog.at(version=newest(catalog))
    assert numbers(now, "t") == [1, 2, 3]
    assert row_count(now, "t") == 7


def test_all_versions_can_have_come_again(catalog: Any) -> None:
    make_table(catalog, "t", versions=2)
    then = newest(catalog)
    delete(catalog, 0, -1)
    for _ in range(2):
        lance.write_dataset(OTHER_ROWS, namespace_client=catalog, table_id=["t"], mode="overwrite")

    assert numbers(catalog.at(version=then), "t") == []
    assert numbers(catalog, "t") == [1, 2]


def test_a_catalog_that_was_copied_shows_its_past(
    catalog: Any, root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    then = replaced(catalog)
    before = next(entry.version for entry in catalog.history() if entry.version < then)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, copy_function=shutil.copyfile)
    for file in copy.rglob("*.manifest"):
        os.utime(file, (2_000_000_000, 2_000_000_000))

    kind = request.node.callspec.params["catalog"]
    copied: Any = opener(kind, copy)()

    assert row_count(copied.at(version=before), "t") == 6
    assert numbers(copied.at(version=then), "t") == [1, 2]


def test_what_was_taken_in_is_told_apart_as_well(catalog: Any) -> None:
    make_table(catalog, "t")
    direct_append(place_of(catalog, "t"))
    append(catalog, "t")
    then = newest(catalog)
    assert row_count(catalog.at(version=then), "t") == 9
    delete(catalog, 3, 4)
    assert numbers(catalog.at(version=then), "t") == [1, 2]
    delete(catalog, 2, 3)
    lance.write_dataset(ROWS.slice(0, 2), namespace_client=catalog, table_id=["t"], mode="append")

    assert numbers(catalog.at(version=then), "t") == [1]


def test_a_large_manifest_is_taken_in_without_being_read(
    managed: DirectoryNamespace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeroot.catalog.versions.SMALL", 0)
    make_table(managed, "t")
    direct_append(place_of(managed, "t"))
    append(managed, "t")
    then = newest(managed)
    append(managed, "t")

    assert DIGEST not in version_rows(root)["t$2"]
    assert numbers(managed.at(version=then), "t") == [1, 2, 3]
    delete(managed, 3, 4)
    assert numbers(managed.at(version=then), "t") == [1, 2]


def test_the_past_is_shown_after_management_was_switched_off(managed: DirectoryNamespace) -> None:
    then = replaced(managed)
    append(managed, "t")
    later = newest(managed)
    managed.disable_version_management()
    append(managed, "t")

    assert row_count(managed.at(version=later), "t") == 10
    assert numbers(managed.at(version=then), "t") == [1, 2]


def test_rows_without_a_digest_show_their_versions(managed: DirectoryNamespace, root: Path) -> None:
    make_table(managed, "t", versions=3)
    for name, row in version_rows(root).items():
        assert len(row.pop(DIGEST)) == 32
        rewrite_row(root, name, name, row)
    fresh = DirectoryNamespace(root=str(root))
    then = newest(fresh)
    append(fresh, "t")

    assert row_count(fresh.at(version=then), "t") == 9
    assert numbers(fresh.at(version=then), "t") == [1, 2, 3]


def test_a_row_without_a_digest_is_not_for_a_manifest_that_was_made_long_after_it(
    managed: DirectoryNamespace,
) -> None:
    content = (make_table(managed, "t") / "_versions" / manifest_name(1)).read_bytes()
    size = len(content)
    made_ms = managed.describe_table_version({"id": ["t"]})["version"]["timestamp_millis"]
    found = TableVersion(1, "x", size, timestamp_ms=made_ms + 5)

    def is_one(**facts: Any) -> bool:
        return is_of(TableVersion(1, "x", **facts), found, lambda: content)

    assert is_one(manifest_size=size, timestamp_ms=made_ms)
    assert is_one(timestamp_ms=made_ms)
    assert is_one()
    assert not is_one(manifest_size=size + 1)
    assert not is_one(manifest_size=size, timestamp_ms=made_ms - 16 * 60 * 1000)
    assert is_one(timestamp_ms=1, metadata={DIGEST: digest_of(content)})
    assert not is_one(timestamp_ms=made_ms, metadata={DIGEST: digest_of(b"")})
    assert not is_of(TableVersion(1, "x", timestamp_ms=made_ms), found, lambda: None)
    assert is_of(TableVersion(1, "x", timestamp_ms=1), found, lambda: b"no manifest")


def test_what_the_catalog_notes_of_a_version_is_not_shown_as_its_metadata(catalog: Any) -> None:
    make_table(catalog, "t", versions=2)
    direct_append(place_of(catalog, "t"))
    append(catalog, "t")

    for version in catalog.list_table_versions({"id": ["t"]})["versions"]:
        assert not version.get("metadata")


def test_a_commit_is_not_undone_to_a_version_that_took_the_number(catalog: Any) -> None:
    from lakeroot.catalog.undoing import inverse_of

    make_table(catalog, "t", versions=2)
    append(catalog, "t")
    commit = newest(catalog)
    delete(catalog, 2, 4)
    for _ in range(2):
        append(catalog, "t")

    with pytest.raises(Exception, match="since then t has changed"):
        inverse_of(catalog.catalog, commit)
    again = newest(catalog)
    assert inverse_of(catalog.catalog, again).restores[0][1] == 2


# Tags


def tagged(catalog: Any, version: int = 2, versions: int = 3) -> None:
    make_table(catalog, "t", versions=versions)
    catalog.create_table_tag({"id": ["t"], "tag": "release", "version": version})


@pytest.mark.parametrize(("start", "end"), [(2, 3), (1, 4), (0, -1)])
def test_a_tagged_version_is_not_deleted(any_catalog: Any, start: int, end: int) -> None:
    tagged(any_catalog)
    ranges = [{"start_version": start, "end_version": end}]
    batch = {"operations": [{"delete_table_versions": {"id": ["t"], "ranges": ranges}}]}

    with pytest.raises(InvalidInputError, match="tagged: release"):
        delete(any_catalog, start, end)
    with pytest.raises(InvalidInputError, match="tagged: release"):
        any_catalog.batch_commit_tables(batch)

    assert numbers(any_catalog, "t") == [1, 2, 3]
    assert delete(any_catalog, 1, 2) + delete(any_catalog, 3, 4) == 2
    found = lance.dataset(namespace_client=any_catalog, table_id=["t"], version="release")
    assert found.count_rows() == 6


def test_without_its_tag_it_is(any_catalog: Any) -> None:
    tagged(any_catalog)
    any_catalog.delete_table_tag({"id": ["t"], "tag": "release"})

    assert delete(any_catalog, 2, 3) == 1
    assert numbers(any_catalog, "t") == [1, 3]


def test_a_tag_holds_versions_of_its_own_branch_alone(managed: DirectoryNamespace) -> None:
    make_table(managed, "t", versions=2)
    branch = lance.dataset(namespace_client=managed, table_id=["t"]).create_branch("dev", 1)
    branch = lance.write_dataset(ROWS, branch, mode="append")
    managed.create_table_tag(
        {"id": ["t"], "tag": "mine", "version": branch.version, "branch": "dev"}
    )
    both = [{"start_version": 0, "end_version": -1}]

    with pytest.raises(InvalidInputError, match="tagged: mine"):
        managed.batch_delete_table_versions({"id": ["t"], "branch": "dev", "ranges": both})
    assert delete(managed, 2, 3) == 1


def test_a_tag_does_not_hold_a_version_that_is_lost(managed: DirectoryNamespace) -> None:
    tagged(managed, version=3)
    (place_of(managed, "t") / "_versions" / manifest_name(3)).unlink()

    assert delete(managed, 3, 4) == 1
    assert numbers(managed, "t") == [1, 2]


def test_damage_among_the_tags_stops_nobody(managed: DirectoryNamespace) -> None:
    tagged(managed)
    tags = place_of(managed, "t") / "_refs" / "tags"
    (tags / "release.json").write_text("{")
    (tags / "list.json").write_text("[]")
    (tags / "other.txt").write_text('{"version": 2}')

    assert delete(managed, 2, 3) == 1


def test_a_deletion_is_not_done_to_another_table_of_the_name(
    managed: DirectoryNamespace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DirectoryNamespace(root=str(root))
    make_table(managed, "t", versions=3)
    commit = managed.catalog.commit

    def after_another(*changes: Any, **more: Any) -> Any:
        monkeypatch.undo()
        other.drop_table({"id": ["t"]})
        make_table(other, "t", versions=2)
        return commit(*changes, **more)

    monkeypatch.setattr(managed.catalog, "commit", after_another)
    with pytest.raises(ConcurrentModificationError, match="another table now"):
        delete(managed, 0, -1)

    assert numbers(managed, "t") == [1, 2]


def test_a_transaction_notices_that_what_it_has_read_is_another_version_now(catalog: Any) -> None:
    make_table(catalog, "t", versions=2)
    make_table(catalog, "u")

    def sum_up() -> None:
        with catalog.transaction("sum up") as tx:
            assert tx.dataset("t").count_rows() == 6
            delete(catalog, 2, 3)
            lance.write_dataset(OTHER_ROWS, namespace_client=catalog, table_id=["t"], mode="append")
            tx.append("u", ROWS)

    with pytest.raises(ConcurrentModificationError, match="Version 2 of t is another one now"):
        sum_up()
    assert (row_count(catalog, "t"), row_count(catalog, "u")) == (4, 3)
