"""Old versions of tables go by age and count, and nothing goes that a state which is kept shows."""

import os
import random
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import lance
import pytest
from lance_namespace import InvalidInputError

from lakeroot.catalog.old_versions import plan_of
from lakeroot.lake import Lake
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.objects import LocalObjects
from lakeroot.storage.lance_dir.version_file import decode
from tests.cli.running import Run
from tests.fsck.conftest import ROWS, directory, make_old, opened

DAY_MS = 24 * 60 * 60 * 1000
WEEK = timedelta(days=7)


def versions_of(place: Path) -> set[int]:
    return {int(one["version"]) for one in lance.dataset(str(place)).versions()}


def grow(lake: Lake, name: str, count: int) -> None:
    for _ in range(count):
        lake[name].append(ROWS)


@pytest.mark.parametrize("keeps", ["false", "true"])
def test_old_versions_go_but_for_those_that_are_to_be_kept(tmp_path: Path, keeps: str) -> None:
    lake = opened(tmp_path, table_version_management=keeps)
    lake.create_namespace("air")
    lake.create_table("air.t", ROWS)
    grow(lake, "air.t", 9)
    lake["air.t"].delete("true")
    place = directory(tmp_path, "air$t")
    make_old(tmp_path)
    age_manifests(place, days=10)
    before = size_of(place)

    planned = opened(tmp_path).gc(old_versions=True, keep=3, dry_run=True)
    assert versions_of(place) == set(range(1, 12))
    done = opened(tmp_path).gc(old_versions=True, keep=3)

    assert versions_of(place) == {9, 10, 11}
    freed = before - size_of(place)
    told = {one.path: one.size_bytes for one in planned.garbage}[place.name]
    assert told == {one.path: one.size_bytes for one in done.garbage}[place.name]
    assert 0 < told == freed
    assert opened(tmp_path)["air.t"].count() == 0
    assert lance.dataset(str(place), version=9).count_rows() == 90
    assert [one.code for one in opened(tmp_path).check(timedelta(0))] == []
    assert opened(tmp_path).gc(old_versions=True, keep=3).garbage == ()


def test_tags_and_branches_keep_what_they_name(tmp_path: Path) -> None:
    lake = opened(tmp_path)
    lake.create_namespace("air")
    lake.create_table("air.t", ROWS)
    grow(lake, "air.t", 5)
    lake["air.t"].tag("second", 2)
    place = directory(tmp_path, "air$t")
    dataset = lance.dataset(str(place))
    side = dataset.create_branch("side", 4)
    lance.write_dataset(ROWS, side, mode="append")
    lake["air.t"].delete("true")
    age_manifests(place, days=10)
    make_old(tmp_path)

    opened(tmp_path).gc(old_versions=True)

    assert versions_of(place) == {2, 4, 7}
    assert lance.dataset(str(place), version="second").count_rows() == 20
    assert lance.dataset(str(place)).checkout_version(("side", None)).count_rows() == 50


def test_without_being_asked_for_no_version_of_a_table_goes(tmp_path: Path) -> None:
    lake = opened(tmp_path)
    lake.create_table("r", ROWS)
    grow(lake, "r", 3)
    age_manifests(tmp_path / "r.lance", days=100)
    make_old(tmp_path, days=100)

    opened(tmp_path).gc()

    assert versions_of(tmp_path / "r.lance") == {1, 2, 3, 4}


def test_the_version_that_was_newest_when_the_window_began_stays(tmp_path: Path) -> None:
    lake = opened(tmp_path)
    lake.create_table("r", ROWS)
    grow(lake, "r", 3)
    place = tmp_path / "r.lance"
    for number, days in {1: 30, 2: 20, 3: 2, 4: 1}.items():
        age_manifest(place, number, days)

    opened(tmp_path).gc(WEEK, old_versions=True)

    # Version 2 was the newest until two days ago: seven days ago it was what the catalog showed.
    assert versions_of(place) == {2, 3, 4}


def test_a_metastore_is_cleaned_up_too(tmp_path: Path) -> None:
    lake = Lake(DeltaCatNamespace(root=str(tmp_path)), "")
    lake.create_table("r", ROWS)
    grow(lake, "r", 4)
    (place,) = (tmp_path / "_lance").iterdir()
    age_manifests(place, days=10)
    make_old(tmp_path)

    done = lake.gc(old_versions=True, keep=2)

    assert versions_of(place) == {4, 5}
    assert sum(one.size_bytes for one in done.garbage) > 0
    assert lake["r"].count() == 50
    assert [one.code for one in lake.check(timedelta(0))] == []


def test_the_command_says_what_goes_and_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = opened(tmp_path)
    lake.create_table("r", ROWS)
    grow(lake, "r", 3)
    age_manifests(tmp_path / "r.lance", days=10)
    run = Run(tmp_path, capsys)

    shown = run.json("gc", "--old-versions", "--dry-run")
    assert [(one["path"], one["why"]) for one in shown] == [("r.lance", "3 old versions of r")]
    assert run("gc", "--old-versions", "--keep", "2", "--yes")[0] == 0
    assert versions_of(tmp_path / "r.lance") == {3, 4}
    assert run("gc", "--old-versions", "--keep", "0", "--yes")[0] == 2
    with pytest.raises(InvalidInputError):
        opened(tmp_path).gc(old_versions=True, keep=0)


def test_a_damaged_manifest_stops_the_clean_up_of_its_table(tmp_path: Path) -> None:
    lake = opened(tmp_path)
    lake.create_table("r", ROWS)
    grow(lake, "r", 3)
    place = tmp_path / "r.lance"
    age_manifests(place, days=10)
    now_ms = int(time.time() * 1000)
    assert plan_of(LocalObjects(str(place)), now_ms, 1, set()) is not None
    oldest = max((place / "_versions").glob("*.manifest"))
    oldest.write_bytes(oldest.read_bytes()[:20])

    assert plan_of(LocalObjects(str(place)), now_ms, 1, set()) is None


@pytest.mark.parametrize("name", ["air.t", "r"])
def test_a_table_in_the_trash_is_no_orphan_until_it_is_collected(root: Path, name: str) -> None:
    make_old(root, days=20)
    lake = opened(root)
    lake.drop_table(name)
    for path in (root / "__manifest").rglob("*"):
        os.utime(path, (time.time() - 5 * 86400, time.time() - 5 * 86400))

    assert [one.code for one in opened(root).check()] == []
    assert [one.table.identifier[-1] for one in opened(root).trash()] == [name.split(".")[-1]]
    opened(root).undrop(name)
    assert opened(root)[name].count() in (10, 18)


# With writers active, against a model


@dataclass
class Model:
    """What a table must still have: its versions, when each was made, and what names them."""

    place: Path
    made_ms: dict[int, int] = field(default_factory=dict)
    tags: set[int] = field(default_factory=set)

    def reachable(self, cutoff_ms: int, keep: int) -> set[int]:
        """Give the versions that a state from the cutoff on shows, or something names."""
        numbers = sorted(self.made_ms)
        shown = {number for number, later in pairwise(numbers) if self.made_ms[later] > cutoff_ms}
        return shown | set(numbers[-keep:]) | self.tags


def chosen_age(chance: random.Random) -> float:
    # Never near the end of the window: the clock goes on while the test runs.
    return chance.choice([0.01, 1, 5, 9, 12, 40]) + chance.random()


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKEROOT_GC_SEEDS", "3"))))
@pytest.mark.parametrize("keeps", ["false", "true"])
def test_nothing_goes_that_a_kept_state_reaches_with_writers_active(
    tmp_path: Path, seed: int, keeps: str
) -> None:
    chance = random.Random(seed)
    lake = opened(tmp_path, table_version_management=keeps)
    lake.create_namespace("air")
    models: dict[str, Model] = {}
    rows_of: dict[tuple[str, int], int] = {}
    for name in ("air.a", "air.b", "air.c"):
        lake.create_table(name, ROWS)
        place = directory(tmp_path, name.replace(".", "$"))
        model = models[name] = Model(place)
        for _ in range(chance.randrange(2, 9)):
            verb = chance.choice(["append", "append", "delete"])
            lake[name].append(ROWS) if verb == "append" else lake[name].delete("n = 4")
        count = len(versions_of(place))
        ages = sorted((chosen_age(chance) for _ in range(count)), reverse=True)
        for number, days in enumerate(ages, 1):
            model.made_ms[number] = age_manifest(place, number, days)
            rows_of[name, number] = lance.dataset(str(place), version=number).count_rows()
        if chance.random() < 0.5:
            tagged = chance.randrange(1, count + 1)
            lake[name].tag("kept", tagged)
            model.tags.add(tagged)
    keep = chance.randrange(1, 4)
    written: dict[str, int] = dict.fromkeys(models, 0)
    stop = threading.Event()
    failures: list[Exception] = []

    def write(name: str) -> None:
        own = opened(tmp_path, table_version_management=keeps)
        try:
            while not stop.is_set():
                own[name].append(ROWS)
                written[name] += 1
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(name,)) for name in models]
    for writer in writers:
        writer.start()
    collector = opened(tmp_path, table_version_management=keeps)
    cutoff_ms = int(time.time() * 1000) - 7 * DAY_MS
    for _ in range(2):
        collector.gc(WEEK, old_versions=True, keep=keep)
    stop.set()
    for writer in writers:
        writer.join()

    assert failures == []
    fresh = opened(tmp_path, table_version_management=keeps)
    for name, model in models.items():
        there = versions_of(model.place)
        before = set(model.made_ms)
        must_stay = model.reachable(cutoff_ms, keep if not written[name] else 1)
        assert must_stay <= there, f"{must_stay - there} of {name} are gone"
        # Whatever is left can be read to the end, and the newest has every acknowledged row.
        for number in sorted(there & before):
            assert (
                lance.dataset(str(model.place), version=number).to_table().num_rows
                == (rows_of[name, number])
            )
        newest = rows_of[name, max(before)] + written[name] * ROWS.num_rows
        assert fresh[name].count() == newest
        # And what nothing reaches is gone.
        assert not (before - model.reachable(cutoff_ms, keep)) & there
    assert [one for one in fresh.check(timedelta(0)) if one.severity == "error"] == []


def size_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def manifest_of(place: Path, number: int) -> Path:
    return place / "_versions" / f"{2**64 - 1 - number:020d}.manifest"


def age_manifests(place: Path, days: float) -> None:
    for number in versions_of(place):
        age_manifest(place, number, days)


def age_manifest(place: Path, number: int, days: float) -> int:
    """Let a version be older: by the time in its manifest, and by that of its file."""
    then_ms = int(time.time() * 1000 - days * DAY_MS)
    path = manifest_of(place, number)
    content = path.read_bytes()
    path.write_bytes(with_timestamp(content, then_ms))
    os.utime(path, (then_ms / 1000, then_ms / 1000))
    return then_ms


def with_timestamp(content: bytes, then_ms: int) -> bytes:
    """Change the time inside a manifest in place: seconds keep their five bytes."""
    seconds = decode(content).timestamp_ms // 1000
    old, new = varint(seconds), varint(then_ms // 1000)
    assert len(old) == len(new)
    assert b"\x08" + old in content
    changed = content.replace(b"\x08" + old, b"\x08" + new)
    assert decode(changed).timestamp_ms // 1000 == then_ms // 1000
    return changed


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def test_to_keep_no_version_is_refused_before_anything_goes(tmp_path: Path) -> None:
    lake = opened(tmp_path)
    lake.create_table("t", ROWS)
    (tmp_path / "notes#1").write_bytes(b"half")
    make_old(tmp_path)

    with pytest.raises(InvalidInputError, match="At least one"):
        opened(tmp_path).gc(old_versions=True, keep=0)

    assert (tmp_path / "notes#1").exists()
