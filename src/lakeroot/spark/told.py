"""What Spark has been told in its own ways: by arguments, by options of Java, by its files."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyspark

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_OF_JAVA = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_FILE = re.compile(r"--properties-file[\s=]+(\S+)")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def by_spark_submit() -> bool:
    """Tell whether spark-submit has started Java already, so that it is too late to tell it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_told(pattern: str) -> bool:
    """Tell whether something was said to Spark before it starts, such as the name of a setting."""
    return any(re.search(pattern, text) for text in _texts())


def configuration() -> Path:
    """Return the directory of Spark's own configuration, whether it is there or not."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"))


def _texts() -> Iterator[str]:
    arguments = os.environ.get(_ARGUMENTS, "")
    yield arguments
    for name in _OF_JAVA:
        yield os.environ.get(name, "")
    for file in (configuration() / "spark-defaults.conf", *_FILE.findall(arguments)):
        try:
            yield _COMMENT.sub("", Path(file).read_text())
        except (OSError, UnicodeDecodeError):
            continue
