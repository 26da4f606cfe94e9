"""Names and values of columns that a table cannot have, or that other libraries stumble over."""

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError, TableSchemaValidationError
from lakeroot.spark.options import ReadOptions, WriteOptions, parse
from lakeroot.spark.spark_sql.predicates import predicate
from lakeroot.spark.types import table_schema


@pytest.mark.parametrize(
    "columns",
    ["1 AS `a.b`", "1 AS `a``b`", "1 AS `*`", "1 AS _rowid", "1 AS _rowoffset", "1 AS a, 2 AS a"],
)
def test_a_column_that_lance_would_not_take_is_refused_before_any_job(
    spark, root, catalog, columns
):
    with pytest.raises(TableSchemaValidationError, match="cannot have a column"):
        lakeroot.spark.write(spark.sql(f"SELECT {columns}"), "shop.t", root=root)
    assert lakeroot.open(root).tables() == []


def test_strange_names_are_kept(spark, root, catalog):
    made = spark.sql('SELECT 1 AS `a b`, 2 AS `é`, 3 AS `x"y`, 4 AS `$`')
    lakeroot.spark.write(made, "shop.t", root=root)
    read = lakeroot.spark.read(spark, "shop.t", root=root)
    assert read.where("`a b` = 1 AND `é` = 2").collect()[0].asDict() == {
        "a b": 1,
        "é": 2,
        'x"y': 3,
        "$": 4,
    }


@pytest.mark.parametrize("name", ["*", "a.b", "a`b", "_rowid"])
@pytest.mark.parametrize("by", ["sql", "function"])
def test_a_backfill_adds_no_column_that_nobody_could_read(spark, root, people, name, by):
    values = {name: "age + 1"} if by == "sql" else lambda b: pa.record_batch({name: b["age"]})
    with pytest.raises(InvalidInputError, match="cannot"):
        lakeroot.spark.backfill(spark, "shop.people", root=root, values=values, job_id="b")
    assert lakeroot.spark.read(spark, "shop.people", root=root).columns == ["id", "name", "age"]


def test_a_field_with_a_backtick_is_left_to_spark():
    asked = {"name": "=", "children": [{"field": ["s", "a`b"]}, {"type": "int", "value": "1"}]}
    assert predicate(asked) is None
    assert predicate({"name": "IS_NULL", "children": [{"field": ["s", "a`b"]}]}) is None


@pytest.mark.parametrize(
    ("precision", "scale", "advice"), [(5, -2, r"DECIMAL\(7, 0\)"), (38, -1, "DOUBLE or STRING")]
)
def test_a_decimal_with_a_scale_below_zero_is_refused(precision, scale, advice):
    kind = st.DecimalType(precision, scale)
    for field in (st.StructField("d", kind), st.StructField("d", st.ArrayType(kind))):
        with pytest.raises(TableSchemaValidationError, match=f"below zero.*{advice}"):
            table_schema(st.StructType([field]))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_task_without_a_single_vector_writes_nulls(spark, root, catalog, mode):
    full = spark.sql("SELECT id, array(1f, 2f) AS v FROM range(2)")
    lakeroot.spark.write(full, "shop.t", root=root, vectors="v:2")
    none = spark.sql("SELECT id, CAST(NULL AS array<float>) AS v FROM range(1000)")
    vectors = {"vectors": "v:2"} if mode == "overwrite" else {}
    lakeroot.spark.write(none, "shop.t", root=root, mode=mode, **vectors)
    read = lakeroot.spark.read(spark, "shop.t", root=root)
    assert read.where("v IS NULL").count() == 1000
    assert read.where("v IS NOT NULL").count() == (2 if mode == "append" else 0)


def test_a_vector_with_a_hole_is_refused(spark, root, catalog):
    holed = spark.sql("SELECT array(1f, NULL) AS v")
    with pytest.raises(TableSchemaValidationError, match="a number of a vector is null"):
        lakeroot.spark.write(holed, "shop.t", root=root, vectors="v:2")
    assert lakeroot.open(root).tables() == []


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (WriteOptions, {"storageVersion": "9.9"}),
        (WriteOptions, {"maxRowsPerFile": "0"}),
        (WriteOptions, {"maxBytesPerFile": "-1"}),
        (ReadOptions, {"partitions": "0"}),
        (ReadOptions, {"batchSize": "0"}),
    ],
)
def test_an_option_that_lance_would_fail_on_is_refused(kind, option):
    with pytest.raises(InvalidInputError, match="it takes"):
        parse(kind, option)
