"""Every finding of a metastore, provoked by real damage in both layouts."""

import random
import shutil
import tarfile
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from lakeroot.metastore.data import read_rows
from lakeroot.storage.deltacat.checking import KINDS, OWN_KINDS
from tests.cli.running import Run
from tests.fsck.conftest import ROWS, files, make_old
from tests.fsck.metastores import (
    CASES,
    LAYOUTS,
    Damage,
    build,
    leave_file,
    leave_transaction,
    location_of,
    lose_data_file,
    lose_revision,
    metastore_at,
    opened,
)
from tests.fsck.test_any_damage import damaged

PROJECT = Path(__file__).parents[2]
NO_GRACE = timedelta(0)

ALSO = {
    # The namespace of one of two objects of one name is found twice.
    "name_twice": {"name-duplicate"},
    # A transaction that was cut off has written a file.
    "leave_transaction": {"file-orphan"},
}
"""What is found after the repair, by what was done: gc collects it."""


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for layout in LAYOUTS:
        root = tmp_path_factory.mktemp("metastore") / layout
        build(root, layout)
        lance.dataset(str(location_of(root, "t"))).create_scalar_index("n", "BTREE")
        opened(root).repair(opened(root).check())  # takes the index's version in
        made[layout] = root
    return made


@pytest.fixture(params=LAYOUTS)
def place(request: pytest.FixtureRequest, templates: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(templates[request.param], tmp_path / "lake"))


def codes(root: Path, grace: timedelta = timedelta(days=1)) -> set[str]:
    return {one.code for one in opened(root).check(grace)}


def test_every_code_is_provoked_here_and_documented() -> None:
    page = (PROJECT / "docs" / "fsck.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}

    assert {code for code, _ in CASES} == set(KINDS)
    for code, kind in OWN_KINDS.items():
        assert f"| {kind.severity} |" in rows[code]
        assert ("| yes |" in rows[code]) is kind.repairable


def test_a_catalog_of_released_deltacat_is_clean(tmp_path: Path) -> None:
    with tarfile.open(PROJECT / "tests" / "golden" / "deltacat" / "catalog.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    for path in tmp_path.rglob("*"):
        path.touch()  # As if it had just been written, whenever this runs.
    before = files(tmp_path)

    assert codes(tmp_path / "catalog", NO_GRACE) == set()
    assert files(tmp_path) == before


def test_a_transaction_that_deltacat_abandoned_is_told_when_it_is_old(tmp_path: Path) -> None:
    with tarfile.open(PROJECT / "tests" / "golden" / "deltacat" / "catalog.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    make_old(tmp_path)

    assert codes(tmp_path / "catalog", NO_GRACE) == {"transaction-expired"}


def test_a_metastore_in_use_is_clean(place: Path) -> None:
    lake = opened(place)
    lake.rename_table("r", "air.renamed")
    lake.create_table("gone", ROWS)
    lake.drop_table("gone")
    with lake.transaction("two tables") as both:
        both.append(["air", "renamed"], ROWS)
        both.append(["air", "t"], ROWS)
    lake.namespace.metastore.checkpoint()  # type: ignore[attr-defined]

    assert codes(place, NO_GRACE) == set()
    make_old(place)
    assert codes(place) == set()
    lake.gc(timedelta(0))
    assert codes(place, NO_GRACE) <= {"file-orphan"}


@pytest.mark.parametrize(("code", "damage"), CASES, ids=[d.__name__ for _, d in CASES])
def test_damage_is_found_and_repaired_or_left_alone(place: Path, code: str, damage: Damage) -> None:
    make_old(place)
    damage(place)
    make_old(place)
    if code == "revision-gap" and place_layout(place) == "deltacat-2":
        # In this layout a number is passed over where a dead writer has left a file.
        assert code not in codes(place)
        return
    before = files(place)

    found = opened(place).check()

    assert {one.code for one in found} == {code}
    assert all(one.what and one.why and one.fix and one.object for one in found)
    assert all(one.severity is KINDS[code].severity for one in found)
    dry = opened(place).repair(found, dry_run=True)
    assert bool(dry) is KINDS[code].repairable
    assert files(place) == before
    if not KINDS[code].repairable:
        assert opened(place).repair(found) == []
        assert files(place) == before
        return

    done = opened(place).repair(found)

    assert {one.outcome for one in done} == {"repaired"}
    if code == "version-unfinished":
        # In its place, the version does not need what it was made of.
        opened(place).repair(opened(place).check(NO_GRACE))
    assert codes(place, NO_GRACE) <= ALSO.get(damage.__name__, set())
    assert opened(place)["air.t"].count() == 18
    assert opened(place)["r"].count() in (10, 20)
    assert read_rows(metastore_at(place).view(), "native", "n").num_rows == 6


def place_layout(place: Path) -> str:
    return metastore_at(place).layout.value


@pytest.mark.parametrize("damage", [leave_transaction, leave_file], ids=lambda one: one.__name__)
def test_what_is_young_may_be_a_writers_and_is_let_be(place: Path, damage: Damage) -> None:
    make_old(place)
    damage(place)

    assert codes(place) == set()


def test_a_transaction_that_was_ended_can_never_commit(place: Path) -> None:
    store = metastore_at(place)
    slow = store.transaction("slow")
    slow.create_namespace("late")
    slow.lease.renew()
    make_old(place)
    opened(place).repair(opened(place).check())

    with pytest.raises(Exception, match="ended by a clean-up"):
        slow.commit()
    assert codes(place, NO_GRACE) == set()


@pytest.mark.parametrize("seed", range(3))
def test_damage_anywhere_never_makes_the_check_fail(
    templates: dict[str, Path], tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    template = templates[LAYOUTS[seed % 2]]
    names = sorted(files(template))
    for _ in range(12):
        root = Path(shutil.copytree(template, tmp_path / "lake"))
        victim = root / chance.choice(names)
        victim.write_bytes(damaged(victim.read_bytes(), chance))

        found = opened(root).check()

        assert {one.code for one in found} <= set(KINDS)
        shutil.rmtree(root)


def test_the_commands_find_repair_and_collect(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_revision(place)
    leave_transaction(place)
    make_old(place)
    run = Run(place, capsys)

    code, out, _ = run("-o", "json", "fsck", "--repair")
    assert code == 0
    assert '"repaired"' in out
    shown = run("gc", "--dry-run")[1]
    assert "data/" in shown
    assert run("gc", "--yes")[0] == 0
    assert run("fsck")[1] == "Everything is in order.\n"
    lose_data_file(place)
    assert run("fsck")[0] == 1
