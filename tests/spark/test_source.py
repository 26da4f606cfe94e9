"""``format("lakeroot")`` in a classic session: vectors instead of rows, the rest as ever."""

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types as st

import lakeroot.spark
from lakeroot.spark.spark_sql.sourcing import COLUMNAR, is_found
from lakeroot.spark.streaming import stream_sink
from tests.spark.conftest import fails_last, put
from tests.spark.test_reading import ORDERS, load
from tests.spark.test_streaming import pump
from tests.spark.test_writing import frame, orphans, rows, where


@pytest.fixture
def orders(catalog):
    return put(catalog, "shop.orders", ORDERS, max_rows_per_file=30)


@pytest.fixture
def by_rows(spark):
    """Let the session use the source in Python, as Spark Connect does."""
    spark.conf.set(COLUMNAR, "false")
    yield spark
    spark.conf.unset(COLUMNAR)


def plan_of(data):
    return data._jdf.queryExecution().executedPlan().toString()


def test_columns_filters_and_counts_reach_lance_and_vectors_come_back(spark, root, orders):
    plan = plan_of(load(spark, root).where("id = 3 OR city = 'Oslo'").select("price"))
    assert "ColumnarToRow" in plan
    assert "columns [price]" in plan
    assert "OR" in plan
    assert "LocalTableScan" in plan_of(load(spark, root).groupBy().count())


def test_the_source_in_python_gives_the_same_rows(spark, root, orders, by_rows):
    assert "ColumnarToRow" not in plan_of(load(spark, root))
    expected = ORDERS.sort_by("id").to_pylist()
    assert [row.asDict() for row in load(spark, root).orderBy("id").collect()] == expected
    load(spark, root).write.format("lakeroot").option("root", root).mode("append").save("shop.b")
    spark.conf.set(COLUMNAR, "true")
    copy = spark.read.format("lakeroot").option("root", root).load("shop.b")
    assert [row.asDict() for row in copy.orderBy("id").collect()] == expected


def test_what_spark_has_found_itself_is_registered_only_where_it_is_not_the_same(spark):
    """To replace it makes Spark warn, and once more for every stream."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    lakeroot.spark.register(spark)
    # As Spark finds it, and not as a session would register it.
    assert list(manager.lookupDataSource("lakeroot").dataSourceCls().envVars()) == ["PYTHONPATH"]
    context = spark.sparkContext
    for change, name in (("pythonExec", "elsewhere"), ("environment", {"KEY": "of this session"})):
        before = getattr(context, change)
        setattr(context, change, name)
        try:
            assert not is_found(spark)
        finally:
            setattr(context, change, before)
    assert is_found(spark)


def test_a_frame_keeps_the_version_it_was_loaded_at(spark, root, orders):
    before = load(spark, root)
    lance.dataset(orders).delete("id < 50")
    assert before.count() == 100
    assert len(before.select("city").collect()) == 100
    assert load(spark, root).count() == 50


def test_rows_are_counted_where_no_column_is_wanted(spark, root, orders):
    bounded = load(spark, root, limit="3")
    assert bounded.count() == 3
    assert len(bounded.selectExpr("1 AS one").collect()) == 3
    lakeroot.spark.use_catalog(spark, "counted", root=root)
    text = "SELECT count(*) FROM (SELECT * FROM counted.shop.orders LIMIT 3)"
    assert spark.sql(text).first()[0] == 3
    assert len(spark.sql("SELECT 1 FROM counted.shop.orders WHERE id < 7").collect()) == 7


def test_a_limit_never_asks_a_search_for_more_than_it_ranks(spark, root, orders):
    found = load(spark, root, vector="[1, 2]", k="2")
    assert len(found.limit(5).collect()) == 2
    assert len(found.limit(1).collect()) == 1


def test_a_schema_of_the_user_chooses_columns_and_changes_none(spark, root, orders):
    def given(text):
        reader = spark.read.format("lakeroot").option("root", root).schema(text)
        return reader.load("shop.orders")

    assert given("city string, id long").where("id = 3").first().id == 3
    assert given("city string").where("upper(city) = 'OSLO'").count() > 0
    bounded = spark.read.format("lakeroot").options(root=root, limit=3).schema("city string")
    assert bounded.load("shop.orders").count() == 3
    with pytest.raises(Exception, match="is bigint"):
        given("id string").collect()
    with pytest.raises(Exception, match="'id'"):
        given("idd long").collect()


def test_the_option_mode_says_what_spark_has_no_mode_for(spark, root, catalog):
    def saving(**options):
        return frame(spark, 0, 3).write.format("lakeroot").options(root=root, **options)

    # Spark's own mode, if none is given, is one that it takes for no source of this kind.
    with pytest.raises(AnalysisException, match='"Append" or "Overwrite"') as caught:
        saving().save("shop.t")
    assert caught.value.getCondition() == "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
    saving(mode="create").mode("append").save("shop.t")
    with pytest.raises(AnalysisException, match="TableAlreadyExistsError"):
        saving(mode="create").mode("append").save("shop.t")
    saving(mode="ignore").mode("append").save("shop.t")
    assert rows(where(catalog, "shop", "t")) == [0, 1, 2]


def test_a_failed_write_leaves_the_table_and_no_files(spark, root, catalog):
    lakeroot.spark.write(frame(spark, 0, 4), "shop.t", root=root)
    target = where(catalog, "shop", "t")
    bad = fails_last(frame(spark, 4, 10).repartition(2), target, "_lakeroot/jobs/*/*.json")
    with pytest.raises(Exception, match="bad row"):
        bad.write.format("lakeroot").option("root", root).mode("append").save("shop.t")
    assert rows(target) == [0, 1, 2, 3]
    assert orphans(target) == set()


def test_a_stream_goes_on_where_the_other_source_left_it(spark, root, catalog, tmp_path, by_rows):
    checkpoint = str(tmp_path / "checkpoint")
    lakeroot.spark.write(frame(spark, 0, 3), "shop.a", root=root)
    pump(spark, root, checkpoint, "shop.a", "shop.b")
    spark.conf.set(COLUMNAR, "true")
    lakeroot.spark.write(frame(spark, 3, 5), "shop.a", root=root)
    pump(spark, root, checkpoint, "shop.a", "shop.b")
    spark.conf.set(COLUMNAR, "false")
    lakeroot.spark.write(frame(spark, 5, 6), "shop.a", root=root)
    pump(spark, root, checkpoint, "shop.a", "shop.b")
    assert rows(where(catalog, "shop", "b")) == list(range(6))


def test_a_stream_of_whole_results_is_refused(spark, root, catalog, tmp_path):
    lakeroot.spark.write(frame(spark, 0, 3), "shop.a", root=root)
    stream = spark.readStream.format("lakeroot").option("root", root).load("shop.a")
    writer = stream.groupBy("id").count().writeStream.format("lakeroot").outputMode("complete")
    writer = writer.option("root", root).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match="foreachBatch"):
        writer.trigger(availableNow=True).start("shop.b").awaitTermination()


def test_a_stream_into_a_branch_recognises_its_batches_there(root, catalog):
    location = put(catalog, "shop.t", pa.table({"id": [1]}))
    lance.dataset(location).create_branch("trial")
    schema = st.StructType([st.StructField("id", st.LongType())])
    given = {"root": root, "path": "shop.t", "branch": "trial", "streamId": "s"}
    for _ in range(2):
        sink = stream_sink(given, schema)
        message = sink.write(iter([pa.record_batch({"id": [2, 3]})]))
        sink.commit([message], 0)
        # Spark also aborts when the answer of a commit was lost.
        sink.abort([message], 0)
    branch = lance.dataset(location).checkout_version(("trial", None))
    assert sorted(branch.to_table()["id"].to_pylist()) == [1, 2, 3]
    assert lance.dataset(location).count_rows() == 1


def test_a_schema_that_promises_no_nulls_is_not_believed(spark, root, catalog):
    put(catalog, "shop.holes", pa.table({"x": pa.array([1, None], pa.int64())}))
    given = st.StructType([st.StructField("x", st.LongType(), nullable=False)])

    data = spark.read.format("lakeroot").schema(given).option("root", root).load("shop.holes")

    assert data.where("x IS NULL").count() == 1


def test_a_filter_on_a_year_that_python_does_not_have_is_left_to_spark(spark, root, catalog):
    put(catalog, "shop.days", pa.table({"d": pa.array([0, 1], pa.date32())}))

    data = spark.read.format("lakeroot").option("root", root).load("shop.days")

    assert data.where("d < make_date(12345, 1, 1)").count() == 2


def test_a_frame_of_a_tag_that_was_moved_says_so_once_it_is_forgotten(spark, root, orders):
    lance.dataset(orders).tags.create("then", 1)
    tagged = spark.read.format("lakeroot").options(root=root, tag="then").load("shop.orders")
    lance.dataset(orders).delete("id < 50")
    lance.dataset(orders).tags.update("then", 2)
    for _ in range(16):
        load(spark, root)

    with pytest.raises(Exception, match="not what it was"):
        tagged.collect()
