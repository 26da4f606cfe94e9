"""The whole catalog as it was: every table at the version it had then."""

import pickle
import time
from pathlib import Path

import lance
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DescribeTableRequest,
    DropTableRequest,
    LanceNamespace,
    TableNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)

from lakeroot import DirectoryNamespace
from lakeroot.namespace.past import CHANGES
from tests.versions.conftest import Open
from tests.versions.disk import catalog_version
from tests.versions.staging import (
    ROWS,
    direct_append,
    files_below,
    make_table,
    numbers,
    row_count,
    stage,
)

_TICK = 0.02
"""Longer than the step in which a kernel's clock dates files."""


def append(namespace: DirectoryNamespace, *name: str) -> None:
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=list(name), mode="append")


def test_a_past_catalog_pins_every_table(managed: DirectoryNamespace, root: Path) -> None:
    managed.create_namespace(CreateNamespaceRequest(id=["a"]))
    make_table(managed, "a", "t", versions=2)
    make_table(managed, "u")
    then = catalog_version(root)
    append(managed, "a", "t")
    append(managed, "u")

    past = managed.at(version=then)

    for name, version in ((("a", "t"), 2), (("u",), 1)):
        described = past.describe_table(DescribeTableRequest(id=list(name)))
        assert described.version == version
        assert numbers(past, *name) == list(range(1, version + 1))
        assert row_count(past, *name) == 3 * version
        assert past.count_table_rows({"id": list(name)}).count == 3 * version
        assert past.describe_table_version({"id": list(name)})["version"]["version"] == version
        with pytest.raises(TableVersionNotFoundError):
            past.describe_table_version({"id": list(name), "version": version + 1})
    assert row_count(managed, "a", "t") == 9


def test_two_tables_of_one_batch_are_seen_together_or_not_at_all(
    managed: DirectoryNamespace, root: Path
) -> None:
    make_table(managed, "a")
    make_table(managed, "b")
    for _ in range(3):
        managed.batch_create_table_versions(
            {"entries": [stage(managed, "a").request(), stage(managed, "b").request()]}
        )

    seen = []
    for version in range(1, catalog_version(root) + 1):
        past = managed.at(version=version)
        if set(past.list_tables({"id": []}).tables) == {"a", "b"} and numbers(past, "b"):
            seen.append((row_count(past, "a"), row_count(past, "b")))

    assert seen == [(3, 3), (6, 6), (9, 9), (12, 12)]


def test_a_moment_pins_as_a_version_does(managed: DirectoryNamespace) -> None:
    make_table(managed, "t")
    time.sleep(_TICK)
    then = int(time.time() * 1000)
    time.sleep(_TICK)
    append(managed, "t")

    past = managed.at(timestamp_ms=then)

    assert row_count(past, "t") == 3
    assert past.describe_table(DescribeTableRequest(id=["t"])).version == 1


def test_a_table_that_was_dropped_is_still_named_in_the_past(
    managed: DirectoryNamespace, root: Path
) -> None:
    make_table(managed, "t")
    then = catalog_version(root)
    managed.drop_table(DropTableRequest(id=["t"]))

    assert managed.at(version=then).list_tables({"id": []}).tables == ["t"]
    with pytest.raises(TableNotFoundError):
        managed.describe_table(DescribeTableRequest(id=["t"]))


def test_a_table_created_in_a_transaction_is_pinned_from_its_first_version(
    managed: DirectoryNamespace, root: Path
) -> None:
    with managed.transaction("create") as tx:
        tx.create(["t"], ROWS)
    then = catalog_version(root)
    append(managed, "t")

    assert row_count(managed.at(version=then), "t") == 3


def test_tables_that_were_there_before_management_are_pinned_from_then_on(
    open_lake: Open, root: Path
) -> None:
    plain = open_lake()
    make_table(plain, "t", versions=2)
    plain.enable_version_management()
    then = catalog_version(root)
    append(plain, "t")

    assert row_count(plain.at(version=then), "t") == 6


def test_without_rows_the_age_of_the_files_pins_a_table(open_lake: Open, root: Path) -> None:
    plain = open_lake()
    table = make_table(plain, "t")
    time.sleep(_TICK)
    plain.create_namespace(CreateNamespaceRequest(id=["a"]))
    then = catalog_version(root)
    time.sleep(_TICK)
    direct_append(table)

    past = plain.at(version=then)

    assert row_count(plain, "t") == 6
    assert numbers(past, "t") == [1]
    assert row_count(past, "t") == 3


def test_a_table_that_was_only_declared_has_no_versions_in_the_past(
    managed: DirectoryNamespace, root: Path
) -> None:
    managed.declare_table({"id": ["t"]})
    then = catalog_version(root)
    time.sleep(_TICK)
    lance.write_dataset(ROWS, str(root / "t.lance"))

    assert numbers(managed, "t") == [1]
    assert numbers(managed.at(version=then), "t") == []


def test_the_past_cannot_be_written(managed: DirectoryNamespace, root: Path) -> None:
    table = make_table(managed, "t", versions=2)
    lance.dataset(namespace_client=managed, table_id=["t"]).create_branch("b")
    then = catalog_version(root)
    append(managed, "t")
    past = managed.at(version=then)
    staged = stage(managed, "t")
    before = files_below(table)

    attempts = [
        lambda: past.create_table_version(staged.request()),
        lambda: past.create_table_version(staged.request(branch="b")),
        lambda: past.delete_from_table({"id": ["t"], "predicate": "id = 1"}),
        lambda: past.delete_from_table({"id": ["t"], "predicate": "id = 1", "branch": "b"}),
        lambda: past.create_table_tag({"id": ["t"], "tag": "x", "version": 1}),
        lambda: past.create_table_branch({"id": ["t"], "name": "x"}),
        lambda: past.delete_table_branch({"id": ["t"], "name": "b"}),
        lambda: past.batch_delete_table_versions(
            {"id": ["t"], "ranges": [{"start_version": 0, "end_version": -1}]}
        ),
        lambda: past.batch_delete_table_versions(
            {"id": ["t"], "branch": "b", "ranges": [{"start_version": 0, "end_version": -1}]}
        ),
        lambda: past.drop_table({"id": ["t"]}),
        lambda: past.transaction("x"),
    ]
    for attempt in attempts:
        with pytest.raises(UnsupportedOperationError):
            attempt()

    assert files_below(table) == before
    assert row_count(managed, "t") == 9


def test_the_past_does_not_become_the_present_in_another_process(
    managed: DirectoryNamespace,
) -> None:
    make_table(managed, "t")

    with pytest.raises(TypeError, match="as it was"):
        pickle.dumps(managed.at(version=1).catalog)


def test_versions_deleted_since_are_not_shown_by_the_past(
    managed: DirectoryNamespace, root: Path
) -> None:
    make_table(managed, "t", versions=2)
    then = catalog_version(root)
    append(managed, "t")
    managed.batch_delete_table_versions(
        {"id": ["t"], "ranges": [{"start_version": 1, "end_version": 3}]}
    )

    past = managed.at(version=then)
    assert numbers(past, "t") == []
    with pytest.raises(TableVersionNotFoundError):
        past.describe_table_version({"id": ["t"]})


def test_every_operation_either_reads_or_is_refused_in_the_past() -> None:
    reading = ("analyze_", "count_", "describe_", "explain_", "get_", "list_", "query_")
    every = {name for name in dir(LanceNamespace) if not name.startswith("_")}
    reads = {name for name in every if name.startswith(reading) or name.endswith("_exists")}

    assert every - reads - {"namespace_id"} == set(CHANGES)
