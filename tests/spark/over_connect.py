"""The journey of a table, and what is different over Spark Connect; run as a program by its test.

The last line it prints is a JSON object of what was seen.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.pipelines.python_steps import frame_of
from lakeroot.spark.spark_sql.connect_queries import Subqueries
from tests.spark.conftest import put
from tests.spark.connect_statements import answered
from tests.spark.every_job import every_job
from tests.spark.journey import CONNECT, journey, opened
from tests.spark.reused import disagreements
from tests.spark.test_exact_conditions import EXACT, SEEN, WHEN, merge, moments


def conditions(spark: SparkSession, root: str) -> dict[str, list[Any]]:
    """Choose rows where Lance cannot be asked: all is refused that needs the column."""
    client = lakeroot.DirectoryNamespace(root=root)
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    put(client, "shop.t", moments())
    lakeroot.spark.use_catalog(spark, "moments", root=root)
    given: dict[str, Any] = {"root": root, "set": {"x": "x + 1"}}
    for condition in (EXACT[2][0], *SEEN[:1]):
        name = "zoned" if "zoned" in condition else "ns"
        for text in (
            f"DELETE FROM moments.shop.t WHERE {condition}",
            f"UPDATE moments.shop.t SET x = 1 WHERE {condition}",
            merge("moments", on=f"t.id = s.id AND t.{condition}") if name == "zoned" else "",
        ):
            with pytest.raises(InvalidInputError, match=f"nanoseconds of column '{name}'"):
                lakeroot.spark.sql(spark, text or f"UPDATE moments.shop.t SET x = second({name})")
    with pytest.raises(InvalidInputError, match="nope"):
        lakeroot.spark.update(spark, "shop.t", where="nope = 1", **given)
    lakeroot.spark.update(spark, "shop.t", where="id = 1", **given)
    lakeroot.spark.update(spark, "shop.t", where=EXACT[0][0], truncate_nanos=True, **given)
    cut = "SELECT count(*) FROM moments.shop.t WITH (truncateNanos = true) AS t WHERE t.ns = "
    assert lakeroot.spark.sql(spark, cut + WHEN).first()[0] == 2
    left = lakeroot.open(root)["shop.t"].to_arrow().sort_by("id")
    assert left["ns"].equals(moments()["ns"])
    return {"x": left["x"].to_pylist()}


def looked(spark: SparkSession, root: str) -> list[Any]:
    """Let a subquery look at its table, which changes, again; and look for what it has left."""
    client = lakeroot.DirectoryNamespace(root=root)
    rows = pa.table({"id": [1, 2]})
    location = put(client, "t", rows)
    lakeroot.spark.use_catalog(spark, "looked", root=root)
    with Subqueries(spark) as inner:
        text = inner.put_in("DELETE FROM looked.t WHERE id IN (SELECT id FROM looked.t)")
        view = text.rpartition("FROM ")[2].removesuffix(")")
        counts: list[Any] = []
        for _ in range(2):
            inner.look()
            counts.append(spark.sql(f"SELECT count(*) FROM {view}").first()[0])
            lance.write_dataset(rows, location, mode="append")
    return [text.partition("WHERE")[0], *counts, spark.sql("SHOW VIEWS LIKE '__lakeroot*'").count()]


def missing(spark: SparkSession, root: str) -> str:
    """Read a table that is not there; give the error."""
    with pytest.raises(AnalysisException) as raised:
        spark.read.format("lakeroot").option("root", root).load("shop.nope").schema  # noqa: B018
    return str(raised.value)


def nameless(spark: SparkSession, frames: dict[str, DataFrame]) -> DataFrame:
    """Make a frame of a column that there is not, as a step of a pipeline."""
    return spark.range(3).select("nope")


def stepped(spark: SparkSession) -> str:
    """Take a step that gives a frame which Spark cannot compute; give the error."""
    with pytest.raises(InvalidInputError) as raised:
        frame_of(spark, {}, "tests.spark.over_connect:nameless", "The step 'names'")
    return str(raised.value)


def main() -> None:
    """Go through all of it: the directory for the catalogs is given."""
    place = Path(sys.argv[1])
    spark = opened(CONNECT)
    seen: dict[str, Any] = {"session": type(spark).__module__}
    try:
        seen["journey"] = journey(spark, str(place / "journey"))
        seen["jobs"] = every_job(spark, str(place / "jobs"))
        seen["statements"] = answered(spark, str(place / "statements"))
        seen["looked"] = looked(spark, str(place / "looked"))
        seen["stepped"] = stepped(spark)
        seen["missing"] = missing(spark, str(place / "statements"))
        seen["frames"] = disagreements(spark, str(place / "frames"), 6)
        try:
            seen["conditions"] = conditions(spark, str(place / "conditions"))
        except BaseException:  # whatever it is, the test shows it
            seen["conditions"] = traceback.format_exc()
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
