"""Every finding of an Iceberg catalog, provoked by real damage in a real one."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import lance
import pytest

import lakeroot
from lakeroot.lake import Lake as Hand
from lakeroot.namespace.iceberg import IcebergNamespace
from lakeroot.objects import Objects
from lakeroot.storage.findings import Finding
from lakeroot.storage.iceberg_rest.checking import KINDS, OWN_KINDS
from lakeroot.storage.iceberg_rest.creating import NewTable
from lakeroot.tables.iceberg import ManagedBy
from lakeroot.tables.versions import VERSIONS
from tests.asking import ROWS, Lake
from tests.iceberg.servers import Weed, fresh_name

PROJECT = Path(__file__).parents[2]
NO_GRACE = timedelta(0)


class Place:
    """A namespace of a catalog, with a table in it that has a past."""

    def __init__(self, weed: Weed, managed_by: str) -> None:
        self.weed = weed
        self.client = lakeroot.IcebergNamespace(**weed.properties, managed_by=managed_by)
        self.lake = Lake(self.client)
        self.name = fresh_name()
        self.lake.create_namespace(self.name)
        self.lake.create_table(self.name, "t")
        self.lake.create_table(self.name, "u")
        self.lake.declare_table(self.name, "declared")
        table = Hand(self.client, "")[f"{self.name}.t"]
        table.append(ROWS)
        table.delete("id = 1")

    @property
    def identifier(self) -> tuple[str, str]:
        return (self.name, "t")

    @property
    def location(self) -> str:
        return self.client.store.entries.get(self.identifier).location

    def files(self) -> Objects:
        return self.client.store.files_of(self.client.store.entries.get(self.identifier))

    def manifests(self) -> list[str]:
        """Give the manifests of the table, the newest first."""
        return sorted(i.path for i in self.files().list(VERSIONS) if i.path.endswith(".manifest"))

    def check(self, grace: timedelta = timedelta(days=1)) -> list[Finding]:
        return self.client.check(grace, [self.name])

    def count(self) -> int:
        rows = Hand(self.client, "")[f"{self.name}.t"].count()
        return int(rows)


@pytest.fixture
def storage(catalog: Weed) -> Place:
    return Place(catalog, "storage")


@pytest.fixture
def impl(catalog: Weed) -> Place:
    return Place(catalog, "impl")


def lose_files(place: Place) -> None:
    place.files().delete([info.path for info in place.files().list("")])


def damage_manifest(place: Place) -> None:
    path = place.manifests()[0]
    place.files().put(path, (place.files().get(path) or b"")[:-20])


def lose_data(place: Place) -> None:
    place.files().delete([next(info.path for info in place.files().list("data"))])


def cut_data(place: Place) -> None:
    path = next(info.path for info in place.files().list("data"))
    place.files().put(path, (place.files().get(path) or b"")[:-1])


def lose_versions(place: Place) -> None:
    place.files().delete(place.manifests())


def lose_index(place: Place) -> None:
    dataset = lance.dataset(place.location, storage_options=place.weed.storage)
    dataset.create_scalar_index("id", "BTREE")
    place.client.sync_table(list(place.identifier))
    place.files().delete([info.path for info in place.files().list("_indices")])


def share_location(place: Place) -> None:
    made = NewTable((place.name, "twin"), place.location, ManagedBy.STORAGE, {})
    place.client.store._creation.create(made)


def name_unknown_arbiter(place: Place) -> None:
    mark = {"action": "set-properties", "updates": {"managed_by": "somebody"}}
    place.client.store.client.update_table(place.identifier, [], [mark])


def write_behind_its_back(place: Place) -> None:
    lance.write_dataset(ROWS, place.location, mode="append", storage_options=place.weed.storage)


def show_another_schema(place: Place) -> None:
    schema = {
        "type": "struct",
        "schema-id": 7,
        "fields": [{"id": 1, "name": "other", "required": False, "type": "long"}],
    }
    updates = [
        {"action": "add-schema", "schema": schema, "last-column-id": 9},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    place.client.store.client.update_table(place.identifier, [], updates)


def leave_staged_manifest(place: Place) -> None:
    content = place.files().get(place.manifests()[0]) or b""
    place.files().put(f"{VERSIONS}/18446744073709551600.manifest-{uuid4()}", content)


def lose_newest_version(place: Place) -> None:
    place.files().delete(place.manifests()[:1])


def clean_up_version(place: Place) -> None:
    place.files().delete(place.manifests()[-1:])


def put_version_directly(place: Place) -> None:
    newest = place.manifests()[0]
    shown = f"{VERSIONS}/{int(newest.rpartition('/')[2].split('.')[0]) - 1}.manifest"
    dataset = lance.dataset(place.location, storage_options=place.weed.storage)
    lance.LanceDataset.commit(
        place.location,
        lance.LanceOperation.Append([f.metadata for f in dataset.get_fragments()][:0]),
        read_version=dataset.version,
        storage_options=place.weed.storage,
    )
    assert shown in place.manifests()


def leave_version_unfinished(place: Place) -> None:
    newest = place.manifests()[0]
    content = place.files().get(newest) or b""
    entry = place.client.store.entries.get(place.identifier)
    kept = place.client.store.versions(place.client.catalog.table(place.identifier), None)
    staged = kept[max(kept)].manifest_path.rpartition("/")[2]
    assert entry.definition.version == max(kept)
    place.files().delete([newest])
    place.files().put(f"{VERSIONS}/{staged}", content)


Damage = Callable[[Place], None]
STORAGE: list[tuple[str, Damage]] = [
    ("entry-unreadable", name_unknown_arbiter),
    ("pointer-stale", write_behind_its_back),
    ("schema-stale", show_another_schema),
    ("row-location-shared", share_location),
    ("table-missing", lose_files),
    ("table-unreadable", damage_manifest),
    ("table-file-missing", lose_data),
    ("table-file-damaged", cut_data),
    ("table-index-missing", lose_index),
    ("table-without-version", lose_versions),
    ("leftover-staged-manifest", leave_staged_manifest),
]
IMPL: list[tuple[str, Damage]] = [
    ("version-missing", lose_newest_version),
    ("version-stale", clean_up_version),
    ("version-unfinished", leave_version_unfinished),
    ("version-direct", put_version_directly),
    ("table-missing", lose_files),
]
ON_DISK = {"directory-orphan", "leftover-private-directory"}
"""What a catalog that looks into its tables would refuse to have: see the tests at the end."""

ALSO = {
    # What the second entry says of the table is out of step with it as well.
    "share_location": {"pointer-stale", "schema-stale"},
    "lose_newest_version": {"schema-stale"},
}


def test_every_code_is_provoked_here_and_documented() -> None:
    page = (PROJECT / "docs" / "fsck.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}

    assert {code for code, _ in STORAGE + IMPL} | ON_DISK == set(KINDS)
    for code, kind in OWN_KINDS.items():
        assert f"| {kind.severity} |" in rows[code]
        assert ("| yes |" in rows[code]) is kind.repairable


@pytest.mark.parametrize("managed_by", ["storage", "impl"])
def test_tables_in_use_are_in_order(catalog: Weed, managed_by: str) -> None:
    place = Place(catalog, managed_by)

    assert place.check(NO_GRACE) == []
    place.lake.rename_table(place.name, "t", to="renamed")
    assert place.check(NO_GRACE) == []


@pytest.mark.parametrize(("code", "damage"), STORAGE, ids=[d.__name__ for _, d in STORAGE])
def test_damage_of_a_table_is_found_and_repaired_or_left_alone(
    storage: Place, code: str, damage: Damage
) -> None:
    damage(storage)

    assert_found_and_repaired(storage, code, damage)


@pytest.mark.parametrize(("code", "damage"), IMPL, ids=[d.__name__ for _, d in IMPL])
def test_versions_out_of_step_are_found_and_taken_in(
    impl: Place, code: str, damage: Damage
) -> None:
    damage(impl)

    assert_found_and_repaired(impl, code, damage)


def assert_found_and_repaired(place: Place, code: str, damage: Damage) -> None:
    found = place.check(NO_GRACE)

    assert {one.code for one in found} - ALSO.get(damage.__name__, set()) == {code}
    assert all(one.what and one.why and one.fix for one in found)
    planned = place.client.repair(found, dry_run=True)
    assert code not in {one.finding.code for one in planned} or KINDS[code].repairable
    if not KINDS[code].repairable:
        return
    done = place.client.repair(found)

    assert [one.outcome for one in done if one.finding.code == code] == ["repaired"]
    left = place.check(NO_GRACE)
    if code == "version-unfinished":
        # In its place, the version does not need what it was made of.
        place.client.repair(left)
        left = place.check(NO_GRACE)
    assert left == []
    assert place.count() > 0


def test_young_leftovers_may_be_a_writers(storage: Place) -> None:
    leave_staged_manifest(storage)

    assert storage.check() == []


def test_a_directory_below_the_root_without_an_entry_is_an_orphan(
    catalog: Weed, tmp_path: Path
) -> None:
    root = tmp_path / "tables"
    client = IcebergNamespace(**catalog.properties, root=str(root))
    lake, name = Lake(client), fresh_name()
    lake.create_namespace(name)
    lake.create_table(name, "t")
    assert [one for one in client.check(NO_GRACE) if one.code == "directory-orphan"] == []
    (place,) = (root / name).iterdir()
    shutil.copytree(place, place.with_name(f"gone-{uuid4().hex[:12]}.lance"))

    (found,) = [one for one in client.check(NO_GRACE) if one.code == "directory-orphan"]

    assert found.path.startswith(f"{name}/gone-")
    assert [one for one in client.check() if one.code == "directory-orphan"] == []


def test_a_private_directory_of_a_dead_transaction_is_removed(
    catalog: Weed, tmp_path: Path
) -> None:
    client = IcebergNamespace(**catalog.properties, root=str(tmp_path))
    lake, name = Lake(client), fresh_name()
    lake.create_namespace(name)
    lake.create_table(name, "t")
    (place,) = (tmp_path / name).iterdir()
    private = place / f"_lakeroot-{uuid4().hex}"
    private.mkdir()
    (private / "x.manifest").write_bytes(b"half")

    found = client.check(NO_GRACE, [name])

    assert [one.code for one in found] == ["leftover-private-directory"]
    assert [one.outcome for one in client.repair(found)] == ["repaired"]
    assert not private.exists()
    assert client.check(NO_GRACE, [name]) == []
