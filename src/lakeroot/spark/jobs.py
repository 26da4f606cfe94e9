"""Run the jobs that operations of the Lance namespace start: backfills and refreshes of views.

`SparkJobs` gives every job a process of its own with a Spark session in it: a server must not carry
a JVM, and a job outlives the server that has accepted it. On one machine one job runs at a time.
`InSession` runs them at once in a session that is there.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.namespace.jobs import BackfillColumn, Job, NewView, RefreshView
from lakeroot.spark.catalogs import Catalog, Located, TableRef, locate
from lakeroot.spark.failures import explained, nearest
from lakeroot.spark.quiet import quietly
from lakeroot.spark.refilling import refill
from lakeroot.spark.sessions import session
from lakeroot.spark.view_checks import check_elsewhere
from lakeroot.spark.views import check, refresh
from lakeroot.tables.job_notes import files_beside, find_job_note, note_job
from lakeroot.tables.transactions import Status

_KINDS: Final[Mapping[str, type[Any]]] = {"backfill": BackfillColumn, "refresh": RefreshView}
_SETTINGS: Final = ("master",)


class InSession:
    """Runs each job at once, in a Spark session of the program."""

    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self.spark = spark
        self.catalog = catalog

    def start(self, job: Job) -> None:
        """Run a job; how it went is noted beside its table."""
        perform(self.spark, self.catalog, job)

    def check(self, view: NewView) -> None:
        """Let the session look at the query of a view."""
        check(self.spark, self.catalog, view)


class SparkJobs:
    """Runs each job in a process with a Spark session of its own, one at a time.

    Settings: ``master``, where Spark runs; ``local[*]`` unless told otherwise.
    """

    def __init__(
        self, impl: str, properties: Mapping[str, str], settings: Mapping[str, str]
    ) -> None:
        for name in settings:
            if name not in _SETTINGS:
                raise InvalidInputError(
                    f"There is no property `jobs.{name}`", fix=nearest(name, _SETTINGS)
                )
        self._catalog = Catalog.of(impl, properties)
        self._master = settings.get("master")

    def start(self, job: Job) -> None:
        """Start a job's process; it waits by itself until those before it are done."""
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeroot.spark.jobs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        # A daemon: the job needs nobody to wait for it, and no program should hang for its sake.
        threading.Thread(target=self._watch, args=(process, job), daemon=True).start()
        # What the job needs goes through a pipe: arguments are for everybody to see.
        pipe: Any = process.stdin
        with pipe:
            pipe.write(self._described(job))

    def check(self, view: NewView) -> None:
        """Let a process with a session of its own look at the query of a view, and wait for it."""
        check_elsewhere(self._catalog, view)

    def _watch(self, process: "subprocess.Popen[bytes]", job: Job) -> None:
        code = process.wait()
        with contextlib.suppress(LakerootError):  # The table may be gone, and its notes with it.
            _note_end(_table(self._catalog, job), job, f"Its process ended with code {code}")

    def _described(self, job: Job) -> bytes:
        kind = next(name for name, each in _KINDS.items() if isinstance(job, each))
        described = {
            "impl": self._catalog.impl,
            "properties": dict(self._catalog.properties),
            "master": self._master,
            "kind": kind,
            "job": msgspec.structs.asdict(job),
        }
        return json.dumps(described).encode()


def perform(spark: SparkSession, catalog: Catalog, job: Job) -> None:
    """Run a job, and note how it goes beside its table."""
    ref = TableRef(catalog, job.table)
    table = locate(ref)
    _note(table, job, Status.RUNNING, {})
    try:
        facts = _performed(spark, catalog, job)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the job's outcome
        problem = error if isinstance(error, LakerootError) else explained("The job failed", error)
        _note(table, job, Status.FAILED, {"error": str(problem), "code": str(problem.code)})
        return
    _note(table, job, Status.SUCCEEDED, facts)


def _performed(spark: SparkSession, catalog: Catalog, job: Job) -> dict[str, str]:
    if isinstance(job, RefreshView):
        written = refresh(spark, catalog, job)
        return {"version": str(written.version), "rows": str(written.rows)}
    done = refill(
        spark,
        ".".join(f"`{name.replace('`', '``')}`" for name in job.table),
        column=job.column,
        expression=job.expression,
        where=job.where,
        job_id=job.job,
        batch_size=job.batch_size,
        impl=catalog.impl,
        **{f"property.{key}": value for key, value in catalog.properties},
    )
    return {"version": str(done.version), "fragments": str(done.fragments)}


def _table(catalog: Catalog, job: Job) -> Located:
    return locate(TableRef(catalog, job.table))


def _note(table: Located, job: Job, status: Status, facts: dict[str, str]) -> None:
    note_job(files_beside(table.location, table.store_options), job.job, status, facts)


def _note_end(table: Located, job: Job, why: str) -> None:
    """Note that a job failed whose process did not live to say it."""
    found = find_job_note(files_beside(table.location, table.store_options), job.job)
    if found is None or not found.is_over:
        _note(table, job, Status.FAILED, {"error": why})


def main() -> None:
    """Run the one job that standard input describes."""
    described = json.load(sys.stdin)
    catalog = Catalog.of(described["impl"], described["properties"])
    fields = {**described["job"], "table": tuple(described["job"]["table"])}
    job: Job = _KINDS[described["kind"]](**fields)
    with _my_turn():
        _alone(described["master"], catalog, job)


@contextlib.contextmanager
def _my_turn() -> Iterator[None]:
    """Wait until no other job of this user runs on this machine; a process that dies lets go."""
    lock = Path(tempfile.gettempdir()) / f"lakeroot-jobs-{os.getuid()}.lock"
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _alone(master: str | None, catalog: Catalog, job: Job) -> None:
    threads = "*" if job.concurrency is None else str(job.concurrency)
    with quietly() as config:
        where = master or f"local[{threads}]"
        spark = session(f"lakeroot job {job.job}", master=where, config=config)
    try:
        perform(spark, catalog, job)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
