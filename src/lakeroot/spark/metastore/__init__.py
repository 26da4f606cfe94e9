"""Tables of a metastore (the DeltaCAT storage model) on Spark: tasks write and merge deltas."""

from lakeroot.spark.metastore.reading import read
from lakeroot.spark.metastore.writing import add, append, compact, delete, replace, upsert

__all__ = ["add", "append", "compact", "delete", "read", "replace", "upsert"]
