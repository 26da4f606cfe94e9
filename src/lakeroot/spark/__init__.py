"""Lakeroot on Spark: read, write, merge, stream and publish Lance tables with PySpark alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeroot.spark import metastore, pipelines
    from lakeroot.spark.backfilling import BackfillResult, backfill
    from lakeroot.spark.caring import fsck, gc
    from lakeroot.spark.changing import delete, update
    from lakeroot.spark.maintenance import CompactResult, IndexResult, compact, index
    from lakeroot.spark.merging import merge
    from lakeroot.spark.moving import convert, export, ingest
    from lakeroot.spark.reading import read
    from lakeroot.spark.row_changes import ChangeResult
    from lakeroot.spark.sessions import register, session
    from lakeroot.spark.spark_sql.installing import use_catalog
    from lakeroot.spark.spark_sql.statements import sql
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
    "metastore",
    "pipelines",
    "read",
    "register",
    "session",
    "sql",
    "update",
    "use_catalog",
    "write",
]

# Every worker of Spark imports this package for the one module its task lies in, and should not
# wait for the others: each name is fetched when it is first asked for. So no module here may have
# the name of a function.
_HOMES = {
    "backfilling": ("BackfillResult", "backfill"),
    "caring": ("fsck", "gc"),
    "changing": ("delete", "update"),
    "maintenance": ("CompactResult", "IndexResult", "compact", "index"),
    "merging": ("merge",),
    "moving": ("convert", "export", "ingest"),
    "reading": ("read",),
    "row_changes": ("ChangeResult",),
    "sessions": ("register", "session"),
    "spark_sql.installing": ("use_catalog",),
    "spark_sql.statements": ("sql",),
    "writing": ("WriteResult", "write"),
}
_ROOMS = ("metastore", "pipelines")
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
