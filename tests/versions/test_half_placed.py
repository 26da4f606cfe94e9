"""Versions that are committed, but whose files could not all be put where they belong."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from lakeroot.model.errors import PermissionDeniedError
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.storage.lance_dir import version_rows
from tests.asking import refused
from tests.versions.staging import direct_append, make_table, numbers, row_count, stage
from tests.versions.storage import MortalDisk, opened_on


@pytest.fixture
def opened(tmp_path: Path) -> tuple[LakerootNamespace, MortalDisk]:
    namespace, disk = opened_on(str(tmp_path))
    for name in ("a", "b"):
        make_table(namespace, name)  # type: ignore[arg-type]  # a directory namespace but for its name
    return namespace, disk


def staged_in(namespace: LakerootNamespace) -> list[dict[str, object]]:
    return [stage(namespace, name).request() for name in ("a", "b")]  # type: ignore[arg-type]


def test_each_version_of_a_batch_is_told_where_it_is(
    opened: tuple[LakerootNamespace, MortalDisk], tmp_path: Path
) -> None:
    namespace, disk = opened
    entries = staged_in(namespace)

    def refuse(path: str) -> None:
        if path.startswith("b.lance/_versions/"):
            raise PermissionDeniedError("The disk is somebody else's")

    disk.before_put = refuse
    told = namespace.batch_create_table_versions({"entries": entries})
    disk.before_put = None
    places = [version["manifest_path"] for version in told["versions"]]
    assert all(Path("/", place).is_file() for place in places)
    assert places[0].endswith(".manifest")
    assert places[1] == entries[1]["manifest_path"]
    assert [row_count(namespace, name) for name in ("a", "b")] == [6, 6]


def test_a_staged_file_that_cannot_be_removed_holds_up_nothing(
    opened: tuple[LakerootNamespace, MortalDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace, disk = opened
    entries = staged_in(namespace)

    def refuse(paths: object) -> None:
        raise PermissionDeniedError("The file is somebody else's")

    monkeypatch.setattr(disk, "delete", refuse)
    told = namespace.batch_create_table_versions({"entries": entries})
    monkeypatch.undo()
    places = [version["manifest_path"] for version in told["versions"]]
    assert all(place.endswith(".manifest") and Path("/", place).is_file() for place in places)
    assert [numbers(namespace, name) for name in ("a", "b")] == [[1, 2], [1, 2]]
    assert [row_count(namespace, name) for name in ("a", "b")] == [6, 6]


@pytest.mark.parametrize("staged_files", ["ours", "somebody else's"])
def test_a_batch_gives_way_whole_to_a_version_that_another_writer_put_there_first(
    opened: tuple[LakerootNamespace, MortalDisk],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    staged_files: str,
) -> None:
    namespace, disk = opened
    entries = staged_in(namespace)
    theirs: list[int] = []
    delete = disk.delete

    def refuse_staged(paths: Iterable[str]) -> None:
        for path in paths:
            if ".manifest-" in path and staged_files != "ours":
                raise PermissionDeniedError("The file is somebody else's")
            delete([path])

    monkeypatch.setattr(disk, "delete", refuse_staged)

    def put_theirs_first(path: str) -> None:
        if path.startswith("b.lance/_versions/") and not theirs:
            theirs.append(direct_append(tmp_path / "b.lance"))

    disk.before_put = put_theirs_first
    with refused(14):
        namespace.batch_create_table_versions({"entries": entries})
    disk.before_put = None
    assert theirs == [2]
    assert numbers(namespace, "a") == [1]
    assert row_count(namespace, "b") == 6


def test_metadata_under_names_of_our_own_is_the_same_for_everybody(
    opened: tuple[LakerootNamespace, MortalDisk], tmp_path: Path
) -> None:
    namespace, _ = opened
    entry = stage(namespace, "a").request(metadata={"e_tag": "mine", "note": "n"})  # type: ignore[arg-type]
    namespace.batch_create_table_versions({"entries": [entry]})
    request = {"id": ["a"], "version": 2}
    ours = namespace.describe_table_version(request)["version"]
    version_rows._REMEMBERED.clear()  # As in any other process.
    assert opened_on(str(tmp_path))[0].describe_table_version(request)["version"] == ours
