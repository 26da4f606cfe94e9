"""The operations on versions, whoever is the arbiter: the files, or the catalog."""

import json
from pathlib import Path
from typing import Any

import lance
import pytest
from lance_namespace import (
    BatchCommitTablesRequest,
    BatchCreateTableVersionsRequest,
    BatchDeleteTableVersionsRequest,
    ConcurrentModificationError,
    CreateNamespaceRequest,
    CreateTableVersionRequest,
    DescribeTableVersionRequest,
    ListTableVersionsRequest,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableVersionNotFoundError,
)

from lakeroot import DirectoryNamespace
from lakeroot.namespace.border import TableVersionAlreadyExistsError
from lakeroot.tables.versions import NamingScheme, manifest_name
from tests.versions.staging import (
    ROWS,
    directory_of,
    make_table,
    numbers,
    row_count,
    stage,
)

SCHEMES = list(NamingScheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_versions_are_listed_in_both_orders(lake: DirectoryNamespace, scheme: NamingScheme) -> None:
    make_table(lake, "t", versions=3, scheme=scheme)

    assert numbers(lake, "t") == [1, 2, 3]
    assert numbers(lake, "t", descending=True) == [3, 2, 1]
    assert numbers(lake, "t", descending=True, limit=1) == [3]
    assert numbers(lake, "t", limit=0) == []


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 10, 12])
def test_pages_hold_every_version_once(
    lake: DirectoryNamespace, descending: bool, limit: int
) -> None:
    make_table(lake, "t", versions=12)

    found: list[int] = []
    token = None
    pages = 0
    while token is not None or not pages:
        page = lake.list_table_versions(
            ListTableVersionsRequest(id=["t"], limit=limit, page_token=token, descending=descending)
        )
        assert len(page.versions) <= limit
        found += [version.version for version in page.versions]
        token = page.page_token
        pages += 1

    assert found == sorted(range(1, 13), reverse=descending)
    assert pages == -(-12 // limit)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_version_is_described_by_its_manifest(
    lake: DirectoryNamespace, scheme: NamingScheme
) -> None:
    table = make_table(lake, "t", versions=2, scheme=scheme)

    described = lake.describe_table_version(DescribeTableVersionRequest(id=["t"], version=1))

    file = table / "_versions" / manifest_name(1, scheme)
    assert described.version.version == 1
    assert described.version.manifest_path == str(file).lstrip("/")
    assert described.version.manifest_size == file.stat().st_size
    assert described.version.timestamp_millis is not None


def test_the_newest_version_is_described_when_none_is_named(lake: DirectoryNamespace) -> None:
    make_table(lake, "t", versions=3)

    assert lake.describe_table_version({"id": ["t"]})["version"]["version"] == 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("is_model", [False, True], ids=["dict", "model"])
def test_a_staged_manifest_becomes_the_next_version(
    lake: DirectoryNamespace, scheme: NamingScheme, is_model: bool
) -> None:
    table = make_table(lake, "t", scheme=scheme)
    staged = stage(lake, "t", scheme=scheme)
    request: Any = staged.request(metadata={"job": "7"})

    if is_model:
        created = lake.create_table_version(CreateTableVersionRequest(**request)).model_dump(
            by_alias=True
        )
    else:
        created = lake.create_table_version(request)

    final = table / "_versions" / manifest_name(2, scheme)
    assert created["version"]["version"] == 2
    assert created["version"]["manifest_path"] == str(final).lstrip("/")
    assert created["version"]["manifest_size"] == len(staged.content)
    assert created["version"]["metadata"] == {"job": "7"}
    assert final.read_bytes() == staged.content
    assert not staged.file.exists()
    assert numbers(lake, "t") == [1, 2]
    assert lance.dataset(str(table)).count_rows() == row_count(lake, "t") == 6


def test_of_two_writers_of_a_version_the_second_is_refused(lake: DirectoryNamespace) -> None:
    table = make_table(lake, "t")
    first, second = stage(lake, "t"), stage(lake, "t")
    assert first.content != second.content
    lake.create_table_version(first.request())

    with pytest.raises(TableVersionAlreadyExistsError) as refused:
        lake.create_table_version(second.request())

    assert isinstance(refused.value, ConcurrentModificationError)
    assert refused.value.code == 14
    assert "t already has a version 2" in str(refused.value)
    assert (table / "_versions" / manifest_name(2)).read_bytes() == first.content
    assert second.file.exists()
    assert numbers(lake, "t") == [1, 2]


def test_creating_the_same_bytes_again_is_no_conflict(lake: DirectoryNamespace) -> None:
    make_table(lake, "t")
    staged = stage(lake, "t")
    first = lake.create_table_version(staged.request())
    staged.file.write_bytes(staged.content)

    again = lake.create_table_version(staged.request())

    assert again["version"]["manifest_path"] == first["version"]["manifest_path"]
    assert numbers(lake, "t") == [1, 2]
    assert not staged.file.exists()


def test_an_older_version_can_be_created_again_with_the_same_bytes(
    lake: DirectoryNamespace,
) -> None:
    make_table(lake, "t")
    staged = stage(lake, "t")
    lake.create_table_version(staged.request())
    lake.create_table_version(stage(lake, "t").request())
    staged.file.write_bytes(staged.content)

    assert lake.create_table_version(staged.request())["version"]["version"] == 2
    assert numbers(lake, "t") == [1, 2, 3]


def test_versions_of_several_tables_are_created_together(lake: DirectoryNamespace) -> None:
    make_table(lake, "a")
    make_table(lake, "b", versions=2)
    entries = [stage(lake, "a").request(), stage(lake, "b").request()]

    created = lake.batch_create_table_versions(BatchCreateTableVersionsRequest(entries=entries))

    assert [version.version for version in created.versions] == [2, 3]
    assert (row_count(lake, "a"), row_count(lake, "b")) == (6, 9)


def test_two_versions_of_one_table_can_be_one_batch(lake: DirectoryNamespace) -> None:
    make_table(lake, "t")
    second = stage(lake, "t")
    lake.create_table_version(second.request())
    third = stage(lake, "t")
    lake.batch_delete_table_versions(
        {"id": ["t"], "ranges": [{"start_version": 2, "end_version": 3}]}
    )
    second.file.write_bytes(second.content)

    lake.batch_create_table_versions({"entries": [second.request(), third.request()]})

    assert numbers(lake, "t") == [1, 2, 3]
    assert row_count(lake, "t") == 9


def test_ranges_of_versions_are_deleted_with_their_manifests(lake: DirectoryNamespace) -> None:
    table = make_table(lake, "t", versions=6)
    data = set((table / "data").iterdir())

    deleted = lake.batch_delete_table_versions(
        BatchDeleteTableVersionsRequest.from_dict(
            {
                "id": ["t"],
                "ranges": [
                    {"start_version": 1, "end_version": 3},
                    {"start_version": 2, "end_version": 4},
                    {"start_version": 4, "end_version": 4},
                    {"start_version": 100, "end_version": 2**62},
                ],
            }
        )
    )

    assert deleted.deleted_count == 3
    assert numbers(lake, "t") == [4, 5, 6]
    with pytest.raises(TableVersionNotFoundError):
        lake.describe_table_version({"id": ["t"], "version": 2})
    assert set((table / "data").iterdir()) == data
    assert row_count(lake, "t") == 18


def test_deleting_all_versions_leaves_a_table_that_is_only_declared(
    lake: DirectoryNamespace,
) -> None:
    make_table(lake, "t", versions=3)

    deleted = lake.batch_delete_table_versions(
        {"id": ["t"], "ranges": [{"start_version": 0, "end_version": -1}]}
    )

    assert deleted["deleted_count"] == 3
    assert numbers(lake, "t") == []
    with pytest.raises(TableVersionNotFoundError):
        lake.describe_table_version({"id": ["t"]})


def test_versions_of_a_branch_are_its_own(lake: DirectoryNamespace) -> None:
    make_table(lake, "t", versions=3)
    main = lance.dataset(namespace_client=lake, table_id=["t"])
    branch = main.create_branch("fix/one", 2)
    lance.write_dataset(ROWS, branch, mode="append")

    assert numbers(lake, "t", branch="fix/one") == [2, 3]
    assert numbers(lake, "t", branch="main") == numbers(lake, "t") == [1, 2, 3]
    described = lake.describe_table_version({"id": ["t"], "version": 3, "branch": "fix/one"})
    assert "/t.lance/tree/fix/one/_versions/" in described["version"]["manifest_path"]
    assert row_count(lake, "t") == 9

    lake.batch_delete_table_versions(
        {
            "id": ["t"],
            "branch": "fix/one",
            "ranges": [{"start_version": 3, "end_version": 4}],
        }
    )
    assert numbers(lake, "t", branch="fix/one") == [2]
    assert numbers(lake, "t") == [1, 2, 3]


def test_a_version_whose_file_decides_is_noted_where_lance_looks_for_the_newest(
    root: Path,
) -> None:
    lake = DirectoryNamespace(root=str(root))
    table = make_table(lake, "t", versions=2)
    (note,) = (table / "_versions").glob("*.json")
    assert json.loads(note.read_bytes())["version"] == 2

    for version in (3, 4):
        lake.create_table_version(stage(lake, "t").request())
        assert json.loads(note.read_bytes())["version"] == version
        assert lance.dataset(str(table)).version == version
    assert row_count(lake, "t") == 12


def test_the_main_branch_may_be_called_by_its_name(lake: DirectoryNamespace) -> None:
    make_table(lake, "t")

    lake.create_table_version(stage(lake, "t").request(branch="main"))

    assert numbers(lake, "t") == [1, 2]


def test_an_unknown_branch_has_no_versions_to_show(lake: DirectoryNamespace) -> None:
    make_table(lake, "t")

    with pytest.raises(TableBranchNotFoundError):
        lake.list_table_versions({"id": ["t"], "branch": "nope"})
    with pytest.raises(TableBranchNotFoundError):
        lake.describe_table_version({"id": ["t"], "version": 1, "branch": "nope"})
    with pytest.raises(TableBranchNotFoundError):
        lake.batch_delete_table_versions(
            {
                "id": ["t"],
                "branch": "nope",
                "ranges": [{"start_version": 0, "end_version": -1}],
            }
        )


def test_several_operations_on_tables_are_one_batch(lake: DirectoryNamespace) -> None:
    lake.create_namespace(CreateNamespaceRequest(id=["ns"]))
    make_table(lake, "a")
    make_table(lake, "b", versions=3)
    make_table(lake, "ns", "c")

    response = lake.batch_commit_tables(
        BatchCommitTablesRequest.from_dict(
            {
                "operations": [
                    {"create_table_version": stage(lake, "a").request()},
                    {"declare_table": {"id": ["ns", "new"], "properties": {"k": "v"}}},
                    {
                        "delete_table_versions": {
                            "id": ["b"],
                            "ranges": [{"start_version": 1, "end_version": 3}],
                        }
                    },
                    {"deregister_table": {"id": ["ns", "c"]}},
                ]
            }
        )
    )

    created, declared, deleted, deregistered = response.results
    assert created.create_table_version.version.version == 2
    assert declared.declare_table.properties == {"k": "v"}
    assert deleted.delete_table_versions.deleted_count == 2
    assert deregistered.deregister_table.id == ["ns", "c"]
    assert row_count(lake, "a") == 6
    assert numbers(lake, "b") == [3]
    assert directory_of(lake, "ns", "new").is_dir()
    with pytest.raises(TableNotFoundError):
        lake.describe_table({"id": ["ns", "c"]})
