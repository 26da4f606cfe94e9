"""Tables of a metastore (the DeltaCAT storage model) on Spark: tasks write and merge deltas."""

from lakeroot.spark.metastore.reading import read
from lakeroot.spark.metastore.results import CompactionResult, RowsResult
from lakeroot.spark.metastore.writing import (
    add,
    append,
    compact,
    delete,
    find_done,
    replace,
    upsert,
)

__all__ = [
    "CompactionResult",
    "RowsResult",
    "add",
    "append",
    "compact",
    "delete",
    "find_done",
    "read",
    "replace",
    "upsert",
]
