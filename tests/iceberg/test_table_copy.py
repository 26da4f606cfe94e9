"""Copying the files of a table: of any size, and never half seen."""

import itertools
import os
import tracemalloc
from pathlib import Path

import pytest

from lakeroot.namespace.sides import TableFacts
from lakeroot.namespace.table_copy import copy_files
from tests.iceberg.servers import BUCKET, Weed, fresh_name

BIG = 256 << 20
PIECE = 64 << 20


def facts(place: str, options: dict[str, str] | None = None) -> TableFacts:
    return TableFacts(place, {}, options or {})


def test_a_file_is_copied_without_being_held_in_memory(tmp_path: Path):
    data = tmp_path / "a" / "data"
    data.mkdir(parents=True)
    with (data / "big.lance").open("wb") as file:
        file.truncate(BIG)
    tracemalloc.start()
    try:
        assert copy_files(facts(str(tmp_path / "a")), facts(str(tmp_path / "b"))) == 1
        assert tracemalloc.get_traced_memory()[1] < PIECE
    finally:
        tracemalloc.stop()
    assert (tmp_path / "b" / "data" / "big.lance").stat().st_size == BIG
    assert copy_files(facts(str(tmp_path / "a")), facts(str(tmp_path / "b"))) == 0


def test_a_file_of_many_parts_goes_into_a_bucket_through_it_and_back(catalog: Weed, tmp_path: Path):
    (tmp_path / "a" / "data").mkdir(parents=True)
    content = os.urandom(20 << 20)
    (tmp_path / "a" / "data" / "x.lance").write_bytes(content)
    places = [
        facts(str(tmp_path / "a")),
        facts(f"s3://{BUCKET}/copies/{fresh_name()}.lance", catalog.storage),
        facts(f"s3://{BUCKET}/copies/{fresh_name()}.lance", catalog.storage),
        facts(str(tmp_path / "b")),
    ]
    for source, target in itertools.pairwise(places):
        assert copy_files(source, target) == 1
        assert copy_files(source, target) == 0
    assert (tmp_path / "b" / "data" / "x.lance").read_bytes() == content


@pytest.mark.parametrize("where", ["local", "bucket"])
def test_what_breaks_off_in_the_middle_of_a_file_leaves_no_file(
    catalog: Weed, tmp_path: Path, where: str
):
    bucket = facts(f"s3://{BUCKET}/copies/{fresh_name()}.lance", catalog.storage)
    target = bucket if where == "bucket" else facts(str(tmp_path / "b"))

    def breaking():
        yield b"x" * (9 << 20)
        raise RuntimeError("broken off")

    with pytest.raises(RuntimeError):
        target.files.write_chunks("data/x.lance", breaking(), 20 << 20)
    assert list(target.files.list("")) == []
