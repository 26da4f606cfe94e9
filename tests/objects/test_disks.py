"""Which disk a directory is on, and how many files are flushed: one by one, together, or all."""

import os
from pathlib import Path

import pytest

from lakeroot.objects import LocalObjects, disks
from lakeroot.objects.disks import MANY, Disk, disk_of, flush_all

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /mnt rw - tmpfs tmpfs rw
31 30 8:1 / {place}/a\\040disk rw,noatime - xfs /dev/sda1 rw
32 31 0:44 / {place}/a\\040disk rw - fuse.s3fs s3fs rw
33 22 0:45 / {place}/other rw - btrfs /dev/sdb rw
"""


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what is flushed, one by one, in order."""
    found: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: found.append(_name(handle)))
    return found


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which disks are flushed whole."""
    found: list[str] = []
    monkeypatch.setattr(disks, "_syncfs", lambda: lambda handle: found.append(_name(handle)))
    return found


def _name(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())


def _written(directory: Path, count: int) -> list[str]:
    places = [directory / str(number) / "file" for number in range(count)]
    for place in places:
        place.parent.mkdir()
        place.write_bytes(b"x")
    return [str(place) for place in places]


def _disk(directory: Path, kind: str = "ext4") -> Disk:
    return Disk(directory.stat().st_dev, kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a disk/lake", "fuse.s3fs"),
        ("other", "btrfs"),
        ("others", "ext4"),
        ("not/made/yet", "ext4"),
    ],
)
def test_the_nearest_mount_above_tells_the_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    place = tmp_path.resolve()
    mounts = tmp_path / "mountinfo"
    strange = b"40 22 0:50 / /mnt/\xff\xfe rw - ext4 /dev/sdc rw\n"
    mounts.write_bytes(MOUNTS.format(place=place).encode() + strange)
    for mounted in ("a disk", "other"):
        (tmp_path / mounted).mkdir()
    monkeypatch.setattr(disks, "_MOUNTS", mounts)

    assert disk_of(str(place / name)) == Disk(tmp_path.stat().st_dev, kind)


def test_a_system_that_does_not_tell_promises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "_MOUNTS", tmp_path / "missing")

    found = disk_of(str(tmp_path))

    assert not found.is_ordered
    assert not found.is_memory


def test_few_files_are_flushed_one_by_one_each_before_its_name(
    tmp_path: Path, flushed: list[str], synced: list[str]
) -> None:
    places = _written(tmp_path, 2)

    flush_all(places, _disk(tmp_path))

    assert flushed == [*places, str(tmp_path / "0"), str(tmp_path / "1")]
    assert synced == []


def test_many_files_are_flushed_with_the_whole_disk(
    tmp_path: Path, flushed: list[str], synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "LITTLE", 1 << 40)
    places = _written(tmp_path, MANY)

    flush_all(places, _disk(tmp_path))

    assert synced == [str(tmp_path / "0")]
    assert flushed == []


@pytest.mark.parametrize("why", ["much waits", "another kind", "another disk", "no such call"])
def test_where_that_is_dear_or_not_enough_each_is_flushed(
    tmp_path: Path,
    flushed: list[str],
    synced: list[str],
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    monkeypatch.setattr(disks, "LITTLE", -1 if why == "much waits" else 1 << 40)
    if why == "no such call":
        monkeypatch.setattr(disks, "_syncfs", lambda: None)
    places = _written(tmp_path, MANY)
    device = tmp_path.stat().st_dev + (why == "another disk")

    flush_all(places, Disk(device, "fuse.s3fs" if why == "another kind" else "ext4"))

    assert set(flushed[:MANY]) == set(places)
    assert set(flushed[MANY:]) == {str(Path(place).parent) for place in places}
    assert synced == []


def test_the_real_call_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "LITTLE", 1 << 40)

    flush_all(_written(tmp_path, MANY), _disk(tmp_path))


def test_files_that_are_gone_need_no_waiting(tmp_path: Path) -> None:
    objects = LocalObjects(str(tmp_path), fsync=True)

    objects.flush(["nothing/there"])
    objects.flush([f"nothing/{number}/there" for number in range(MANY)])
