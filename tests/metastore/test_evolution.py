"""Schemas change, and rows written before are still read right."""

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data import (
    AddField,
    ChangeField,
    RemoveField,
    RenameField,
    TableWriter,
    WidenField,
    read_rows,
)
from lakeroot.metastore.schemas import DOC, Field
from lakeroot.metastore.schemes import PartitionKey, PartitionScheme, SortKey, SortScheme
from lakeroot.metastore.states import SchemaConsistency
from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    TableSchemaValidationError,
)

from .test_rows import change, rows, table_in

KEY = {"DELTACAT:merge_key": "True"}
BASE = schema_of(pa.schema([("a", pa.int32()), ("b", pa.string())]))


def evolve(metastore: Metastore, *updates: Any, **options: Any) -> None:
    with metastore.transaction() as txn:
        TableWriter(txn, "n", "t").evolve(list(updates), **options)


def test_columns_are_added_renamed_and_widened_under_old_rows(metastore: Metastore) -> None:
    table_in(metastore, BASE)
    change(metastore, "append", [{"a": 1, "b": "x"}])
    evolve(metastore, AddField(pa.field("c", pa.int64()), past_default=7, future_default=8))
    evolve(metastore, RenameField("b", "label"), WidenField("a", pa.int64()))
    change(metastore, "append", pa.table({"a": [2**40], "label": ["y"]}))
    version = metastore.view().table_version("n", "t")

    assert rows(metastore) == [
        {"a": 1, "label": "x", "c": 7},
        {"a": 2**40, "label": "y", "c": 8},
    ]
    assert version.schema is not None
    assert version.schema.schema_id == 2
    assert [schema.schema_id for schema in version.schemas or ()] == [0, 1, 2]


def test_an_id_is_never_used_twice(metastore: Metastore) -> None:
    table_in(metastore, BASE)
    change(metastore, "append", [{"a": 1, "b": "old"}])
    evolve(metastore, RemoveField("b"), allow_incompatible=True)
    evolve(metastore, AddField(pa.field("b", pa.string())))
    change(metastore, "append", pa.table({"a": pa.array([2], pa.int32()), "b": ["new"]}))
    schema = metastore.view().table_version("n", "t").schema

    assert schema is not None
    assert [field.id for field in schema.fields] == [0, 2]
    assert [one["b"] for one in rows(metastore)] == [None, "new"]


def test_names_can_change_places(metastore: Metastore) -> None:
    table_in(metastore, schema_of(pa.schema([("a", pa.int64()), ("b", pa.int64())])))
    change(metastore, "append", [{"a": 1, "b": 2}])
    evolve(metastore, RenameField("a", "t"), RenameField("b", "a"), RenameField("t", "b"))

    assert rows(metastore) == [{"b": 1, "a": 2}]


def test_nested_fields_have_ids_too() -> None:
    kind = pa.struct([("x", pa.list_(pa.int64())), ("y", pa.map_(pa.string(), pa.int8()))])
    schema = schema_of(pa.schema([("s", kind), ("z", pa.int8())]))
    found = []

    def visit(field: Any) -> None:
        found.append(Field(field).id)
        for position in range(field.type.num_fields):
            visit(field.type.field(position))

    for field in schema.arrow:
        visit(field)
    assert None not in [found[0], found[1], found[2], found[-1]]
    ids = [one for one in found if one is not None]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("update", "error"),
    [
        (RemoveField("b"), TableSchemaValidationError),
        (RemoveField("zz"), TableColumnNotFoundError),
        (AddField(pa.field("B", pa.int8())), TableSchemaValidationError),
        (AddField(pa.field("c", pa.int8(), nullable=False)), TableSchemaValidationError),
        (WidenField("a", pa.int8()), TableSchemaValidationError),
        (WidenField("b", pa.int8()), TableSchemaValidationError),
        (RenameField("a", "b"), TableSchemaValidationError),
        (AddField(pa.field("c", pa.int64()), past_default="x"), TableSchemaValidationError),
        (AddField(pa.field("c", pa.int64(), metadata=KEY)), TableSchemaValidationError),
        (ChangeField("a", nullable=False), TableSchemaValidationError),
        (ChangeField("a", consistency=SchemaConsistency.VALIDATE), TableSchemaValidationError),
        (ChangeField("a", future_default="x"), TableSchemaValidationError),
        (ChangeField("z", doc="?"), TableColumnNotFoundError),
    ],
)
def test_a_change_that_breaks_readers_is_refused(
    metastore: Metastore, update: Any, error: type[Exception]
) -> None:
    table_in(metastore, BASE)
    with pytest.raises(error):
        evolve(metastore, update)
    assert metastore.view().table_version("n", "t").schema == BASE


def test_new_data_changes_the_schema_only_where_it_may(metastore: Metastore) -> None:
    table_in(metastore, BASE)
    table_in(metastore, BASE, "manual", properties={"schema_evolution_mode": "manual"})
    table_in(metastore, BASE, "strict", properties={"default_schema_consistency_type": "validate"})
    table_in(metastore, BASE, "coerced", properties={"default_schema_consistency_type": "coerce"})
    wide = pa.table({"a": [2**40], "b": ["x"], "more": [1.5]})
    change(metastore, "append", [{"a": 1, "b": "x"}], name="t")
    change(metastore, "append", wide)
    assert rows(metastore)[-1] == {"a": 2**40, "b": "x", "more": 1.5}
    assert rows(metastore)[0] == {"a": 1, "b": "x", "more": None}
    for name in ("manual", "strict", "coerced"):
        with pytest.raises(TableSchemaValidationError):
            change(metastore, "append", wide, name=name)
    change(metastore, "append", pa.table({"a": ["5"], "b": ["x"]}), name="coerced")
    assert rows(metastore, "coerced") == [{"a": 5, "b": "x"}]
    with pytest.raises(TableSchemaValidationError):
        change(metastore, "append", pa.table({"a": [5], "b": ["x"]}), name="strict")


def test_what_is_said_of_a_column_can_change(metastore: Metastore) -> None:
    table_in(metastore, BASE)
    change(metastore, "append", [{"a": 1, "b": "x"}])
    evolve(metastore, AddField(pa.field("c", pa.int64()), past_default=7, future_default=8))
    evolve(metastore, ChangeField("c", doc="a count", nullable=False, future_default=9))
    change(metastore, "append", [{"a": 2, "b": "y"}])
    field = metastore.view().table_version("n", "t").schema.field("c")  # type: ignore[union-attr]

    assert field is not None
    assert (field.arrow.nullable, field.arrow.metadata[DOC]) == (False, b"a count")
    assert [one["c"] for one in rows(metastore)] == [7, 9]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.date32(), datetime.date(2024, 5, 17)),
        (pa.timestamp("us", "UTC"), datetime.datetime(2024, 5, 17, tzinfo=datetime.UTC)),
        (pa.timestamp("us"), datetime.datetime.fromisoformat("2024-05-17T01:02:03")),
        (pa.decimal128(7, 3), decimal.Decimal("-12.345")),
        (pa.binary(), b"\x00\xff"),
        (pa.list_(pa.int64()), [1, 2]),
    ],
)
def test_a_default_may_be_a_date_or_a_decimal_too(
    metastore: Metastore, kind: Any, value: Any
) -> None:
    table_in(metastore, BASE)
    change(metastore, "append", [{"a": 1}])
    evolve(metastore, AddField(pa.field("c", kind), past_default=value, future_default=value))
    change(metastore, "append", [{"a": 2}])

    assert [one["c"] for one in rows(metastore)] == [value, value]


def test_renamed_columns_keep_their_upserts_and_deletes(metastore: Metastore) -> None:
    keyed = schema_of(BASE.arrow, merge_keys=["a"])
    for name, level in (("lazy", "none"), ("eager", "max")):
        table_in(metastore, keyed, name, properties={"read_optimization_level": level})
        change(metastore, "upsert", [{"a": n, "b": "b", "c": "c"} for n in range(4)], name=name)
        change(metastore, "upsert", [{"a": 1, "c": "C"}], name=name)
        change(metastore, "delete", [{"a": 2}], name=name)
        change(metastore, "delete", [{"b": "b", "a": 3}], name=name, on=["b", "a"])
        swap = [RenameField("b", "x"), RenameField("c", "b"), RenameField("x", "c")]
        change(metastore, "evolve", [RenameField("a", "key"), *swap], name=name)
        change(metastore, "upsert", [{"key": 0, "b": "B"}], name=name)
        expected = [{"key": 0, "c": "b", "b": "B"}, {"key": 1, "c": "b", "b": "C"}]

        for _ in range(2):
            found = rows(metastore, name)
            assert sorted(found, key=lambda one: one["key"]) == expected
            change(metastore, "compact", name=name)


def test_a_column_that_readers_need_is_not_removed(metastore: Metastore) -> None:
    scheme = PartitionScheme((PartitionKey(("a",)),), "p", "p")
    order = SortScheme((SortKey(("b",)),), "s", "s")
    table_in(metastore, BASE, partition_scheme=scheme, sort_scheme=order)
    for update in (RemoveField("a"), RenameField("a", "z"), RemoveField("b")):
        with pytest.raises(TableSchemaValidationError, match="must stay"):
            evolve(metastore, update, allow_incompatible=True)
    table_in(metastore, BASE, "u", properties={"read_optimization_level": "none"})
    change(metastore, "append", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], name="u")
    change(metastore, "delete", [{"b": "x"}], name="u")
    remove = [RemoveField("b")]
    with pytest.raises(InvalidInputError, match="Compact"):
        change(metastore, "evolve", remove, name="u", allow_incompatible=True)
    change(metastore, "compact", name="u")
    change(metastore, "evolve", remove, name="u", allow_incompatible=True)

    assert rows(metastore, "u") == [{"a": 2}]


def test_types_that_no_type_unites_are_refused(metastore: Metastore) -> None:
    table_in(metastore, BASE)
    for bad in ({"b": [5]}, {"b": [[1]]}, {"a": ["text"]}):
        with pytest.raises(TableSchemaValidationError):
            change(metastore, "append", pa.table(bad))
    assert rows(metastore) == []


def test_a_column_that_must_have_values_does(metastore: Metastore) -> None:
    arrow = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    table_in(metastore, schema_of(arrow))
    for bad in ({"b": ["x"]}, {"a": pa.array([None], pa.int64())}):
        with pytest.raises(TableSchemaValidationError):
            change(metastore, "append", pa.table(bad))
    change(metastore, "append", pa.table({"a": [1]}))
    assert rows(metastore) == [{"a": 1, "b": None}]


def test_bad_schemas_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no field"):
        schema_of(pa.schema([("a", pa.int64())]), merge_keys=["b"])
    with pytest.raises(InvalidInputError, match="more than one"):
        schema_of(pa.schema([("a", pa.int64()), ("A", pa.int64())]))
    with pytest.raises(TableSchemaValidationError, match="merge key"):
        schema_of(pa.schema([("a", pa.float64())]), merge_keys=["a"])


def test_only_the_columns_that_are_wanted_are_read(metastore: Metastore) -> None:
    table_in(metastore, BASE)
    change(metastore, "append", [{"a": 1, "b": "x"}])

    assert read_rows(metastore.view(), "n", "t", columns=["b"]).column_names == ["b"]
    with pytest.raises(InvalidInputError, match="no column"):
        read_rows(metastore.view(), "n", "t", columns=["c"])
