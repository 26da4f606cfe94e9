"""A check by many processes finds what one process finds."""

import shutil
from datetime import timedelta

import pytest

import lakeroot.spark
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.spark import caring
from lakeroot.spark.distribute import distribute
from tests.cli.running import Run
from tests.fsck.conftest import ROWS, directory, fill, opened
from tests.fsck.metastores import (
    LAYOUTS,
    build,
    damage_revision,
    leave_file,
    lose_data_file,
    lose_data_of_table,
    lose_name_file,
    lose_newest_version,
    orphan_directory,
)
from tests.fsck.metastores import opened as metastore

NO_GRACE = timedelta(0)
DAMAGE = (
    damage_revision,
    leave_file,
    lose_data_file,
    lose_data_of_table,
    lose_name_file,
    lose_newest_version,
    orphan_directory,
)


def in_order(findings):
    """Sort findings fully: those alike may come in any order."""
    return sorted(findings, key=repr)


@pytest.fixture(params=["false", "true"], ids=["plain", "managed"])
def damaged(request, tmp_path):
    """A catalog in which tables are damaged in several ways, and directories have no owner."""
    root = tmp_path / "lake"
    lake = opened(root, table_version_management=request.param)
    fill(lake)
    for number in range(6):
        lake.create_table(f"air.t{number}", ROWS)
    next((directory(root, "air$t0") / "data").iterdir()).unlink()
    newest = min((directory(root, "air$t1") / "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[:-20])
    shutil.rmtree(directory(root, "air$t2"))
    for manifest in (directory(root, "air$t3") / "_versions").iterdir():
        manifest.unlink()
    shutil.copytree(directory(root, "air$t4"), root / "00000000_air$nobody")
    return root


def test_tasks_find_what_one_process_finds(spark, damaged, many_tasks):
    alone = opened(damaged).check(NO_GRACE)
    assert {one.code for one in alone} >= {
        "table-file-missing",
        "table-missing",
        "directory-orphan",
    }
    assert lakeroot.spark.fsck(spark, root=str(damaged), grace=NO_GRACE) == list(alone)
    assert len(many_tasks) > 1
    assert sum(len(group) for group in many_tasks) == 10


def test_a_catalog_in_order_has_no_findings(spark, tmp_path, many_tasks):
    fill(opened(tmp_path / "lake"))
    assert lakeroot.spark.fsck(spark, root=str(tmp_path / "lake")) == []
    assert many_tasks


def test_the_command_says_the_same_with_spark(spark, damaged, capsys):
    run = Run(damaged, capsys)
    alone = run("-o", "json", "fsck", "--grace", "0s")
    spread = run("-o", "json", "fsck", "--grace", "0s", "--spark")
    assert spread[:2] == alone[:2]
    assert alone[0] == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tasks_find_what_one_process_finds_in_a_metastore(spark, tmp_path, layout, many_tasks):
    build(tmp_path / "lake", layout)
    for damage in DAMAGE:
        damage(tmp_path / "lake")
    alone = metastore(tmp_path / "lake").check(NO_GRACE)
    properties = {"root": str(tmp_path / "lake")}

    spread = lakeroot.spark.fsck(
        spark, impl="lakeroot.DeltaCatNamespace", properties=properties, grace=NO_GRACE
    )

    assert {one.code for one in alone} >= {
        "data-file-missing",
        "directory-orphan",
        "file-orphan",
        "name-file-missing",
        "revision-damaged",
        "table-file-missing",
        "version-missing",
    }
    assert in_order(spread) == in_order(alone)
    assert len(many_tasks) >= 8


def test_a_table_that_is_dropped_meanwhile_is_not_missed(spark, tmp_path, monkeypatch):
    lake = opened(tmp_path / "lake")
    fill(lake)

    def late(spark, items, work, *, what):
        lake.drop_table("air.t", now=True)
        return distribute(spark, items, work, what=what)

    monkeypatch.setattr(caring, "distribute", late)
    assert lakeroot.spark.fsck(spark, root=str(tmp_path / "lake"), grace=NO_GRACE) == []


def test_a_catalog_of_another_program_is_refused(spark, tmp_path):
    properties = {"root": str(tmp_path)}
    with pytest.raises(UnsupportedOperationError, match="DirectoryNamespace"):
        lakeroot.spark.fsck(spark, impl="dir", properties=properties)
