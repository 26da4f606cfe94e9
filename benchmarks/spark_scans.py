"""Spark scans, writes and merges of Lance tables against Spark's own Parquet, same session."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lakeroot.spark
from benchmarks.report import Row
from benchmarks.sparks import measured, spark_and_directory

TITLE = "Spark: Lance through Lakeroot"
PEER = "native Parquet"


def run(*, quick: bool) -> Iterator[Row]:
    rows = 1_000_000 if quick else 10_000_000
    repeats = 3 if quick else 5
    with spark_and_directory() as (spark, directory):
        yield from _measure(spark, directory, rows, repeats)


def _measure(spark: Any, directory: Path, rows: int, repeats: int) -> Iterator[Row]:
    root, parquet = str(directory / "lake"), str(directory / "parquet")
    data = spark.range(0, rows, 1, 2).selectExpr(
        "id",
        "id % 1000 AS k",
        "rand(1) AS a",
        "xxhash64(id) AS b",
        "concat('name', id % 5000) AS name",
        "int(id % 7) AS day",
        "id % 3 = 0 AS flag",
    )
    options = {"root": root, "mode": "overwrite", "max_rows_per_file": rows // 2}
    yield measured(
        f"write {rows:,} rows of 7 columns",
        lambda: lakeroot.spark.write(data, "t", **options),
        lambda: data.write.mode("overwrite").parquet(parquet),
        max(2, repeats - 2),
        1.4,
    )
    lakeroot.spark.use_catalog(spark, "lake", root=root)
    spark.read.parquet(parquet).createOrReplaceTempView("parquet_t")
    queries = {
        "all columns": ("SELECT sum(hash(*)) FROM {}", 1.5),
        "one column of seven": ("SELECT sum(a) FROM {}", 2.0),
        "filter 0.1 %": ("SELECT sum(a), max(name) FROM {} WHERE k = 7", 1.5),
        "count(*)": ("SELECT count(*) FROM {}", 1.2),
        "group by string": ("SELECT name, sum(a) FROM {} GROUP BY name", 2.5),
    }
    for name, (text, most) in queries.items():
        ours, theirs = (
            partial(_ask, spark, text.format(table)) for table in ("lake.t", "parquet_t")
        )
        yield measured(f"{name}, SQL", ours, theirs, repeats, most)
    ways: dict[str, Callable[[], Any]] = {
        "DataFrame": partial(lakeroot.spark.read, spark, "t", root=root),
        'format("lakeroot")': lambda: spark.read.format("lakeroot").option("root", root).load("t"),
    }
    for way, frame in ways.items():
        yield from _frames(way, frame, partial(spark.read.parquet, parquet), repeats)
    copy, formatted = str(directory / "copy"), data.write.format("lakeroot").option("root", root)
    yield measured(
        f'write {rows:,} rows of 7 columns, format("lakeroot")',
        lambda: formatted.option("maxRowsPerFile", rows // 2).mode("overwrite").save("copy"),
        lambda: data.write.mode("overwrite").parquet(copy),
        max(2, repeats - 2),
        1.4,
    )
    yield from _lookups(spark, root, partial(spark.read.parquet, parquet), repeats)


def _lookups(spark: Any, root: str, parquet: Callable[[], Any], repeats: int) -> Iterator[Row]:
    """Look keys up, another one each time; Spark sees a statement anew if it has more spaces."""
    some = spark.sql("SELECT id, b FROM parquet_t WHERE id % 99991 = 345").collect()
    # Parquet finds a key by its statistics only where the file is in the order of the key.
    for column, order in (("b", "in no order"), ("id", "in the order of the file")):
        lakeroot.spark.index(spark, "t", root=root, column=column, kind="BTREE")
        conditions = [f"{column} = {row[column]}" for row in some]
        name = f"point lookup by a key {order}"
        for way, spaces, most in (("SQL", 0, 0.2), ("SQL never seen before", 1, None)):
            asked = [partial(_ask_where, spark, table, spaces) for table in ("lake.t", "parquet_t")]
            ours, theirs = (partial(_look, each, itertools.count(), conditions) for each in asked)
            yield measured(f"{name}, {way}", ours, theirs, repeats, most)
        yield measured(
            f"{name}, DataFrame",
            partial(_look, partial(_found, spark, root), itertools.count(), conditions),
            partial(_look, partial(_where, parquet), itertools.count(), conditions),
            repeats,
            0.2,
        )


def _look(work: Callable[[str, int], Any], numbers: Iterator[int], conditions: list[str]) -> Any:
    number = next(numbers)
    return work(conditions[number % len(conditions)], number)


def _ask_where(spark: Any, table: str, spaces: int, condition: str, number: int) -> Any:
    return _ask(spark, f"SELECT * FROM {table} WHERE {' ' * spaces * number}{condition}")


def _found(spark: Any, root: str, condition: str, _: int) -> Any:
    return lakeroot.spark.read(spark, "t", root=root, filter=condition).collect()


def _where(frame: Callable[[], Any], condition: str, _: int) -> Any:
    return frame().where(condition).collect()


def _ask(spark: Any, text: str) -> Any:
    return spark.sql(text).collect()


def _asked(question: Callable[[Any], Any], frame: Callable[[], Any]) -> Any:
    return question(frame())


def _frames(
    way: str, ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int
) -> Iterator[Row]:
    questions: dict[str, tuple[Callable[[Any], Any], float]] = {
        "all columns": (lambda frame: frame.selectExpr("sum(hash(*))").collect(), 1.5),
        "one column of seven": (lambda frame: frame.selectExpr("sum(a)").collect(), 2.0),
        "filter 0.1 %": (
            lambda frame: frame.where("k = 7").selectExpr("sum(a)", "max(name)").collect(),
            1.5,
        ),
        "count()": (lambda frame: frame.count(), 1.2),
        "group by string": (lambda frame: frame.groupBy("name").sum("a").collect(), 2.5),
    }
    for name, (question, most) in questions.items():
        yield measured(
            f"{name}, {way}",
            partial(_asked, question, ours),
            partial(_asked, question, theirs),
            repeats,
            most,
        )
