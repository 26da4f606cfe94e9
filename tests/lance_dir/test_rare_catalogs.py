"""Rules of the manifest that only rare catalogs meet, each by itself."""

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
from msgspec.structs import replace

from lakeroot import DirectoryNamespace
from lakeroot.model.commits import Commit, DeclareTable
from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.rows import VERSION_ROW, Row
from lakeroot.storage.lance_dir.version_file import (
    DELETION_FILES,
    FIRST,
    READER_FEATURES,
    WRITER_FEATURES,
    Deletion,
    Fragment,
    VersionFile,
    decode,
    encode,
)
from lakeroot.storage.lance_dir.version_rows import Rows, _rows
from tests.fsck.conftest import add_rows, make_old

ROWS = pa.table({"n": [1, 2]})


def numbers_in(version: VersionFile) -> dict[int, int]:
    """Read the numbers of a manifest as any other reader does."""
    content = encode(version)
    position = int.from_bytes(content[-16:-8], "little")
    message = protobuf.unframed(content, position)
    return {number: value for number, _, value in protobuf.fields(message) if type(value) is int}


def test_a_version_without_fragments_has_never_given_a_number_to_one() -> None:
    found = decode(encode(replace(FIRST, version=1)))

    assert found.max_fragment_id == -1
    assert decode(encode(replace(FIRST, version=1, max_fragment_id=0))).max_fragment_id == 0


def test_readers_are_told_of_deletions_and_only_then() -> None:
    whole = Fragment(id=0, path="a.lance", size_bytes=10, rows=2)
    holed = replace(whole, deletion=Deletion(0, 1, 7, 1))
    for fragment, features in ((whole, 0), (holed, DELETION_FILES)):
        found = numbers_in(replace(FIRST, version=1, fragments=(fragment,), max_fragment_id=0))
        assert found.get(READER_FEATURES, 0) == features
        assert found.get(WRITER_FEATURES, 0) == features


def test_dropping_a_row_that_leads_out_of_the_root_deletes_nothing_there(tmp_path: Path) -> None:
    root, outside = tmp_path / "lake", tmp_path / "outside"
    catalog = DirectoryNamespace(root=str(root))
    catalog.create_namespace({"id": ["air"]})
    lance.write_dataset(ROWS, str(outside))
    add_rows(root, Row("air$t", "table", "../outside", None))

    DirectoryNamespace(root=str(root)).catalog.drop_table(("air", "t"))

    assert DirectoryNamespace(root=str(root)).list_tables({"id": ["air"]}).tables == []
    assert lance.dataset(str(outside)).count_rows() == 2


def test_a_vacuum_that_changes_nothing_commits_nothing(tmp_path: Path) -> None:
    catalog = DirectoryNamespace(root=str(tmp_path))
    for name in ("a", "b", "c"):
        catalog.create_namespace({"id": [name]})
    make_old(tmp_path)
    catalog.vacuum(older_than=timedelta(0))
    catalog.vacuum(older_than=timedelta(0))
    first = lance.dataset(str(tmp_path / "__manifest")).version
    catalog.vacuum(older_than=timedelta(0))

    assert lance.dataset(str(tmp_path / "__manifest")).version == first


def version_row(number: int, text: str = "{}") -> Row:
    return Row(f"t${number}", VERSION_ROW, None, text)


def test_versions_of_a_table_are_seen_as_the_commits_before_in_the_same_batch_left_them() -> None:
    index = Index()
    index.put_file("f", [version_row(1), version_row(2), Row("u$1", VERSION_ROW, None, "{}")], ())
    again = version_row(2, '{"manifest_path": "x"}')
    pending: Rows = {
        ("t", "1"): None,
        ("t", "2"): again,
        ("t", "3"): version_row(3),
        ("t", "inner"): Row("t$inner", "table", "place", None),
        ("u", "2"): Row("u$2", VERSION_ROW, None, "{}"),
    }

    assert _rows(("t",), index, pending) == [again, version_row(3)]
    assert [row.object_id for row in _rows(("u",), index, pending)] == ["u$1", "u$2"]
    assert [row.object_id for row in _rows(("t",), index, {})] == ["t$1", "t$2"]


def test_folding_leaves_no_row_twice(tmp_path: Path) -> None:
    catalog = DirectoryNamespace(root=str(tmp_path))
    for number in range(12):
        catalog.create_namespace({"id": [f"n{number}"]})
    catalog.drop_namespace({"id": ["n3"]})
    catalog.optimize()

    table = lance.dataset(str(tmp_path / "__manifest"))
    assert table.count_rows() == 11
    assert len(table.get_fragments()) == 1


def test_a_table_that_was_looked_for_before_many_were_declared_is_found(tmp_path: Path) -> None:
    store = DirectoryNamespace(root=str(tmp_path))._store
    assert store.read().get(("t",)) is None
    store.commit_each([Commit((DeclareTable(("t",), store.place(("t",)), {}),))])
    assert store.read().get(("t",)) is not None
    shutil.rmtree(tmp_path / "t.lance")
    assert store.read().get(("t",)) is not None
