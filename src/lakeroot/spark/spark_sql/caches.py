"""Refresh what Spark has cached of a table that a commit of this driver has changed.

Spark does so after a statement of its own. Of changes that are made past it, it learns nothing: a
query of a cached table would go on to show the old rows, and a MERGE would store them again.
"""

import logging
import os
from typing import Any

from pyspark.sql import SparkSession

from lakeroot.model.errors import LakerootError
from lakeroot.objects import parse_root
from lakeroot.spark import commits
from lakeroot.spark.catalogs import Catalog, TableRef

_log = logging.getLogger(__name__)
# The catalogs that sessions of this driver have: all sessions have one cache between them.
_NAMES: set[tuple[str, Catalog]] = set()


def keep_fresh(name: str, catalog: Catalog) -> None:
    """Have the cached tables of a catalog refreshed after every commit."""
    _NAMES.add((name, catalog))
    commits.watch(refresh)


def refresh(ref: TableRef) -> None:
    """Let the next query read a table anew, as REFRESH TABLE does, wherever it is cached."""
    session: Any = SparkSession._instantiatedSession  # noqa: SLF001
    if session is None or ref.catalog is None:
        return
    try:
        java = session._jsparkSession  # noqa: SLF001
        cache = java.sharedState().cacheManager()
        if cache.isEmpty():
            return
        scala = session._jvm.org.apache.spark.api.python.PythonUtils  # noqa: SLF001
        for name in sorted({name for name, each in _NAMES if _may_be(each, ref.catalog)}):
            # A cached query of an older version, or of a branch, stays what it is.
            cache.recacheTableOrView(java, scala.toSeq([name, *ref.identifier]), False)  # noqa: FBT003
    except Exception as error:  # noqa: BLE001  # the commit has happened, whatever this is
        _log.warning("Spark may show old rows of %s, because: %s", ref, str(error)[:300])


def _may_be(one: Catalog, other: Catalog) -> bool:
    """Tell whether two catalogs may be the same: a table is rather read too often than too late."""
    mine, others = dict(one.properties), dict(other.properties)
    if "root" in mine and "root" in others:
        return _place(mine["root"]) == _place(others["root"])
    if "uri" in mine and "uri" in others:
        return mine["uri"].rstrip("/") == others["uri"].rstrip("/")
    return True


def _place(root: str) -> str:
    try:
        found = parse_root(root)
    except LakerootError:
        return root
    return os.path.realpath(found.uri) if found.is_local else found.uri
