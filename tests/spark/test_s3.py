"""Tables in a bucket whose keys only the catalog has: it lends them, and nobody else sees them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance_namespace
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import lakeroot.spark
from lakeroot.model.errors import LakerootError, UnauthenticatedError
from lakeroot.server.run import serving
from lakeroot.server.settings import Settings
from lakeroot.spark.catalogs import DIRECTORY
from tests.s3 import S3, SECRET_KEY


@pytest.fixture
def url(s3: S3) -> Iterator[str]:
    """A server over a catalog in the bucket; it alone was told the keys."""
    properties = {"root": s3.new_root(), **s3.properties}
    settings = Settings(
        port=0,
        impl=DIRECTORY,
        properties=properties,
        log_requests=False,
        vend_storage_options=True,
    )
    with serving(settings) as address:
        client = lance_namespace.connect("rest", {"uri": address})
        client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
        yield address


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Everything Spark tells about itself, as its history server and its pages would show it."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    nothing = getattr(jvm.scala, "None$").__getattr__("MODULE$")
    conf = context._jsc.sc().conf().clone().set("spark.eventLog.compress", "false")
    place = jvm.java.net.URI(tmp_path.as_uri())
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener("seen", nothing, place, conf)
    listener.start()
    context._jsc.sc().addSparkListener(listener)
    yield tmp_path
    context._jsc.sc().removeSparkListener(listener)
    listener.stop()


def told(events: Path) -> str:
    return "".join(
        file.read_text(errors="replace") for file in events.rglob("*seen*") if file.is_file()
    )


def test_keys_of_a_bucket_are_given_once_for_its_catalog_and_its_tables(spark, s3):
    where = {"root": s3.new_root(), **s3.properties}
    rows = spark.range(6)
    assert lakeroot.spark.write(rows, "a", **where).rows == 6
    rows.write.format("lakeroot").options(**where).mode("append").save("a")
    assert lakeroot.spark.read(spark, "a", **where).count() == 12
    wrong = {key: "wrong" if "secret" in key else value for key, value in s3.properties.items()}
    with pytest.raises(UnauthenticatedError, match="does not accept these credentials"):
        lakeroot.spark.use_catalog(spark, "wrong", root=where["root"], properties=wrong)


def test_executors_use_keys_that_the_catalog_lends_and_nobody_sees(spark, url, events, tmp_path):
    where = {"impl": "rest", "property.uri": url}
    rows = spark.range(0, 60, 1, 3).withColumn("word", sf.concat(sf.lit("w"), "id"))
    assert lakeroot.spark.write(rows, "shop.a", **where).files == 3
    more = rows.withColumn("id", sf.col("id") + 40)
    done = lakeroot.spark.merge(more, "shop.a", on="id", strategy="spark", **where)
    assert (done.updated, done.inserted) == (20, 40)
    frame = lakeroot.spark.read(spark, "shop.a", columns=["id"], **where)
    assert frame.agg(sf.sum("id")).first()[0] == sum(range(100))
    source = spark.read.format("lakeroot").options(**where).load("shop.a").where("id >= 90")
    assert source.count() == 10
    more.limit(2).write.format("lakeroot").options(**where).mode("append").save("shop.b")
    lakeroot.spark.use_catalog(spark, "bucket", impl="rest", properties={"uri": url})
    assert spark.sql("SELECT count(*) FROM bucket.shop.a WHERE id < 50").first()[0] == 50
    with pytest.raises(LakerootError) as failed:
        lakeroot.spark.write(
            rows.select(sf.raise_error(sf.lit("on purpose")).cast("int").alias("id")),
            "shop.c",
            **where,
        )
    stream = spark.readStream.format("lakeroot").options(**where).load("shop.b")
    sink = stream.writeStream.format("lakeroot").options(**where).trigger(availableNow=True)
    sink.option("checkpointLocation", str(tmp_path / "c")).start("shop.d").awaitTermination()
    assert lakeroot.spark.read(spark, "shop.d", **where).count() == 2

    plans = [frame, source, spark.sql("SELECT * FROM bucket.shop.a")]
    texts = [each._jdf.queryExecution().toString() for each in plans]
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    log = told(events)
    assert "SparkListenerSQLExecutionStart" in log
    for text in (log, str(failed.value), repr(failed.value.__cause__), *texts):
        assert SECRET_KEY not in text
