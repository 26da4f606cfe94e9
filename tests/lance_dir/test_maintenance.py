"""Folding, indexing and vacuuming the manifest, and what others see afterwards."""

import os
import time
from datetime import timedelta
from pathlib import Path

import lance
import lance.namespace
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    InvalidInputError,
    ListNamespacesRequest,
    NamespaceExistsRequest,
    UnsupportedOperationError,
)

from lakeroot import DirectoryNamespace
from lakeroot.model.commits import DropNamespace
from lakeroot.model.errors import LakerootError
from lakeroot.storage.lance_dir import index_section
from lakeroot.storage.lance_dir.maintenance import INDEXES, missing_indexes
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.whole_table import WholeTable
from tests.s3 import S3

NOTHING = timedelta(0)


def opened(root: Path, **properties: str) -> DirectoryNamespace:
    return DirectoryNamespace(root=str(root), **properties)


def create(catalog, *names: str) -> None:
    for name in names:
        catalog.create_namespace(CreateNamespaceRequest(id=[name]))


def table_of(catalog: DirectoryNamespace) -> ManifestTable:
    assert catalog._store.manifest is not None
    return catalog._store.manifest


def names_in(catalog) -> list[str]:
    return sorted(catalog.list_namespaces(ListNamespacesRequest(id=[])).namespaces)


def manifest(root: Path) -> lance.LanceDataset:
    return lance.dataset(str(root / "__manifest"))


def index_names(root: Path) -> set[str]:
    return {index.name for index in manifest(root).describe_indices()}


def files(root: Path, directory: str = "data") -> set[str]:
    place = root / "__manifest" / directory
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def make_old(root: Path) -> None:
    """Let every file look as if it was written ten days ago."""
    then = time.time() - timedelta(days=10).total_seconds()
    for path in (root / "__manifest").rglob("*"):
        os.utime(path, (then, then))


def plan_of(root: Path, condition: str) -> str:
    return str(manifest(root).scanner(filter=condition).explain_plan())


# Optimize


def test_optimize_leaves_one_file_and_the_three_indexes_of_the_specification(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, *"abcde")
    catalog.declare_table(DeclareTableRequest(id=["a", "t"]))
    catalog.deregister_table(DeregisterTableRequest(id=["a", "t"]))

    optimized = catalog.optimize()

    table = manifest(tmp_path)
    assert optimized.data_files == len(table.get_fragments()) == 1
    assert set(optimized.indexes) == index_names(tmp_path) == set(INDEXES)
    kinds = {index.name: index.index_type for index in table.describe_indices()}
    assert kinds["object_id_btree"] == "BTree"
    assert kinds["object_type_bitmap"] == "Bitmap"
    assert kinds["base_objects_label_list"] == "LabelList"
    assert names_in(opened(tmp_path)) == list("abcde")


def test_history_says_which_versions_only_index(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a", "b")
    catalog.optimize()
    create(catalog, "c")

    newest, *indexed, optimized, _, _ = catalog.history()

    assert (newest.message, newest.created) == ("", (("c",),))
    assert {entry.message for entry in indexed} == {"Index the manifest"}
    assert optimized.message == "Optimize the catalog"


def test_optimize_twice_commits_nothing_the_second_time(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a", "b")
    assert catalog.optimize() == catalog.optimize()


def test_an_empty_catalog_can_be_optimized(tmp_path: Path):
    assert opened(tmp_path).optimize().indexes == ()
    assert list(tmp_path.iterdir()) == []


def test_the_reference_reads_and_writes_an_optimized_catalog(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a", "b", "c")
    catalog.optimize()
    reference = lance.namespace.DirectoryNamespace(root=str(tmp_path))
    reference.namespace_exists(NamespaceExistsRequest(id=["b"]))
    create(reference, "d")
    create(catalog, "e")
    assert names_in(catalog) == names_in(reference) == list("abcde")
    assert manifest(tmp_path).count_rows() == 5


def test_lance_answers_by_the_indexes_also_after_later_commits(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a", "b", "c")
    catalog.optimize()
    create(catalog, "later")
    for name in ("a", "later"):
        assert "object_id_btree" in plan_of(tmp_path, f"object_id = '{name}'")
        assert manifest(tmp_path).count_rows(f"object_id = '{name}'") == 1
    assert "object_type_bitmap" in plan_of(tmp_path, "object_type = 'namespace'")
    assert manifest(tmp_path).count_rows("object_type = 'namespace'") == 4


def test_the_indexes_outlive_the_folding_of_small_files_beside_them(tmp_path: Path):
    catalog = opened(tmp_path)
    catalog.create_namespaces([[f"n{number:03d}"] for number in range(200)])
    catalog.optimize()
    for number in range(30):
        create(catalog, f"later{number:02d}")
    assert index_names(tmp_path) == set(INDEXES)
    for name in ("n007", "later00", "later29"):
        assert manifest(tmp_path).count_rows(f"object_id = '{name}'") == 1


def test_rows_removed_later_are_not_found_by_the_indexes(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a")
    catalog.declare_tables([["a", f"t{number}"] for number in range(20)])
    catalog.optimize()
    catalog.deregister_table(DeregisterTableRequest(id=["a", "t3"]))
    assert index_names(tmp_path) == set(INDEXES)
    assert manifest(tmp_path).count_rows("object_id = 'a$t3'") == 0
    assert manifest(tmp_path).count_rows("object_type = 'table'") == 19


def test_indexes_go_when_the_file_they_cover_is_rewritten(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a", "b")
    catalog.optimize()
    for number in range(20):
        create(catalog, f"later{number}")
    head = table_of(catalog).head
    covered = index_section.covered(head.index_section) if head.index_section else frozenset()
    assert covered is not None
    assert covered <= {fragment.id for fragment in head.fragments}
    assert manifest(tmp_path).count_rows("object_id = 'a'") == 1


def test_inline_optimization_indexes_after_every_commit(tmp_path: Path):
    catalog = opened(tmp_path, inline_optimization_enabled="true")
    for name in "abc":
        create(catalog, name)
        head = table_of(catalog).head
        assert len(head.fragments) == 1
        assert missing_indexes(head) == []
    assert names_in(lance.namespace.DirectoryNamespace(root=str(tmp_path))) == list("abc")


def test_compacting_a_large_catalog_indexes_it(tmp_path: Path):
    catalog = opened(tmp_path)
    many = [[f"n{number:05d}"] for number in range(6000)]
    catalog.create_namespaces(many[:5000])
    assert index_names(tmp_path) == set()
    for start in range(5000, 6000, 100):
        catalog.create_namespaces(many[start : start + 100])
    # More than half of the large file goes, so it is written anew.
    gone = [name for (name,) in many[:3000]]
    catalog.catalog.commit(*(DropNamespace((name,)) for name in gone))
    assert index_names(tmp_path) == set(INDEXES)
    assert manifest(tmp_path).count_rows() == 3000


class OvertakenTable(WholeTable):
    """Another writer commits each time between the reading and the committing of an index."""

    def _build_index(self, column: str, kind: str, name: str) -> None:
        dataset = lance.dataset(self._uri)
        writer = opened(Path(self._uri).parent)
        create(writer, f"overtaking{dataset.version}")
        dataset.create_scalar_index(column, kind, name=name, replace=True)


def test_index_building_that_loses_a_race_changes_nothing(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a", "b")
    table = table_of(catalog)
    alone, table.whole_table = (
        table.whole_table,
        OvertakenTable(str(tmp_path / "__manifest"), {}),
    )
    assert catalog.optimize().indexes == ()
    assert index_names(tmp_path) == set()
    table.whole_table = alone
    assert set(catalog.optimize().indexes) == set(INDEXES)
    assert {"a", "b"} < set(names_in(catalog))


# Vacuum


def test_vacuum_deletes_what_only_the_past_needs_and_no_version_file(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, *(f"n{number}" for number in range(40)))
    before, versions = files(tmp_path), files(tmp_path, "_versions")

    vacuumed = catalog.vacuum(NOTHING)

    assert vacuumed.files
    assert files(tmp_path) == before - {path.rpartition("/")[2] for path in vacuumed.files}
    assert versions <= files(tmp_path, "_versions")
    assert len(names_in(opened(tmp_path))) == len(names_in(catalog)) == 40
    manifest(tmp_path).validate()


def test_a_catalog_in_a_bucket_is_optimized_and_vacuumed_too(s3: S3):
    root = s3.new_root()
    catalog = DirectoryNamespace(root=root, **s3.properties)
    create(catalog, *(f"n{number:02}" for number in range(12)))

    optimized = catalog.optimize()
    vacuumed = catalog.vacuum(NOTHING)

    assert set(optimized.indexes) == set(INDEXES)
    assert vacuumed.files
    again = DirectoryNamespace(root=root, **s3.properties)
    assert names_in(again) == names_in(catalog) == [f"n{number:02}" for number in range(12)]
    found = lance.dataset(f"{root}/__manifest", storage_options=s3.options)
    assert found.count_rows("object_id = 'n07'") == 1
    assert {index.name for index in found.describe_indices()} == set(INDEXES)
    create(again, "later")
    assert "later" in names_in(catalog)


def test_vacuum_keeps_everything_within_the_window(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, *(f"n{number}" for number in range(20)))
    before = files(tmp_path)
    assert catalog.vacuum().files == ()
    assert files(tmp_path) == before
    assert len(catalog.history()) == 20


def test_the_past_reaches_exactly_as_far_back_as_the_window(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, *(f"old{number}" for number in range(12)))
    time.sleep(0.05)
    kept_since = time.time()
    time.sleep(0.05)
    create(catalog, *(f"new{number}" for number in range(12)))

    vacuumed = catalog.vacuum(timedelta(seconds=time.time() - kept_since))

    assert vacuumed.oldest_version == 12
    assert len(names_in(catalog.at(timestamp_ms=int(kept_since * 1000)))) == 12
    for version in range(12, 25):
        assert len(names_in(catalog.at(version))) == version
    for version in range(1, 12):
        with pytest.raises(InvalidInputError, match="no longer kept"):
            catalog.at(version)
    told = [entry for entry in catalog.history() if entry.created]
    assert [entry.version for entry in told] == list(range(24, 12, -1))


def test_a_dry_run_says_what_would_go_and_deletes_nothing(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, *(f"n{number}" for number in range(20)))
    before = files(tmp_path, ".")
    time.sleep(0.1)  # Commits that are quicker than the clock are dated a little ahead of it.
    planned = catalog.vacuum(NOTHING, dry_run=True)
    assert files(tmp_path, ".") == before
    assert planned.files == catalog.vacuum(NOTHING).files
    assert planned.size_bytes > 0


def test_what_a_crashed_writer_left_goes_when_it_is_old_and_not_before(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a")
    left = [
        tmp_path / "__manifest/data/left.lance",
        tmp_path / "__manifest/data/begun.lance#4711000000001",
        tmp_path / "__manifest/_versions/18446744073709551000.manifest#4711000000002",
    ]
    for path in left:
        path.write_bytes(b"half")
    catalog.vacuum(NOTHING)
    assert all(path.exists() for path in left)
    make_old(tmp_path)
    catalog.vacuum()
    assert not any(path.exists() for path in left)
    assert names_in(opened(tmp_path)) == ["a"]


def test_vacuum_takes_superseded_indexes_and_leaves_the_newest(tmp_path: Path):
    catalog = opened(tmp_path, inline_optimization_enabled="true")
    create(catalog, "a", "b", "c")
    catalog.vacuum(NOTHING)
    assert len({path.split("/")[0] for path in files(tmp_path, "_indices")}) == len(INDEXES)
    assert manifest(tmp_path).count_rows("object_id = 'b'") == 1
    assert "object_id_btree" in plan_of(tmp_path, "object_id = 'b'")


def test_a_tagged_version_is_kept(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, *"abcdefghijkl")
    manifest(tmp_path).tags.create("trained-on-this", 5)
    catalog.vacuum(NOTHING)
    assert lance.dataset(str(tmp_path / "__manifest"), version=5).count_rows() == 5


def test_clients_that_are_open_go_on_after_a_vacuum(tmp_path: Path):
    catalog, other = opened(tmp_path), opened(tmp_path)
    reference = lance.namespace.DirectoryNamespace(root=str(tmp_path))
    create(catalog, *"abcdefghijkl")
    assert names_in(other) == names_in(reference)
    create(catalog, *"mnopqrstuvwxyz")
    catalog.optimize()
    catalog.vacuum(NOTHING)
    create(other, "1")
    create(reference, "2")
    create(catalog, "3")
    assert names_in(catalog) == names_in(other) == names_in(reference)
    assert len(names_in(catalog)) == 29


def test_a_negative_window_is_refused(tmp_path: Path):
    catalog = opened(tmp_path)
    create(catalog, "a")
    with pytest.raises(InvalidInputError):
        catalog.vacuum(timedelta(days=-1))


def test_there_is_nothing_to_maintain_in_v1_or_in_the_past(tmp_path: Path):
    with pytest.raises(UnsupportedOperationError):
        opened(tmp_path, manifest_enabled="false").vacuum()
    catalog = opened(tmp_path)
    create(catalog, "a")
    past = catalog._store.at(1)
    for maintain in (past.optimize, past.vacuum):
        with pytest.raises(LakerootError, match="past"):
            maintain()
