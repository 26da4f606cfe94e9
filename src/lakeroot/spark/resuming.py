"""Begin a long job, or go on with it: only what computes the same may go on with its notes."""

import json
import uuid
from typing import Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.catalogs import Located, files_of
from lakeroot.spark.failures import nearest
from lakeroot.spark.fingerprints import Fingerprint
from lakeroot.spark.fragment_notes import FragmentNotes

SAME, ANYWAY, NEVER = "same", "anyway", "never"
RESUMES: Final = (SAME, ANYWAY, NEVER)
_BEGUN: Final = "begun.json"


def check_resume(resume: str) -> None:
    """Refuse a word that says nothing about going on."""
    if resume not in RESUMES:
        raise InvalidInputError(f"There is no resume {resume!r}", fix=nearest(resume, RESUMES))


def begun(
    table: Located, job: str, computes: Fingerprint, resume: str, *, look_only: bool = False
) -> FragmentNotes:
    """Find the notes to go on with, or begin new ones.

    Of jobs that begin at once under one name, the first says what is computed.
    """
    notes = FragmentNotes(table, job)
    files = files_of(table)
    path = f"{notes.folder}/{_BEGUN}"
    text = None if resume == NEVER and look_only else files.get(path)
    if text is None:
        first = {"run": uuid.uuid4().hex, "computes": computes.plain()}
        text = json.dumps(first).encode()
        if not look_only and not files.put_if_absent(path, text):
            text = files.get(path) or text
    found = json.loads(text)
    differences = computes.differences(Fingerprint(**found["computes"]))
    if differences and resume != ANYWAY:
        raise InvalidInputError(
            f"The job {job!r} of table {table.ref} was begun with something else to compute",
            "; ".join(f"different is {each}" for each in differences[:5]),
            "Give it another `job_id`, or begin it anew with `resume='never'`; if both compute "
            "the same, go on with `resume='anyway'`",
        )
    return FragmentNotes(table, job, found["run"])
