"""Tables with columns of types that Spark does not know: jobs that need none of them do their work.

What Lance evaluates may be about such columns; what Spark would have to compute of them is refused.
"""

import decimal
from typing import Any

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError
from lakeroot.spark import pipelines
from lakeroot.spark.catalogs import DIRECTORY, Catalog
from tests.spark.conftest import put

ROWS = 12
INSIDE = pa.struct([("n", pa.time64("ns")), ("x", pa.int64())])
SECOND = "arrow_cast(2, 'Time64(Nanosecond)')"


def unknown_rows() -> pa.Table:
    """Rows of which Spark knows the first two columns alone."""
    numbers = list(range(ROWS))
    large = [decimal.Decimal(10) ** 45 + number for number in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array([0] * ROWS, pa.int32()),
            "at": pa.array(numbers, pa.time64("ns")),
            "took": pa.array([None, *numbers[1:]], pa.duration("ns")),
            "large": pa.array(large, pa.decimal256(50, 2)),
            "inside": pa.array([{"n": number, "x": number} for number in numbers], INSIDE),
            "many": pa.array([[number] * 2 for number in numbers], pa.list_(pa.time64("ns"))),
        },
        schema=pa.schema(
            [
                ("id", pa.int64()),
                ("x", pa.int32()),
                pa.field("at", pa.time64("ns"), nullable=False),
                ("took", pa.duration("ns")),
                ("large", pa.decimal256(50, 2)),
                ("inside", INSIDE),
                ("many", pa.list_(pa.time64("ns"))),
            ]
        ),
    )


@pytest.fixture
def place(catalog):
    """A table of several fragments, with a deleted row before the others."""
    location = put(catalog, "shop.t", unknown_rows(), max_rows_per_file=5)
    lance.dataset(location).delete("id = 0")
    return location


def left(location: str) -> pa.Table:
    return lance.dataset(location).to_table().sort_by("id").combine_chunks()


def without(*ids: int) -> pa.Table:
    """Give the rows as they were, but for some."""
    return unknown_rows().take([n for n in range(1, ROWS) if n not in ids])


def sql(spark, root, statement):
    lakeroot.spark.use_catalog(spark, "unknown", root=root)
    return lakeroot.spark.sql(spark, statement)


@pytest.mark.parametrize("where", ["id IN (3, 7)", f"id = 7 OR at = {SECOND} AND id = 2 OR id = 3"])
def test_rows_are_deleted_by_what_lance_evaluates(spark, root, place, where):
    told = lakeroot.spark.delete(spark, "shop.t", root=root, where=where, dry_run=True)
    assert left(place).equals(without())
    done = lakeroot.spark.delete(spark, "shop.t", root=root, where=where)
    gone = {3, 7} if "at" not in where else {2, 3, 7}
    assert told.deleted == done.deleted == len(gone)
    assert left(place).equals(without(*gone))


def test_rows_are_deleted_by_what_spark_evaluates(spark, root, place):
    sql(spark, root, "DELETE FROM unknown.shop.t WHERE abs(id - 5) = 2")
    assert left(place).equals(without(3, 7))


def test_rows_are_deleted_by_keys(spark, root, place):
    # The table takes no nulls there, so even a source of which nothing is inserted has the column.
    keys = spark.sql("SELECT explode(array(3L, 7L, 99L)) AS id, null AS at")
    given = {"root": root, "on": "id", "when_matched": "delete", "when_not_matched": "nothing"}
    told = lakeroot.spark.merge(keys, "shop.t", dry_run=True, **given)
    done = lakeroot.spark.merge(keys, "shop.t", **given)
    assert told.deleted == done.deleted == 2
    assert left(place).equals(without(3, 7))


def changed(*ids: int) -> pa.Table:
    rows = without()
    new = [1 if each in ids else 0 for each in rows["id"].to_pylist()]
    return rows.set_column(1, "x", pa.array(new, pa.int32()))


def test_an_update_keeps_what_spark_does_not_know(spark, root, place):
    given = {"root": root, "set": {"x": "x + 1"}, "where": "id % 4 = 3"}
    told = lakeroot.spark.update(spark, "shop.t", dry_run=True, **given)
    done = lakeroot.spark.update(spark, "shop.t", **given)
    assert told.updated == done.updated == 3
    assert left(place).equals(changed(3, 7, 11))


def test_a_merge_keeps_what_spark_does_not_know(spark, root, place):
    spark.createDataFrame([(3, 1), (7, 1)], "id long, x int").createOrReplaceTempView("news")
    sql(
        spark,
        root,
        "MERGE INTO unknown.shop.t t USING news s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET x = s.x",
    )
    assert left(place).equals(changed(3, 7))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM unknown.shop.t WHERE at IS NULL",
        "DELETE FROM unknown.shop.t WHERE inside.x = 3",
        "UPDATE unknown.shop.t SET x = 1 WHERE at IS NULL",
        "UPDATE unknown.shop.t SET AT = null",
        "UPDATE unknown.shop.t SET x = size(many)",
        "MERGE INTO unknown.shop.t t USING (SELECT 3L AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET at = null",
        "MERGE INTO unknown.shop.t t USING (SELECT 3L AS id, '1' AS At) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO unknown.shop.t t USING (SELECT 99L AS id, 1L AS took) s ON t.id = s.id"
        " WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO unknown.shop.t t USING (SELECT 3L AS id) s ON t.at IS NULL"
        " WHEN MATCHED THEN DELETE",
    ],
)
def test_what_spark_would_have_to_compute_of_them_is_refused(spark, root, place, statement):
    with pytest.raises(InvalidInputError, match="Spark cannot hold"):
        sql(spark, root, statement)
    assert left(place).equals(without())


def test_a_pipeline_changes_rows_and_keeps_what_spark_does_not_know(spark, root, place):
    here = Catalog.of(DIRECTORY, {"root": root})
    for mode, ids, expected in (("update", "3L, 7L", changed(3, 7)), ("delete", "7L, 9L", None)):
        rows = pipelines.Source(name="rows", sql=f"SELECT explode(array({ids})) AS id, 1 AS x")
        target = pipelines.Target(table="shop.t", source="rows", mode=mode, keys=("id",))
        given: Any = {"catalog": here, "sources": (rows,), "tables": (target,), "atomic": False}
        made = pipelines.Pipeline(name=mode, **given)
        pipelines.run(spark, made)
        kept = [n for n, row in enumerate(changed(3)["id"].to_pylist()) if row not in (7, 9)]
        assert left(place).equals(expected or changed(3).take(kept))


def test_columns_are_computed_by_sql_and_by_functions(spark, root, place):
    given = {"root": root, "values": {"twice": "id * 2", "late": f"at > {SECOND}"}, "job_id": "j"}
    told = lakeroot.spark.backfill(spark, "shop.t", dry_run=True, **given)
    assert told.computed == told.fragments == 3
    assert lakeroot.spark.backfill(spark, "shop.t", **given).computed == 3

    def nanos(batch):
        return pa.record_batch({"nanos": batch["at"].cast(pa.int64())})

    lakeroot.spark.backfill(
        spark, "shop.t", root=root, values=nanos, reads=["at"], job_id="by-function"
    )
    rows = left(place)
    ids = rows["id"].to_pylist()
    assert rows["twice"].to_pylist() == [2 * each for each in ids]
    assert rows["late"].to_pylist() == [each > 2 for each in ids]
    assert rows["nanos"].to_pylist() == ids
    assert rows.select(without().column_names).equals(without())


def test_rows_are_appended_where_such_columns_may_be_null(spark, root, catalog):
    table = pa.table({"id": pa.array([1], pa.int64()), "at": pa.array([1], pa.time64("ns"))})
    location = put(catalog, "shop.n", table)
    lakeroot.spark.write(spark.range(2, 3), "shop.n", root=root)
    assert left(location)["at"].cast(pa.int64()).to_pylist() == [1, None]
    with pytest.raises(InvalidInputError, match="Spark cannot hold"):
        lakeroot.spark.write(spark.sql("SELECT 3L AS id, '1' AS at"), "shop.n", root=root)


def test_a_table_of_nothing_else_can_be_changed_too(spark, root, catalog):
    location = put(catalog, "shop.o", pa.table({"at": pa.array([1, 2, 3], pa.time64("ns"))}))
    where = f"at = {SECOND}"
    told = lakeroot.spark.delete(spark, "shop.o", root=root, where=where, dry_run=True)
    done = lakeroot.spark.delete(spark, "shop.o", root=root, where=where)
    assert told.deleted == done.deleted == 1
    lakeroot.spark.backfill(spark, "shop.o", root=root, values={"one": "1"}, job_id="one")
    assert lance.dataset(location).to_table()["one"].to_pylist() == [1, 1]


def test_such_a_column_can_have_an_index(spark, root, place):
    lakeroot.spark.index(spark, "shop.t", root=root, column="at", kind="BTREE")
    table = lance.dataset(place)
    assert "ScalarIndexQuery" in table.scanner(filter=f"at = {SECOND}").explain_plan()
    assert table.to_table(filter=f"at = {SECOND}")["id"].to_pylist() == [2]
