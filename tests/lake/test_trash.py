"""What is dropped comes back until garbage is collected."""

import os
import time
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest

import lakeroot
from lakeroot.lake import Lake
from tests.fsck.conftest import make_old

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(params=["false", "true"], ids=["files", "managed"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    lake = lakeroot.open(str(tmp_path / "lake"), table_version_management=request.param)
    lake.create_namespace("air")
    return lake


@pytest.fixture(params=["flights", "air.flights"])
def name(lake: Lake, request: pytest.FixtureRequest) -> str:
    """A table with a past: one that V1 clients see, or one that they do not."""
    name: str = request.param
    table = lake.create_table(name, ROWS)
    table.append(ROWS)
    table.tag("first", 1)
    return name


def root_of(lake: Lake) -> Path:
    return Path(lake.address)


def place_of(lake: Lake, name: str) -> Path:
    described = lake.namespace.describe_table(
        lance_namespace.DescribeTableRequest(id=lake[name].id)
    )
    return Path(str(described.location))


def test_a_dropped_table_comes_back_whole(lake: Lake, name: str) -> None:
    assert lake.drop_table(name)
    assert lake.tables() == []
    assert [one.table.identifier for one in lake.trash()] == [tuple(name.split("."))]

    table = lake.undrop(name)

    assert (table.count(), table.tags()) == (6, {"first": 1})
    assert [one["version"] for one in table.versions()] == [2, 1]
    assert table.append(ROWS) == 3
    assert lake.check() == []
    assert lake.trash() == []


def test_a_drop_is_a_commit_that_can_be_undone(lake: Lake, name: str) -> None:
    lake.drop_table(name)
    dropped = lake.history(1)[0]

    assert dropped.message == f"Drop {name}"
    assert lake.undo(dropped) == [f"bring back {name}"]
    assert lake[name].count() == 6


def test_garbage_is_collected_after_its_window_and_not_before(lake: Lake, name: str) -> None:
    place = place_of(lake, name)
    lake.drop_table(name)

    lake.gc()
    assert place.exists()
    make_old(root_of(lake))
    assert place.name in {one.path for one in lake.gc(dry_run=True).garbage}
    assert place.exists()
    lake.gc()

    assert not place.exists()
    assert lake.trash() == []
    with pytest.raises(lance_namespace.InvalidTableStateError, match="data was deleted"):
        lake.undrop(name)


def test_what_came_back_and_was_deregistered_is_no_garbage(lake: Lake, name: str) -> None:
    place = place_of(lake, name)
    lake.drop_table(name)
    # Everything up to the drop lies long before the window; what follows does so later.
    long_ago = time.time() - 2e6
    for path in root_of(lake).rglob("*"):
        os.utime(path, (long_ago, long_ago))
    lake.undrop(name)
    lake.namespace.deregister_table(lance_namespace.DeregisterTableRequest(id=name.split(".")))
    for path in root_of(lake).rglob("*"):
        if path.stat().st_mtime > long_ago + 1:
            os.utime(path, (long_ago + 1e6, long_ago + 1e6))

    lakeroot.open(lake.address).gc()

    assert lance.dataset(str(place)).count_rows() == 6


def test_nothing_in_a_dropped_table_is_younger_than_the_drop(lake: Lake, name: str) -> None:
    """By this a collector tells it from a table that somebody has put there since."""
    place = place_of(lake, name)

    lake.drop_table(name)

    youngest = max(path.stat().st_mtime_ns // 1_000_000 for path in place.rglob("*"))
    assert youngest <= lake.history(1)[0].timestamp_ms


def test_now_means_at_once(lake: Lake, name: str) -> None:
    place = place_of(lake, name)

    assert not lake.drop_table(name, now=True)

    # Where the catalog keeps versions, the mark of a dropped root table stays for some days.
    assert {path.name for path in place.rglob("*")} <= {".lance-deregistered"}
    assert lake.trash() == []


def test_the_drop_of_the_lance_namespace_deletes(lake: Lake, name: str) -> None:
    place = place_of(lake, name)

    lake.namespace.drop_table(lance_namespace.DropTableRequest(id=name.split(".")))

    assert {path.name for path in place.rglob("*")} <= {".lance-deregistered"}


def test_a_new_table_of_the_name_keeps_the_old_one_from_coming_back(lake: Lake, name: str) -> None:
    old = place_of(lake, name)
    lake.drop_table(name)
    lake.create_table(name, ROWS.slice(0, 1))

    with pytest.raises(lance_namespace.TableAlreadyExistsError):
        lake.undrop(name)
    make_old(root_of(lake))
    lake.gc()

    assert not old.exists()
    assert lake[name].count() == 1
    assert lake.check().errors == []


def test_of_two_droppers_one_is_told_that_the_table_is_gone(lake: Lake, name: str) -> None:
    other = lakeroot.open(lake.address)
    assert other[name].count() == 6

    lake.drop_table(name)

    with pytest.raises(lance_namespace.TableNotFoundError):
        other.drop_table(name)


def test_a_table_that_only_its_directory_knows_comes_back_too(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "lake" / "old.lance"))
    lake = lakeroot.open(str(tmp_path / "lake"))

    assert lake.drop_table("old")
    assert lakeroot.open(lake.address).tables() == []
    assert lake.undrop("old").count() == 3


def test_a_name_without_data_is_simply_gone(lake: Lake) -> None:
    lake.namespace.declare_table(lance_namespace.DeclareTableRequest(id=["air", "empty"]))

    assert not lake.drop_table("air.empty")
    assert lake.tables() == []
    assert lake.trash() == []


def test_a_catalog_without_a_manifest_has_no_trash(tmp_path: Path) -> None:
    lake = lakeroot.open(str(tmp_path / "lake"), manifest_enabled="false")
    lake.create_table("flights", ROWS)

    assert not lake.drop_table("flights")
    assert not (tmp_path / "lake" / "flights.lance").exists()


def test_a_namespace_goes_with_all_in_it_and_comes_back_by_one_undo(lake: Lake) -> None:
    lake.create_namespace("air.deep", {"owner": "ada"})
    for name in ("air.flights", "air.deep.t"):
        lake.create_table(name, ROWS)
    before = len(lake.history())

    kept = lake.namespace.discard_namespace(["air"])  # type: ignore[attr-defined]

    assert sorted(kept) == [["air", "deep", "t"], ["air", "flights"]]
    assert (lake.namespaces(), lake.tables()) == ([], [])
    assert len(lake.history()) == before + 1
    lake.undo(lake.history(1)[0])
    assert lake.tables() == ["air.deep.t", "air.flights"]
    assert lake.properties("air.deep") == {"owner": "ada"}
    assert lake["air.deep.t"].count() == 3
    assert lake.check() == []
