"""Deleting the newest version where Lance has cleaned up those before."""

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from lance_namespace import InvalidTableStateError

from lakeroot import DirectoryNamespace
from lakeroot.model.commits import DeleteTableVersions
from lakeroot.namespace.caring import CaredNamespace
from lakeroot.tables.versions import manifest_name
from tests.versions.disk import version_rows
from tests.versions.kinds import KINDS, MANAGED, Opened, append, delete, opener, place_of
from tests.versions.staging import ROWS, make_table, numbers, row_count
from tests.versions.test_managed_commits import unfinish


def five_versions(catalog: Opened) -> CaredNamespace:
    """Make a table of five versions; Lance has cleaned up all but a tagged one and the newest."""
    found = catalog()
    lance.write_dataset(ROWS, namespace_client=found, table_id=["t"])
    for _ in range(4):
        append(found, "t")
    found.create_table_tag({"id": ["t"], "tag": "keep", "version": 2})
    lance.dataset(namespace_client=found, table_id=["t"]).cleanup_old_versions(
        older_than=timedelta(0), error_if_tagged_old_versions=False
    )
    return found


@pytest.fixture(params=KINDS)
def catalog(request: pytest.FixtureRequest, root: Path) -> Opened:
    return opener(request.param, root)


@pytest.fixture(params=MANAGED)
def keeping(request: pytest.FixtureRequest, root: Path) -> Opened:
    return opener(request.param, root)


def assert_it_is_at_version_2(catalog: Opened) -> None:
    found = catalog()
    assert numbers(found, "t") == [2]
    assert numbers(found, "t", limit=1, descending=True) == [2]
    assert row_count(found, "t") == found.count_table_rows({"id": ["t"]}).count == 6
    assert lance.dataset(str(place_of(found, "t"))).version == 2
    append(found, "t")
    assert numbers(found, "t") == [2, 3]
    assert row_count(catalog(), "t") == 9


def test_the_version_that_is_left_is_the_newest(catalog: Opened) -> None:
    found = five_versions(catalog)
    assert numbers(found, "t") == [2, 5]

    assert delete(found, 5, 6) == 1

    assert_it_is_at_version_2(catalog)


def test_a_batch_does_the_same(catalog: Opened) -> None:
    ranges = [{"start_version": 5, "end_version": 6}]
    deletion = {"delete_table_versions": {"id": ["t"], "ranges": ranges}}

    five_versions(catalog).batch_commit_tables({"operations": [deletion]})

    assert_it_is_at_version_2(catalog)


def test_it_is_one_commit(managed: DirectoryNamespace, root: Path) -> None:
    five_versions(lambda: managed)
    before = managed.history(1)[0].version

    delete(managed, 5, 6)

    assert managed.history(1)[0].version == before + 1
    assert set(version_rows(root)) == {"t$2"}


def test_a_version_that_was_put_there_directly_is_deleted_like_any(keeping: Opened) -> None:
    found = five_versions(keeping)
    place = place_of(found, "t")
    lance.write_dataset(ROWS, str(place), mode="append")
    (place / "_versions" / manifest_name(5)).unlink()

    delete(found, 6, 7)

    assert_it_is_at_version_2(keeping)


def test_a_version_that_is_not_in_place_yet_is_finished_and_stays(
    managed: DirectoryNamespace, root: Path
) -> None:
    table = make_table(managed, "t", versions=4)
    unfinish(root, table, 3)
    (table / "_versions" / manifest_name(2)).unlink()

    delete(managed, 4, 5)

    assert numbers(managed, "t") == [1, 3]
    assert row_count(managed, "t") == 9
    assert (table / "_versions" / manifest_name(3)).exists()


def test_a_newest_version_that_is_lost_does_not_go_with_others(keeping: Opened) -> None:
    found = five_versions(keeping)
    (place_of(found, "t") / "_versions" / manifest_name(5)).unlink()

    delete(found, 1, 2)

    with pytest.raises(InvalidTableStateError, match="Version 5 of t is not there"):
        numbers(keeping(), "t", limit=1, descending=True)


def test_deleting_nothing_changes_nothing(managed: DirectoryNamespace, root: Path) -> None:
    five_versions(lambda: managed)
    before = version_rows(root)

    assert delete(managed, 7, 9) == 0

    assert version_rows(root) == before


def forgotten(catalog: Opened) -> CaredNamespace:
    """Leave a table as deleting its newest version did that took nothing else along."""
    found = five_versions(catalog)
    found.catalog.commit(DeleteTableVersions(("t",), (5,)))
    (place_of(found, "t") / "_versions" / manifest_name(5)).unlink()
    return catalog()


def test_a_table_that_was_left_unreadable_is_found_and_repaired(keeping: Opened) -> None:
    found = forgotten(keeping)
    with pytest.raises(InvalidTableStateError):
        numbers(found, "t")

    (missing,) = (one for one in found.check() if one.code == "version-missing")
    assert missing.repairable
    assert "cleaned up before a later version was deleted" in missing.why
    (done,) = found.repair([missing])

    assert done.outcome == "repaired"
    assert keeping().check() == []
    assert found.repair([missing])[0].outcome == "was in order by now"
    assert_it_is_at_version_2(keeping)


@pytest.mark.parametrize("why", ["no later version", "one that nobody names is there", "alone"])
def test_a_version_that_may_have_been_lost_is_not_given_up(keeping: Opened, why: str) -> None:
    found = forgotten(keeping)
    place = place_of(found, "t")
    versions = place / "_versions"
    if why == "no later version":
        (versions / "latest_version_hint.json").write_text('{"version":4}')
    elif why == "alone":
        (versions / manifest_name(2)).unlink()
    else:
        (place / "_refs" / "tags" / "keep.json").unlink()

    (missing,) = (one for one in found.check() if one.code == "version-missing")

    assert not missing.repairable
    assert found.repair([missing]) == []


def test_what_is_there_again_is_not_given_up(keeping: Opened) -> None:
    found = forgotten(keeping)
    (missing,) = (one for one in found.check() if one.code == "version-missing")
    versions = place_of(found, "t") / "_versions"
    shutil.copy(versions / manifest_name(2), versions / manifest_name(4))

    (done,) = found.repair([missing])

    assert done.outcome == "was in order by now"
    assert numbers(found, "t") == [2, 4]
