"""Put a Lakeroot catalog into a classic Spark session, with no JAR.

Spark has no way to write a catalog in Python. The few lines of Java it takes are compiled inside
the driver by the compiler that Spark itself uses for its generated code, and the catalog object is
put where Spark keeps its loaded catalogs. That place is private to Spark, so this works with the
versions it was tested with, is tried out when it is installed, and says what to use instead.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.udf import _wrap_function

from lakeroot.model.errors import (
    InvalidInputError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableNotFoundError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from lakeroot.spark.catalogs import Catalog, TableRef, parse_name
from lakeroot.spark.failures import explained
from lakeroot.spark.reading import parallelism
from lakeroot.spark.spark_sql.answers import Answers
from lakeroot.spark.spark_sql.caches import keep_fresh
from lakeroot.spark.spark_sql.compiling import compiled, send_classes
from lakeroot.spark.spark_sql.lookups import forget_lookups, remember_lookups
from lakeroot.spark.spark_sql.reads import Reads

TESTED_SPARK = ("4.3",)
_NOT_REACHED = (PermissionDeniedError, ServiceUnavailableError, UnauthenticatedError)
_INSTEAD = "Use lakeroot.spark.read and write, or format('lakeroot'), which need no catalog"


class Proxy:
    """A function of Python as Java knows functions."""

    def __init__(self, answers: Callable[[str], str]) -> None:
        self.answers = answers

    def apply(self, question: str) -> str:
        """Answer a question of Java."""
        return self.answers(question)

    class Java:
        """What py4j implements."""

        implements = ("java.util.function.Function",)


def use_catalog(
    spark: SparkSession,
    name: str,
    *,
    root: str | None = None,
    impl: str | None = None,
    properties: Mapping[str, str] | None = None,
    profile: str | None = None,
    columnar: bool = True,
) -> Catalog:
    """Make a catalog known to ``spark.sql`` under a name: ``SELECT ... FROM name.ns.table``.

    Scans hand Spark batches of Arrow vectors; with ``columnar=False`` they hand it rows, for a
    cluster whose executors cannot be sent the class that reads them.
    """
    catalog = catalog_of(root, impl, profile, properties)
    _check_name(name)
    if not hasattr(spark, "_jsparkSession"):
        # A Connect session has no place for a catalog; `lakeroot.spark.sql` knows it all the same.
        remember(spark, name, catalog)
        return catalog
    check_version()
    try:
        answers = Answers(catalog, parallelism(spark), written(spark), columnar=columnar)
        made = plugin(spark, name, answers, columnar=columnar)
        forget_lookups(spark, name)
        _put(spark, name, made)
        # The self-test: Spark must find the catalog, ask it, and understand the answer.
        spark.sql(f"SHOW NAMESPACES IN `{name}`").collect()
    except InvalidInputError:
        raise
    except Exception as error:
        reason = explained("", error)
        if isinstance(reason, _NOT_REACHED):
            # It is not Spark that is in the way.
            raise type(reason)(f"The catalog {name!r} cannot be asked", str(reason)) from error
        raise UnsupportedOperationError(
            f"The catalog {name!r} cannot be put into this Spark session",
            str(reason).lstrip(". "),
            _INSTEAD,
        ) from error
    _CATALOGS[(id(spark), name)] = catalog
    remember_lookups(spark, name, catalog, made)
    keep_fresh(name, catalog)
    return catalog


# What `sql` needs to know of the catalogs in a session; a session has no place for it of its own.
_CATALOGS: dict[tuple[int, str], Catalog] = {}


def catalog_in(spark: SparkSession, name: str) -> Catalog | None:
    """Return the catalog that was put into a session under a name."""
    return _CATALOGS.get((id(spark), name))


def catalogs_of(spark: SparkSession) -> list[str]:
    """Name the catalogs of a session."""
    return [name for session, name in _CATALOGS if session == id(spark)]


def table_in(spark: SparkSession, name: str) -> TableRef:
    """Find the table of a name in the session's Lakeroot catalogs."""
    first, *rest = parse_name(name.strip())
    catalog = catalog_in(spark, first)
    if catalog is None and hasattr(spark, "_jsparkSession"):
        rest = [*(parse_name(spark.catalog.currentDatabase()) if not rest else ()), first, *rest]
        catalog = catalog_in(spark, spark.catalog.currentCatalog())
    if catalog is None or not rest:
        raise TableNotFoundError(
            f"{name!r} is in no Lakeroot catalog of this session",
            fix="Name it catalog.namespace.table, and add the catalog with use_catalog",
        )
    return TableRef(catalog, tuple(rest))


def remember(spark: SparkSession, name: str, catalog: Catalog) -> None:
    """Note a catalog for `lakeroot.spark.sql` in a session that cannot have it itself."""
    _CATALOGS[(id(spark), name)] = catalog


def catalog_of(
    root: str | None, impl: str | None, profile: str | None, properties: Mapping[str, str] | None
) -> Catalog:
    """Say which catalog is meant, by one of the three ways to give one."""
    if sum(way is not None for way in (root, impl, profile)) != 1:
        raise InvalidInputError("A catalog is given by one of `root`, `impl` and `profile`")
    if root is not None:
        return Catalog.at(root, properties)
    if profile is not None:
        return Catalog.named(profile, properties)
    return Catalog.of(str(impl), properties or {})


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or name == "spark_catalog":
        raise InvalidInputError(f"{name!r} cannot be the name of a catalog in Spark")


def check_version() -> None:
    """Refuse a Spark that the Java text was not tested with."""
    if not pyspark.__version__.startswith(TESTED_SPARK):
        raise UnsupportedOperationError(
            f"The SQL catalog is not tested with Spark {pyspark.__version__}",
            f"it was with {', '.join(TESTED_SPARK)}",
            _INSTEAD,
        )


def written(spark: SparkSession) -> str:
    """Ask Spark for the name of the column in which it expects a task's message."""
    v2: Any = spark.sparkContext._jvm.org.apache.spark.sql.execution.datasources.v2  # noqa: SLF001
    return str(v2.python.UserDefinedPythonDataSource.writeOutputSchema().fieldNames()[0])


def plugin(spark: SparkSession, name: str, answers: Reads | None, *, columnar: bool) -> Any:
    """Make the Java catalog of a session that asks these answers, or that never asks."""
    from pyspark.java_gateway import ensure_callback_server_started

    context: Any = spark.sparkContext
    jvm, gateway = context._jvm, context._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)
    source = python_source(context)
    catalog_class = compiled(jvm)
    if columnar:
        send_classes(context)
    # A list, because py4j passes Python objects to methods but not into arrays.
    arguments = jvm.java.util.ArrayList()
    arguments.add(name)
    arguments.add(None if answers is None else Proxy(answers.apply))
    arguments.add(source)
    return catalog_class.getConstructors()[0].newInstance(arguments.toArray())


def python_source(context: Any) -> Any:
    """Make the Java object from which Spark makes functions that run in Python workers."""
    from lakeroot.spark.source import LakerootSource

    v2 = context._jvm.org.apache.spark.sql.execution.datasources.v2.python  # noqa: SLF001
    return v2.UserDefinedPythonDataSource(_wrap_function(context, LakerootSource))


def _put(spark: SparkSession, name: str, made: Any) -> None:
    session: Any = spark._jsparkSession  # noqa: SLF001
    manager = session.sessionState().catalogManager()
    place = manager.getClass().getDeclaredField("catalogs")
    place.setAccessible(True)  # Java has no keywords
    place.get(manager).put(name, made)
