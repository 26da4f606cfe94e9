"""What is acknowledged is on the disk: contents before their names, and new directories too."""

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakeroot import DeltaCatNamespace, DirectoryNamespace
from lakeroot.objects import LocalObjects
from tests.versions.staging import make_table, stage


class Disk:
    """Notes what is flushed, and what gets its name, in the order in which it happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, str]] = []
        self.sources: dict[str, str] = {}
        for name in ("link", "replace"):
            monkeypatch.setattr(os, name, self._naming(name, getattr(os, name)))
        monkeypatch.setattr(os, "fsync", self._flush)

    def _flush(self, handle: int) -> None:
        self.events.append(("flush", str(Path(f"/proc/self/fd/{handle}").readlink())))

    def _naming(self, name, real):
        def call(source: str, target: str, **options) -> None:
            real(source, target, **options)
            self.events.append(("name", str(target)))
            self.sources[str(target)] = str(source)

        return call

    def assert_everything_was_flushed(self) -> None:
        named = [place for kind, place in self.events if kind == "name"]
        assert named
        for place in named:
            at = self.events.index(("name", place))
            assert ("flush", self.sources[place]) in self.events[:at], "a name before its content"
            parent = str(Path(place).parent)
            assert ("flush", parent) in self.events[at:], "a name that is not on the disk"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


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

    disk.assert_everything_was_flushed()
    kinds = [(kind, Path(place)) for kind, place in disk.events]
    staged = [at for at, (kind, place) in enumerate(kinds) if kind == "flush" and _is_staged(place)]
    named = [at for at, (kind, place) in enumerate(kinds) if kind == "name" and _is_row(place)]
    assert staged
    assert named
    assert staged[0] < named[0]


def test_a_version_that_its_file_decides_is_on_the_disk(tmp_path: Path, disk: Disk):
    namespace = DirectoryNamespace(root=str(tmp_path))
    make_table(namespace, "t")
    staged = stage(namespace, "t")
    disk.events.clear()

    namespace.create_table_version(staged.request())

    disk.assert_everything_was_flushed()


def _is_staged(place: Path) -> bool:
    return place.parent.name == "_versions" and ".manifest-" in place.name


def _is_row(place: Path) -> bool:
    return place.parent.parent.name == "__manifest" and place.suffix == ".manifest"
