"""Catalogs that pylance wrote: read for ever, and what we write of them is as it would be."""

import shutil
from pathlib import Path

import lance
import pytest

from lakeroot.namespace.directory import DirectoryNamespace
from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.version_file import decode, encode
from tests.asking import Lake

GOLDEN = Path(__file__).parents[1] / "golden" / "lance_dir"
CATALOGS = sorted(path.name for path in GOLDEN.iterdir())
VERSION_FILES = sorted(GOLDEN.glob("*/__manifest/_versions/*.manifest"))


@pytest.fixture(params=CATALOGS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / request.param, tmp_path / "lake"))


def test_there_is_something_golden() -> None:
    assert CATALOGS == ["pylance-14.0.2", "pylance-14.0.2-indexed"]
    assert len(VERSION_FILES) > 10


def test_a_catalog_of_pylance_is_read(root: Path) -> None:
    lake = Lake(DirectoryNamespace(root=str(root)))

    assert lake.namespaces() == ["prod"]
    assert lake.describe_namespace("prod") == {"owner": "ann", "größe": "groß"}
    assert lake.namespaces("prod") == ["raw"]
    assert lake.list_all_tables().tables == ["events", "prod$raw$users"]
    assert lake.describe_table("prod", "raw", "users").properties == {"x": "1"}


def test_a_catalog_of_pylance_is_carried_on(root: Path) -> None:
    lake = Lake(DirectoryNamespace(root=str(root)))
    lake.create_namespace("new")
    lake.drop_table("prod", "raw", "users")

    found = lance.dataset(str(root / "__manifest"))
    assert sorted(found.to_table().column("object_id").to_pylist()) == [
        "events",
        "new",
        "prod",
        "prod$raw",
    ]
    assert found.to_table(filter="object_id = 'new'").num_rows == 1
    assert found.to_table(filter="object_type = 'namespace'").num_rows == 3
    assert [len(entry.created) for entry in lake.client.history()][:2] == [0, 1]


@pytest.mark.parametrize("path", VERSION_FILES, ids=lambda path: path.parts[-4] + path.stem[-2:])
def test_a_version_file_survives_being_read_and_written(path: Path) -> None:
    found = decode(path.read_bytes())

    assert found.version == 2**64 - 1 - int(path.stem)
    assert found.editable
    again = decode(encode(found))
    assert again.version == found.version
    assert again.timestamp_ms == found.timestamp_ms
    assert [f.path for f in again.fragments] == [f.path for f in found.fragments]
    assert again.fragments == found.fragments
    assert again.index_section == found.index_section
    assert again.table_metadata == found.table_metadata
    assert again.kept == found.kept
    assert encode(again) == encode(found)


def test_what_cannot_be_read_is_malformed_and_nothing_else() -> None:
    content = VERSION_FILES[0].read_bytes()
    for size in range(len(content)):
        with pytest.raises(protobuf.MalformedError):
            decode(content[:size])


def test_a_flipped_bit_never_raises_anything_else() -> None:
    content = VERSION_FILES[-1].read_bytes()
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 0x55
        try:
            decode(bytes(flipped))
        except protobuf.MalformedError:
            continue
