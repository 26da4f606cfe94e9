"""What `gc` takes from an Iceberg catalog, and what it leaves: tables on a disk, a real catalog."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import lance
import pytest
from lance_namespace import InvalidInputError, UnsupportedOperationError

from lakeroot.lake import Lake as Hand
from lakeroot.model.errors import NotFoundError
from lakeroot.namespace.iceberg import IcebergNamespace
from lakeroot.storage.garbage import Garbage
from lakeroot.storage.iceberg_rest.creating import NewTable
from lakeroot.storage.iceberg_rest.properties import CREATED_AT, RESERVED_FOR
from lakeroot.tables.iceberg import ManagedBy
from lakeroot.tables.versions import VERSIONS
from tests.asking import ROWS, Lake
from tests.cli.running import Run
from tests.fsck.conftest import make_old
from tests.fsck.test_gc import leave_a_dead_job
from tests.fsck.test_old_versions import age_manifests, size_of, versions_of
from tests.iceberg.servers import Weed, fresh_name, weed

ARBITERS = ["storage", "impl"]
SOON, WEEK = timedelta(0), timedelta(days=7)


class Place:
    """A namespace of a catalog whose tables are on this disk."""

    def __init__(self, server: Weed, root: Path, managed_by: str = "storage") -> None:
        self.properties = {**server.properties, "root": str(root), "managed_by": managed_by}
        self.client = IcebergNamespace(**self.properties)
        self.root = root
        self.lake = Lake(self.client)
        self.name = fresh_name()
        self.lake.create_namespace(self.name)
        self.lake.create_table(self.name, "t")

    @property
    def hand(self) -> Hand:
        return Hand(self.client, "")

    @property
    def table(self) -> Path:
        (found,) = (self.root / self.name).glob("t-*.lance")
        return found

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.hand[f"{self.name}.t"].append(ROWS)

    def count(self) -> int:
        return int(self.hand[f"{self.name}.t"].count())

    def shown(self) -> set[int]:
        """Give the versions that readers of the catalog see."""
        return set(self.client.store.entries.get((self.name, "t")).definition.snapshots)

    def gc(self, older_than: timedelta = WEEK, *, dry_run: bool = False) -> list[Garbage]:
        """Collect in the whole catalog; give what was found here."""
        done = self.client.gc(older_than, dry_run=dry_run)
        return [one for one in done.garbage if self.name in one.path]

    def orphan(self, *, versions: bool) -> Path:
        """Make a directory as a writer leaves it that died over a creation or a drop."""
        place = self.root / self.name / f"gone-{uuid4().hex[:12]}.lance"
        shutil.copytree(self.table, place)
        if not versions:
            shutil.rmtree(place / VERSIONS)
        return place


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    """A catalog of its own: the whole of it is looked at, again and again."""
    with weed(tmp_path_factory.mktemp("weed")) as running:
        yield running


@pytest.fixture(params=ARBITERS)
def place(request: pytest.FixtureRequest, catalog: Weed, tmp_path: Path) -> Place:
    return Place(catalog, tmp_path / "tables", request.param)


def test_a_catalog_in_use_has_no_garbage(place: Place) -> None:
    place.lake.declare_table(place.name, "declared")
    place.grow(2)
    make_old(place.root)

    assert place.gc(SOON) == []
    assert place.client.check(SOON, [place.name]) == []
    assert place.count() == 9


def test_what_a_job_has_left_whose_driver_died_goes(place: Place) -> None:
    left = leave_a_dead_job(place.table)
    assert place.gc(SOON) == []
    make_old(place.root)

    assert {Path(one.path).name for one in place.gc()} == {Path(path).name for path in left}
    assert not any((place.table / path).exists() for path in left)
    assert lance.dataset(str(place.table)).to_table().num_rows > 0


def test_a_directory_without_a_table_and_without_versions_goes(place: Place) -> None:
    orphan = place.orphan(versions=False)
    assert place.gc(SOON) == []  # It may be a writer's who is at work.
    make_old(place.root)
    size = size_of(orphan)

    planned = place.gc(dry_run=True)
    assert orphan.exists()
    done = place.gc()

    assert [(one.path, one.size_bytes) for one in planned] == [(str(orphan), size)]
    assert planned == done
    assert size > 0
    assert not orphan.exists()
    assert place.count() == 3
    assert place.gc() == []


def test_what_may_have_been_deregistered_stays(place: Place) -> None:
    orphan = place.orphan(versions=True)
    place.lake.create_table(place.name, "u")
    place.lake.deregister_table(place.name, "u")
    make_old(place.root)

    assert place.gc(SOON) == []
    assert lance.dataset(str(orphan)).count_rows() == 3
    (kept,) = (place.root / place.name).glob("u-*.lance")
    assert lance.dataset(str(kept)).count_rows() == 3


def test_what_is_not_of_this_client_or_not_of_lance_stays(place: Place) -> None:
    foreign = place.root / place.name / "somebody.lance" / "data"
    foreign.mkdir(parents=True)
    (foreign / "x.lance").write_bytes(b"x")
    mixed = place.orphan(versions=False)
    (mixed / "notes.txt").write_text("mine")
    make_old(place.root)

    assert place.gc(SOON) == []
    assert (foreign / "x.lance").exists()
    assert (mixed / "notes.txt").exists()


def test_a_drop_that_was_cut_off_is_finished(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.grow(1)
    directory = place.table
    files = type(place.client.store.files_of(place.client.store.entries.get((place.name, "t"))))
    deleting = files.delete_directory

    def dies_after_the_first(self: object, prefix: str) -> None:
        if not prefix:
            raise KeyboardInterrupt
        deleting(self, prefix)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(files, "delete_directory", dies_after_the_first)
        with pytest.raises(KeyboardInterrupt):
            place.lake.drop_table(place.name, "t")
    assert place.lake.tables(place.name) == []
    assert directory.exists()
    make_old(place.root)

    (gone,) = place.gc()

    assert gone.path == str(directory)
    assert not directory.exists()


def test_what_dead_writers_left_in_a_table_goes(place: Place) -> None:
    place.grow(1)
    versions = place.table / VERSIONS
    newest = min(versions.glob("*.manifest"))
    staged = versions / f"18446744073709551600.manifest-{uuid4()}"
    shutil.copy(newest, staged)
    private = place.table / f"_lakeroot-{uuid4().hex}"
    private.mkdir()
    (private / "x.manifest").write_bytes(b"half")
    unfinished = place.table / "data" / "y.lance#123"
    unfinished.write_bytes(b"ha")
    make_old(place.root)

    planned = place.client.gc(dry_run=True, under=[place.name])
    assert staged.exists()
    done = place.client.gc(under=[place.name])

    sizes = {Path(one.path).name: one.size_bytes for one in planned.garbage}
    assert sizes == {staged.name: newest.stat().st_size, private.name: 4, unfinished.name: 2}
    assert done.garbage == planned.garbage
    assert not staged.exists()
    assert not private.exists()
    assert not unfinished.exists()
    assert place.count() == 6


def test_a_staged_manifest_that_a_version_is_to_be_made_of_stays(
    catalog: Weed, tmp_path: Path
) -> None:
    place = Place(catalog, tmp_path / "tables", "impl")
    place.grow(1)
    newest = min((place.table / VERSIONS).glob("*.manifest"))
    store = place.client.store
    kept = store.versions(place.client.catalog.table((place.name, "t")), None)
    staged = newest.with_name(kept[max(kept)].manifest_path.rpartition("/")[2])
    newest.rename(staged)  # The writer died between the commit and putting it into place.
    make_old(place.root)

    assert place.client.gc(SOON, under=[place.name]).garbage == ()
    assert place.count() == 6


def test_old_versions_go_from_storage_and_from_the_catalog(place: Place) -> None:
    place.grow(4)
    place.hand[f"{place.name}.t"].delete("true")
    place.hand[f"{place.name}.t"].tag("second", 2)
    make_old(place.root)
    age_manifests(place.table, days=10)
    before = size_of(place.table)

    planned = place.client.gc(old_versions=True, keep=2, dry_run=True, under=[place.name])
    assert versions_of(place.table) == set(range(1, 7))
    done = place.client.gc(old_versions=True, keep=2, under=[place.name])

    assert versions_of(place.table) == {2, 5, 6}
    assert place.shown() <= {2, 5, 6}
    assert max(place.shown()) == 6
    assert done.garbage == planned.garbage
    assert 0 < done.size_bytes == before - size_of(place.table)
    assert place.count() == 0
    assert lance.dataset(str(place.table), version="second").count_rows() == 6
    assert place.client.check(SOON, [place.name]) == []
    assert place.client.gc(old_versions=True, keep=2, under=[place.name]).garbage == ()
    place.grow(1)
    assert place.count() == 3


def test_versions_of_the_window_stay(place: Place) -> None:
    place.grow(2)

    assert place.client.gc(SOON, old_versions=True, under=[place.name]).garbage == ()
    assert versions_of(place.table) == {1, 2, 3}


def reserve(place: Place, name: str, *, age_s: float) -> tuple[str, str]:
    """Reserve a name as a writer does that dies before it makes the table."""
    identifier = (place.name, name)
    store = place.client.store
    store._creation._reserve(identifier)
    then = {CREATED_AT: str(int((time.time() - age_s) * 1000))}
    store.client.update_table(identifier, [], [{"action": "set-properties", "updates": then}])
    return identifier


def test_a_name_reserved_by_a_dead_writer_is_free_again(place: Place) -> None:
    identifier = reserve(place, "new", age_s=8 * 24 * 60 * 60)
    young = reserve(place, "young", age_s=0)
    store = place.client.store

    planned = place.client.gc(dry_run=True, under=[place.name])
    assert store._creation._found(identifier)
    (gone,) = place.client.gc(under=[place.name]).garbage

    assert planned.garbage == (gone,)
    assert gone.path.endswith("new")
    assert gone.size_bytes == 0
    assert not store._creation._found(identifier)
    assert store._creation._found(young)
    assert place.lake.tables(place.name) == ["t"]


def test_one_who_takes_a_reservation_over_meanwhile_keeps_the_name(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = reserve(place, "new", age_s=8 * 24 * 60 * 60)
    store = place.client.store
    looking = store._creation._found(identifier)
    new = NewTable(identifier, f"file://{place.root}/x-0123456789ab.lance", ManagedBy.STORAGE, {})
    store._creation.create(new)
    # The collector looked before, and acts after.
    monkeypatch.setattr(type(store._creation), "_found", lambda *_: looking)

    assert not store._creation.withdraw(identifier, int(time.time() * 1000))
    assert store.entries.get(identifier).location == new.location


def test_one_who_comes_after_the_collector_is_told_so(place: Place) -> None:
    identifier = reserve(place, "new", age_s=8 * 24 * 60 * 60)
    store = place.client.store
    looking = store._creation._found(identifier)
    assert looking["metadata"]["properties"][RESERVED_FOR]
    place.client.gc(under=[place.name])
    new = NewTable(identifier, f"file://{place.root}/x-0123456789ab.lance", ManagedBy.STORAGE, {})

    with pytest.raises(NotFoundError):
        store._creation._publish(new, looking)
    store._creation.create(new)

    assert store.entries.get(identifier).location == new.location


def test_collecting_beside_a_writer_takes_nothing_of_his(place: Place) -> None:
    failures: list[Exception] = []

    def write() -> None:
        try:
            writer = Hand(IcebergNamespace(**place.properties), "")
            for number in range(4):
                writer.create_table(f"{place.name}.k{number}", ROWS)
                writer[f"{place.name}.k{number}"].append(ROWS)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        place.client.gc(SOON, old_versions=True, under=[place.name])
    thread.join()

    assert failures == []
    for number in range(4):
        assert place.hand[f"{place.name}.k{number}"].count() == 6
    assert place.client.check(SOON, [place.name]) == []


def test_a_namespace_without_a_root_is_looked_at_where_it_is(catalog: Weed, tmp_path: Path) -> None:
    client = IcebergNamespace(**catalog.properties)
    place = Place(catalog, tmp_path)
    client.create_namespace(
        {"id": [f"{place.name}x"], "properties": {"location": f"file://{tmp_path}/here"}}
    )
    orphan = tmp_path / "here" / f"gone-{uuid4().hex[:12]}.lance"
    shutil.copytree(place.table / "data", orphan / "data")
    make_old(tmp_path)

    done = client.gc(dry_run=True)

    assert str(orphan) in {one.path for one in done.garbage}


def test_the_command_says_what_it_deletes(
    catalog: Weed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(catalog, tmp_path / "tables")
    orphan = place.orphan(versions=False)
    make_old(place.root)
    given = [
        part
        for key, value in place.properties.items()
        if key != "endpoint"
        for part in ("-P", f"{key}={value}")
    ]
    run = Run(f"iceberg+{catalog.catalog}", capsys)

    planned = run.json(*given, "gc", "--dry-run")
    assert orphan.exists()
    code, out, _ = run(*given, "gc", "--yes")

    assert [row["path"] for row in planned if place.name in row["path"]] == [str(orphan)]
    assert code == 0
    assert "it has no version" in out
    assert not orphan.exists()


def test_a_window_below_zero_and_a_server_with_its_own_tables_are_refused(
    catalog: Weed, own_catalog: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="negative"):
        Place(catalog, tmp_path).client.gc(timedelta(days=-1))
    with pytest.raises(UnsupportedOperationError, match="that the server serves"):
        IcebergNamespace(endpoint=own_catalog).gc()


def test_an_age_is_that_of_the_youngest_file(place: Place) -> None:
    orphan = place.orphan(versions=False)
    make_old(place.root)
    os.utime(next((orphan / "data").iterdir()))

    assert place.gc() == []
    assert orphan.exists()
