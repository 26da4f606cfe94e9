"""Inside the tables of an Iceberg catalog, what nothing needs goes, and what is needed stays."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from lakeroot.model.errors import PermissionDeniedError
from lakeroot.storage.iceberg_rest.entries import Entries, Entry
from tests.fsck.conftest import ROWS, make_old
from tests.fsck.killing import IN_TRANSACTION, files_in, kill_at, orphans
from tests.fsck.lost import leave_everything, lose, merge
from tests.iceberg.servers import Weed, weed
from tests.iceberg.test_gc import ARBITERS, Place

NOW = timedelta(0)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with weed(tmp_path_factory.mktemp("weed")) as running:
        yield running


def filled(catalog: Weed, root: Path, managed_by: str) -> tuple[Place, str, Path]:
    """Make a table; give its catalog, its name and its directory."""
    place = Place(catalog, root, managed_by)
    name = f"{place.name}.k"
    place.hand.create_table(name, ROWS)
    (table,) = (place.root / place.name).glob("k-*.lance")
    return place, name, table


@pytest.mark.parametrize("managed_by", ARBITERS)
def test_what_lost_commits_have_left_goes_and_every_version_stays(
    catalog: Weed, tmp_path: Path, managed_by: str
) -> None:
    place, name, table = filled(catalog, tmp_path / "tables", managed_by)
    place.hand[name].append(ROWS)
    place.hand[name].delete("n = 3")
    lance.dataset(str(table)).create_branch("team/side")
    before = files_in(table)
    left = leave_everything(table)
    assert place.gc(NOW) == []  # Their writers may be at work.
    make_old(place.root)

    planned = place.gc(dry_run=True)
    done = place.gc()

    assert planned == done
    location = place.client.store.entries.get((place.name, "k")).location
    assert {one.path.removeprefix(f"{location}/") for one in done} == left
    assert files_in(table) == before
    assert orphans(table) == set()
    assert place.hand[name].count() == 18
    assert [lance.dataset(str(table), version=n).count_rows() for n in (1, 2, 3)] == [10, 20, 18]
    assert place.client.check(NOW, [place.name]) == []


class Unreadable(Entries):
    """The tables of a catalog of which one cannot be read; it counts who asks for all."""

    asked = 0

    def everything(self) -> list[Entry]:
        self.asked += 1
        raise PermissionDeniedError("You may not load this table")


def test_branches_without_a_name_stay_while_it_is_not_known_which_tables_there_are(
    catalog: Weed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place, _, table = filled(catalog, tmp_path / "tables", "storage")
    for branch in ("one", "two"):
        lance.dataset(str(table)).create_branch(branch)
        (table / "_refs" / "branches" / f"{branch}.json").unlink()
    before = files_in(table)
    left = lose(table, merge)
    make_old(place.root)
    store = place.client.store
    known, store.entries = store.entries, Unreadable(store.client)

    gone = place.client.gc(NOW, under=[place.name]).garbage

    assert len(gone) == len(left)
    assert files_in(table) == before
    assert store.entries.asked == 1
    assert "Branches without a name stay" in caplog.text
    store.entries = known
    place.client.gc(NOW, under=[place.name])
    assert not (table / "tree" / "one").exists()
    assert not (table / "tree" / "two").exists()


KILLS = [
    ("storage", "when a data file is there"),
    ("storage", "when an index is written"),
    ("storage", "when a branch is written"),
    ("impl", "when rows are marked as deleted"),
    ("impl", "when a version is there or staged"),
    ("impl", IN_TRANSACTION),
]


@pytest.mark.parametrize(("managed_by", "moment"), KILLS)
def test_nothing_is_left_of_a_writer_that_was_killed(
    catalog: Weed, tmp_path: Path, managed_by: str, moment: str
) -> None:
    place, name, table = filled(catalog, tmp_path / "tables", managed_by)
    kill_at(moment, "IcebergNamespace", place.properties, name, table)
    make_old(place.root)

    planned = place.gc(NOW, dry_run=True)
    done = place.gc(NOW)

    assert done == planned
    findings = place.client.check(NOW, [place.name])
    place.client.repair(findings)
    assert [one.code for one in findings if not one.repairable] == []
    assert place.client.check(NOW, [place.name]) == []
    assert orphans(table) == set()
    assert place.hand[name].to_arrow().num_rows == place.hand[name].count() > 0
