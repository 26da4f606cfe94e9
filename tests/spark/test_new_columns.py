"""`mergeSchema`: new columns and the rows that bring them are one version, or none."""

from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.sql import types as st

import lakeroot.spark
from lakeroot.model.errors import ConcurrentModificationError, LakerootError
from lakeroot.spark import pipelines, widening, writing
from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.commits import commit
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.pipelines import Step, Target
from lakeroot.spark.publishing import Pending, publish_one_by_one, publish_together
from lakeroot.spark.write_tasks import write_rows
from lakeroot.spark.writing import finish, prepare
from tests.spark.conftest import MANAGED
from tests.spark.test_pipelines import pipeline
from tests.spark.test_streaming import pump

WIDE = st.StructType(
    [
        st.StructField("id", st.LongType()),
        st.StructField("at", st.StructType([st.StructField("x", st.ArrayType(st.IntegerType()))])),
    ]
)


@pytest.fixture(params=["unmanaged", "managed"])
def properties(request):
    return MANAGED if request.param == "managed" else {}


@pytest.fixture
def shop(root, properties):
    made = Catalog.at(root, properties)
    made.connect().create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    return made


@pytest.fixture
def named(root, properties):
    """Say which catalog, in the words of the functions on Spark."""
    return {"root": root, **{f"property.{key}": value for key, value in properties.items()}}


def opened(catalog, name="t"):
    return lance.dataset(namespace_client=catalog.connect(), table_id=["shop", name])


def rows(catalog, name="t"):
    return opened(catalog, name).to_table().sort_by("id").to_pylist()


def files(catalog):
    place = Path(str(opened(catalog).uri).removeprefix("file://"))
    return {path.relative_to(place) for path in place.rglob("*") if path.is_file()}


def written(catalog, schema, data, **options):
    """Write rows aside, as a task of Spark does."""
    ref = TableRef(catalog, ("shop", "t"))
    plan = prepare(ref, schema, WriteOptions(merge_schema=True, **options))
    batch = pa.RecordBatch.from_pylist(data, schema=plan.schema)
    return plan, write_rows(plan, [batch])


def begun(catalog, ids=(1, 2), **options):
    """Make a table of one column, of which another was dropped; its number is taken."""
    kind = st.StructType(
        [st.StructField("id", st.LongType()), st.StructField("gone", st.StringType())]
    )
    plan, part = written(catalog, kind, [{"id": each, "gone": "g"} for each in ids], **options)
    finish(plan, [part])
    opened(catalog).drop_columns(["gone"])


AT = {"id": 3, "at": {"x": [7]}}


@pytest.mark.parametrize("stable", [False, True])
def test_columns_and_rows_are_one_version(shop, stable):
    begun(shop, stable_row_ids=stable)
    opened(shop).create_scalar_index("id", "BTREE")
    before = opened(shop).version
    plan, part = written(shop, WIDE, [AT])
    assert opened(shop).schema.names == ["id"]
    assert finish(plan, [part]).version == before + 1
    assert rows(shop) == [{"id": 1, "at": None}, {"id": 2, "at": None}, AT]
    table = opened(shop)
    table.validate()
    assert table.to_table(filter="id = 2 OR id = 3").num_rows == 2
    plan, part = written(shop, WIDE, [{"id": 4, "at": None}])
    finish(plan, [part])
    found = opened(shop).to_table(columns=["id"], with_row_id=True).column("_rowid").to_pylist()
    assert len(set(found)) == 4
    if stable:
        assert sorted(found) == [0, 1, 2, 3]


def test_a_job_that_fails_leaves_the_columns_as_they_were(spark, shop, named):
    begun(shop)
    before, version = files(shop), opened(shop).version
    wide = spark.range(3, 43, 1, 2).selectExpr(
        "if(id = 42, raise_error('bad row'), id) AS id", "id * 2 AS twice"
    )
    with pytest.raises(LakerootError, match="bad row"):
        lakeroot.spark.write(wide, "shop.t", merge_schema=True, **named)
    with pytest.raises(LakerootError, match="bad row"):
        lakeroot.spark.merge(wide, "shop.t", on="id", merge_schema=True, strategy="spark", **named)
    with pytest.raises(Exception, match="bad row"):
        wide.write.format("lakeroot").options(mergeSchema="true", **named).mode("append").save(
            "shop.t"
        )
    assert (opened(shop).version, opened(shop).schema.names) == (version, ["id"])
    assert not {path for path in files(shop) - before if path.suffix == ".manifest"}


def test_rows_that_others_append_meanwhile_are_kept(shop):
    begun(shop)
    plan, part = written(shop, WIDE, [AT])
    for number in (8, 9):
        other = prepare(plan.table.ref, WIDE[:1], WriteOptions())
        finish(other, [write_rows(other, [pa.record_batch({"id": pa.array([number])})])])
    opened(shop).delete("id = 1")
    finish(plan, [part])
    assert [(row["id"], row["at"]) for row in rows(shop)] == [
        (2, None),
        (3, {"x": [7]}),
        (8, None),
        (9, None),
    ]


def test_two_jobs_that_add_the_same_columns_both_get_their_rows_in(shop):
    begun(shop)
    jobs = [written(shop, WIDE, [{**AT, "id": number}]) for number in (3, 4)]
    for plan, part in jobs:
        finish(plan, [part])
    assert [row["id"] for row in rows(shop)] == [1, 2, 3, 4]
    assert rows(shop)[3]["at"] == {"x": [7]}


def test_a_job_whose_columns_are_others_by_now_is_refused_and_leaves_nothing(shop):
    begun(shop)
    plan, part = written(shop, WIDE, [AT])
    opened(shop).add_columns([pa.field("other", pa.string())])
    before = files(shop)
    with pytest.raises(ConcurrentModificationError, match="schema"):
        finish(plan, [part])
    assert opened(shop).schema.names == ["id", "other"]
    assert {path for path in before - files(shop) if path.suffix == ".lance"} == {
        Path(name) for name in part.files
    }


def test_a_column_that_came_and_went_meanwhile_leaves_no_values_to_a_new_one(shop):
    begun(shop)
    plan, part = written(shop, WIDE, [AT])
    kind = st.StructType([WIDE[0], *(st.StructField(name, st.LongType()) for name in "ab")])
    other, rest = written(shop, kind, [{"id": 5, "a": 1, "b": 2}])
    finish(other, [rest])
    opened(shop).drop_columns(["a", "b"])
    with pytest.raises(ConcurrentModificationError, match="schema"):
        finish(plan, [part])
    assert opened(shop).schema.names == ["id"]


def test_a_branch_gets_columns_of_its_own(spark, root, catalog):
    shop = Catalog.at(root)
    begun(shop)
    lance.dataset(opened(shop).uri).create_branch("trial")
    wide = spark.range(3, 5).selectExpr("id", "named_struct('x', id) AS at")
    for strategy in ("auto", "spark"):
        lakeroot.spark.write(wide, "shop.t", root=root, branch="trial", merge_schema=True)
        wide = wide.selectExpr("id", f"'{strategy}' AS {strategy}")
        lakeroot.spark.merge(
            wide, "shop.t", on="id", root=root, branch="trial", merge_schema=True, strategy=strategy
        )
    assert opened(shop).schema.names == ["id"]
    found = lakeroot.spark.read(spark, "shop.t", root=root, branch="trial")
    assert found.columns == ["id", "at", "auto", "spark"]
    assert sorted(row.id for row in found.collect()) == [1, 2, 3, 3, 4, 4]


def test_a_frame_without_rows_brings_its_columns(spark, shop, named):
    begun(shop)
    none = spark.range(0).selectExpr("id", "id * 2 AS twice")
    lakeroot.spark.write(none, "shop.t", merge_schema=True, **named)
    none = spark.range(0).selectExpr("id", "id * 2 AS more")
    lakeroot.spark.merge(none, "shop.t", on="id", merge_schema=True, strategy="spark", **named)
    assert opened(shop).schema.names == ["id", "twice", "more"]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("strategy", ["driver", "spark"])
def test_a_merge_brings_columns_with_its_rows(spark, shop, named, strategy, stable):
    """The first fragment is replaced as a whole, the second in part."""
    begun(shop, stable_row_ids=stable)
    plan, part = written(shop, WIDE[:1], [{"id": each} for each in (3, 4, 5)])
    finish(plan, [part])
    opened(shop).create_scalar_index("id", "BTREE")
    before = opened(shop)
    ids = dict(zip(*before.to_table(["id"], with_row_id=True).to_pydict().values(), strict=True))
    source = spark.range(1, 4).union(spark.range(9, 10)).selectExpr("id", "id * 2 AS twice")
    done = lakeroot.spark.merge(
        source, "shop.t", on="id", merge_schema=True, strategy=strategy, **named
    )
    assert (done.inserted, done.updated) == (1, 3)
    assert [(row["id"], row["twice"]) for row in rows(shop)] == [
        (1, 2),
        (2, 4),
        (3, 6),
        (4, None),
        (5, None),
        (9, 18),
    ]
    table = opened(shop)
    table.validate()
    assert all(table.count_rows(f"id = {number}") == 1 for number in (1, 2, 3, 4, 5, 9))
    # Lance cannot say in one operation that rows keep their ids and columns are new.
    keeps = stable and strategy == "driver"
    assert table.version == before.version + (2 if keeps else 1)
    if keeps:
        now = table.to_table(["id"], with_row_id=True).to_pydict()
        now = dict(zip(now["id"], now["_rowid"], strict=True))
        assert {key: now[key] for key in ids} == ids


def test_columns_are_taken_back_if_rows_that_keep_their_ids_cannot_follow(
    spark, shop, named, monkeypatch
):
    begun(shop, stable_row_ids=True)
    before = {path for path in files(shop) if path.suffix == ".lance"}

    def full(table, base, operation, **rest):
        if isinstance(operation, lance.LanceOperation.Update):
            raise OSError("the disk is full")
        return commit(table, base, operation, **rest)

    monkeypatch.setattr(widening, "commit", full)
    source = spark.range(1, 4).selectExpr("id", "id * 2 AS twice")
    with pytest.raises(OSError, match="full"):
        lakeroot.spark.merge(source, "shop.t", on="id", merge_schema=True, **named)
    assert opened(shop).schema.names == ["id"]
    assert {path for path in files(shop) if path.suffix == ".lance"} == before


def test_a_dry_run_of_a_merge_adds_no_columns(spark, shop, named):
    begun(shop)
    source = spark.range(2, 4).selectExpr("id", "id * 2 AS twice")
    done = lakeroot.spark.merge(source, "shop.t", on="id", merge_schema=True, dry_run=True, **named)
    assert (done.inserted, done.updated) == (1, 1)
    assert opened(shop).schema.names == ["id"]


@pytest.mark.parametrize("together", [True, False])
def test_columns_are_published_with_the_rows_of_other_tables(root, together):
    shop = Catalog.at(root, MANAGED)
    shop.connect().create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    begun(shop)
    plan, part = written(shop, WIDE, [AT])
    operation = lance.LanceOperation.Append(list(part.fragments))
    pending = Pending(plan, operation, tuple(part.files), {"lakeroot.job": plan.job})
    other = prepare(plan.table.ref, WIDE[:1], WriteOptions())
    finish(other, [write_rows(other, [pa.record_batch({"id": pa.array([8])})])])
    before = opened(shop).version
    if together:
        done = publish_together(shop, [pending], "with columns")
    else:
        done = publish_one_by_one([pending])
    assert done == {"shop.t": before + 1}
    assert [row["id"] for row in rows(shop)] == [1, 2, 3, 8]


def test_a_pipeline_that_fails_later_leaves_the_columns_of_the_first_table(spark, root):
    shop = Catalog.at(root, MANAGED)
    shop.connect().create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    begun(shop)
    wide = {"mergeSchema": "true"}
    first = Target(table="shop.t", source="wide", mode="merge", keys=("id",), options=wide)
    broken = Target(table="shop.second", source="broken")
    steps = (
        Step(name="wide", sql="SELECT id, id * 2 AS twice FROM raw"),
        Step(name="broken", sql="SELECT raise_error('no') AS x FROM raw"),
    )
    with pytest.raises(LakerootError):
        pipelines.run(spark, pipeline(root, first, broken, steps=steps))
    assert opened(shop).schema.names == ["id"]
    again = Target(table="shop.again", source="wide")
    pipelines.run(spark, pipeline(root, first, again, steps=steps[:1]))
    assert opened(shop).schema.names == ["id", "twice"]
    assert len(rows(shop, "again")) > 0
    client: Any = shop.connect()
    assert [len(each.versions) for each in client.catalog.history()].count(2) == 1


def test_streams_deliver_rows_that_came_with_columns_and_bring_columns(
    spark, root, catalog, tmp_path
):
    shop = Catalog.at(root)
    begun(shop)
    pump(spark, root, str(tmp_path / "c"), "shop.t", "shop.copy")
    wide = spark.range(3, 5).selectExpr("id", "id * 2 AS twice")
    lakeroot.spark.write(wide, "shop.t", root=root, merge_schema=True)
    pump(spark, root, str(tmp_path / "c"), "shop.t", "shop.copy", columns="id")
    assert [row["id"] for row in rows(shop, "copy")] == [1, 2, 3, 4]
    query = (
        spark.readStream.format("lakeroot")
        .option("root", root)
        .load("shop.t")
        .writeStream.format("lakeroot")
        .options(root=root, checkpointLocation=str(tmp_path / "d"), mergeSchema="true")
        .trigger(availableNow=True)
        .start("shop.copy")
    )
    query.awaitTermination()
    assert [row["twice"] for row in rows(shop, "copy")].count(None) == 6
    changed = spark.range(3, 5).selectExpr("id", "id * 3 AS more")
    lakeroot.spark.merge(changed, "shop.t", root=root, on="id", merge_schema=True)
    with pytest.raises(Exception, match="skipChanges"):
        pump(spark, root, str(tmp_path / "c"), "shop.t", "shop.copy", columns="id")


def test_an_append_whose_answer_was_lost_is_not_made_again(shop, monkeypatch):
    """The number is taken then, and by nobody else."""
    begun(shop)
    plan, part = written(shop, WIDE, [AT])
    lost: list[int] = []

    def losing(*given, **rest):
        done = commit(*given, **rest)
        if not lost:
            lost.append(done.version)
            raise ConcurrentModificationError("The number is taken")
        return done

    monkeypatch.setattr(writing, "commit", losing)
    assert finish(plan, [part]).version == lost[0]
    assert [row["id"] for row in rows(shop)] == [1, 2, 3]
