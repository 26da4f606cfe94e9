"""Collecting the garbage of a metastore takes what was dropped, and nobody's data."""

import shutil
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lakeroot.lake import Lake
from lakeroot.metastore.vacuum import DAY_MS
from lakeroot.model.commits import DeleteTableVersions
from lakeroot.model.spreading import here
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.objects import LocalObjects, ObjectInfo, parse_root
from lakeroot.storage.deltacat import DeltaCatStore
from lakeroot.storage.deltacat.cleaning import Deleting
from lakeroot.storage.deltacat.collecting import collect
from tests.cli.running import Run
from tests.fsck.conftest import ROWS, make_old
from tests.fsck.lost import lose, merge
from tests.fsck.metastores import (
    LAYOUTS,
    forget_claim,
    location_of,
    opened,
    point_version_elsewhere,
)

WEEK = timedelta(days=7)


@pytest.fixture(params=LAYOUTS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    lake = Lake(DeltaCatNamespace(root=str(root), layout=request.param), str(root))
    lake.create_namespace("air")
    lake.create_table("air.t", ROWS)
    return root


def collected(root: Path) -> dict[str, int]:
    make_old(root)
    return {one.path: one.size_bytes for one in opened(root).gc(WEEK).garbage}


def test_a_deregistered_table_stays_and_comes_back(place: Path) -> None:
    where = location_of(place, "t")
    opened(place).namespace.deregister_table({"id": ["air", "t"]})

    collected(place)

    location = where.relative_to(place).as_posix()
    opened(place).namespace.register_table({"id": ["air", "again"], "location": location})
    assert opened(place)["air.again"].count() == 10
    assert [one.code for one in opened(place).check()] == []
    opened(place).drop_table("air.again")
    assert not where.exists()


def test_a_table_that_has_lost_its_claim_keeps_its_data(place: Path) -> None:
    forget_claim(place)

    collected(place)

    assert opened(place)["air.t"].count() == 10


def test_the_rest_of_a_dropped_table_goes_and_its_bytes_are_told(place: Path) -> None:
    where = location_of(place, "t")
    copy = shutil.copytree(where, place.parent / "copy")
    opened(place).drop_table("air.t")
    shutil.move(copy, where)  # What a writer leaves that dies before it has deleted the data.
    size = sum(path.stat().st_size for path in where.rglob("*") if path.is_file())

    gone = collected(place)

    assert gone[where.relative_to(place).as_posix()] == size
    assert not where.exists()


def test_a_directory_that_is_registered_after_the_look_stays(place: Path) -> None:
    where = location_of(place, "t")
    copy = shutil.copytree(where, place.parent / "copy")
    opened(place).drop_table("air.t")
    shutil.move(copy, where)
    make_old(place)
    location = where.relative_to(place).as_posix()

    def meanwhile(work: Any, items: Sequence[Any]) -> list[Any]:
        if isinstance(work, Deleting):
            opened(place).namespace.register_table({"id": ["air", "back"], "location": location})
        return here(work, items)

    opened(place).namespace.gc(WEEK, spread=meanwhile)  # type: ignore[attr-defined]

    assert opened(place)["air.back"].count() == 10


def test_a_directory_in_which_nothing_was_committed_goes(place: Path) -> None:
    where = location_of(place, "t")
    opened(place).namespace.deregister_table({"id": ["air", "t"]})
    shutil.rmtree(where / "_versions")

    collected(place)

    assert not where.exists()


def test_of_a_dropped_table_nothing_is_left_and_of_the_others_everything(place: Path) -> None:
    lake = opened(place)
    claims = {path.name for path in (place / "_location").iterdir()}
    lake.create_table("air.other", ROWS)
    lake.drop_table("air.other")
    lake.create_namespace("last")  # The newest commit is never forgotten.
    lake.gc(timedelta(0))

    files = [path for path in (place / "_location").rglob("*") if path.is_file()]
    assert {path.relative_to(place / "_location").parts[0] for path in files} == claims
    assert opened(place)["air.t"].count() == 10
    assert [one.code for one in opened(place).check()] == []


def test_the_command_finds_what_is_old_in_a_catalog_that_has_been_quiet_since(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = location_of(place, "t")
    copy = shutil.copytree(where, place.parent / "copy")
    opened(place).drop_table("air.t")
    shutil.move(copy, where)
    make_old(place)  # So the newest file of the catalog is as old as what is to go.

    assert Run(place, capsys)("gc", "--yes")[0] == 0

    assert not where.exists()


def test_a_manifest_that_only_an_earlier_state_shows_stays_while_it_can_be_visited(
    place: Path,
) -> None:
    opened(place).create_table("r", ROWS)
    point_version_elsewhere(place)
    before = opened(place).history(1)[0].version
    opened(place).namespace.catalog.commit(  # type: ignore[attr-defined]
        DeleteTableVersions(("r",), (1,)), message="forget it"
    )
    (staged,) = (location_of(place, "r") / "_versions").glob("*.manifest-*")
    make_old(place)

    opened(place).gc(WEEK)
    assert opened(place).at(before)["r"].to_arrow().num_rows == 10
    opened(place).gc(timedelta(0))
    assert not staged.exists()  # That state is forgotten now.


class BehindDisk(LocalObjects):
    """A storage whose clock is thirty days behind that of whoever asks."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return map(behind, super().list(prefix))

    def list_unfinished(self, prefix: str) -> Iterator[ObjectInfo]:
        return map(behind, super().list_unfinished(prefix))


def behind(info: ObjectInfo) -> ObjectInfo:
    return replace(info, modified_ms=info.modified_ms - 30 * DAY_MS)


def test_nothing_inside_a_table_is_old_because_two_clocks_differ(place: Path) -> None:
    left = lose(location_of(place, "t"), merge)
    disk = BehindDisk(str(place))
    store = DeltaCatStore(parse_root(str(place)), objects=disk)

    assert collect(store, WEEK).garbage == ()

    make_old(place)
    gone = {one.path for one in collect(store, WEEK).garbage}
    location = location_of(place, "t").relative_to(place).as_posix()
    assert gone == {f"{location}/{path}" for path in left}
