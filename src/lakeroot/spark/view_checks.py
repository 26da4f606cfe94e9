"""Look at the query of a new view in a process with a Spark session of its own, as a job is run.

Nothing is computed, so it does not wait for the jobs of the machine; only one looks at a time.
"""

import base64
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lakeroot.model import errors
from lakeroot.model.errors import LakerootError, ServiceUnavailableError
from lakeroot.model.identifiers import show
from lakeroot.namespace.jobs import NewView
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.failures import explained
from lakeroot.spark.quiet import quietly
from lakeroot.spark.sessions import session
from lakeroot.spark.views import check

_LONGEST = 300
"""Seconds for a look, and for those of others that come before it."""


def check_elsewhere(catalog: Catalog, view: NewView) -> None:
    """Have another process look at a view; raise what it finds wrong."""
    # What it needs goes through a pipe: arguments are for everybody to see.
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lakeroot.spark.view_checks"],
            input=described(catalog, view),
            stdout=subprocess.PIPE,
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceUnavailableError(
            f"The query of {show(view.table)} cannot be looked at",
            f"Spark has not answered for {_LONGEST} seconds",
            "Try again, or create the view in a catalog without `jobs`",
        ) from error
    if done.returncode:
        raise ServiceUnavailableError(
            f"The query of {show(view.table)} cannot be looked at",
            f"the process that does so ended with code {done.returncode}",
            "See what it has written to the log",
        )
    told(json.loads(done.stdout))


def described(catalog: Catalog, view: NewView) -> bytes:
    """Write down what the other process must know."""
    about = {
        "impl": catalog.impl,
        "properties": dict(catalog.properties),
        "table": view.table,
        "query": view.query,
        "schema": base64.b64encode(view.schema.serialize().to_pybytes()).decode(),
    }
    return json.dumps(about).encode()


def answer(spark: SparkSession, about: Mapping[str, Any]) -> dict[str, str]:
    """Look at the view that was described; say what is wrong with it, or nothing."""
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(about["schema"])))
    view = NewView(table=tuple(about["table"]), query=about["query"], schema=schema)
    try:
        check(spark, Catalog.of(about["impl"], about["properties"]), view)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what there is to say
        what = f"The query of {show(view.table)} cannot be run"
        wrong = error if isinstance(error, LakerootError) else explained(what, error)
        parts = {"what": wrong.what, "why": wrong.why, "fix": wrong.fix}
        # Some are kinds of their own in other modules: the other side hears what they derive from.
        known = next(each for each in type(wrong).__mro__ if hasattr(errors, each.__name__))
        return {"error": known.__name__, **parts}
    return {}


def told(said: dict[str, str]) -> None:
    """Raise what an answer says."""
    if said:
        raise getattr(errors, said.pop("error"))(**said)


def main() -> None:
    """Answer about the one view that standard input describes."""
    about = json.load(sys.stdin)
    # Java writes to the same place as its parent, and the answer has to stand alone there.
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        lock = Path(tempfile.gettempdir()) / f"lakeroot-views-{os.getuid()}.lock"
        with lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            name = f"lakeroot view {show(tuple(about['table']))}"
            with quietly() as config:
                spark = session(name, master="local[1]", fast_start=True, config=config)
            with spark:
                json.dump(answer(spark, about), out)


if __name__ == "__main__":
    main()
