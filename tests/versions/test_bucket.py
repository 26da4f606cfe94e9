"""The same promises in a bucket, where the tables of a batch are worked on side by side."""

from typing import Any

import lance
import pytest
from benchmarks.manifests import renumbered

from lakeroot import DirectoryNamespace
from lakeroot.namespace.border import TableVersionAlreadyExistsError
from lakeroot.objects import open_root, parse_root
from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name
from tests.s3 import S3
from tests.versions.staging import ROWS, numbers, row_count

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("manages", ["false", "true"])
def test_versions_work_in_a_bucket(s3: S3, manages: str) -> None:
    root = s3.new_root()
    namespace = DirectoryNamespace(root=root, table_version_management=manages, **s3.properties)
    for mode in ("create", "append", "overwrite"):
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"], mode=mode)

    assert numbers(namespace, "t") == [1, 2, 3]
    assert row_count(namespace, "t") == 3
    assert row_count(namespace, "t", version=2) == 6
    lance.dataset(namespace_client=namespace, table_id=["t"]).create_branch("b")
    assert numbers(namespace, "t", branch="b") == [3]


def test_a_transaction_and_a_batch_work_in_a_bucket(s3: S3) -> None:
    root = s3.new_root()
    namespace = DirectoryNamespace(root=root, table_version_management="true", **s3.properties)
    with namespace.transaction("first") as tx:
        for name in NAMES:
            tx.create([name], ROWS)
    then = namespace.history(1)[0].version
    with namespace.transaction("second") as tx:
        for name in NAMES:
            tx.append([name], ROWS)

    assert [row_count(namespace, name) for name in NAMES] == [6, 6, 6]
    past = namespace.at(version=then)
    assert [row_count(past, name) for name in NAMES] == [3, 3, 3]

    objects = open_root(parse_root(root, s3.options))
    entries: list[dict[str, Any]] = []
    for name in NAMES:
        described = namespace.describe_table_version({"id": [name]})["version"]
        directory = described["manifest_path"].rpartition("/")[0].partition("/")[2]
        content = objects.get(f"{directory}/{manifest_name(2)}")
        assert content is not None
        staged = f"{directory}/{staging_name(3, NamingScheme.V2, 'next')}"
        objects.put(staged, renumbered(content, 3))
        prefix = described["manifest_path"].partition("/")[0]
        entries.append({"id": [name], "version": 3, "manifest_path": f"{prefix}/{staged}"})
    created = namespace.batch_create_table_versions({"entries": entries})
    assert [version["version"] for version in created["versions"]] == [3, 3, 3]
    assert [numbers(namespace, name) for name in NAMES] == [[1, 2, 3]] * 3

    other = entries[0]["manifest_path"].partition("/")[2]
    objects.put(other, renumbered(objects.get(f"{directory}/{manifest_name(1)}") or b"", 3))
    with pytest.raises(TableVersionAlreadyExistsError):
        namespace.create_table_version(entries[0])


def test_versions_put_directly_behind_a_gap_are_found_in_a_bucket(s3: S3) -> None:
    root = s3.new_root()
    namespace = DirectoryNamespace(root=root, table_version_management="true", **s3.properties)
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"])
    direct = lance.dataset(f"{root}/t.lance", storage_options=s3.options)
    for _ in range(2):
        direct = lance.write_dataset(ROWS, direct, mode="append", storage_options=s3.options)
    objects = open_root(parse_root(root, s3.options))
    objects.delete([f"t.lance/_versions/{manifest_name(2)}"])

    assert numbers(namespace, "t") == [1, 3]
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"], mode="append")
    assert numbers(namespace, "t") == [1, 3, 4]
    assert row_count(namespace, "t") == 12
