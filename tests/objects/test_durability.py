"""What is acknowledged is on the disk: contents before their names, and new directories too."""

import os
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakeroot import DeltaCatNamespace, DirectoryNamespace
from lakeroot.objects import LocalObjects, disks
from lakeroot.tables.versions import manifest_name
from tests.versions.disk import version_rows
from tests.versions.staging import make_table, stage


class Disk:
    """Notes what is flushed, and what gets its name, in the order in which it happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self.kind = kind
        self.events: list[tuple[str, str]] = []
        self.sources: dict[str, str] = {}
        for name in ("link", "replace"):
            monkeypatch.setattr(os, name, self._naming(name, getattr(os, name)))
        monkeypatch.setattr(os, "fsync", self._flush)
        monkeypatch.setattr(disks, "MANY", 1000)  # Else all of the disk is flushed at once.

    def _flush(self, handle: int) -> None:
        self.events.append(("flush", str(Path(f"/proc/self/fd/{handle}").readlink())))

    def _naming(self, name, real):
        def call(source: str, target: str, **options) -> None:
            real(source, target, **options)
            self.events.append(("name", str(target)))
            self.sources[str(target)] = str(source)

        return call

    def assert_everything_was_flushed(self, but: Callable[[Path], bool] = lambda _: False) -> None:
        """Demand contents before names, and names in the end but for some."""
        named = [at for at, (kind, _) in enumerate(self.events) if kind == "name"]
        assert named
        for at in named:
            place = self.events[at][1]
            assert ("flush", self.sources[place]) in self.events[:at], "a name before its content"
            is_flushed = self._is_flushed(at) or (
                self.kind == "ext4" and any(map(self._is_flushed, named[named.index(at) :]))
            )
            assert is_flushed or but(Path(place)), "a name that is not on the disk"

    def _is_flushed(self, at: int) -> bool:
        return ("flush", str(Path(self.events[at][1]).parent)) in self.events[at:]


@pytest.fixture(params=["ext4", "btrfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Give a disk with one journal, where later names bring earlier ones with them, and another."""
    # Whatever this machine keeps its temporary files on.
    device = tmp_path.stat().st_dev
    monkeypatch.setattr(disks, "disk_of", lambda _: disks.Disk(device, request.param))
    return Disk(monkeypatch, request.param)


@pytest.mark.parametrize("kind", [DirectoryNamespace, DeltaCatNamespace])
def test_a_commit_is_on_the_disk_before_it_is_acknowledged(tmp_path: Path, kind, disk: Disk):
    kind(root=str(tmp_path)).create_namespace({"id": ["air"]})

    disk.assert_everything_was_flushed()


@pytest.mark.parametrize("kind", [DirectoryNamespace, DeltaCatNamespace])
def test_it_does_not_wait_if_told_so(tmp_path: Path, kind, disk: Disk):
    kind(root=str(tmp_path), durable="false").create_namespace({"id": ["air"]})

    assert [place for what, place in disk.events if what == "flush"] == []


def test_a_new_directory_is_flushed_with_the_one_above_it(tmp_path: Path, disk: Disk):
    LocalObjects(str(tmp_path), fsync=True).put("a/b/c", b"x")

    flushed = {place for what, place in disk.events if what == "flush"}
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")} <= flushed


def test_a_version_is_on_the_disk_before_the_catalog_names_it(tmp_path: Path, disk: Disk):
    namespace = DirectoryNamespace(root=str(tmp_path), table_version_management="true")
    rows = pa.table({"x": [1]})
    lance.write_dataset(rows, namespace_client=namespace, table_id=["t"])
    disk.events.clear()

    lance.write_dataset(rows, namespace_client=namespace, table_id=["t"], mode="append")

    # If its final name is lost, the staged one is there again, and any reader finishes it.
    disk.assert_everything_was_flushed(but=_is_version)
    kinds = [(kind, Path(place)) for kind, place in disk.events]
    staged = [at for at, (kind, place) in enumerate(kinds) if kind == "flush" and _is_staged(place)]
    named = [at for at, (kind, place) in enumerate(kinds) if kind == "name" and _is_row(place)]
    assert staged
    assert named
    assert staged[0] < named[0]


def test_all_versions_of_a_large_batch_are_on_the_disk_before_the_catalog_names_one(
    tmp_path: Path, disk: Disk
):
    namespace = DirectoryNamespace(root=str(tmp_path), table_version_management="true")
    names = [f"t{number}" for number in range(12)]  # too many for one after the other
    for name in names:
        make_table(namespace, name)
    entries = [stage(namespace, name).request() for name in names]
    disk.events.clear()

    namespace.batch_create_table_versions({"entries": entries})

    row = next(at for at, (_, place) in enumerate(disk.events) if _is_row(Path(place)))
    before = disk.events[:row]
    flushed = [place for kind, place in before if kind == "flush" and _is_staged(Path(place))]
    assert len(set(flushed)) == len(names)


def test_a_version_that_its_file_decides_is_on_the_disk(tmp_path: Path, disk: Disk):
    namespace = DirectoryNamespace(root=str(tmp_path))
    make_table(namespace, "t")
    staged = stage(namespace, "t")
    disk.events.clear()

    namespace.create_table_version(staged.request())

    disk.assert_everything_was_flushed()


def test_a_row_names_a_final_place_only_when_it_is_on_the_disk(tmp_path: Path, disk: Disk):
    namespace = DirectoryNamespace(root=str(tmp_path), table_version_management="true")
    table = make_table(namespace, "t", versions=8)
    disk.events.clear()

    namespace.create_table_version(stage(namespace, "t").request())

    row = next(at for at, (kind, place) in enumerate(disk.events) if _is_row(Path(place)))
    assert version_rows(tmp_path)["t$8"]["manifest_path"].endswith(".manifest")
    assert ("flush", str(table / "_versions" / manifest_name(8))) in disk.events[:row]
    directory = ("flush", str(table / "_versions"))
    assert directory in disk.events[:row] or disk.kind == "ext4"


def test_where_the_order_of_names_may_be_lost_every_name_is_flushed(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(disks, "disk_of", lambda _: disks.Disk(0, "unheard-of"))
    disk.kind = "unheard-of"
    namespace = DirectoryNamespace(root=str(tmp_path), table_version_management="true")
    make_table(namespace, "t")
    disk.events.clear()

    namespace.create_table_version(stage(namespace, "t").request())

    disk.assert_everything_was_flushed()


def test_names_on_another_disk_are_flushed_by_themselves(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(disks, "disk_of", lambda _: disks.Disk(-1, "ext4"))
    namespace = DirectoryNamespace(root=str(tmp_path), table_version_management="true")
    table = make_table(namespace, "t")
    disk.events.clear()

    namespace.create_table_version(stage(namespace, "t").request())

    row = next(at for at, (_, place) in enumerate(disk.events) if _is_row(Path(place)))
    assert ("flush", str(table / "_versions")) in disk.events[:row]
    assert ("flush", str(tmp_path / "__manifest" / "data")) in disk.events[:row]


def test_memory_is_not_waited_for(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disks, "disk_of", lambda _: disks.Disk(0, "tmpfs"))
    DirectoryNamespace(root=str(tmp_path)).create_namespace({"id": ["air"]})

    assert [place for what, place in disk.events if what == "flush"] == []


def _is_version(place: Path) -> bool:
    return place.parent.name == "_versions" and place.parent.parent.name != "__manifest"


def _is_staged(place: Path) -> bool:
    return place.parent.name == "_versions" and ".manifest-" in place.name


def _is_row(place: Path) -> bool:
    return place.parent.parent.name == "__manifest" and place.suffix == ".manifest"
