"""Vectors inside of structs, lists and maps stay vectors in a table that is written anew."""

import json

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st

import lakeroot.spark
from lakeroot.spark.conform import to_spark, to_table
from lakeroot.spark.types import exchange_schema, spark_schema, table_schema
from tests.spark.conftest import put

VECTOR = pa.list_(pa.float32(), 3)
INSIDE = pa.struct([pa.field("v", VECTOR), pa.field("n", pa.int64())])
ROW = {"v": [1.0, 2.0, 3.0], "n": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (VECTOR, ROW["v"]),
        (INSIDE, ROW),
        (pa.struct([pa.field("deep", INSIDE)]), {"deep": ROW}),
        (pa.list_(VECTOR), [ROW["v"], ROW["v"]]),
        (pa.list_(pa.list_(VECTOR)), [[ROW["v"]], []]),
        (pa.list_(INSIDE), [ROW]),
        (pa.struct([pa.field("several", pa.list_(VECTOR))]), {"several": [ROW["v"]]}),
        (pa.map_(pa.string(), VECTOR), [("k", ROW["v"])]),
        (pa.list_(pa.list_(pa.float32(), 2), 2), [[1.0, 2.0], [3.0, 4.0]]),
        (pa.list_(pa.float64(), 2), [0.1, 0.2]),
        (pa.list_(pa.int64()), [1]),
    ],
    ids=str,
)
def test_vectors_are_remembered_wherever_they_are(kind, value):
    given = pa.schema([pa.field("c", kind)])
    told = spark_schema(given)
    # As Spark hands a schema on: as text.
    again = table_schema(st.StructType.fromJson(json.loads(told.json())))
    assert again.field("c").type == kind
    rows = pa.RecordBatch.from_arrays([pa.array([value, None, value], kind)], schema=given)
    through = to_spark(rows, exchange_schema(told))
    for start in (0, 1):
        (back,) = to_table([through.slice(start)], again)
        assert back.column("c").to_pylist() == rows.slice(start).column("c").to_pylist()


def test_a_table_written_from_a_frame_keeps_vectors_inside_of_columns(spark, root, catalog):
    kinds = pa.schema([("s", INSIDE), ("l", pa.list_(VECTOR)), ("i", pa.list_(INSIDE))])
    row = {"s": ROW, "l": [ROW["v"]], "i": [ROW]}
    put(catalog, "shop.a", pa.Table.from_pylist([row], kinds))
    frame = lakeroot.spark.read(spark, "shop.a", root=root)
    lakeroot.spark.write(frame, "shop.b", root=root)
    lakeroot.spark.use_catalog(spark, "nested", root=root)
    spark.sql("CREATE TABLE nested.shop.c AS SELECT s, l, i FROM nested.shop.a")
    for name in ("b", "c"):
        found = lakeroot.open(root)[f"shop.{name}"].dataset()
        assert isinstance(found, lance.LanceDataset)
        assert found.schema.types == kinds.types
        assert found.to_table().to_pylist() == [row]
