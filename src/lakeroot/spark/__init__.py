"""Lakeroot on Spark: read, write, merge, stream and publish Lance tables with PySpark alone."""

from lakeroot.spark.backfilling import BackfillResult, backfill
from lakeroot.spark.caring import fsck, gc
from lakeroot.spark.changing import delete, update
from lakeroot.spark.maintenance import CompactResult, IndexResult, compact, index
from lakeroot.spark.merging import merge
from lakeroot.spark.moving import convert, export, ingest
from lakeroot.spark.reading import read
from lakeroot.spark.row_changes import ChangeResult
from lakeroot.spark.session import register, session
from lakeroot.spark.sql.installing import use_catalog
from lakeroot.spark.sql.statements import sql
from lakeroot.spark.writing import WriteResult, write

__all__ = [
    "BackfillResult",
    "ChangeResult",
    "CompactResult",
    "IndexResult",
    "WriteResult",
    "backfill",
    "compact",
    "convert",
    "delete",
    "export",
    "fsck",
    "gc",
    "index",
    "ingest",
    "merge",
    "read",
    "register",
    "session",
    "sql",
    "update",
    "use_catalog",
    "write",
]
