"""Check a large catalog with many processes: the rows in the driver, the tables in tasks."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from pyspark.sql import SparkSession

from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.namespace.directory import DirectoryNamespace
from lakeroot.spark.distribute import distribute
from lakeroot.spark.reading import parallelism
from lakeroot.storage.findings import Finding
from lakeroot.storage.lance_dir.checking import Elsewhere, Look
from lakeroot.storage.spans import GRACE

# Looking at a table takes about a millisecond on a disk, and a task fifty before it begins.
_FEWEST_TABLES = 50
_TASKS_PER_CORE = 4


def fsck(
    spark: SparkSession,
    *,
    root: str | None = None,
    impl: str | None = None,
    profile: str | None = None,
    properties: Mapping[str, str] | None = None,
    grace: timedelta = GRACE,
) -> list[Finding]:
    """Find everything that is wrong with a catalog and its tables, the worst first.

    The findings are those of `lakeroot fsck`; nothing is changed. A task lists and looks at a group
    of tables, so only findings come back to the driver.
    """
    from lakeroot.spark.sql.installing import catalog_of

    catalog = catalog_of(root, impl, profile, properties).connect()
    if not isinstance(catalog, DirectoryNamespace):
        raise UnsupportedOperationError(
            "Only directory catalogs are checked on Spark",
            f"this one is a {type(catalog).__name__}",
            "Run `lakeroot fsck`, which one process does",
        )

    def spread(tables: Sequence[Look], look: Elsewhere) -> Iterable[Finding]:
        groups = _groups(tables, _TASKS_PER_CORE * parallelism(spark))
        done = distribute(spark, groups, look, what="The catalog cannot be checked")
        return [one for group in done for one in group]

    return catalog.check(grace, spread)


def _groups(tables: Sequence[Look], most: int) -> list[Sequence[Look]]:
    size = max(_FEWEST_TABLES, math.ceil(len(tables) / most))
    return [tables[start : start + size] for start in range(0, len(tables), size)]
