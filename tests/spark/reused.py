"""One frame in many queries, in one session of any kind."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession

ROWS = 100
# Those that Spark can push into a source in Python, and those that it keeps for itself.
PARTS = (
    *("g = {}", "g < {}", "id >= {}", "g IN ({}, 7)", "w = 'w{}'", "w IS NULL"),
    *("g = {} OR w IS NULL", "id % 3 = {}", "w LIKE '%{}'"),
)


def tables(spark: SparkSession, root: str) -> tuple[DataFrame, DataFrame]:
    """Return one frame of a table, and one of a copy of it in Parquet."""
    rows = spark.range(ROWS).selectExpr(
        "id", "cast(id % 10 AS int) AS g", "if(id % 7 = 0, null, concat('w', id % 10)) AS w"
    )
    rows.write.format("lakeroot").option("root", root).mode("append").save("t")
    rows.write.parquet(f"{root}-parquet")
    frame = spark.read.format("lakeroot").option("root", root).load("t")
    return frame, spark.read.parquet(f"{root}-parquet")


def found(frame: DataFrame, condition: str | None) -> list[int]:
    """Return the ids that a query of a frame finds."""
    return sorted(row.id for row in (frame.where(condition) if condition else frame).collect())


def conditions(chance: random.Random, count: int) -> list[str | None]:
    """Make up conditions: none, one, or two that both must hold."""
    made: list[str | None] = []
    for _ in range(count):
        parts = chance.sample(PARTS, chance.choice((0, 1, 1, 2)))
        made.append(" AND ".join(f"({part.format(chance.randrange(10))})" for part in parts))
    return made


def disagreements(spark: SparkSession, root: str, count: int) -> list[Any]:
    """Ask one frame many things, and its copy the same; return where they differ."""
    frame, copy = tables(spark, root)
    asked = conditions(random.Random(7), count)
    wrong: list[Any] = []

    def compare(what: Any, got: Any, expected: Any) -> None:
        if got != expected:
            wrong.append([what, got, expected])

    for condition in (None, "g = 3", "g = 3 OR id % 2 = 0", None, *asked):
        compare(condition, found(frame, condition), found(copy, condition))
    compare("count", frame.count(), ROWS)
    # Planned now, run later: others are planned between.
    later = [frame.where("g = 3"), frame.where("g = 4"), frame]
    compare("later", [each.count() for each in later], [10, 10, ROWS])
    compare("later", [len(each.collect()) for each in later], [10, 10, ROWS])
    both = frame.where("g = 3").union(frame.where("g = 4")).union(frame.where("id = 0"))
    compare("union", found(both, None), sorted([0, *range(3, ROWS, 10), *range(4, ROWS, 10)]))
    joined = frame.where("g = 3").join(frame.where("id < 50").withColumnRenamed("g", "h"), "id")
    compare("join", found(joined, None), [3, 13, 23, 33, 43])
    one = [condition for condition in asked if condition][:6]
    expected = [found(copy, condition) for condition in one]
    with ThreadPoolExecutor(3) as threads:
        compare("threads", list(threads.map(lambda each: found(frame, each), one)), expected)
    return wrong
