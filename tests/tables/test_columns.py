"""Columns: add, alter, drop, and metadata, with and without an arbiter."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace

from lakeroot.model import errors
from lakeroot.tables import columns, computed, refs, rows
from lakeroot.tables.columns import ColumnAlteration, FieldMetadata
from lakeroot.tables.handle import TableHandle
from tests.tables.conftest import ROWS, ipc_stream

BAD_METADATA: Any = {"k": 1}
Snapshot = Callable[[TableHandle], dict[str, int]]


@pytest.fixture
def nested(empty: TableHandle) -> TableHandle:
    """A table with a nested column."""
    rows.create(
        empty,
        pa.table(
            {
                "id": pa.array([1, 2], pa.int32()),
                "name": ["a", None],
                "meta": [{"x": 1, "y.z": 2}, {"x": 3, "y.z": 4}],
            }
        ),
    )
    return empty


def schema(table: TableHandle) -> pa.Schema:
    return lance.dataset(table.location).schema


def test_added_columns_are_computed(nested: TableHandle) -> None:
    added = columns.add_columns(nested, {"twice": "id * 2", "inner": "meta.x"})

    assert added.version == 2
    assert added.transaction_id
    found = lance.dataset(nested.location).to_table(["twice", "inner"])
    assert found.to_pydict() == {"twice": [2, 4], "inner": [1, 3]}


def test_an_expression_need_not_read_any_column(nested: TableHandle) -> None:
    columns.add_columns(nested, {"one": "1"})
    computed.declare_computed(nested, {"two": "1 + 1"})

    assert rows.count_rows(nested, predicate="one = 1 and two is null") == 2


def test_columns_are_renamed_retyped_and_relaxed_at_once(nested: TableHandle) -> None:
    altered = columns.alter_columns(
        nested,
        [
            ColumnAlteration("id", rename="key", data_type=pa.int64()),
            ColumnAlteration("meta.`y.z`", rename="w"),
        ],
    )

    assert altered.version == 2
    assert schema(nested).field("key") == pa.field("key", pa.int64())
    assert [child.name for child in schema(nested).field("meta").type] == ["x", "w"]
    columns.alter_columns(nested, [ColumnAlteration("key", nullable=False)])
    assert not schema(nested).field("key").nullable
    columns.alter_columns(nested, [ColumnAlteration("key", nullable=True)])
    assert schema(nested).field("key").nullable


def test_dropped_columns_are_gone(nested: TableHandle) -> None:
    assert columns.drop_columns(nested, ["name", "meta.x"]).version == 2
    assert schema(nested).names == ["id", "meta"]


@pytest.mark.parametrize(
    ("version", "dropped", "is_refused"),
    [
        ("2.2", ["id", "list", "s"], True),
        ("2.2", ["id", "list", "s.a"], False),
        ("2.2", ["id", "list", "s.a", "s.b.x", "s.b.y"], True),
        ("2.2", ["id", "s", "list.item.x"], False),
        ("2.2", ["id", "s", "list.item"], True),
        ("2.2", ["null", "id", "s"], False),
        ("2.2", ["null.x", "id", "s.b"], False),
        # Lance drops the whole list here.
        ("2.1", ["id", "s", "list.item.x"], True),
        ("2.0", ["id", "s", "list.item.x"], True),
        ("2.0", ["id", "list", "s.b"], False),
    ],
)
def test_columns_are_not_dropped_if_rows_would_have_no_file(
    empty: TableHandle,
    version: str,
    dropped: list[str],
    is_refused: bool,
    snapshot: Snapshot,
) -> None:
    pair = {"x": 1, "y": 2}
    content = pa.Table.from_pylist([{"id": 1, "list": [pair], "s": {"a": 1, "b": pair}}])
    dataset = lance.write_dataset(content, empty.location, data_storage_version=version)
    # It is in no file, and neither is what the second fragment lacks.
    dataset.add_columns(pa.schema([pa.field("null", pa.struct({"x": pa.int64()}))]))
    more = content.append_column("null", pa.array([{"x": 1}]))
    lance.write_dataset(more, empty.location, mode="append")
    before = snapshot(empty)

    if is_refused:
        with pytest.raises(errors.InvalidInputError, match="nobody could read them"):
            columns.drop_columns(empty, dropped)
        assert snapshot(empty) == before
    else:
        columns.drop_columns(empty, dropped)
    assert lance.dataset(empty.location).to_table().num_rows == 2


def test_a_table_without_rows_drops_columns_that_have_files_or_not(empty: TableHandle) -> None:
    dataset = lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), empty.location)
    dataset.add_columns(pa.schema([pa.field("null", pa.int64())]))

    columns.drop_columns(empty, ["id"])

    assert schema(empty).names == ["null"]
    with pytest.raises(errors.InvalidInputError):
        columns.drop_columns(empty, ["null"])


def test_a_column_that_got_its_values_may_stay_alone(empty: TableHandle) -> None:
    dataset = lance.write_dataset(pa.table({"id": [1, 2]}), empty.location)
    dataset.add_columns(pa.schema([pa.field("null", pa.int64())]))
    rows.update(empty, {"null": "id + 1"})

    columns.drop_columns(empty, ["id"])

    assert lance.dataset(empty.location).to_table().to_pydict() == {"null": [2, 3]}


def test_a_branch_has_columns_of_its_own(nested: TableHandle) -> None:
    refs.create_branch(nested, "dev")

    columns.add_columns(nested, {"more": "1"}, branch="dev")
    columns.drop_columns(nested, ["name"], branch="dev")

    assert schema(nested).names == ["id", "name", "meta"]
    assert rows.count_rows(nested, branch="dev", predicate="more = 1") == 2


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda t: columns.add_columns(t, {}), 13),
        (lambda t: columns.add_columns(t, {"": "1"}), 13),
        (lambda t: columns.add_columns(t, {"n": " "}), 13),
        (lambda t: columns.add_columns(t, {"n": "1 +"}), 13),
        (lambda t: columns.add_columns(t, {"n": "zz + 1"}), 12),
        (lambda t: columns.add_columns(t, {"id": "1"}), 13),
        (lambda t: columns.add_columns(t, {"a.b": "1"}), 13),
        (lambda t: columns.add_columns(t, {"n": "sum(id)"}), 13),
        (lambda t: columns.add_columns(t, {"n": "id, name"}), 13),
        (lambda t: columns.add_columns(t, {"n": "id LIMIT 1"}), 13),
        (lambda t: columns.add_columns(t, {"a\0b": "1"}), 13),
        (lambda t: columns.add_columns(t, {"n": "named_struct('a\0b', id)"}), 13),
        (lambda t: columns.add_columns(t, {"_rowid": "1"}), 13),
        (lambda t: columns.add_columns(t, {"_row_created_at_version": "id"}), 13),
        (lambda t: computed.declare_computed(t, {"_rowaddr": "id"}), 13),
        (lambda t: computed.declare_computed(t, {"n": "id, id"}), 13),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("id", "_rowoffset")]), 13),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("id", "a\0b")]), 13),
        (lambda t: columns.alter_columns(t, []), 13),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("id")]), 13),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("id", "")]), 13),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("zz", "x")]), 12),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("meta.zz", "x")]), 12),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("id", "name")]), 13),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("id", "x")] * 2), 13),
        (lambda t: columns.alter_columns(t, [ColumnAlteration("name", nullable=False)]), 13),
        (
            lambda t: columns.alter_columns(t, [ColumnAlteration("name", data_type=pa.int64())]),
            13,
        ),
        (
            lambda t: columns.alter_columns(
                t, [ColumnAlteration("id", "ok"), ColumnAlteration("zz", "no")]
            ),
            12,
        ),
        (lambda t: columns.drop_columns(t, []), 13),
        (lambda t: columns.drop_columns(t, ["zz"]), 12),
        (lambda t: columns.drop_columns(t, ["name", "zz"]), 12),
        (lambda t: columns.drop_columns(t, ["name", "name"]), 13),
        (lambda t: columns.drop_columns(t, ["id", "name", "meta"]), 13),
        (lambda t: columns.update_field_metadata(t, []), 13),
        (lambda t: columns.update_field_metadata(t, [FieldMetadata("zz", {})]), 12),
        (lambda t: columns.update_field_metadata(t, [FieldMetadata("id", {})] * 2), 13),
        (lambda t: columns.update_field_metadata(t, [FieldMetadata("id", BAD_METADATA)]), 13),
        (lambda t: columns.update_schema_metadata(t, BAD_METADATA), 13),
        (lambda t: columns.drop_columns(t, ["name"], branch="zz"), 22),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    nested: TableHandle, act: Callable[[TableHandle], object], code: int, snapshot: Snapshot
) -> None:
    before = snapshot(nested)

    with pytest.raises(errors.LakerootError) as refused:
        act(nested)

    assert refused.value.code == code
    assert snapshot(nested) == before


def test_schema_metadata_is_merged_replaced_and_deleted(nested: TableHandle) -> None:
    assert columns.update_schema_metadata(nested, {"a": "1"}).metadata == {"a": "1"}
    merged = columns.update_schema_metadata(nested, {"b": "2"})
    assert merged.metadata == {"a": "1", "b": "2"}
    assert merged.version == 3
    assert columns.update_schema_metadata(nested, {"a": None}).metadata == {"b": "2"}
    replaced = columns.update_schema_metadata(nested, {"c": "3"}, replace=True)
    assert replaced.metadata == {"c": "3"}
    assert schema(nested).metadata == {b"c": b"3"}


def test_field_metadata_is_merged_and_replaced_in_one_version(nested: TableHandle) -> None:
    columns.update_field_metadata(
        nested, [FieldMetadata("id", {"a": "1", "b": "2"}), FieldMetadata("meta.x", {"c": "3"})]
    )

    updated = columns.update_field_metadata(
        nested,
        [
            FieldMetadata("id", {"d": "4"}, replace=True),
            FieldMetadata("meta.x", {"e": "5"}),
            FieldMetadata("name", {"gone": None}),
        ],
    )

    assert updated.version == 3
    assert updated.fields == {"id": {"d": "4"}, "meta.x": {"c": "3", "e": "5"}, "name": {}}
    assert schema(nested).field("id").metadata == {b"d": b"4"}
    cleared = columns.update_field_metadata(nested, [FieldMetadata("meta.x", {"c": None})])
    assert cleared.fields == {"meta.x": {"e": "5"}}


def test_both_catalogs_answer_alike(tmp_path: Path) -> None:
    theirs = DirectoryNamespace(root=str(tmp_path))
    ours = TableHandle(str(tmp_path / "ours.lance"))
    rows.create(ours, ROWS)
    theirs.create_table(lance_namespace.CreateTableRequest(id=["theirs"]), ipc_stream(ROWS))

    def ask(operation: str, request: str, **fields: Any) -> Any:
        made = getattr(lance_namespace, request)(id=["theirs"], **fields)
        return getattr(theirs, operation)(made)

    pairs = [
        (
            ask(
                "alter_table_add_columns",
                "AlterTableAddColumnsRequest",
                new_columns=[{"name": "n", "expression": "id + 1"}],
            ),
            columns.add_columns(ours, {"n": "id + 1"}),
        ),
        (
            ask(
                "alter_table_alter_columns",
                "AlterTableAlterColumnsRequest",
                alterations=[{"path": "n", "rename": "m", "nullable": True}],
            ),
            columns.alter_columns(ours, [ColumnAlteration("n", "m", nullable=True)]),
        ),
        (
            ask("alter_table_drop_columns", "AlterTableDropColumnsRequest", columns=["name"]),
            columns.drop_columns(ours, ["name"]),
        ),
    ]

    assert [their.version for their, _ in pairs] == [our.version for _, our in pairs]
    assert schema(ours) == lance.dataset(str(tmp_path / "theirs.lance")).schema
    metadata = ask(
        "update_table_schema_metadata", "UpdateTableSchemaMetadataRequest", metadata={"k": "v"}
    )
    assert metadata.metadata == columns.update_schema_metadata(ours, {"k": "v"}).metadata
