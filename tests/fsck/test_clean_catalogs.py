"""A catalog that nothing happened to has nothing to report, however it is used."""

import contextlib
from datetime import timedelta
from pathlib import Path

import lance
import lance.namespace
import lancedb
import pytest
from lance_namespace import CreateNamespaceRequest, CreateTableRequest, DeclareTableRequest

from lakeroot import DirectoryNamespace
from lakeroot.lake import Lake
from tests.asking import arrow_stream
from tests.fsck.conftest import ROWS, fill, make_old, opened
from tests.s3 import S3

NO_GRACE = timedelta(0)
MODES = {
    "v2": {"dir_listing_enabled": "false"},
    "compat": {},
    "managed": {"table_version_management": "true"},
    "inline": {"inline_optimization_enabled": "true"},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_catalog_in_use_is_clean(tmp_path: Path, mode: str) -> None:
    lake = opened(tmp_path, **MODES[mode])
    fill(lake)
    lake.rename_table("r", "air.renamed")
    lake.create_table("r", ROWS)
    lake.rename_table("r", "r2")
    lake.create_table("gone", ROWS)
    lake.drop_table("gone", now=True)
    lake["air.t"].tag("first", 1)
    lake.namespace.create_table_branch({"id": ["air", "t"], "name": "side"})

    assert lake.check(NO_GRACE) == []
    make_old(tmp_path)
    assert opened(tmp_path, **MODES[mode]).check() == []


def test_a_v1_catalog_in_use_is_clean(tmp_path: Path) -> None:
    lake = opened(tmp_path, manifest_enabled="false")
    lake.create_table("a", ROWS)
    lake.create_table("b", ROWS)
    lake.namespace.deregister_table({"id": ["b"]})
    lake.namespace.declare_table({"id": ["c"]})

    assert lake.check(NO_GRACE) == []
    assert opened(tmp_path).check(NO_GRACE) == []


def test_a_plain_lancedb_directory_is_clean(tmp_path: Path) -> None:
    database = lancedb.connect(str(tmp_path))
    table = database.create_table("plain", ROWS)
    table.add(ROWS)
    table.delete("n = 1")

    assert opened(tmp_path).check(NO_GRACE) == []


def test_an_empty_place_is_clean_and_stays_empty(tmp_path: Path) -> None:
    lake = opened(tmp_path / "nothing")

    assert lake.check(NO_GRACE) == []
    assert lake.gc(NO_GRACE).garbage == ()
    assert not (tmp_path / "nothing").exists()


def test_a_catalog_of_pylances_own_namespace_is_clean(tmp_path: Path) -> None:
    theirs = lance.namespace.DirectoryNamespace(root=str(tmp_path))
    theirs.create_namespace(CreateNamespaceRequest(id=["a"]))
    theirs.create_table(CreateTableRequest(id=["a", "t"]), arrow_stream())
    theirs.create_table(CreateTableRequest(id=["r"]), arrow_stream())
    theirs.declare_table(DeclareTableRequest(id=["a", "d"]))

    assert opened(tmp_path).check(NO_GRACE) == []


def test_a_catalog_after_transactions_is_clean(managed: Path) -> None:
    lake = opened(managed)
    with lake.transaction("two tables") as both:
        both.append(["r"], ROWS)
        both.append(["air", "t"], ROWS)
    with contextlib.suppress(ZeroDivisionError), lake.transaction() as none:
        none.append(["r"], ROWS)
        raise ZeroDivisionError

    assert lake["r"].count() == 20
    assert lake.check(NO_GRACE) == []


def test_a_catalog_after_vacuum_and_optimize_is_clean(root: Path) -> None:
    make_old(root)
    lake = opened(root)
    lake.optimize()
    assert lake.gc(NO_GRACE).size_bytes > 0

    assert lake.check(NO_GRACE) == []
    assert lake["air.t"].count() == 18


def test_a_catalog_in_a_bucket_is_clean_and_its_damage_is_found(s3: S3) -> None:
    namespace = DirectoryNamespace(root=s3.new_root(), **s3.properties)
    lake = Lake(namespace, "bucket")
    lake.create_namespace("air")
    lake.create_table("air.t", ROWS)
    assert lake.check(NO_GRACE) == []

    objects = namespace._store.objects
    (location,) = namespace._store.read()._manifest.index.listings.locations  # type: ignore[union-attr]
    lost = next(info.path for info in objects.list(f"{location}/data"))
    objects.delete([lost])

    assert [(one.code, one.path) for one in lake.check()] == [("table-file-missing", lost)]
