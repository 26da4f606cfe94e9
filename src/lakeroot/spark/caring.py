"""Look after a large catalog: what it says in the driver, its tables in tasks."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError
from lakeroot.model.spans import span_of
from lakeroot.model.spreading import Spread
from lakeroot.namespace.caring import CaredNamespace
from lakeroot.spark.distribute import distribute
from lakeroot.spark.failures import translated
from lakeroot.spark.reading import parallelism
from lakeroot.storage.findings import Finding
from lakeroot.storage.garbage import Collected
from lakeroot.storage.spans import GRACE, RETENTION

# Looking at a table takes about a millisecond on a disk, and a task fifty before it begins.
_FEWEST: Final = 50
_TASKS_PER_CORE: Final = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


def fsck(
    spark: SparkSession,
    *,
    root: str | None = None,
    impl: str | None = None,
    profile: str | None = None,
    properties: Mapping[str, str] | None = None,
    grace: timedelta | str = GRACE,
) -> list[Finding]:
    """Find everything that is wrong with a catalog and its tables, the worst first.

    The findings are those of `lakeroot fsck`; nothing is changed. What is younger than `grace`, a
    `timedelta` or a text such as `1d`, may still be somebody's work. A task lists and looks at a
    group of tables, so only findings come back to the driver.
    """
    what, young = "The catalog cannot be checked", _span("grace", grace)
    catalog = _cared(root, impl, profile, properties, what)
    with translated(what):
        return catalog.check(young, spread=_spread(spark, what))


def gc(
    spark: SparkSession,
    *,
    root: str | None = None,
    impl: str | None = None,
    profile: str | None = None,
    properties: Mapping[str, str] | None = None,
    older_than: timedelta | str = RETENTION,
    dry_run: bool = False,
    old_versions: bool = False,
    keep: int = 1,
) -> Collected:
    """Delete what no state of the last seven days can reach; `dry_run` says what it would be.

    `older_than` is another span than seven days: a `timedelta`, or a text such as `30d`.

    What goes is what `lakeroot gc` deletes, by the same rules. The driver reads what the catalog
    reaches; a task lists a group of directories, looks again whether they are somebody's, and
    deletes what is not. What a task or a driver that dies leaves is collected the next time.
    """
    what, age = "The garbage of the catalog cannot be collected", _span("older_than", older_than)
    catalog = _cared(root, impl, profile, properties, what)
    with translated(what):
        return catalog.gc(
            age,
            dry_run=dry_run,
            old_versions=old_versions,
            keep=keep,
            spread=_spread(spark, what),
        )


def _span(name: str, given: object) -> timedelta:
    """Read a span of time; a number alone does not say of what."""
    if isinstance(given, timedelta):
        return given
    if isinstance(given, str):
        return span_of(given)
    raise InvalidInputError(
        f"`{name}` cannot be {given!r}",
        "it takes a span of time",
        "Write a number and a unit, such as '12h' or '7d', or give a timedelta",
    )


def _cared(
    root: str | None,
    impl: str | None,
    profile: str | None,
    properties: Mapping[str, str] | None,
    what: str,
) -> CaredNamespace:
    from lakeroot.spark.spark_sql.installing import catalog_of

    catalog = catalog_of(root, impl, profile, properties).connect()
    if not isinstance(catalog, CaredNamespace):
        raise UnsupportedOperationError(
            what,
            f"a {type(catalog).__name__} is another program's, which looks after it itself",
            "Name the directory, the metastore or the Iceberg catalog behind it",
        )
    return catalog


def _spread(spark: SparkSession, what: str) -> Spread:
    """Let tasks do the work, each on a group of items."""

    def spread(
        work: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item]
    ) -> list[Result]:
        groups = _groups(items, _TASKS_PER_CORE * parallelism(spark))
        done = distribute(spark, groups, work, what=what)
        return [one for group in done for one in group]

    return spread


def _groups(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    size = max(_FEWEST, math.ceil(len(items) / most))
    return [items[start : start + size] for start in range(0, len(items), size)]
