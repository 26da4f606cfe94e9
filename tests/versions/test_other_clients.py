"""Versions of a managed table that other clients write straight into `_versions/`."""

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    InvalidInputError,
)

from lakeroot import DirectoryNamespace
from lakeroot.namespace.border import TableVersionAlreadyExistsError
from lakeroot.tables.versions import NamingScheme, manifest_name
from tests.versions.conftest import Open
from tests.versions.disk import catalog_version, rewrite_row, version_rows
from tests.versions.staging import (
    ROWS,
    direct_append,
    make_table,
    numbers,
    row_count,
    stage,
)

# Other clients write straight into `_versions/`


def test_versions_of_other_clients_count_at_once(managed: DirectoryNamespace, root: Path) -> None:
    table = make_table(managed, "t")

    assert direct_append(table) == 2
    assert direct_append(table) == 3

    assert numbers(managed, "t") == [1, 2, 3]
    assert managed.describe_table_version({"id": ["t"]})["version"]["version"] == 3
    assert row_count(managed, "t") == 9
    assert set(version_rows(root)) == {"t$1"}


@pytest.mark.parametrize("scheme", list(NamingScheme))
def test_versions_of_other_clients_are_taken_in_by_the_next_commit(
    managed: DirectoryNamespace, root: Path, scheme: NamingScheme
) -> None:
    table = make_table(managed, "t", scheme=scheme)
    direct_append(table)
    direct_append(table)

    lance.write_dataset(ROWS, namespace_client=managed, table_id=["t"], mode="append")

    assert list(version_rows(root)) == ["t$1", "t$2", "t$3", "t$4"]
    assert numbers(managed, "t") == [1, 2, 3, 4]
    assert row_count(managed, "t") == lance.dataset(str(table)).count_rows() == 12


def test_a_table_of_another_client_is_taken_in_whole(
    managed: DirectoryNamespace, root: Path
) -> None:
    managed.create_namespace(CreateNamespaceRequest(id=["a"]))
    for mode in ("create", "append", "append"):
        lance.write_dataset(ROWS, str(root / "v1.lance"), mode=mode)

    assert numbers(managed, "v1") == [1, 2, 3]
    lance.write_dataset(ROWS, namespace_client=managed, table_id=["v1"], mode="append")

    assert numbers(managed, "v1") == [1, 2, 3, 4]
    assert len(version_rows(root)) == 4


def test_a_version_put_there_first_by_another_client_wins(
    managed: DirectoryNamespace, root: Path
) -> None:
    table = make_table(managed, "t")
    staged = stage(managed, "t")
    direct_append(table)
    theirs = (table / "_versions" / manifest_name(2)).read_bytes()

    with pytest.raises(TableVersionAlreadyExistsError):
        managed.create_table_version(staged.request())

    assert (table / "_versions" / manifest_name(2)).read_bytes() == theirs
    assert numbers(managed, "t") == [1, 2]


@pytest.mark.parametrize("keeps_ours", [False, True], ids=["gone", "tagged"])
def test_versions_of_other_clients_are_found_behind_a_gap(
    managed: DirectoryNamespace, keeps_ours: bool
) -> None:
    table = make_table(managed, "t")
    if keeps_ours:
        lance.dataset(str(table)).tags.create("keep", 1)
    for _ in range(3):
        direct_append(table)
    lance.dataset(str(table)).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert not (table / "_versions" / manifest_name(2)).exists()

    assert row_count(managed, "t") == 12
    lance.write_dataset(ROWS, namespace_client=managed, table_id=["t"], mode="append")

    assert row_count(managed, "t") == 15
    assert numbers(managed, "t") == ([1, 4, 5] if keeps_ours else [4, 5])


def test_versions_that_were_cleaned_up_are_not_listed(managed: DirectoryNamespace) -> None:
    make_table(managed, "t", versions=12)
    opened = lance.dataset(namespace_client=managed, table_id=["t"])

    opened.cleanup_old_versions(timedelta(0))

    assert numbers(managed, "t") == [12]
    assert numbers(managed, "t", limit=5) == [12]
    assert row_count(managed, "t") == 36


def test_padded_rows_are_read(managed: DirectoryNamespace, open_lake: Open, root: Path) -> None:
    table = make_table(managed, "t", versions=2)
    for version, row in ((1, version_rows(root)["t$1"]), (2, version_rows(root)["t$2"])):
        row.pop("naming_scheme")
        rewrite_row(root, f"t${version}", f"t${version:020d}", row)

    reader = open_lake()
    assert numbers(reader, "t") == [1, 2]
    lance.write_dataset(ROWS, namespace_client=reader, table_id=["t"], mode="append")

    assert numbers(managed, "t") == [1, 2, 3]
    assert len(version_rows(root)) == 3
    assert row_count(managed, "t") == lance.dataset(str(table)).count_rows() == 9


@pytest.mark.parametrize("ends", ["deleted", "dropped", "unmanaged"])
def test_a_version_with_a_padded_and_a_plain_row_goes_with_both(
    managed: DirectoryNamespace, open_lake: Open, root: Path, ends: str
) -> None:
    make_table(managed, "t", versions=3)
    rows = lance.dataset(str(root / "__manifest")).to_table()
    twice = rows.filter(pc.equal(rows["object_id"], "t$2")).to_pylist()[0]
    twice["object_id"] = f"t${2:020d}"
    lance.write_dataset(
        pa.Table.from_pylist([twice], rows.schema), str(root / "__manifest"), mode="append"
    )
    clients = [managed, open_lake()]
    assert [numbers(client, "t") for client in clients] == [[1, 2, 3]] * 2

    if ends == "deleted":
        ranges = [{"start_version": 2, "end_version": 3}]
        managed.batch_delete_table_versions({"id": ["t"], "ranges": ranges})
        assert [numbers(client, "t") for client in (*clients, open_lake())] == [[1, 3]] * 3
        assert set(version_rows(root)) == {"t$1", "t$3"}
        return
    if ends == "dropped":
        managed.drop_table({"id": ["t"]})
    else:
        managed.disable_version_management()
    assert version_rows(root) == {}


def test_a_batch_is_recognised_when_it_is_repeated_after_a_crash(
    managed: DirectoryNamespace, root: Path
) -> None:
    tables = [make_table(managed, name) for name in ("a", "b", "c")]
    staged = [stage(managed, name) for name in ("a", "b", "c")]
    request = {"entries": [one.request() for one in staged]}
    managed.batch_create_table_versions(request)
    # The process died after it had put one of them in place, and nobody has read them since.
    for table, one in list(zip(tables, staged, strict=True))[1:]:
        (table / "_versions" / manifest_name(2)).rename(one.file)
    before = catalog_version(root)

    again = managed.batch_create_table_versions(request)

    assert [one["version"] for one in again["versions"]] == [2, 2, 2]
    assert catalog_version(root) == before
    assert [numbers(managed, name) for name in ("a", "b", "c")] == [[1, 2]] * 3
    assert not any(one.file.exists() for one in staged)


def test_a_version_of_somebody_else_is_not_taken_for_a_repetition(
    managed: DirectoryNamespace,
) -> None:
    make_table(managed, "t")
    lost, won = stage(managed, "t"), stage(managed, "t")
    managed.create_table_version(won.request())
    lost.file.unlink()

    with pytest.raises(InvalidInputError, match="no staged manifest"):
        managed.create_table_version(lost.request())
