"""INSERT OVERWRITE replaces the rows and leaves every column what it was."""

import lance
import pyarrow as pa
import pytest

from lakeroot.model.errors import TableSchemaValidationError
from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.spark_sql.creating import insertion
from lakeroot.spark.types import exchange_schema, is_blob, spark_schema
from lakeroot.spark.write_tasks import write_rows
from lakeroot.spark.writing import finish
from tests.spark.conftest import put

VECTOR = pa.list_(pa.float64(), 3)
NUMBERS = [0.1, 0.2, 0.3]
COLUMNS = {
    "byte": (pa.uint8(), 255),
    "most": (pa.uint64(), 2**64 - 1),
    "half": (pa.float16(), 0.5),
    "double": (VECTOR, NUMBERS),
    "nanos": (pa.timestamp("ns"), 1_000),
    "inside": (pa.struct([pa.field("v", VECTOR)]), {"v": NUMBERS}),
    "several": (pa.list_(VECTOR), [NUMBERS]),
    "three": (pa.binary(3), b"abc"),
    "large": (pa.large_string(), "x"),
    "bytes": (pa.large_binary(), b"x"),
    "seconds": (pa.timestamp("s", "UTC"), 1),
    "word": (pa.dictionary(pa.int8(), pa.string()), "w"),
}


@pytest.fixture
def data():
    columns = {name: pa.array([value], kind) for name, (kind, value) in COLUMNS.items()}
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    fields[0] = fields[0].with_nullable(nullable=False).with_metadata({"comment": "small"})
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


@pytest.fixture
def table(root, catalog, data):
    return TableRef(Catalog.at(root), ("shop", "t")), put(catalog, "shop.t", data)


def overwritten(ref, schema, rows, **given):
    plan = insertion(ref, schema, given, overwrite=True)
    return finish(plan, [write_rows(plan, rows)] if rows else [])


def from_spark(schema, **values):
    """Give a row as Spark's tasks get it."""
    return pa.RecordBatch.from_pylist([values], schema=exchange_schema(schema))


@pytest.mark.parametrize("some", [True, False], ids=["rows", "no rows"])
def test_replaced_rows_leave_the_columns_their_types(table, data, some):
    ref, location = table
    before = lance.dataset(location).schema
    schema = spark_schema(before, truncate_nanos=True)
    arrow = exchange_schema(schema)
    row = {name: data[name].to_pylist()[0] for name in data.column_names}
    row |= {"nanos": 1, "seconds": 1_000_000}  # Spark's times are microseconds
    arrays = [pa.array([row[field.name]], field.type) for field in arrow]
    rows = [pa.RecordBatch.from_arrays(arrays, schema=arrow)] if some else []
    overwritten(ref, schema, rows)
    after = lance.dataset(location)
    assert after.version == 2
    assert after.schema.equals(before, check_metadata=True)
    assert after.to_table().to_pylist() == (data.to_pylist() if some else [])


def test_a_value_that_does_not_fit_the_column_is_refused(root, catalog):
    location = put(catalog, "shop.b", pa.table({"b": pa.array([1], pa.uint8())}))
    ref = TableRef(Catalog.at(root), ("shop", "b"))
    schema = spark_schema(lance.dataset(location).schema)
    with pytest.raises(TableSchemaValidationError, match="'b' of type uint8"):
        overwritten(ref, schema, [from_spark(schema, b=256)])
    assert lance.dataset(location).to_table()["b"].to_pylist() == [1]


def test_options_of_the_insert_make_vectors_and_blobs_of_columns(root, catalog):
    kinds = pa.schema([("v", pa.list_(pa.float32())), ("b", pa.binary()), ("u", pa.uint8())])
    rows = pa.Table.from_pylist([{"v": [1, 2], "b": b"x", "u": 1}], kinds)
    location = put(catalog, "shop.o", rows)
    ref = TableRef(Catalog.at(root), ("shop", "o"))
    schema = spark_schema(kinds)
    row = from_spark(schema, v=[3.0, 4.0], b=b"y", u=2)
    overwritten(ref, schema, [row], vectors="v:2", blobs="b")
    after = lance.dataset(location).schema
    assert after.field("v").type.list_size == 2
    assert is_blob(after.field("b"))
    assert after.field("u").type == pa.uint8()
    overwritten(ref, schema, [row])
    assert lance.dataset(location).schema.equals(after, check_metadata=True)
