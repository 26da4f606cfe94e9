"""What a run of a pipeline has done, noted beside its tables.

The history of a table tells of a publication too, until old versions are cleaned up. What jobs do
is often no commit of the table at all. A note stays for as long as it may be asked for.
"""

import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from lakeroot.spark.catalogs import TableRef, files_of, locate
from lakeroot.spark.pipelines.definition import Pipeline
from lakeroot.spark.pipelines.metastore_jobs import MetastoreJob
from lakeroot.tables.job_notes import JobNote, find_job_note, note_job
from lakeroot.tables.transactions import Status

PUBLISH: Final = "publish"
_IDS: Final = uuid.UUID("5d9c1f0e-57bd-4c0b-9a0e-0d2a3f6b7c11")
_DID: Final = "did"


def id_of(pipeline: str, run_id: str, what: str) -> str:
    """Give the id of a part of a run: the same in every attempt, and like no other."""
    return str(uuid.uuid5(_IDS, json.dumps([pipeline, run_id, what])))


def ids_of_jobs(pipeline: Pipeline, run_id: str) -> list[str]:
    """Give the ids of the jobs of a run, in their order.

    A job is known by what it does, not by its place: a file may be mended before it is run again.
    """
    seen: Counter[tuple[str, str]] = Counter()
    ids = []
    for job in pipeline.jobs:
        # Of equal jobs in two metastores each is the first: it is looked for in its own.
        root = MetastoreJob(pipeline.catalog, job).root if job.is_of_metastore else ""
        seen[job.digest, root] += 1
        ids.append(id_of(pipeline.name, run_id, f"{job.digest} {seen[job.digest, root]}"))
    return ids


def noted(table: TableRef, identity: str) -> JobNote | None:
    """Find what is noted beside a table."""
    return find_job_note(files_of(locate(table)), identity)


def is_done(note: JobNote | None) -> bool:
    """Tell whether a note says that all went well."""
    return note is not None and note.status == Status.SUCCEEDED.name


def what_was_done(note: JobNote) -> dict[str, Any]:
    """Read what was noted as done."""
    found: Any = json.loads(note.properties.get(_DID, "{}"))
    return dict(found)


def note_begun(table: TableRef, identity: str, about: Mapping[str, str]) -> None:
    """Note that a job has begun."""
    note_job(files_of(locate(table)), identity, Status.RUNNING, about)


def note_done(table: TableRef, identity: str, did: Mapping[str, Any]) -> None:
    """Note that a job is done; whoever asks for its transaction is told the facts."""
    told = {name: str(value) for name, value in did.items()}
    kept = {**told, _DID: json.dumps(did, default=str)}
    # Opened anew: keys that were lent when it began may have expired.
    note_job(files_of(locate(table)), identity, Status.SUCCEEDED, kept)


def note_failed(table: TableRef, identity: str, error: str, code: int) -> None:
    """Note that a job has failed, if that can be noted: its error is what has to be told."""
    with contextlib.suppress(Exception):
        told = {"error": error, "code": str(code)}
        note_job(files_of(locate(table)), identity, Status.FAILED, told)
