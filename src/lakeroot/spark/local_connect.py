"""A Spark Connect server inside this process, on whichever port is free.

Spark's own ``remote("local[2]")`` always takes port 15002, so a second notebook on one machine
cannot start. Only Spark's own tests may have another port; these are the steps it takes there.
"""

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

PORT = "spark.connect.grpc.binding.port"
SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
# Spark's own marks of such a session: by them its `stop` ends the server too.
MARKS = ("SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def connected(master: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a Connect session to a server in this process; a running session is reused."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    builder: Any = SparkSession.builder
    if _running() is not None:  # Spark reuses it, or says what is in the way
        return builder.remote(master).config(map=dict(settings)).getOrCreate()
    options = {PORT: "0", **settings}
    os.environ.update(dict.fromkeys(MARKS, "1"))
    try:
        ConnectSession._start_connect_server(master, options)  # noqa: SLF001
    except BaseException:
        for mark in MARKS:
            del os.environ[mark]
        raise
    service = getattr(getattr(_running()._jvm, SERVICE), "MODULE$")  # noqa: SLF001
    # The server has the settings: of those given again, Spark warns that it cannot change most.
    return ConnectSession.builder.remote(f"sc://localhost:{service.localPort()}").getOrCreate()


def _running() -> Any:
    return SparkSession._instantiatedSession  # noqa: SLF001
