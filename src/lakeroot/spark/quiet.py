"""Start Spark without the lines that it greets everybody with."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger

from lakeroot.spark.java import java_home, plain_java_home
from lakeroot.spark.told import by_spark_submit, configuration, is_told

_PROFILE = Path(__file__).with_name("quiet-log4j2.properties")
_OPTIONS = "SPARK_SUBMIT_OPTS"
_LEVEL = {"spark.log.level": "ERROR"}
# Those in which pyspark logs the errors of queries.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# Lance warns of every new table, in the task that writes its first file.
_LANCE_LOG = "warn,lance::dataset::write::insert=error"


@contextmanager
def quietly(*, computes: bool = False) -> Iterator[Mapping[str, str]]:
    """Let a session start with nothing to say but errors; give the settings that it needs for it.

    If the user has told Spark how to log, in any of its own ways, everything stays as it is. Code
    of the user that `computes` may want the vector module of Java, which announces itself.
    """
    if _has_own_log():
        yield {}
        return
    if by_spark_submit():
        yield _LEVEL
        return
    # In front of what the user says to Java: the last one decides.
    options = (f"-Dlog4j2.configurationFile={_PROFILE.as_uri()}", os.environ.get(_OPTIONS, ""))
    told = {_OPTIONS: " ".join(options), "LANCE_LOG": os.environ.get("LANCE_LOG", _LANCE_LOG)}
    with tempfile.TemporaryDirectory(prefix="lakeroot-java-") as directory:
        if not computes and java_home() is None:
            plain = plain_java_home(Path(directory))
            told |= {} if plain is None else {"JAVA_HOME": str(plain)}
        with _environment(told):
            yield _LEVEL


def _has_own_log() -> bool:
    return (
        any(name.startswith("LOG4J") for name in os.environ)
        or any(configuration().glob("log4j*"))
        or is_told(r"-Dlog4j|spark\.log\.")
    )


@contextmanager
def errors_unlogged() -> Iterator[None]:
    """Keep pyspark from logging errors, with the whole trace of Java, that it raises as well.

    It is for whoever says himself what was raised. Some of them are answers to a question, and
    never reach the user.
    """
    loggers: list[Any] = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, was in zip(loggers, before, strict=True):
            each.disabled = was


@contextmanager
def _environment(told: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the Java that is started meanwhile; then they are what they were."""
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
