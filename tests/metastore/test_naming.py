"""Paths of both layouts, and of those before them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeroot.metastore import locators, naming
from lakeroot.metastore.naming import Layout, RevisionPath, SuccessPath
from lakeroot.metastore.states import Operation
from lakeroot.metastore.values import partition_value
from lakeroot.model.errors import InvalidInputError

TXN = "1794780603903589483_64ecf4cc-0000-4000-8000-000000000001"
OLD = "1737070822189-20444dca-7e3d-4dd2-af70-23b8bc890966"
SHA = "59248c4dae276a021cb296d2ee0e6a0c962a8d7f"


@pytest.mark.parametrize(
    ("number", "directory"),
    [
        (1, "1000000/1000"),
        (1000, "1000000/1000"),
        (1001, "1000000/2000"),
        (10**6, "1000000/1000000"),
        (10**6 + 1, "2000000/1000"),
        (1234567, "2000000/235000"),
    ],
)
def test_a_revision_number_has_two_levels_of_directories(number: int, directory: str) -> None:
    assert naming.revision_partition(number) == directory


@given(
    st.sampled_from(Layout),
    st.integers(1, 10**7),
    st.sampled_from(["create", "update", "replace", "delete"]),
    st.none() | st.just("b266900e-c7dd-47c5-ab12-9ed45f30bab5"),
)
@settings(deadline=None)
def test_every_path_that_is_written_is_understood(
    layout: Layout, number: int, operation: str, target: str | None
) -> None:
    directory = f"ns-id/{SHA}" if target else "ns-id/table-id/1"
    path = naming.revision_path(layout, directory, number, operation, TXN, target)

    assert naming.understand(path) == RevisionPath(
        directory, target is not None, number, Operation(operation), TXN, target, path
    )


@pytest.mark.parametrize(
    ("path", "txn_id", "end"),
    [
        (f"txn/{TXN}", TXN, None),
        (f"txn/{OLD}", OLD, None),
        (f"txn/success/{TXN}/17", TXN, 17),
        (f"txn/success/2026/11/15/22/10/{TXN}/1794780608108457008", TXN, 1794780608108457008),
    ],
)
def test_success_logs_of_every_generation_are_understood(
    path: str, txn_id: str, end: int | None
) -> None:
    assert naming.understand(path) == SuccessPath(txn_id, end, path)


@pytest.mark.parametrize(
    "path",
    [
        f"txn/running/{TXN}",
        f"txn/failed/2026/11/15/22/10/{TXN}",
        f"txn/paused/{TXN}",
        "txn/_commit/00000000000000000/00000000000000000001",
        "data/p/x.pq",
        "version/2.0.0.post4.1",
        f"ns/rev/_private/{1:020d}_create_{TXN}.mpk",
        "ns/rev/notes.txt",
    ],
)
def test_other_files_are_passed_over(path: str) -> None:
    assert naming.understand(path) is None


def test_names_are_hashed_in_three_ways_for_reading_and_one_for_writing() -> None:
    whole, own = locators.digest("Ns|T"), locators.digest("T")
    chained = locators.digest(f"{locators.digest('Ns')}|T")

    assert naming.name_digests(Layout.SPEC, ("Ns", "T")) == (whole, own, chained)
    assert naming.name_digests(Layout.DELTACAT_2, ("Ns", "T")) == (own, whole, chained)
    assert naming.name_digests(Layout.SPEC, ("sales",)) == (SHA,)


def test_old_transaction_ids_count_milliseconds() -> None:
    assert naming.start_time("17-20444dca-7e3d-4dd2-af70-23b8bc890966") == 17_000_000


def test_the_alias_of_an_unpartitioned_partition_is_the_one_deltacat_writes() -> None:
    alias = locators.digest(locators.partition_alias(None, None))

    assert alias == "618205b78748d2b5cc6ff3344257f6b1a0335c29"
    assert locators.partition_alias(("2024-01-01", 2), "ps-1") == "['2024-01-01', 2]|ps-1"


@pytest.mark.parametrize(
    ("text", "version"),
    [("1", "1"), ("007", "7"), ("MyVersion.0001", "MyVersion.1"), ("0", "0"), (".5", ".5")],
)
def test_a_table_version_is_written_one_way(text: str, version: str) -> None:
    assert locators.table_version_of(text) == version


@pytest.mark.parametrize("text", ["", "a", "1.2.3", "1/2", "../1", "x" * 1025, "-1", "1\n"])
def test_what_is_not_a_table_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        locators.table_version_of(text)


@pytest.mark.parametrize("identifier", ["", ".", "..", "a/b", "_x", ".x", "rev", "a\n", "x" * 256])
def test_an_id_that_is_no_directory_is_refused(identifier: str) -> None:
    with pytest.raises(InvalidInputError):
        locators.checked_id(identifier, "stream")


def test_a_value_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be a partition value"):
        partition_value(object())


@pytest.mark.parametrize(
    ("directory", "without"),
    [
        ("1000000/1000", "1000000/1000"),
        ("place/1000000/1000", "place"),
        ("7/1000000/1000", "7/1000000/1000"),
        ("place/1000001/1000", "place/1000001/1000"),
        ("place", "place"),
    ],
)
def test_the_two_numbers_that_spread_revisions_are_no_part_of_a_place(
    directory: str, without: str
) -> None:
    assert naming._without_partition(directory) == without
