"""A sweep beside writers, readers, the past, and collectors that die."""

import os
import shutil
import threading
import time
from datetime import timedelta
from itertools import count
from pathlib import Path

import lance
import pytest

from lakeroot.model.commits import ManageTableVersions
from lakeroot.storage.garbage import moments
from lakeroot.storage.lance_dir.manifest_facts import require_names
from lakeroot.storage.sweeping import Inside, sweep
from tests.fsck.conftest import ROWS, make_old, newest
from tests.fsck.killing import opened, orphans
from tests.fsck.lost import Place, forget_branch, leave_everything, lose, merge, rows_of
from tests.fsck.test_killed_writers import CATALOGS
from tests.versions.storage import Death, MortalDisk

NOW = timedelta(0)
MANAGED = [name for name in CATALOGS if "managed" in name]


@pytest.fixture(params=CATALOGS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "lake")


def unplace(place: Place) -> Path:
    """Leave the newest version as a writer does that dies right after its commit; say where."""
    store = place.lake.namespace.catalog.store  # type: ignore[attr-defined]
    kept = store.versions(store.read().get(("air", "t")), None)
    final = newest(place.table)
    staged = final.with_name(Path(kept[max(kept)].manifest_path).name)
    assert staged.name.startswith(f"{final.name}-")
    return final.rename(staged)


@pytest.mark.parametrize("catalog", MANAGED)
def test_what_a_version_was_made_of_goes_when_it_is_in_its_place(
    tmp_path: Path, catalog: str
) -> None:
    place = Place(catalog, tmp_path / "lake")
    in_place = newest(place.table)
    staged = unplace(place)
    shutil.copy(staged, in_place)
    make_old(place.root)

    assert place.gc() == {f"_versions/{staged.name}"}
    assert not staged.exists()
    assert place.lake["air.t"].to_arrow().num_rows == 10


@pytest.mark.parametrize("catalog", MANAGED)
def test_a_version_that_is_not_in_place_yet_keeps_its_manifest_and_its_files(
    tmp_path: Path, catalog: str
) -> None:
    place = Place(catalog, tmp_path / "lake")
    state = place.lake.history()[0].version
    staged = unplace(place)
    left = lose(place.table, merge)
    make_old(place.root)

    assert place.gc(timedelta(days=7)) == left

    assert staged.exists()
    assert place.lake.at(state)["air.t"].to_arrow().num_rows == 10
    assert place.lake["air.t"].to_arrow().num_rows == 10


@pytest.mark.parametrize("catalog", MANAGED)
def test_a_table_that_is_deregistered_takes_versions_along_that_were_not_in_place(
    tmp_path: Path, catalog: str
) -> None:
    place = Place(catalog, tmp_path / "lake")
    place.lake["air.t"].append(ROWS)
    unplace(place)

    place.lake.namespace.deregister_table({"id": ["air", "t"]})

    assert lance.dataset(str(place.table)).count_rows() == 20
    register(place)
    assert place.lake["air.t"].to_arrow().num_rows == 20


@pytest.mark.parametrize("catalog", [name for name in MANAGED if "metastore" in name])
def test_versions_are_in_place_before_the_catalog_keeps_them_no_longer(
    tmp_path: Path, catalog: str
) -> None:
    place = Place(catalog, tmp_path / "lake")
    unplace(place)

    place.lake.namespace.catalog.commit(ManageTableVersions(enabled=False))  # type: ignore[attr-defined]

    assert lance.dataset(str(place.table)).count_rows() == 10


@pytest.mark.parametrize("catalog", [name for name in MANAGED if "metastore" in name])
def test_the_past_keeps_its_manifests_when_another_table_is_in_their_place(
    tmp_path: Path, catalog: str
) -> None:
    place = Place(catalog, tmp_path / "lake")
    state = place.lake.history()[0].version
    staged = unplace(place)
    content = staged.read_bytes()
    place.lake.namespace.deregister_table({"id": ["air", "t"]})
    register(place)
    # As it was left by those who did not put versions into their places first.
    newest(place.table).unlink()
    staged.write_bytes(content)
    make_old(place.root)

    assert place.gc(timedelta(days=7)) == set()

    assert place.lake.at(state)["air.t"].to_arrow().num_rows == 10


def register(place: Place) -> None:
    location = place.table.relative_to(place.root).as_posix()
    place.lake.namespace.register_table({"id": ["air", "t"], "location": location})


def test_a_collector_that_dies_leaves_every_version_whole_and_the_rest_to_the_next(
    tmp_path: Path,
) -> None:
    template = Place("directory", tmp_path / "template")
    rows = template.rows()
    leave_everything(template.table)
    side = lance.dataset(str(template.table)).create_branch("gone")
    lance.write_dataset(ROWS, side, mode="append")
    forget_branch(template.table, "gone")
    deaths = 0
    for call in count(1):
        shutil.copytree(template.root, tmp_path / "lake")
        make_old(tmp_path / "lake")
        table = tmp_path / "lake" / template.table.name
        disk = MortalDisk(str(table))
        disk.dies_at, disk.dies_after = call, bool(call % 2)
        try:
            files = {info.path: info for info in disk.list("")}
            inside = Inside(table.name, disk, dict)
            list(sweep(inside, files, moments(NOW), dry_run=False))
        except Death:
            deaths += 1
        lake = opened("DirectoryNamespace", {"root": str(tmp_path / "lake")})
        assert [one for one in lake.check(NOW) if one.severity == "error"] == []
        assert rows_of(table) == rows
        lake.gc(NOW)
        assert orphans(table) == set()
        shutil.rmtree(tmp_path / "lake")
        if disk.calls < call:
            break
    assert deaths > 10


def test_two_writers_and_a_reader_lose_nothing_beside_a_collector(place: Place) -> None:
    lose(place.table, merge)
    make_old(place.root, days=8)
    reader = lance.dataset(str(place.table), version=2)
    failures: list[Exception] = []

    def write() -> None:
        try:
            for _ in range(4):
                place.lake["air.t"].append(ROWS)
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        age_committed(place.table)
        place.gc()
        assert reader.to_table().num_rows == 20
    for writer in writers:
        writer.join()

    assert failures == []
    assert place.lake["air.t"].to_arrow().num_rows == 90
    make_old(place.root)
    place.gc()
    assert orphans(place.table) == set()
    assert place.lake.check(NOW) == []
    assert place.lake["air.t"].to_arrow().num_rows == 90


def age_committed(table: Path) -> None:
    """Let everything look old that versions name by now; what is being written is young."""
    then = time.time() - 1e6
    for path in table.rglob("*.manifest"):
        names = require_names(path.read_bytes(), set())
        for one in (path, *(table / name for name in names)):
            if one.exists():
                os.utime(one, (then, then))
