"""Look whether Spark can parse the SQL of a pipeline, without a session to run it in.

Its parser is a class of Java that needs none, and Java alone starts in a third of the time.
"""

import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.failures import explained, translated
from lakeroot.spark.java import java_home
from lakeroot.spark.pipelines.definition import Pipeline
from lakeroot.spark.pipelines.places import Place, pointed
from lakeroot.spark.quiet import quietly
from lakeroot.spark.told import by_spark_submit, is_told

# A server has a parser of its own, and extensions may bring one.
_OTHER_PARSER: Final = r"--remote\b|spark\.remote\b|spark\.sql\.extensions\b"
_REMOTE: Final = "SPARK_REMOTE"
_OF_SQL: Final = "spark.sql."
_STOP_S: Final = 10


@dataclass(frozen=True, slots=True)
class _Text:
    """A piece of SQL, what it is of, and where the file says it."""

    what: str
    sql: str
    place: Place | None
    key: str = "sql"


def require_parsed(pipeline: Pipeline) -> None:
    """Refuse SQL that Spark cannot parse; where another parser may run it, that is left to it."""
    queries, conditions = _queries(pipeline), _conditions(pipeline)
    if not queries and not conditions:
        return
    with _parser() as parser:
        if parser is None:
            return
        for each in queries:
            _parse(parser.parsePlan, each)
        for each in conditions:
            _parse(parser.parseExpression, each)


def _queries(pipeline: Pipeline) -> list[_Text]:
    named = [(f"source {each.name!r}", each.sql, each.place) for each in pipeline.sources]
    named += [(f"step {each.name!r}", each.sql, each.place) for each in pipeline.steps]
    return [_Text(what, sql, place) for what, sql, place in named if sql is not None]


def _conditions(pipeline: Pipeline) -> list[_Text]:
    return [
        _Text(f"a check of table {target.table}", each.expression, each.place, "expression")
        for target in pipeline.tables
        for each in target.checks
        if each.expression is not None
    ]


def _parse(parse: Callable[[str], Any], text: _Text) -> None:
    try:
        parse(text.sql)
    except Exception as error:
        java = getattr(error, "java_exception", None)
        kind = type(error).__name__ if java is None else java.getClass().getSimpleName()
        if kind != "ParseException":
            raise
        said = str(error) if java is None else str(java.getMessage())
        what = f"The SQL of {text.what} cannot be parsed"
        with pointed(text.place, text.key, text.sql):
            raise InvalidInputError(what, explained(what, ValueError(said)).why) from None


@contextmanager
def _parser() -> Iterator[Any]:
    """Give the parser of the running session, or else one of a Java that is started for it."""
    running: Any = SparkSession.getActiveSession()
    if running is not None:
        # One over Connect has its parser on the server.
        classic = getattr(running, "_jsparkSession", None)
        yield None if classic is None else classic.sessionState().sqlParser()
    elif by_spark_submit() or _REMOTE in os.environ or is_told(_OTHER_PARSER):
        yield None
    elif SparkContext._jvm is not None:  # noqa: SLF001  # The Java of a session that was stopped.
        yield _parser_in(SparkContext._jvm)  # noqa: SLF001
    else:
        with _java() as jvm:
            yield _parser_in(jvm)


def _parser_in(jvm: Any) -> Any:
    """Make a parser that reads SQL as a session would that is started with these settings."""
    settings = jvm.org.apache.spark.sql.internal.SQLConf.get()
    for each in jvm.org.apache.spark.SparkConf().getAll():
        name, value = (each.productElement(number) for number in range(2))
        if name.startswith(_OF_SQL):
            settings.setConfString(name, value)
    return jvm.org.apache.spark.sql.execution.SparkSqlParser()


@contextmanager
def _java() -> Iterator[Any]:
    """Start Java with the classes of Spark, and end it."""
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    with quietly(), warnings.catch_warnings(), translated("Java cannot be started"):
        # Java is started by a fork that becomes another program at once: nothing of Lance in it.
        warnings.filterwarnings("ignore", "lance is not fork-safe")
        gateway: Any = launch_gateway()
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # It ends when nobody can tell it anything any more.
        with suppress(subprocess.TimeoutExpired):
            gateway.proc.wait(_STOP_S)
