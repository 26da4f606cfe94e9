"""How versions name the files of a table, whatever branch the files are of."""

import pytest

from lakeroot.tables.litter import (
    branch_of,
    branches_named,
    is_manifest,
    is_temporary,
    name_of,
    was_ever_committed,
)

INDEX = "_indices/46017397-0a76-47a9-a07f-5201bf9365e7"
ROWS_TO_COME = "tree/side/_mem_wal/46017397-0a76-47a9-a07f-5201bf9365e7/0a1b_gen_1"
"""Where Lance flushes rows that are for a branch, and in no version of it yet."""


@pytest.mark.parametrize("branch", ["", "tree/side/", "tree/team/data/"])
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/01.lance", "data/01.lance"),
        ("data/01/10.blob", "data/01.lance"),
        ("_deletions/0-1-7.arrow", "_deletions/0-1-7.arrow"),
        ("_deletions/0-1-7.bin", "_deletions/0-1-7.bin"),
        ("_transactions/0-a.txn", "_transactions/0-a.txn"),
        (f"{INDEX}/page_data.lance", INDEX),
        (f"{INDEX}/parts/0.lance", INDEX),
    ],
)
def test_a_file_has_one_name_in_all_branches(branch: str, path: str, name: str) -> None:
    assert name_of(branch + path) == name
    assert branch_of(branch + path) == (branch[5:-1] or None)


@pytest.mark.parametrize(
    "path",
    [
        "data/notes.txt",
        "notes/data/x.lance",
        "data/x/y/z.blob",
        "_indices/other/x.lance",
        "_versions/1.manifest",
        "_lakeroot/status/x.json",
        "_refs/tags/x.json",
        ".lance-reserved",
        "x.lance",
        f"{ROWS_TO_COME}/data/01.lance",
        f"{ROWS_TO_COME}/data/.tmpAbC123",
        f"{ROWS_TO_COME}/_transactions/0-a.txn",
        f"{ROWS_TO_COME}/{INDEX}/page_data.lance",
        f"{ROWS_TO_COME}/_versions/1.manifest",
    ],
)
def test_what_versions_do_not_name_has_no_name(path: str) -> None:
    assert name_of(path) is None
    assert branch_of(path) is None
    assert not is_temporary(path)


def test_files_that_have_no_name_yet_are_known_by_their_places() -> None:
    assert is_temporary("data/.tmpAbC123")
    assert is_temporary(f"tree/side/{INDEX}/.tmpAbC123")
    assert is_temporary("_versions/.tmpAbC123")
    assert not is_temporary("data/.tmpAbC1234")
    assert not is_temporary("notes/.tmpAbC123")


def test_manifests_are_those_in_place_and_those_that_may_come_there() -> None:
    assert is_manifest("_versions/7.manifest")
    assert is_manifest("_versions/d123.manifest")  # A detached version needs its files, too.
    assert is_manifest("_versions/7.manifest-0a1b")
    assert is_manifest("tree/a/b/_versions/7.manifest")
    assert is_manifest(f"_lakeroot-{'0a' * 16}/7.manifest")
    assert not is_manifest("_versions/latest_version_hint.json")
    assert not is_manifest("data/7.manifest")
    assert not is_manifest(f"{ROWS_TO_COME}/_versions/7.manifest")


def test_branches_are_known_by_the_files_of_their_names() -> None:
    paths = ["_refs/branches/team%2Fside.json", "_refs/branches/x.json", "_refs/tags/y.json"]

    assert branches_named(paths) == {"team/side", "x"}


def test_what_only_later_writers_leave_tells_of_a_lost_version() -> None:
    assert not was_ever_committed(["data/x.lance", "_transactions/0-a.txn", ".lance-reserved"])
    for path in (
        "_deletions/0-1-7.arrow",
        "_transactions/1-a.txn",
        "_refs/tags/x.json",
    ):
        assert was_ever_committed(["data/x.lance", path])
