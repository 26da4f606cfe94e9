"""How far a job on a table has come, noted beside the table where every process can read it.

A job that was accepted has an id and no commit yet, so its state cannot be in the table's history.
It lies in ``_lakeroot/status/<id>.json``, with the statuses that transactions have.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakeroot.model.errors import InvalidTableStateError
from lakeroot.objects import Objects, open_root, parse_root
from lakeroot.tables.transactions import Status

NOTES: Final = "_lakeroot/status"
_JOB: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FINAL: Final = (Status.SUCCEEDED.name, Status.FAILED.name)


@dataclass(frozen=True, slots=True)
class JobNote:
    """The state of a job, and what is known of it."""

    status: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more will be noted."""
        return self.status in _FINAL


def files_beside(location: str, storage_options: Mapping[str, str] | None) -> Objects:
    """Open the files of a table."""
    return open_root(parse_root(location, storage_options))


def is_job_note(path: str) -> bool:
    """Tell whether a file of a table is the note of a job."""
    name = path.removeprefix(f"{NOTES}/").removesuffix(".json")
    return path == f"{NOTES}/{name}.json" and _JOB.fullmatch(name) is not None


def note_job(files: Objects, job: str, status: Status, properties: Mapping[str, str]) -> None:
    """Note the state of a job; what was known of it before stays known."""
    before = find_job_note(files, job)
    known = {**(before.properties if before else {}), **properties}
    body = json.dumps({"status": status.name, "properties": known}, sort_keys=True)
    files.put(f"{NOTES}/{job}.json", body.encode())


def find_job_note(files: Objects, job: str) -> JobNote | None:
    """Find what was noted of a job, if it is one."""
    body = files.get(f"{NOTES}/{job}.json") if _JOB.fullmatch(job) else None
    if body is None:
        return None
    try:
        written = json.loads(body)
        return JobNote(str(written["status"]), dict(written["properties"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidTableStateError(f"The note of job {job} cannot be read", str(error)) from error
