"""Files that a source names, looked for before Spark takes its time to start."""

import glob
import os
import re
from pathlib import Path

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.told import by_spark_submit, configuration, is_told

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:")
# In patterns of Hadoop these mean what they do not mean to Python.
_OTHER_SIGNS = re.compile(r"[\[\]{}\\]")


def require_files(path: str, kind: str) -> None:
    """Refuse files of this machine that are not there; of others only Spark can tell."""
    place = _here(path)
    if kind.lower() == "iceberg" or place is None or _OTHER_SIGNS.search(place):
        return
    # Path cannot do it: its patterns are below a directory.
    if not any(glob.iglob(place, include_hidden=True)):  # noqa: PTH207
        raise InvalidInputError(
            f"{path} cannot be read as {kind}",
            "nothing is there",
            "Check the path" if Path(place).is_absolute() else f"It is seen from {Path.cwd()}",
        )


def _here(path: str) -> str | None:
    """Return where a path leads on this machine, or nothing if it may lead elsewhere."""
    if path.startswith("file:/"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if _SCHEME.match(path) or _is_elsewhere():
        return None
    return path


def _is_elsewhere() -> bool:
    """Tell whether a plain path may mean a file of Hadoop."""
    return (
        by_spark_submit()
        or "HADOOP_CONF_DIR" in os.environ
        or "YARN_CONF_DIR" in os.environ
        or Path(configuration(), "core-site.xml").exists()
        or is_told(r"fs\.default(FS|\.name)\b")
    )
