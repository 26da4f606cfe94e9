"""Lance can rename the manifests of a table; the catalog finds its versions under both names."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.tables.versions import NamingScheme, manifest_name
from tests.versions.disk import rewrite_row, version_rows
from tests.versions.kinds import KINDS, MANAGED, Opened, append, delete, opener
from tests.versions.staging import ROWS, direct_append, make_table, numbers, row_count, stage


def table_of_three(catalog: Opened) -> Path:
    """Make a table of the old names, with three versions, two of them through the catalog."""
    place = Path(catalog().declare_table({"id": ["t"]}).location)
    lance.write_dataset(ROWS, str(place), enable_v2_manifest_paths=False)
    for _ in range(2):
        append(catalog(), "t")
    return place


@pytest.fixture(params=KINDS)
def catalog(request: pytest.FixtureRequest, root: Path) -> Opened:
    return opener(request.param, root)


@pytest.fixture
def renamed(catalog: Opened) -> Path:
    place = table_of_three(catalog)
    assert (place / "_versions" / manifest_name(3, NamingScheme.V1)).exists()
    lance.dataset(str(place)).migrate_manifest_paths_v2()
    return place


def test_every_version_is_found(catalog: Opened, renamed: Path) -> None:
    found = catalog()

    assert numbers(found, "t") == [1, 2, 3]
    assert numbers(found, "t", limit=1, descending=True) == [3]
    assert [row_count(found, "t", version=number) for number in (1, 2, 3)] == [3, 6, 9]
    assert row_count(found, "t") == found.count_table_rows({"id": ["t"]}).count == 9
    for number in (1, 2, 3):
        told = found.describe_table_version({"id": ["t"], "version": number})["version"]
        assert told["manifest_path"].endswith(f"/{manifest_name(number)}")


def test_the_next_version_follows(catalog: Opened, renamed: Path) -> None:
    append(catalog(), "t")

    assert numbers(catalog(), "t") == [1, 2, 3, 4]
    assert row_count(catalog(), "t") == lance.dataset(str(renamed)).count_rows() == 12
    assert (renamed / "_versions" / manifest_name(4)).exists()


def test_a_version_that_is_put_there_directly_counts_with_the_others(
    catalog: Opened, renamed: Path
) -> None:
    direct_append(renamed)

    assert numbers(catalog(), "t") == [1, 2, 3, 4]
    append(catalog(), "t")
    assert numbers(catalog(), "t") == [1, 2, 3, 4, 5]


def test_a_table_is_renamed_through_the_catalog(catalog: Opened) -> None:
    table_of_three(catalog)

    lance.dataset(namespace_client=catalog(), table_id=["t"]).migrate_manifest_paths_v2()

    assert numbers(catalog(), "t") == [1, 2, 3]


def test_deleting_takes_files_of_either_name(catalog: Opened, renamed: Path) -> None:
    versions = renamed / "_versions"
    newest = versions / manifest_name(3)
    # As where renaming is copying, and whoever did it died before the old one was gone.
    (versions / manifest_name(3, NamingScheme.V1)).write_bytes(newest.read_bytes())

    assert delete(catalog(), 3, 4) == 1

    assert numbers(catalog(), "t") == [1, 2]
    assert sorted(file.name for file in versions.glob("*.manifest")) == [
        manifest_name(2),
        manifest_name(1),
    ]


@pytest.mark.parametrize("kind", MANAGED)
def test_the_past_shows_versions_under_their_new_names(kind: str, root: Path) -> None:
    catalog = opener(kind, root)
    place = table_of_three(catalog)
    now: Any = catalog()
    then = now.history(1)[0].version
    append(now, "t")
    lance.dataset(str(place)).migrate_manifest_paths_v2()

    past = now.at(version=then)

    assert row_count(past, "t") == 9
    assert past.describe_table_version({"id": ["t"]})["version"]["version"] == 3


def test_a_check_finds_nothing_wrong(catalog: Opened, renamed: Path) -> None:
    assert catalog().check() == []


def test_rows_that_are_pointed_to_files_name_them_as_they_are(
    managed: DirectoryNamespace, root: Path
) -> None:
    place = make_table(managed, "t", versions=6, scheme=NamingScheme.V1)
    lance.dataset(str(place)).migrate_manifest_paths_v2()
    for _ in range(4):
        append(managed, "t")

    rows = version_rows(root)

    for number in range(1, 9):
        final = place / "_versions" / manifest_name(number)
        assert rows[f"t${number}"]["manifest_path"] == str(final).lstrip("/")
        assert rows[f"t${number}"]["naming_scheme"] == "V2"


def test_a_version_is_not_finished_where_it_has_another_name(
    managed: DirectoryNamespace, root: Path
) -> None:
    place = make_table(managed, "t", versions=2, scheme=NamingScheme.V1)
    versions = place / "_versions"
    final = versions / manifest_name(2, NamingScheme.V1)
    staged = final.with_name(f"{final.name}-{uuid4()}")
    staged.write_bytes(final.read_bytes())
    row = version_rows(root)["t$2"] | {"manifest_path": str(staged).lstrip("/")}
    rewrite_row(root, "t$2", "t$2", row)
    lance.dataset(str(place)).migrate_manifest_paths_v2()

    assert numbers(managed, "t") == [1, 2]
    managed.disable_version_management()

    assert not final.exists()
    assert numbers(managed, "t") == [1, 2]


def test_a_writer_that_repeats_itself_after_a_renaming_finds_its_own_version(
    managed: DirectoryNamespace,
) -> None:
    place = make_table(managed, "t", scheme=NamingScheme.V1)
    staged = stage(managed, "t", scheme=NamingScheme.V1)
    managed.create_table_version(staged.request())
    lance.dataset(str(place)).migrate_manifest_paths_v2()

    again = managed.create_table_version(staged.request())

    assert again["version"]["manifest_path"].endswith(f"/{manifest_name(2)}")
    assert numbers(managed, "t") == [1, 2]
