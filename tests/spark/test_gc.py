"""Garbage that many processes collect is what one process collects, and nothing else."""

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import lakeroot.spark
from lakeroot.lake import Lake
from lakeroot.metastore.data import TableWriter
from lakeroot.model.errors import InvalidInputError
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.spark import caring
from lakeroot.spark.distribute import distribute
from lakeroot.storage.unneeded import UNNAMED
from tests.cli.running import Run
from tests.fsck import metastores
from tests.fsck.conftest import ROWS, directory, fill, make_old, newest, opened
from tests.fsck.lost import lose, merge
from tests.fsck.test_gc import leave_uncommitted
from tests.fsck.test_old_versions import age_manifests, versions_of
from tests.iceberg.servers import weed
from tests.iceberg.test_gc import Place

METASTORE = "lakeroot.DeltaCatNamespace"
SOON, WEEK = timedelta(0), timedelta(days=7)


@pytest.fixture(params=["false", "true"], ids=["plain", "managed"])
def littered(request, tmp_path):
    """A catalog with garbage of every kind, long ago; tables with a past, one of them tagged."""
    root = tmp_path / "lake"
    lake = opened(root, table_version_management=request.param)
    fill(lake)
    for number in range(4):
        lake.create_table(f"air.t{number}", ROWS)
        lake[f"air.t{number}"].append(ROWS)
        lake[f"air.t{number}"].append(ROWS)
    lake["air.t3"].tag("first", 1)
    lake.create_table("air.gone", ROWS)
    lake.drop_table("air.gone")
    leave_uncommitted(root, "0a1b2c3d_air$x")
    leave_uncommitted(root, "0a1b2c3d_air$y")
    (root / "0a1b2c3d_air$z").mkdir()
    (root / "0a1b2c3d_air$z" / ".lance-reserved").touch()
    place = newest(directory(root, "air$t0"))
    shutil.copy(place, place.with_name(f"18446744073709551600.manifest-{uuid4()}"))
    private = directory(root, "air$t1") / f"_lakeroot-{uuid4().hex}"
    private.mkdir()
    shutil.copy(newest(directory(root, "air$t1")), private)
    (directory(root, "air$t2") / "data" / "x.lance#12300000000").write_bytes(b"half")
    lose(directory(root, "air$t2"), merge)
    for number in range(4):
        age_manifests(directory(root, f"air$t{number}"), days=20)
    make_old(root, days=10)
    return root


def left(root):
    """Give the files of a catalog; those of its own records bear other names each time."""
    paths = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {path for path in paths if not path.startswith(("__manifest/", "txn/"))}


def told(collected):
    return sorted((one.path, one.size_bytes, one.why) for one in collected.garbage)


def test_tasks_collect_what_one_process_collects(spark, littered, tmp_path, many_tasks):
    copy = Path(shutil.copytree(littered, tmp_path / "copy"))

    alone = opened(copy).gc(WEEK, old_versions=True, keep=2)
    spread = lakeroot.spark.gc(
        spark, root=str(littered), older_than=WEEK, old_versions=True, keep=2
    )

    assert told(spread) == told(alone)
    assert len(spread.garbage) >= 10
    assert left(littered) == left(copy)
    assert len(many_tasks) == 4
    assert versions_of(directory(littered, "air$t0")) == {2, 3}
    assert versions_of(directory(littered, "air$t3")) == {1, 2, 3}
    assert opened(littered)["air.t0"].count() == 30
    again = lakeroot.spark.gc(spark, root=str(littered), old_versions=True, keep=2)
    assert again.garbage == ()
    assert opened(littered).check(SOON) == []


def test_a_dry_run_says_the_same_and_changes_nothing(spark, littered, many_tasks):
    before = {path: path.read_bytes() for path in littered.rglob("*") if path.is_file()}

    planned = lakeroot.spark.gc(spark, root=str(littered), dry_run=True, old_versions=True)

    assert {path: path.read_bytes() for path in littered.rglob("*") if path.is_file()} == before
    assert planned.dry_run
    assert planned.size_bytes > 0
    done = lakeroot.spark.gc(spark, root=str(littered), old_versions=True)
    assert told(done) == told(planned)


def test_the_command_says_and_does_the_same_with_spark(spark, littered, tmp_path, capsys):
    copy = Path(shutil.copytree(littered, tmp_path / "copy"))
    options = ("-o", "json", "gc", "--old-versions", "--yes")

    alone = Run(copy, capsys)(*options)
    spread = Run(littered, capsys)(*options, "--spark")

    assert spread[:2] == alone[:2]
    assert alone[0] == 0
    assert left(littered) == left(copy)
    assert Run(littered, capsys)("gc", "--spark")[1] == "There is no garbage.\n"


def test_what_a_task_that_dies_has_left_is_collected(spark, littered, tmp_path, monkeypatch):
    """The task dies after its first deletions, and another does it again."""
    dead = tmp_path / "dead"

    def dying(work):
        def once(items):
            if not dead.exists():
                work(items[: len(items) // 2 + 1])
                dead.touch()
                os._exit(1)
            return work(items)

        return once

    def killed(spark, items, work, *, what):
        return distribute(spark, items, dying(work), what=what)

    monkeypatch.setattr(caring, "_FEWEST", 8)
    monkeypatch.setattr(caring, "distribute", killed)
    lakeroot.spark.gc(spark, root=str(littered), old_versions=True)

    assert dead.exists()
    assert not (littered / "0a1b2c3d_air$x").exists()
    assert opened(littered).gc(old_versions=True).garbage == ()
    assert opened(littered)["air.t0"].count() == 30
    assert opened(littered).check(SOON) == []


def test_what_becomes_somebodys_before_a_task_comes_to_it_stays(spark, littered, monkeypatch):
    lake = opened(littered)
    gone = next(iter(littered.glob("????????_air$gone")))

    def meanwhile(spark, items, work, *, what):
        lake.namespace.register_table({"id": ["air", "back"], "location": gone.name})
        make_old(gone, days=30)  # so that nothing but its row protects it
        monkeypatch.setattr(caring, "distribute", distribute)
        return distribute(spark, items, work, what=what)

    monkeypatch.setattr(caring, "_FEWEST", 8)
    monkeypatch.setattr(caring, "distribute", meanwhile)
    done = lakeroot.spark.gc(spark, root=str(littered))

    assert gone.name not in {one.path for one in done.garbage}
    assert opened(littered)["air.back"].count() == 10


@pytest.mark.parametrize("layout", metastores.LAYOUTS)
def test_tasks_collect_what_one_process_collects_in_a_metastore(
    spark, tmp_path, layout, many_tasks
):
    root = tmp_path / "lake"
    metastores.build(root, layout)
    store = metastores.metastore_at(root)
    for _ in range(3):
        with store.transaction() as txn:
            TableWriter(txn, "native", "n").replace(metastores.NATIVE)
    metastores.leave_file(root)
    metastores.leave_transaction(root)
    where = metastores.location_of(root, "r")
    kept = shutil.copytree(where, tmp_path / "kept")
    metastores.opened(root).drop_table("r")
    shutil.move(kept, where)  # What a writer leaves that dies before it has deleted the data.
    table = metastores.location_of(root, "t")
    lost = lose(table, merge)
    metastores.leave_unfinished_file(root)
    age_manifests(table, days=20)
    make_old(root, days=10)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    properties = {"root": str(root)}

    planned = lakeroot.spark.gc(
        spark,
        impl=METASTORE,
        properties=properties,
        older_than=SOON,
        old_versions=True,
        dry_run=True,
    )
    assert left(root) == left(copy)
    alone = Lake(DeltaCatNamespace(root=str(copy)), "").gc(SOON, old_versions=True)
    done = lakeroot.spark.gc(
        spark, impl=METASTORE, properties=properties, older_than=SOON, old_versions=True
    )

    assert {path for path, *_ in told(planned)} <= {path for path, *_ in told(done)}
    assert without_clocks(told(done)) == without_clocks(told(alone))
    assert any(one.path == where.relative_to(root).as_posix() for one in done.garbage)
    location = table.relative_to(root).as_posix()
    assert {f"{location}/{path}" for path in lost} <= {one.path for one in done.garbage}
    assert len(left(root)) == len(left(copy)) < len(list(copy.rglob("*")))
    assert len(many_tasks) >= 8
    assert metastores.opened(root)["air.t"].count() == 18
    assert metastores.opened(root).check(SOON) == []


def without_clocks(garbage):
    """Leave out what bears the moment at which it was written."""
    return [one for one in garbage if not one[0].startswith("txn/")]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    with weed(tmp_path_factory.mktemp("weed")) as running:
        yield running


@pytest.mark.parametrize("managed_by", ["storage", "impl"])
def test_tasks_do_the_same_as_one_process_in_an_iceberg_catalog(
    spark, catalog, tmp_path, managed_by, many_tasks
):
    place = Place(catalog, tmp_path / "tables", managed_by)
    place.grow(3)
    for name in ("u", "v", "w"):
        place.lake.create_table(place.name, name)
    place.orphan(versions=True)
    place.orphan(versions=False)
    private = place.table / f"_lakeroot-{uuid4().hex}"
    private.mkdir()
    shutil.copy(newest(place.table), private)
    place.hand.create_table(f"{place.name}.lost", ROWS)
    (victim,) = (place.root / place.name).glob("lost-*.lance")
    lose(victim, merge)
    (wounded,) = (place.root / place.name).glob("u-*.lance")
    next((wounded / "data").iterdir()).unlink()
    age_manifests(place.table, days=20)
    make_old(place.root)
    where: dict[str, Any] = {
        "impl": "lakeroot.IcebergNamespace",
        "properties": place.properties,
    }

    findings = lakeroot.spark.fsck(spark, **where)
    assert findings == place.client.check()
    assert {one.code for one in findings} >= {"table-file-missing", "directory-orphan"}
    planned = place.client.gc(old_versions=True, dry_run=True)
    done = lakeroot.spark.gc(spark, **where, old_versions=True)

    assert told(done) == told(planned)
    assert {one.why for one in done.garbage} >= {
        "a transaction was cut off",
        UNNAMED,
        "no table is there, and it has no version",
        f"3 old versions of {place.name}.t",
    }
    assert versions_of(place.table) == {4} == place.shown()
    assert place.count() == 12
    assert many_tasks


def test_a_window_that_cannot_be_is_refused_before_any_task(spark, littered, many_tasks):
    with pytest.raises(InvalidInputError, match="negative"):
        lakeroot.spark.gc(spark, root=str(littered), older_than=timedelta(days=-1))
    with pytest.raises(InvalidInputError, match="version"):
        lakeroot.spark.gc(spark, root=str(littered), old_versions=True, keep=0, dry_run=True)
