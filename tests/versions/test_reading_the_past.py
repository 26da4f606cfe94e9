"""Through the past of a catalog nobody reads what came later, whatever catalog it is."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DescribeTableRequest,
    InvalidInputError,
    ListTablesRequest,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)

from lakeroot import DirectoryNamespace
from lakeroot.namespace.deltacat import DeltaCatNamespace
from tests.versions.staging import ROWS, numbers

NAME = ["a", "t"]
_TICK = 0.02
"""Longer than the step in which a kernel's clock dates files."""

OPEN: dict[str, Callable[[str], Any]] = {
    "directory, the catalog decides": lambda root: DirectoryNamespace(
        root=root, table_version_management="true"
    ),
    "directory, files decide": lambda root: DirectoryNamespace(root=root),
    "metastore, the catalog decides": lambda root: DeltaCatNamespace(root=root),
    "metastore, files decide": lambda root: DeltaCatNamespace(
        root=root, table_version_management="false"
    ),
}


@pytest.fixture(params=OPEN)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    opened = OPEN[request.param](str(tmp_path / "lake"))
    opened.create_namespace(CreateNamespaceRequest(id=NAME[:1]))
    return opened


def declared_then_written(catalog: Any) -> Any:
    """Declare a table, and write it after a moment; give the catalog as of that moment."""
    catalog.declare_table({"id": NAME})
    then = catalog.history(1)[0].version
    time.sleep(_TICK)
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME, mode="overwrite")
    return catalog.at(version=then)


def test_a_table_that_was_only_declared_cannot_be_opened_in_the_past(catalog: Any) -> None:
    past = declared_then_written(catalog)

    with pytest.raises(ValueError, match="had no versions"):
        lance.dataset(namespace_client=past, table_id=NAME)
    with pytest.raises(ValueError, match="no version 1"):
        lance.dataset(namespace_client=past, table_id=NAME, version=1)
    assert lance.dataset(namespace_client=catalog, table_id=NAME).count_rows() == 3


def test_no_operation_shows_rows_that_came_later(catalog: Any) -> None:
    past = declared_then_written(catalog)

    for read in (
        lambda: past.count_table_rows({"id": NAME}),
        lambda: past.list_table_indices({"id": NAME}),
        lambda: past.describe_table_version({"id": NAME}),
        lambda: past.list_table_versions({"id": NAME, "limit": 1, "descending": True}),
        lambda: past.get_table_stats({"id": NAME}),
    ):
        with pytest.raises((TableVersionNotFoundError, TableNotFoundError)):
            read()
    assert numbers(past, *NAME) == []


def test_the_past_says_that_a_table_was_only_declared(catalog: Any) -> None:
    past = declared_then_written(catalog)

    described = past.describe_table(DescribeTableRequest(id=NAME, check_declared=True))
    assert described.is_only_declared
    assert described.version is None
    detailed = past.describe_table(DescribeTableRequest(id=NAME, load_detailed_metadata=True))
    assert detailed.is_only_declared
    assert detailed.var_schema is None
    shown = past.list_tables(ListTablesRequest(id=NAME[:1], include_declared=False)).tables
    assert shown == []
    assert past.list_tables(ListTablesRequest(id=NAME[:1])).tables == NAME[1:]


def test_a_table_is_read_as_it_was(catalog: Any) -> None:
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME)
    time.sleep(_TICK)
    catalog.create_namespace(CreateNamespaceRequest(id=["b"]))
    then = catalog.history(1)[0]
    time.sleep(_TICK)
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME, mode="append")

    for past in (catalog.at(version=then.version), catalog.at(timestamp_ms=then.timestamp_ms)):
        assert lance.dataset(namespace_client=past, table_id=NAME).count_rows() == 3
        assert past.count_table_rows({"id": NAME}).count == 3
        assert numbers(past, *NAME) == [1]
    assert lance.dataset(namespace_client=catalog, table_id=NAME).count_rows() == 6


def test_a_moment_between_two_commits_has_what_was_written_by_then(catalog: Any) -> None:
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME)
    time.sleep(_TICK)
    then = int(time.time() * 1000)
    time.sleep(_TICK)
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME, mode="append")

    assert catalog.at(timestamp_ms=then).count_table_rows({"id": NAME}).count == 3


def test_a_branch_is_read_as_it_was(catalog: Any) -> None:
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME)
    catalog.create_namespace(CreateNamespaceRequest(id=["b"]))
    before = catalog.history(1)[0].version
    time.sleep(_TICK)
    branch = lance.dataset(namespace_client=catalog, table_id=NAME).create_branch("dev")
    lance.write_dataset(ROWS, branch, mode="append")
    time.sleep(_TICK)
    catalog.create_namespace(CreateNamespaceRequest(id=["c"]))
    then = catalog.history(1)[0].version
    time.sleep(_TICK)
    lance.write_dataset(ROWS, branch, mode="append")

    past = catalog.at(version=then)
    opened = lance.dataset(namespace_client=past, table_id=NAME).checkout_version(("dev", None))
    assert opened.count_rows() == 6
    assert past.get_table_stats({"id": NAME, "branch": "dev"}).num_rows == 6
    assert len(past.list_table_versions({"id": NAME, "branch": "dev"})["versions"]) == 2
    with pytest.raises(TableBranchNotFoundError, match="had no branch"):
        catalog.at(version=before).list_table_versions({"id": NAME, "branch": "dev"})
    with pytest.raises(TableBranchNotFoundError, match="had no branch"):
        catalog.at(version=before).count_table_rows({"id": NAME, "branch": "dev"})
    assert list(past.list_table_branches({"id": NAME}).branches) == ["dev"]
    assert catalog.at(version=before).list_table_branches({"id": NAME}).branches == {}
    now = lance.dataset(namespace_client=catalog, table_id=NAME).checkout_version(("dev", None))
    assert now.count_rows() == 9


def test_the_past_has_no_tags_of_versions_that_came_later(catalog: Any) -> None:
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME)
    catalog.create_namespace(CreateNamespaceRequest(id=["b"]))
    then = catalog.history(1)[0].version
    time.sleep(_TICK)
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=NAME, mode="append")
    branch = lance.dataset(namespace_client=catalog, table_id=NAME).create_branch("dev")
    catalog.create_table_tag({"id": NAME, "tag": "first", "version": 1})
    catalog.create_table_tag({"id": NAME, "tag": "later", "version": 2})
    on_branch = {"tag": "aside", "version": branch.version, "branch": "dev"}
    catalog.create_table_tag({"id": NAME, **on_branch})

    past = catalog.at(version=then)
    assert list(past.list_table_tags({"id": NAME}).tags) == ["first"]
    assert past.get_table_tag_version({"id": NAME, "tag": "first"}).version == 1
    for tag in ("later", "aside", "none"):
        with pytest.raises(TableTagNotFoundError):
            past.get_table_tag_version({"id": NAME, "tag": tag})
    assert sorted(catalog.list_table_tags({"id": NAME}).tags) == ["aside", "first", "later"]


def test_a_moment_that_is_none_is_refused(catalog: Any) -> None:
    for wrong in ("abc", "1", 1.5, [1]):
        with pytest.raises(InvalidInputError, match="whole number"):
            catalog.at(timestamp_ms=wrong)


def test_a_version_that_is_gone_is_not_replaced_by_an_older_one(tmp_path: Path) -> None:
    catalog = DirectoryNamespace(root=str(tmp_path / "lake"), table_version_management="true")
    for mode in ("create", "append"):
        lance.write_dataset(ROWS, namespace_client=catalog, table_id=["t"], mode=mode)
    then = catalog.history(1)[0].version
    lance.write_dataset(ROWS, namespace_client=catalog, table_id=["t"], mode="append")
    catalog.batch_delete_table_versions(
        {"id": ["t"], "ranges": [{"start_version": 2, "end_version": 3}]}
    )

    past = catalog.at(version=then)

    with pytest.raises(ValueError, match="no version 2"):
        lance.dataset(namespace_client=past, table_id=["t"])
    assert lance.dataset(namespace_client=past, table_id=["t"], version=1).count_rows() == 3


def test_the_past_of_any_catalog_cannot_be_written(catalog: Any) -> None:
    past = declared_then_written(catalog)

    with pytest.raises(UnsupportedOperationError):
        past.create_namespace(CreateNamespaceRequest(id=["b"]))
    with pytest.raises(UnsupportedOperationError):
        past.drop_table({"id": NAME})
    with pytest.raises(OSError, match="had no versions"):
        lance.write_dataset(ROWS, namespace_client=past, table_id=NAME, mode="append")
    assert lance.dataset(namespace_client=catalog, table_id=NAME).count_rows() == 3
