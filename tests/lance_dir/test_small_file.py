"""Data files written by hand are those that Lance writes, or read as the same rows."""

from pathlib import Path

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

from lakeroot import DirectoryNamespace
from lakeroot.storage.lance_dir import small_file
from lakeroot.storage.lance_dir.rows import Row, _written_by_lance, rows_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
ROWS = st.builds(
    Row,
    TEXT,
    st.sampled_from(["namespace", "table", "table_version"]),
    st.none() | TEXT,
    st.none() | TEXT,
    st.none(),
)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_one_row_is_written_byte_for_byte_as_lance_writes_it(row: Row) -> None:
    content = _written_by_lance([row])
    assert small_file.encode([row]) == content
    assert small_file.decode(content) == [row]
    assert small_file.lacks(content, "certainly-not-there")


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS | st.builds(Row, TEXT, TEXT, TEXT, TEXT, st.lists(TEXT)), max_size=5))
def test_what_lance_writes_is_read_rightly_or_left_to_lance(rows: list[Row]) -> None:
    content = _written_by_lance(rows)
    assert small_file.decode(content) in (rows, None)
    assert not any(small_file.lacks(content, row.object_id) for row in rows)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_left_to_lance(data: st.DataObject) -> None:
    whole = small_file.encode([Row("a", "table", "x", None), Row("b", "namespace", None, "{}")])
    assert whole is not None
    cut = data.draw(st.integers(0, len(whole) - 1))
    small_file.decode(whole[:cut])
    small_file.decode(whole[:cut] + data.draw(st.binary(max_size=8)) + whole[cut:])


def test_a_large_value_is_written_as_lance_writes_it() -> None:
    row = Row("a" * 70_000, "table", "x" * 64, "é" * 100_000)
    assert small_file.encode([row]) == _written_by_lance([row])


@settings(max_examples=40, deadline=None)
@given(st.lists(ROWS, min_size=2, max_size=small_file.MOST_ROWS))
def test_several_rows_read_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    path = tmp_path_factory.mktemp("small") / "rows.lance"
    content = small_file.encode(rows)
    assert content is not None
    assert small_file.decode(content) == rows
    path.write_bytes(content)
    reader = LanceFileReader(str(path))
    assert list(rows_of(reader.read_all().to_table())) == rows
    last = len(rows) - 1
    assert list(rows_of(reader.take_rows([0, last]).to_table())) == [rows[0], rows[last]]
    names = LanceFileReader(str(path), columns=["location"]).read_all().to_table()
    assert names.column("location").to_pylist() == [row.location for row in rows]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [Row("a", "table", "", None)],
        [Row("a", "table", "x", None, ["b"])],
        [Row(str(number), "namespace", None, None) for number in range(small_file.MOST_ROWS + 1)],
    ],
    ids=["none", "an empty string", "base objects", "many"],
)
def test_what_is_not_simple_is_left_to_lance(rows: list[Row]) -> None:
    assert small_file.encode(rows) is None


def test_lance_filters_scans_and_takes_from_such_files(tmp_path: Path) -> None:
    catalog = DirectoryNamespace(root=str(tmp_path))
    catalog.create_namespaces([["a"], ["b"], ["c"]])
    catalog.create_namespaces([["d"]])
    table = lance.dataset(str(tmp_path / "__manifest"))
    assert table.to_table(filter="object_id = 'b'").num_rows == 1
    assert table.count_rows("object_type = 'namespace'") == 4
    assert table.take([3], columns=["object_id"]).to_pylist() == [{"object_id": "d"}]
    table.validate()
