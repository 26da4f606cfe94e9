"""A commit that gives way to a version put there directly leaves nothing of itself."""

from pathlib import Path
from typing import Any

import lance
import pytest
from lance_namespace import ConcurrentModificationError

from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name
from tests.versions.disk import version_rows
from tests.versions.staging import ROWS, directory_of, make_table, numbers, row_count, stage
from tests.versions.storage import opened_on


@pytest.fixture
def namespace(root: Path) -> Any:
    """A catalog in which somebody puts the next version of `b` there just before we do."""
    namespace: Any
    namespace, disk = opened_on(str(root))
    make_table(namespace, "a", versions=3)
    make_table(namespace, "b")
    place = directory_of(namespace, "b")

    def put_theirs_first(path: str) -> None:
        if path.startswith("b.lance/_versions/"):
            disk.before_put = None
            lance.write_dataset(lance.dataset(str(place)).to_table(), place, mode="append")

    disk.before_put = put_theirs_first
    return namespace


def test_a_batch_has_deleted_nothing(namespace: Any, root: Path) -> None:
    deletion = {"id": ["a"], "ranges": [{"start_version": 1, "end_version": 3}]}
    created = stage(namespace, "b").request()
    with pytest.raises(ConcurrentModificationError):
        namespace.batch_commit_tables(
            {"operations": [{"delete_table_versions": deletion}, {"create_table_version": created}]}
        )

    assert numbers(namespace, "a") == [1, 2, 3]
    assert set(version_rows(root)) == {"a$1", "a$2", "a$3", "b$1", "b$2"}
    assert row_count(namespace, "b") == 6


def test_a_batch_has_declared_nothing(namespace: Any, root: Path) -> None:
    first = (directory_of(namespace, "b") / "_versions" / manifest_name(1)).read_bytes()
    staged = root / "apart/n.lance/_versions" / staging_name(1, NamingScheme.V2, "first")
    staged.parent.mkdir(parents=True)
    staged.write_bytes(first)
    begun = {"id": ["n"], "version": 1, "manifest_path": str(staged).lstrip("/")}
    with pytest.raises(ConcurrentModificationError):
        namespace.batch_commit_tables(
            {
                "operations": [
                    {"declare_table": {"id": ["n"], "location": "apart/n.lance"}},
                    {"create_table_version": begun},
                    {"create_table_version": stage(namespace, "b").request()},
                ]
            }
        )

    assert namespace.list_tables({"id": []}).tables == ["a", "b"]
    assert set(version_rows(root)) == {"a$1", "a$2", "a$3", "b$1", "b$2"}


@pytest.mark.parametrize("anew", [False, True], ids=["deregistered", "and declared anew"])
def test_a_batch_has_deregistered_nothing(namespace: Any, root: Path, anew: bool) -> None:
    place = namespace.describe_table({"id": ["a"]}).location
    operations = [
        {"deregister_table": {"id": ["a"]}},
        *([{"declare_table": {"id": ["a"], "location": "apart/a.lance"}}] if anew else []),
        {"create_table_version": stage(namespace, "b").request()},
    ]
    with pytest.raises(ConcurrentModificationError):
        namespace.batch_commit_tables({"operations": operations})

    assert namespace.describe_table({"id": ["a"]}).location == place
    assert numbers(namespace, "a") == [1, 2, 3]
    assert set(version_rows(root)) == {"a$1", "a$2", "a$3", "b$1", "b$2"}
    assert row_count(namespace, "a") == 9


def test_a_transaction_has_changed_no_names_and_no_properties(namespace: Any, root: Path) -> None:
    namespace.declare_table({"id": ["t"], "properties": {"owner": "ml"}})

    def change() -> None:
        with namespace.transaction() as tx:
            assert tx.dataset("b").count_rows() == 3
            tx.create("t", ROWS, properties={"owner": "bi"})
            tx.create("n", ROWS)
            tx.append("b", ROWS)

    with pytest.raises(ConcurrentModificationError, match="Nothing was changed"):
        change()

    assert namespace.describe_table({"id": ["t"]}).properties == {"owner": "ml"}
    assert namespace.list_tables({"id": []}).tables == ["a", "b", "t"]
    assert set(version_rows(root)) == {"a$1", "a$2", "a$3", "b$1", "b$2"}
    assert row_count(namespace, "b") == 6
