"""Let ``format("lakeroot")`` of a classic session be read and written in batches of vectors.

Spark looks for a Java class before it looks for a source in Python. The class is small and put in
place when a session is registered; all that it leads to is compiled when it is first used.
"""

import logging
from typing import Any, cast

from pyspark.sql import SparkSession

from lakeroot.spark.reading import parallelism
from lakeroot.spark.spark_sql.compiling import SOURCES, compiled, put_source, send_classes
from lakeroot.spark.spark_sql.installing import Proxy, check_version, python_source, written
from lakeroot.spark.spark_sql.source_answers import SourceAnswers

_log = logging.getLogger(__name__)

COLUMNAR = "spark.lakeroot.columnar"
# Where the Java class finds out whether it is of the running context, the function that makes
# sources ready, and the sources that it has made.
_APPLICATION = "lakeroot.spark.application"
_MAKING = "lakeroot.spark.making"
_MADE = "lakeroot.spark.sources"
_NAME = "lakeroot"
# The one variable that a session without any of its own gives to its workers.
_SPARKS_OWN = "PYTHONHASHSEED"


def is_found(spark: SparkSession) -> bool:
    """Tell whether Spark knows the source already, and would run it as if it were registered.

    It looks for sources on this machine, and knows nothing of packages and variables that were
    given to the session. So executors elsewhere, and another Python, are no reason to trust it.
    """
    try:
        context: Any = spark.sparkContext
        manager = cast("Any", spark)._jsparkSession.sessionState().dataSourceManager()  # noqa: SLF001
        if not (context.master.startswith("local") and manager.dataSourceExists(_NAME)):
            return False
        mine, known = (
            source.dataSourceCls()
            for source in (python_source(context), manager.lookupDataSource(_NAME))
        )
        same = mine.command().equals(known.command()) and mine.pythonExec() == known.pythonExec()
        added = {*mine.pythonIncludes(), *known.pythonIncludes(), *mine.envVars().keySet()}
    except Exception as error:  # noqa: BLE001  # to register it is what works everywhere
        _log.info("What Spark has found is not known, because: %s", str(error)[:300])
        return False
    return same and added <= {_SPARKS_OWN}


def offer(spark: SparkSession) -> bool:
    """Put the class where Spark looks; tell whether it is there. The source in Python remains."""
    from pyspark.java_gateway import ensure_callback_server_started

    try:
        check_version()
        context: Any = spark.sparkContext
        properties = context._jvm.java.lang.System.getProperties()  # noqa: SLF001
        put_source(context._jvm)  # noqa: SLF001
        ensure_callback_server_started(context._gateway)  # noqa: SLF001
        properties.remove(_MADE)
        properties.put(_APPLICATION, context.applicationId)
        properties.put(_MAKING, Proxy(lambda _: _make(spark)))
    except Exception as error:  # noqa: BLE001  # whatever it is, there is the source in Python
        _log.info("format('lakeroot') goes by rows, because: %s", str(error)[:300])
        return False
    return True


def _make(spark: SparkSession) -> str:
    try:
        context: Any = spark.sparkContext
        jvm = context._jvm  # noqa: SLF001
        made = compiled(jvm, SOURCES)
        send_classes(context)
        answers = SourceAnswers(parallelism(spark), written(spark))
        arguments = jvm.java.util.ArrayList()
        arguments.add(Proxy(answers.apply))
        arguments.add(python_source(context))
        maker = made.getDeclaredConstructors()[0]
        maker.setAccessible(True)  # Java has no keywords
        jvm.java.lang.System.getProperties().put(_MADE, maker.newInstance(arguments.toArray()))
    except Exception as error:  # noqa: BLE001
        _log.warning("format('lakeroot') goes by rows, because: %s", str(error)[:300])
    return ""
