"""Arrow schemas become Iceberg schemas, and back; PyIceberg is the judge."""

from typing import Any

import lance
import lance.arrow
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import _ConvertToArrowSchema, _pyarrow_to_schema_without_ids
from pyiceberg.schema import Schema, visit

from lakeroot.model.errors import InvalidInputError
from lakeroot.tables.iceberg import arrow_schema, iceberg_schema, lance_field_ids, last_column_id

EXACT = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.decimal128(38, 10): "decimal(38, 10)",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.binary(16): "fixed[16]",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("s"): "timestamp",
    pa.timestamp("ms"): "timestamp",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.timestamp("ms", "+00:00"): "timestamptz",
    pa.dictionary(pa.int8(), pa.string()): "string",
    pa.uuid(): "uuid",
}
NEAREST = {
    pa.uint32(): "long",
    pa.uint64(): "decimal(20, 0)",
    pa.float16(): "float",
    pa.decimal128(5, -2): "string",
    pa.decimal256(76, 2): "string",
    pa.date64(): "date",
    pa.time32("s"): "time",
    pa.time32("ms"): "time",
    pa.time64("ns"): "time",
    pa.timestamp("ns"): "timestamp",
    pa.timestamp("ns", "UTC"): "timestamptz",
    pa.timestamp("us", "Europe/Berlin"): "timestamptz",
    pa.duration("ms"): "long",
    pa.null(): "string",
    pa.json_(): "string",
    pa.bool8(): "boolean",
    pa.month_day_nano_interval(): "binary",
    pa.run_end_encoded(pa.int32(), pa.string()): "binary",
    pa.dense_union([pa.field("a", pa.int8())]): "binary",
}


def only_field(arrow: pa.DataType, metadata: dict[str, str] | None = None) -> Any:
    [field] = iceberg_schema(pa.schema([pa.field("c", arrow, metadata=metadata)]))["fields"]
    return field


@pytest.mark.parametrize("arrow", EXACT, ids=str)
def test_a_type_that_iceberg_has_is_converted_without_a_note(arrow):
    assert only_field(arrow) == {"id": 1, "name": "c", "required": False, "type": EXACT[arrow]}


@pytest.mark.parametrize("arrow", NEAREST, ids=str)
def test_a_type_that_iceberg_lacks_becomes_the_nearest_one_with_a_note(arrow):
    field = only_field(arrow)
    assert field["type"] == NEAREST[arrow]
    assert field["doc"].startswith("Arrow type: ")


@pytest.mark.parametrize("arrow", [t for t in EXACT if t != pa.uuid()], ids=str)
def test_where_pyiceberg_converts_without_loss_we_agree(arrow):
    theirs = _pyarrow_to_schema_without_ids(pa.schema([("c", arrow)])).fields[0].field_type
    assert str(theirs) == EXACT[arrow]


def test_a_decimal256_that_fits_stays_a_decimal():
    assert only_field(pa.decimal256(38, 2))["type"] == "decimal(38, 2)"


def test_a_vector_is_a_list_whose_note_has_its_length():
    field = only_field(pa.list_(pa.float32(), 768))
    assert field["type"] == {
        "type": "list",
        "element-id": 2,
        "element": "float",
        "element-required": False,
    }
    assert "[768]" in field["doc"]


def test_a_bfloat16_is_two_bytes():
    field = only_field(lance.arrow.BFloat16Type())
    assert field["type"] == "fixed[2]"
    assert "bfloat16" in field["doc"]


def test_a_tensor_is_a_list():
    field = only_field(pa.fixed_shape_tensor(pa.float32(), (2, 3)))
    assert field["type"]["element"] == "float"
    assert "fixed_shape_tensor" in field["doc"]


@pytest.mark.parametrize(
    ("name", "storage", "expected"),
    [
        ("lance.blob.v2", pa.struct([("data", pa.large_binary()), ("uri", pa.string())]), "binary"),
        ("lance.json", pa.large_binary(), "string"),
        ("arrow.uuid", pa.binary(16), "uuid"),
        ("somebody.else", pa.int64(), "long"),
    ],
)
def test_an_extension_nobody_registered_is_known_by_its_metadata(name, storage, expected):
    field = only_field(storage, {"ARROW:extension:name": name})
    assert field["type"] == expected
    assert ("doc" in field) == (name != "arrow.uuid")


def test_the_owners_own_words_are_kept_beside_the_note():
    assert only_field(pa.int64(), {"doc": "cents"})["doc"] == "cents"
    assert only_field(pa.uint32(), {"doc": "cents"})["doc"] == "cents (Arrow type: uint32)"


def test_a_note_inside_a_struct_stands_at_its_own_field():
    field = only_field(pa.struct([pa.field("when", pa.timestamp("ns"), nullable=False)]))
    assert "doc" not in field
    assert field["type"]["fields"][0] == {
        "id": 2,
        "name": "when",
        "required": True,
        "type": "timestamp",
        "doc": "Arrow type: timestamp[ns]",
    }


class Broken(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self) -> None:
        super().__init__(pa.int8(), "test.broken")

    def __arrow_ext_serialize__(self):
        return b""

    broken = False

    @property
    def storage_type(self):
        if self.broken:
            raise NotImplementedError("a type from the future")
        return pa.int8()


def test_one_broken_column_does_not_hide_the_others():
    future = Broken()
    arrow = pa.schema([("a", pa.int32()), ("b", future), ("c", pa.string())])
    future.broken = True
    schema = iceberg_schema(arrow)
    assert [f["type"] for f in schema["fields"]] == ["int", "binary", "string"]


def test_the_ids_of_lance_are_kept_and_the_inside_of_a_vector_gets_a_synthesised_one(tmp_path):
    schema = pa.schema(
        [
            ("a", pa.int64()),
            ("v", pa.list_(pa.float32(), 4)),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("s", pa.struct([("x", pa.list_(pa.int8()))])),
        ]
    )
    dataset = lance.write_dataset(
        schema.empty_table(), tmp_path / "t.lance", data_storage_version="2.2"
    )
    dataset.drop_columns(["a"])
    ids = lance_field_ids(dataset.lance_schema.fields())
    converted = iceberg_schema(dataset.schema, ids)
    vector, mapping, struct = converted["fields"]
    assert vector["id"] == 2
    assert vector["type"]["element-id"] == 1_000_002
    assert mapping["id"] == 3
    assert (mapping["type"]["key-id"], mapping["type"]["value-id"]) == (5, 6)
    assert struct["type"]["fields"][0]["type"]["element-id"] == 9
    assert last_column_id(converted) == 1_000_002


PRIMITIVES = st.sampled_from([*EXACT, *NEAREST, pa.decimal256(38, 2)])
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), min_size=1)


def struct_of(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(st.tuples(NAMES, types, st.booleans()), max_size=4, unique_by=lambda f: f[0])
    return fields.map(
        lambda fs: pa.struct([pa.field(n, t, nullable=null or t == pa.null()) for n, t, null in fs])
    )


TYPES = st.recursive(
    PRIMITIVES,
    lambda inner: st.one_of(
        struct_of(inner),
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda t: pa.list_(t, 3)),
        st.tuples(inner.filter(lambda t: t != pa.null()), inner).map(lambda kv: pa.map_(*kv)),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(struct_of(TYPES))
def test_every_schema_becomes_one_that_pyiceberg_reads_with_unique_ids(struct):
    converted = iceberg_schema(pa.schema(list(struct)))
    parsed = Schema.model_validate(converted)
    assert [f.name for f in parsed.fields] == [f.name for f in struct]
    assert [f.required for f in parsed.fields] == [not f.nullable for f in struct]
    assert sorted(parsed._lazy_id_to_field) == list(range(1, last_column_id(converted) + 1))
    assert parsed.highest_field_id == last_column_id(converted)


@settings(max_examples=100, deadline=None)
@given(struct_of(TYPES))
def test_the_way_back_gives_the_types_pyiceberg_gives(struct):
    converted = iceberg_schema(pa.schema(list(struct)))
    ours = arrow_schema(converted)
    theirs = visit(Schema.model_validate(converted), _ConvertToArrowSchema(include_field_ids=False))
    assert [plain(f.type) for f in ours] == [plain(f.type) for f in theirs]


def plain(arrow: pa.DataType) -> object:
    """Large and small strings, and the names of list elements, are one to this comparison."""
    if pa.types.is_struct(arrow):
        return [(f.name, f.nullable, plain(f.type)) for f in arrow]
    if pa.types.is_map(arrow):
        return plain(arrow.key_type), plain(arrow.item_type)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return [plain(arrow.value_type)]
    return str(arrow).removeprefix("large_")


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "struct"},
        {"fields": [{"type": "int"}]},
        {"fields": [{"name": "a", "type": "float16"}]},
        {"fields": [{"name": "a", "type": "decimal(39, 2)"}]},
        {"fields": [{"name": "a", "type": "decimal(3, 5)"}]},
        {"fields": [{"name": "a", "type": {"type": "list"}}]},
        {"fields": [{"name": "a", "type": {"type": "set", "element": "int"}}]},
        {"fields": [{"name": "a", "type": 7}]},
    ],
)
def test_what_is_not_an_iceberg_schema_is_refused(schema):
    with pytest.raises(InvalidInputError) as refusal:
        arrow_schema(schema)
    assert refusal.value.code == 13


def test_a_bottomless_schema_is_refused():
    deep: object = "int"
    for _ in range(500):
        deep = {"type": "list", "element": deep, "element-id": 1}
    with pytest.raises(InvalidInputError):
        arrow_schema({"fields": [{"name": "a", "type": deep}]})
