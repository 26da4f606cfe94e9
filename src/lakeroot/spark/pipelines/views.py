"""The names of sources and steps in a session: views while a run needs them, no longer."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def lent(spark: SparkSession, names: Iterable[str]) -> Iterator[None]:
    """Let a run use names for its views; afterwards they are what they were.

    Another pipeline of the session must not find them, nor the user a view of theirs replaced.
    """
    names = tuple(names)
    theirs = {name: spark.table(_quoted(name)) for name in names if _is_view(spark, name)}
    try:
        yield
    finally:
        for name in names:
            if name in theirs:
                theirs[name].createOrReplaceTempView(name)
            else:
                spark.catalog.dropTempView(name)


def _is_view(spark: SparkSession, name: str) -> bool:
    found = spark.catalog.listTables()
    return any(one.isTemporary and one.name.lower() == name.lower() for one in found)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
