"""Put a Lakeroot catalog into a classic Spark session, with no JAR.

Spark has no way to write a catalog in Python. The few lines of Java it takes are compiled inside
the driver by the compiler that Spark itself uses for its generated code, and the catalog object is
put where Spark keeps its loaded catalogs. That place is private to Spark, so this works with the
versions it was tested with, is tried out when it is installed, and says what to use instead.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.udf import _wrap_function

from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.failures import explained
from lakeroot.spark.reading import parallelism
from lakeroot.spark.sql.answers import Answers

TESTED_SPARK = ("4.3",)
_CLASS = "lakeroot.spark.LakerootCatalog"
_INSTEAD = "Use lakeroot.spark.read and write, or format('lakeroot'), which need no catalog"


class _Proxy:
    """The Java function behind which the answers are."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def apply(self, question: str) -> str:
        """Answer a question of the catalog."""
        return self.answers.apply(question)

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
) -> Catalog:
    """Make a catalog known to ``spark.sql`` under a name: ``SELECT ... FROM name.ns.table``."""
    catalog = _catalog(root, impl, properties)
    _check_name(name)
    if not hasattr(spark, "_jsparkSession"):
        # A Connect session has no place for a catalog; `lakeroot.spark.sql` knows it all the same.
        remember(spark, name, catalog)
        return catalog
    _check_version()
    try:
        plugin = _plugin(spark, name, catalog)
        _put(spark, name, plugin)
        # The self-test: Spark must find the catalog, ask it, and understand the answer.
        spark.sql(f"SHOW NAMESPACES IN `{name}`").collect()
    except InvalidInputError:
        raise
    except Exception as error:
        reason = explained("", error)
        raise UnsupportedOperationError(
            f"The catalog {name!r} cannot be put into this Spark session",
            str(reason).lstrip(". "),
            _INSTEAD,
        ) from error
    _CATALOGS[(id(spark), name)] = catalog
    return catalog


# What `sql` needs to know of the catalogs in a session; a session has no place for it of its own.
_CATALOGS: dict[tuple[int, str], Catalog] = {}


def catalog_in(spark: SparkSession, name: str) -> Catalog | None:
    """Return the catalog that was put into a session under a name."""
    return _CATALOGS.get((id(spark), name))


def catalogs_of(spark: SparkSession) -> list[str]:
    """Name the catalogs of a session."""
    return [name for session, name in _CATALOGS if session == id(spark)]


def remember(spark: SparkSession, name: str, catalog: Catalog) -> None:
    """Note a catalog for `lakeroot.spark.sql` in a session that cannot have it itself."""
    _CATALOGS[(id(spark), name)] = catalog


def _catalog(root: str | None, impl: str | None, properties: Mapping[str, str] | None) -> Catalog:
    if (root is None) == (impl is None):
        raise InvalidInputError("A catalog is given by `root` or by `impl`, and not by both")
    if root is not None:
        return Catalog.at(root, properties)
    return Catalog.of(str(impl), properties or {})


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or name == "spark_catalog":
        raise InvalidInputError(f"{name!r} cannot be the name of a catalog in Spark")


def _check_version() -> None:
    if not pyspark.__version__.startswith(TESTED_SPARK):
        raise UnsupportedOperationError(
            f"The SQL catalog is not tested with Spark {pyspark.__version__}",
            f"it was with {', '.join(TESTED_SPARK)}",
            _INSTEAD,
        )


def _plugin(spark: SparkSession, name: str, catalog: Catalog) -> Any:
    from pyspark.java_gateway import ensure_callback_server_started

    from lakeroot.spark.source import LakerootSource

    context: Any = spark.sparkContext
    jvm, gateway = context._jvm, context._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)
    v2 = jvm.org.apache.spark.sql.execution.datasources.v2.python
    source = v2.UserDefinedPythonDataSource(_wrap_function(context, LakerootSource))
    written = v2.UserDefinedPythonDataSource.writeOutputSchema().fieldNames()[0]
    compiled = _compiled(jvm)
    # A list, because py4j passes Python objects to methods but not into arrays.
    arguments = jvm.java.util.ArrayList()
    arguments.add(name)
    arguments.add(_Proxy(Answers(catalog, parallelism(spark), written)))
    arguments.add(source)
    return compiled.getConstructors()[0].newInstance(arguments.toArray())


def _compiled(jvm: Any) -> Any:
    """Compile the Java text once per JVM; classes of two compilations would not know each other."""
    found = jvm.java.lang.System.getProperties().get(_CLASS)
    if found is not None:
        return found
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.cook(files("lakeroot.spark.sql").joinpath("LakerootCatalog.java").read_text())
    compiled = compiler.getClassLoader().loadClass(_CLASS)
    jvm.java.lang.System.getProperties().put(_CLASS, compiled)
    return compiled


def _put(spark: SparkSession, name: str, plugin: Any) -> None:
    session: Any = spark._jsparkSession  # noqa: SLF001
    manager = session.sessionState().catalogManager()
    place = manager.getClass().getDeclaredField("catalogs")
    place.setAccessible(True)  # Java has no keywords
    place.get(manager).put(name, plugin)
