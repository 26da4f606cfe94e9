"""Disks that are damaged or strange, properties that are wrong, secrets that must not be told."""

import logging
import pickle
from pathlib import Path

import lance_namespace
import pytest
from lance_namespace import LanceNamespaceError

from lakeroot.namespace.directory import DirectoryNamespace
from tests.asking import Lake, refused
from tests.lance_dir.conftest import Opener, files
from tests.s3 import S3, SECRET_KEY


def newest_version_file(root: Path) -> Path:
    return min((root / "__manifest" / "_versions").glob("*.manifest"))


DAMAGE = {
    "empty": lambda content: b"",
    "short": lambda content: content[:10],
    "half": lambda content: content[: len(content) // 2],
    "last byte missing": lambda content: content[:-1],
    "wrong magic": lambda content: content[:-4] + b"NOPE",
    "zeros": lambda content: bytes(len(content)),
    "position beyond the end": lambda content: content[:-16] + b"\xff" * 8 + content[-8:],
    "length beyond the end": lambda content: b"\xff" * 4 + content[4:],
    "text": lambda content: b"<html>not found</html>" * 10,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_version_file_is_told_and_nothing_is_written(
    opened: Opener, root: Path, damage: str
) -> None:
    held = opened("v2")
    held.create_namespace("a")
    held.create_namespace("b")
    damaged = newest_version_file(root)
    content = DAMAGE[damage](damaged.read_bytes())
    if damage == "length beyond the end":
        position = int.from_bytes(content[-16:-8], "little")
        content = damaged.read_bytes()
        content = content[:position] + b"\xff" * 4 + content[position + 4 :]
    damaged.write_bytes(content)
    before = files(root)

    fresh = opened("v2")
    with refused(19) as error:
        fresh.namespaces()
    assert damaged.name in str(error.value)
    with refused(19):
        fresh.create_namespace("c")
    assert files(root) == before


@pytest.mark.parametrize("damage", ["empty", "short", "zeros", "text"])
def test_a_damaged_data_file_is_told_and_nothing_is_written(
    opened: Opener, root: Path, damage: str
) -> None:
    opened("v2").create_namespace("a")
    for file in (root / "__manifest" / "data").iterdir():
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
    before = files(root)

    fresh = opened("v2")
    for call in (fresh.namespaces, lambda: fresh.create_namespace("b")):
        with refused(18, 19) as error:
            call()
        assert "defect" not in str(error.value)
    assert files(root) == before


def test_a_missing_data_file_is_told(opened: Opener, root: Path) -> None:
    opened("v2").create_namespace("a")
    for file in (root / "__manifest" / "data").iterdir():
        file.unlink()

    with refused(19) as error:
        opened("v2").namespaces()
    assert "fsck" in str(error.value)


def test_unfinished_and_unknown_files_are_not_versions(opened: Opener, root: Path) -> None:
    lake = opened("v2")
    lake.create_namespace("a")
    versions = root / "__manifest" / "_versions"
    newest = newest_version_file(root).name
    (versions / f"{newest}#123").write_bytes(b"half")
    (versions / f"{newest}-3f0e").write_bytes(b"staged")
    (versions / ".tmp").write_bytes(b"x")
    (versions / "notes.txt").write_bytes(b"x")

    assert opened("v2").namespaces() == ["a"]
    lake.create_namespace("b")
    assert opened("v2").namespaces() == ["a", "b"]


def test_an_empty_manifest_directory_is_no_catalog_yet(opened: Opener, root: Path) -> None:
    (root / "__manifest" / "_versions").mkdir(parents=True)
    lake = opened("v2")

    assert lake.namespaces() == []
    lake.create_namespace("a")
    assert opened("compat").namespaces() == ["a"]


@pytest.mark.parametrize("mode", ["v1", "v2", "compat"])
def test_a_root_that_is_a_file_is_told(opened: Opener, root: Path, mode: str) -> None:
    root.write_bytes(b"a file")

    with refused(13, 18) as error:
        opened(mode).declare_table("t")
    assert "defect" not in str(error.value)
    assert root.read_bytes() == b"a file"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"root": ""},
        {"root": "s3://"},
        {"root": "ftp://host/x"},
        {"root": "file://otherhost/x"},
        {"root": "a\0b"},
        {"root": "/tmp/x", "manifest_enabled": "maybe"},
        {"root": "/tmp/x", "commit_retries": "-1"},
        {"root": "/tmp/x", "commit_retries": "many"},
        {"root": "/tmp/x", "manifest_enable": "true"},
        {"root": "/tmp/x", "unknown": "1"},
        {"root": "/tmp/x", "manifest_enabled": "false", "dir_listing_enabled": "false"},
    ],
    ids=repr,
)
def test_wrong_properties_are_refused(wrong: dict[str, str]) -> None:
    with refused(13) as error:
        DirectoryNamespace(**wrong)
    assert str(error.value)
    with pytest.raises(ValueError, match="Failed to construct"):
        lance_namespace.connect("lakeroot.DirectoryNamespace", wrong)


def test_a_misspelled_property_is_answered_with_the_right_one() -> None:
    with refused(13) as error:
        DirectoryNamespace(root="/tmp/x", dir_listing_enable="true")
    assert "dir_listing_enabled" in str(error.value)


@pytest.mark.parametrize("form", ["absolute", "relative", "file", "slashed", "dotted"])
def test_a_root_may_be_written_in_several_ways(
    root: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    written = {
        "absolute": str(root),
        "relative": root.name,
        "file": root.as_uri(),
        "slashed": f"{root}/",
        "dotted": f"./{root.name}",
    }[form]
    lake = Lake(lance_namespace.connect("lakeroot.DirectoryNamespace", {"root": written}))
    lake.create_table("t")

    assert (root / "t.lance").is_dir()
    assert lake.describe_table("t").location == str(root / "t.lance")


def test_a_namespace_travels_to_another_process(root: Path) -> None:
    lake = Lake(DirectoryNamespace(root=str(root)))
    lake.create_namespace("a")

    assert Lake(pickle.loads(pickle.dumps(lake.client))).namespaces() == ["a"]


def test_secrets_are_never_told(s3: S3, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = {**s3.properties, "storage.access_key_id": "nobody"}
    unreachable = {**s3.properties, "storage.endpoint": "http://127.0.0.1:1"}
    told = []
    for properties in (s3.properties, wrong, unreachable):
        client = DirectoryNamespace(root=s3.new_root(), **properties)
        lake = Lake(client)
        told += [repr(client), str(client), client.namespace_id(), repr(client.catalog.store.root)]
        for call in (
            lambda lake=lake: lake.create_namespace("a"),
            lambda lake=lake: lake.create_namespace("a"),
            lambda lake=lake: lake.create_table("t"),
            lambda lake=lake: lake.table_exists("nope", "x"),
            lambda lake=lake: lake.tables(),
        ):
            if properties is unreachable:
                break
            try:
                call()
            except LanceNamespaceError as error:
                told += [str(error), repr(error), str(error.__cause__)]
    with refused(13) as mistaken:
        DirectoryNamespace(root=s3.new_root(), **s3.properties, mistake="1")
    told += [str(mistaken.value), caplog.text]

    assert len(told) > 10
    assert not [text for text in told if SECRET_KEY in text]


def test_secrets_are_never_written(s3: S3) -> None:
    lake = Lake(DirectoryNamespace(root=s3.new_root(), **s3.properties))
    lake.create_namespace("a", properties={"x": "1"})
    lake.create_table("a", "t")

    objects = lake.client.catalog.store.objects
    contents = [objects.get(found.path) for found in objects.list("")]
    assert contents
    assert not [content for content in contents if SECRET_KEY.encode() in content]
