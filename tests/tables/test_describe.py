"""Descriptions, statistics, and schemas as JSON."""

from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.namespace import DirectoryNamespace

from lakeroot.model import errors
from lakeroot.tables import describe, indexes, refs, rows
from lakeroot.tables.arrow_json import schema_to_json, type_from_json
from lakeroot.tables.handle import TableHandle
from tests.tables.conftest import ROWS

TYPES = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint16": pa.uint16(),
    "int64": pa.int64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "fixed_binary": pa.binary(7),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "time32": pa.time32("s"),
    "time64": pa.time64("ns"),
    "timestamp": pa.timestamp("us"),
    "zoned": pa.timestamp("ns", "UTC"),
    "duration": pa.duration("s"),
    "decimal128": pa.decimal128(10, 2),
    "decimal256": pa.decimal256(40, 3),
    "list": pa.list_(pa.int32()),
    "large_list": pa.large_list(pa.int32()),
    "vector": pa.list_(pa.float32(), 3),
    "multivector": pa.list_(pa.list_(pa.float32(), 3)),
    "struct": pa.struct([pa.field("x", pa.int32(), nullable=False, metadata={"a": "b"})]),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "map": pa.map_(pa.string(), pa.int32()),
    "tensor": pa.fixed_shape_tensor(pa.float32(), [2]),
}


def test_a_table_is_described_at_any_version(table: TableHandle) -> None:
    rows.delete(table, "id = 1")
    refs.create_tag(table, "first", 1)
    refs.create_branch(table, "dev", from_version=1)
    rows.insert(table, ROWS, branch="dev")

    latest = describe.describe(table)
    dev = describe.describe(table, branch="dev")

    assert (latest.version, latest.num_deleted_rows, latest.num_fragments) == (2, 1, 1)
    assert latest.schema == ROWS.schema
    assert latest.metadata["total_rows"] == "2"
    assert describe.describe(table, version=1).num_deleted_rows == 0
    assert describe.describe(table, tag="first").version == 1
    assert (dev.version, dev.num_fragments) == (2, 2)
    assert latest.timestamp_ms > 1_600_000_000_000


def test_existence_is_told_and_a_missing_version_named(table: TableHandle) -> None:
    nowhere = TableHandle(table.location + "-not")

    assert describe.exists(table)
    assert describe.exists(table, version=1)
    assert not describe.exists(nowhere)
    with pytest.raises(errors.TableVersionNotFoundError):
        describe.exists(table, version=9)


def test_statistics_count_live_rows(table: TableHandle) -> None:
    rows.insert(table, ROWS)
    rows.delete(table, "id = 1")
    indexes.create_index(table, indexes.IndexRequest("id", "BTREE"))

    stats = describe.table_stats(table)

    files = sum(file.stat().st_size for file in Path(table.location, "data").iterdir())
    assert (stats.num_rows, stats.num_fragments, stats.num_indices) == (4, 2, 1)
    assert stats.total_bytes == files
    assert stats.num_small_fragments == 2
    assert (stats.lengths.min, stats.lengths.max, stats.lengths.mean) == (2, 2, 2)


def test_an_empty_table_has_empty_statistics(empty: TableHandle) -> None:
    rows.create(empty, ROWS.slice(0, 0))

    stats = describe.table_stats(empty)

    assert (stats.num_rows, stats.num_fragments, stats.lengths.p99) == (0, 0, 0)


@given(st.lists(st.integers(0, 10**7), min_size=1).map(sorted))
def test_percentiles_are_ordered_lengths(lengths: list[int]) -> None:
    found = describe.summary(lengths)

    assert found.min <= found.p25 <= found.p50 <= found.p75 <= found.p99 <= found.max
    assert {found.min, found.p25, found.p50, found.p75, found.p99, found.max} <= set(lengths)


@pytest.mark.parametrize("name", TYPES)
def test_schemas_are_written_as_the_reference_writes_them(tmp_path: Path, name: str) -> None:
    field = pa.field("c", TYPES[name], metadata={"m": "1"})
    schema = pa.schema([field], metadata={"s": "x"})
    lance.write_dataset(schema.empty_table(), tmp_path / "t.lance")
    theirs = DirectoryNamespace(root=str(tmp_path)).describe_table(
        lance_namespace.DescribeTableRequest(id=["t"], load_detailed_metadata=True)
    )

    ours = describe.describe(TableHandle(str(tmp_path / "t.lance")))

    assert ours.json_schema == theirs.var_schema.to_dict()
    assert lance_namespace.DescribeTableResponse(schema=ours.json_schema).var_schema is not None
    assert (ours.version, ours.metadata) == (theirs.version, theirs.metadata)


@pytest.mark.parametrize(
    "name", sorted(TYPES.keys() - {"time32", "time64", "zoned", "duration", "dictionary", "tensor"})
)
def test_a_type_is_read_back_from_its_json(name: str) -> None:
    [field] = schema_to_json(pa.schema([("c", TYPES[name])]))["fields"]

    assert type_from_json(field["type"]) == TYPES[name]


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("int32", pa.int32()),
        ("String", pa.string()),
        ({"type": "double"}, pa.float64()),
        ({"type": "timestamp[ms]"}, pa.timestamp("ms")),
        ({"type": "timestamp[us, tz=Europe/Paris]"}, pa.timestamp("us", "Europe/Paris")),
        ({"type": "timestamp[us, UTC]"}, pa.timestamp("us", "UTC")),
        ({"type": "time32[s]"}, pa.time32("s")),
        ({"type": "duration"}, pa.duration("us")),
        ({"type": "decimal128(12, 4)"}, pa.decimal128(12, 4)),
        ({"type": "date32[day]"}, pa.date32()),
    ],
)
def test_a_type_is_read_as_people_write_it(written: object, kind: pa.DataType) -> None:
    assert type_from_json(written) == kind


@pytest.mark.parametrize(
    "written",
    [
        None,
        {},
        {"type": 3},
        "integer of some kind",
        {"type": "list"},
        {"type": "list", "fields": []},
        {"type": "list", "fields": "x"},
        {"type": "struct", "fields": [{"type": "int32"}]},
        {"type": "fixed_size_list", "fields": [{"name": "i", "type": {"type": "int8"}}]},
        {"type": "decimal128"},
        {"type": "timestamp[fortnight]"},
        {"type": "map", "fields": [{"name": "e", "type": {"type": "int8"}}]},
    ],
)
def test_a_type_that_is_none_is_refused(written: object) -> None:
    with pytest.raises(errors.InvalidInputError):
        type_from_json(written)


def test_both_catalogs_measure_alike(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, pa.table({"a": range(500)}))
    for size in (10, 70, 3):
        rows.insert(table, pa.table({"a": range(size)}))

    theirs = DirectoryNamespace(root=str(tmp_path)).get_table_stats(
        lance_namespace.GetTableStatsRequest(id=["t"])
    )
    ours = describe.table_stats(table)

    assert (theirs.num_rows, theirs.num_indices) == (ours.num_rows, ours.num_indices)
    assert theirs.fragment_stats.num_fragments == ours.num_fragments
    assert theirs.fragment_stats.num_small_fragments == ours.num_small_fragments
    for measure in ("min", "max", "mean", "p25", "p50", "p75", "p99"):
        assert getattr(theirs.fragment_stats.lengths, measure) == getattr(ours.lengths, measure)
