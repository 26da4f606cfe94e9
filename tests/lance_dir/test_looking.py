"""What a reader finds in the directory of a V1 table while others change it."""

from pathlib import Path

import pytest

from lakeroot.objects import LocalObjects, ObjectInfo, local
from lakeroot.storage.lance_dir.directory import Directory
from lakeroot.storage.lance_dir.markers import delete_table
from lakeroot.storage.lance_dir.placement import DEREGISTERED, MARK, RESERVED


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    return LocalObjects(str(tmp_path))


def test_a_table_does_not_come_back_while_it_is_dropped(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file that a reader looks at may be the last that it finds: the drop goes on."""
    for name in (RESERVED, DEREGISTERED, "_versions/1.manifest"):
        objects.put(f"a.lance/{name}", MARK)
    look, looks = local._info, []

    def slowly(path: str, found: object) -> ObjectInfo:
        looks.append(path)
        if len(looks) == 1:
            delete_table(LocalObjects(objects.root), "a.lance")
        return look(path, found)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "_info", slowly)
    assert not Directory(objects).probe("a").is_table
    assert Directory(objects).names(()) == []


@pytest.mark.parametrize(
    ("files", "is_table"),
    [
        ((), False),
        ((RESERVED,), True),
        (("_versions/1.manifest",), True),
        (("notes.txt",), True),
        ((RESERVED, DEREGISTERED), False),
        (("_versions/1.manifest", DEREGISTERED), False),
        ((DEREGISTERED,), False),
    ],
)
def test_a_directory_with_files_is_a_table_unless_it_is_marked(
    objects: LocalObjects, files: tuple[str, ...], is_table: bool
) -> None:
    for directory in ("a.lance", "a.lance/_versions", "a.lance/data"):
        objects.make_directory(directory)
    for name in files:
        objects.put(f"a.lance/{name}", MARK)
    assert Directory(objects).probe("a").is_table is is_table
    assert Directory(objects).names(()) == (["a"] if is_table else [])


def test_a_link_that_leads_nowhere_is_no_file(objects: LocalObjects, tmp_path: Path) -> None:
    objects.make_directory("a.lance")
    (tmp_path / "a.lance" / "_versions").symlink_to(tmp_path / "gone")
    assert not objects.has_any("a.lance")
    assert Directory(objects).names(()) == []
