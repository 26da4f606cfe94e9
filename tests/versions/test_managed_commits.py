"""The catalog as the arbiter of its tables' versions."""

import shutil
from pathlib import Path

import lance
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeregisterTableRequest,
    DescribeTableRequest,
    DropTableRequest,
    InvalidTableStateError,
    RegisterTableRequest,
    RenameTableRequest,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from lakeroot import DirectoryNamespace
from lakeroot.namespace.border import TableVersionAlreadyExistsError
from lakeroot.tables.versions import manifest_name
from tests.versions.conftest import Open
from tests.versions.disk import catalog_version, rewrite_row, table_metadata, version_rows
from tests.versions.staging import (
    ROWS,
    direct_append,
    make_table,
    numbers,
    row_count,
    stage,
)


def unfinish(root: Path, table: Path, version: int, name: str = "t") -> None:
    """Leave a version as a writer does that dies between the row and the final file."""
    final = table / "_versions" / manifest_name(version)
    staged = final.with_name(f"{final.name}-dead")
    final.rename(staged)
    row = version_rows(root)[f"{name}${version}"]
    row["manifest_path"] = str(staged).lstrip("/")
    rewrite_row(root, f"{name}${version}", f"{name}${version}", row)


# The four steps


def test_a_committed_version_is_a_row_and_a_file(managed: DirectoryNamespace, root: Path) -> None:
    table = make_table(managed, "t")
    staged = stage(managed, "t")

    managed.create_table_version(staged.request(metadata={"job": "7"}))

    row = version_rows(root)["t$2"]
    assert row["manifest_size"] == len(staged.content)
    assert row["job"] == "7"
    assert (table / "_versions" / manifest_name(2)).exists()
    assert table_metadata(root)["table_version_management"] == "true"


def test_later_commits_point_rows_to_the_final_files(
    managed: DirectoryNamespace, root: Path
) -> None:
    table = make_table(managed, "t", versions=20)

    rows = version_rows(root)

    for version in range(1, 17):
        final = table / "_versions" / manifest_name(version)
        assert rows[f"t${version}"]["manifest_path"] == str(final).lstrip("/")


def test_rows_are_pointed_though_a_version_was_put_there_directly(
    managed: DirectoryNamespace, root: Path
) -> None:
    table = make_table(managed, "t", versions=7)
    direct_append(table)
    for _ in range(8):
        lance.write_dataset(ROWS, namespace_client=managed, table_id=["t"], mode="append")

    lance.write_dataset(ROWS, namespace_client=managed, table_id=["t"], mode="append")

    rows = version_rows(root)
    for version in range(1, 17):
        final = table / "_versions" / manifest_name(version)
        assert rows[f"t${version}"]["manifest_path"] == str(final).lstrip("/")


def test_rows_of_tables_in_namespaces_carry_the_whole_name(
    managed: DirectoryNamespace, root: Path
) -> None:
    managed.create_namespace(CreateNamespaceRequest(id=["a"]))
    make_table(managed, "a", "t", versions=2)

    assert set(version_rows(root)) == {"a$t$1", "a$t$2"}


def test_a_batch_is_one_version_of_the_catalog(managed: DirectoryNamespace, root: Path) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        make_table(managed, name)
    before = catalog_version(root)

    managed.batch_create_table_versions(
        {"entries": [stage(managed, name).request() for name in names]}
    )

    assert catalog_version(root) == before + 1
    assert [numbers(managed, name) for name in names] == [[1, 2]] * 5


def test_a_batch_with_one_conflict_changes_nothing(managed: DirectoryNamespace, root: Path) -> None:
    make_table(managed, "a")
    make_table(managed, "b")
    loser, winner = stage(managed, "b"), stage(managed, "b")
    managed.create_table_version(winner.request())
    before = catalog_version(root)

    with pytest.raises(TableVersionAlreadyExistsError, match="b already has a version 2"):
        managed.batch_create_table_versions(
            {"entries": [stage(managed, "a").request(), loser.request()]}
        )

    assert catalog_version(root) == before
    assert numbers(managed, "a") == [1]
    assert row_count(managed, "b") == 6


def test_a_table_is_declared_and_given_its_first_version_in_one_commit(
    managed: DirectoryNamespace, root: Path
) -> None:
    made = make_table(managed, "like")
    new = root / "data-of-new"
    shutil.copytree(made, new)
    first = new / "_versions" / manifest_name(1)
    staged = first.rename(first.with_name(f"{first.name}-first"))
    before = catalog_version(root)

    managed.batch_commit_tables(
        {
            "operations": [
                {"declare_table": {"id": ["new"], "location": str(new)}},
                {
                    "create_table_version": {
                        "id": ["new"],
                        "version": 1,
                        "manifest_path": str(staged).lstrip("/"),
                    }
                },
            ]
        }
    )

    assert catalog_version(root) == before + 1
    assert row_count(managed, "new") == 3
    assert "new$1" in version_rows(root)


# Whoever comes next finishes what a dead writer began


@pytest.mark.parametrize("how", ["describe", "describe newest", "list", "list newest", "open"])
def test_any_reader_finishes_a_version(
    managed: DirectoryNamespace, open_lake: Open, root: Path, how: str
) -> None:
    table = make_table(managed, "t", versions=2)
    unfinish(root, table, 2)
    reader = open_lake()

    match how:
        case "describe":
            found = reader.describe_table_version({"id": ["t"], "version": 2})["version"]
        case "describe newest":
            found = reader.describe_table_version({"id": ["t"]})["version"]
        case "list":
            found = reader.list_table_versions({"id": ["t"]})["versions"][-1]
        case "list newest":
            request = {"id": ["t"], "limit": 1, "descending": True}
            found = reader.list_table_versions(request)["versions"][0]
        case _:
            assert row_count(reader, "t") == 6
            found = None

    final = table / "_versions" / manifest_name(2)
    assert final.exists()
    assert found is None or found["manifest_path"] == str(final).lstrip("/")
    assert lance.dataset(str(table)).count_rows() == 6


def test_the_next_writer_finishes_a_version(
    managed: DirectoryNamespace, open_lake: Open, root: Path
) -> None:
    table = make_table(managed, "t", versions=2)
    unfinish(root, table, 2)

    lance.write_dataset(ROWS, namespace_client=open_lake(), table_id=["t"], mode="append")

    assert numbers(managed, "t") == [1, 2, 3]
    assert row_count(managed, "t") == lance.dataset(str(table)).count_rows() == 9


def test_a_writer_that_repeats_itself_after_dying_finds_its_own_version(
    managed: DirectoryNamespace, root: Path
) -> None:
    table = make_table(managed, "t")
    staged = stage(managed, "t")
    managed.create_table_version(staged.request())
    (table / "_versions" / manifest_name(2)).rename(staged.file)
    row = version_rows(root)["t$2"] | {"manifest_path": staged.path}
    rewrite_row(root, "t$2", "t$2", row)

    again = managed.create_table_version(staged.request())

    assert again["version"]["version"] == 2
    assert numbers(managed, "t") == [1, 2]


def test_deregistering_finishes_versions_first(managed: DirectoryNamespace, root: Path) -> None:
    table = make_table(managed, "t", versions=2)
    unfinish(root, table, 2)

    managed.deregister_table(DeregisterTableRequest(id=["t"]))

    assert version_rows(root) == {}
    assert lance.dataset(str(table)).count_rows() == 6


def test_an_unfinished_version_is_deleted_whole(managed: DirectoryNamespace, root: Path) -> None:
    table = make_table(managed, "t", versions=2)
    unfinish(root, table, 2)

    managed.batch_delete_table_versions(
        {"id": ["t"], "ranges": [{"start_version": 2, "end_version": -1}]}
    )

    assert numbers(managed, "t") == [1]
    assert {file.name for file in (table / "_versions").glob("*.manifest*")} == {manifest_name(1)}


def test_a_catalog_that_was_copied_elsewhere_is_whole(
    managed: DirectoryNamespace, root: Path, tmp_path: Path
) -> None:
    table = make_table(managed, "t", versions=2)
    unfinish(root, table, 2)
    root.rename(tmp_path / "moved")

    moved = DirectoryNamespace(root=str(tmp_path / "moved"))

    assert row_count(moved, "t") == 6
    lance.write_dataset(ROWS, namespace_client=moved, table_id=["t"], mode="append")
    assert row_count(moved, "t") == 9


def test_a_newest_version_without_its_file_is_a_clear_error(managed: DirectoryNamespace) -> None:
    table = make_table(managed, "t", versions=2)
    (table / "_versions" / manifest_name(2)).unlink()

    with pytest.raises(InvalidTableStateError, match="Version 2 of t is not there"):
        managed.list_table_versions({"id": ["t"], "limit": 1, "descending": True})

    managed.batch_delete_table_versions(
        {"id": ["t"], "ranges": [{"start_version": 2, "end_version": -1}]}
    )
    assert row_count(managed, "t") == 3


# Rows follow their table


def test_renaming_carries_the_rows(managed: DirectoryNamespace, root: Path) -> None:
    managed.create_namespace(CreateNamespaceRequest(id=["a"]))
    make_table(managed, "t", versions=3)

    managed.rename_table(RenameTableRequest(id=["t"], new_namespace_id=["a"], new_table_name="u"))

    assert set(version_rows(root)) == {"a$u$1", "a$u$2", "a$u$3"}
    lance.write_dataset(ROWS, namespace_client=managed, table_id=["a", "u"], mode="append")
    assert numbers(managed, "a", "u") == [1, 2, 3, 4]


def test_a_deregistered_table_comes_back_with_all_its_versions(
    managed: DirectoryNamespace, root: Path
) -> None:
    table = make_table(managed, "t", versions=3)

    managed.deregister_table(DeregisterTableRequest(id=["t"]))
    assert version_rows(root) == {}

    managed.register_table(RegisterTableRequest(id=["again"], location=str(table)))
    assert numbers(managed, "again") == [1, 2, 3]
    lance.write_dataset(ROWS, namespace_client=managed, table_id=["again"], mode="append")
    assert row_count(managed, "again") == 12


def test_dropping_removes_the_rows(managed: DirectoryNamespace, root: Path) -> None:
    make_table(managed, "t", versions=3)
    make_table(managed, "other")

    managed.drop_table(DropTableRequest(id=["t"]))

    assert set(version_rows(root)) == {"other$1"}
    make_table(managed, "t")
    assert numbers(managed, "t") == [1]


# The switch


def test_management_is_off_unless_asked_for(open_lake: Open, root: Path) -> None:
    plain = open_lake()
    make_table(plain, "t", versions=2)

    assert version_rows(root) == {}
    assert plain.describe_table(DescribeTableRequest(id=["t"])).managed_versioning is None


def test_a_managed_catalog_is_managed_for_everybody(
    managed: DirectoryNamespace, open_lake: Open
) -> None:
    make_table(managed, "t")

    reader = open_lake()
    assert reader.describe_table(DescribeTableRequest(id=["t"])).managed_versioning is True
    with open_lake().transaction("by a client that did not ask for it") as tx:
        tx.append(["t"], ROWS)
    assert row_count(managed, "t") == 6


def test_a_connection_can_switch_it_on_for_a_catalog_that_exists(
    open_lake: Open, root: Path
) -> None:
    make_table(open_lake(), "t", versions=2)

    with open_lake(table_version_management="true").transaction("first") as tx:
        tx.append(["t"], ROWS)

    assert table_metadata(root)["table_version_management"] == "true"
    assert set(version_rows(root)) == {"t$1", "t$2", "t$3"}


def test_enabling_takes_in_what_is_there(open_lake: Open, root: Path) -> None:
    plain = open_lake()
    make_table(plain, "t", versions=3)
    lance.write_dataset(ROWS, str(root / "v1.lance"))

    plain.enable_version_management()
    plain.enable_version_management()

    assert set(version_rows(root)) == {"t$1", "t$2", "t$3", "v1$1"}
    assert plain.describe_table(DescribeTableRequest(id=["t"])).managed_versioning is True


def test_disabling_leaves_whole_tables_behind(
    managed: DirectoryNamespace, open_lake: Open, root: Path
) -> None:
    table = make_table(managed, "t", versions=2)
    unfinish(root, table, 2)

    managed.disable_version_management()

    assert version_rows(root) == {}
    assert lance.dataset(str(table)).count_rows() == 6
    # It was said to the catalog, so it outlives what connections ask for.
    for client in (managed, open_lake(), open_lake(table_version_management="true")):
        make_table(client, f"t{id(client)}")
        assert client.describe_table(DescribeTableRequest(id=["t"])).managed_versioning is None
    assert version_rows(root) == {}

    managed.enable_version_management()
    assert numbers(managed, "t") == [1, 2]
    assert "t$2" in version_rows(root)


def test_a_catalog_without_a_manifest_cannot_manage_versions(open_lake: Open) -> None:
    flat = open_lake(manifest_enabled="false")

    with pytest.raises(UnsupportedOperationError):
        flat.enable_version_management()


def test_a_name_that_is_taken_stays_taken(managed: DirectoryNamespace) -> None:
    make_table(managed, "t")

    with pytest.raises(TableAlreadyExistsError):
        managed.declare_table({"id": ["t"]})
    with pytest.raises(TableNotFoundError):
        managed.list_table_versions({"id": ["u"]})
