"""What the tasks of a job have written into a table, before anybody knows whether it is committed.

A receipt lies in ``_lakeroot/jobs/<attempt>/<task>.json`` and names data files by their paths below
the table. It goes when the job is over; one that is old is of a job whose driver died. A long job
notes in ``_lakeroot/backfills/<job>/`` what it has finished, and the data files of that, until it
commits.
"""

import json
import re
from collections.abc import Iterable
from typing import Final

from lakeroot.tables.versions import DATA, TREE

RECEIPTS: Final = "_lakeroot/jobs"
BACKFILLS: Final = "_lakeroot/backfills"
_OF_JOB: Final = re.compile(rf"((?:{RECEIPTS}|{BACKFILLS})/[^/]+)/.+\.json")
_DATA_FILE: Final = re.compile(rf"(?:{TREE}/(?:[^/]+/)+)?{DATA}/[^/]+")


def job_of(path: str) -> str | None:
    """Give the directory of the job that a receipt or note is of; nothing for any other file."""
    match = _OF_JOB.fullmatch(path)
    return None if match is None else match[1]


def write_receipt(files: Iterable[str]) -> bytes:
    """Write a receipt for some data files."""
    return json.dumps({"files": sorted(files)}).encode()


def read_receipt(content: bytes) -> list[str]:
    """Read which data files a receipt is for; of a damaged one, nothing that could be deleted."""
    try:
        return _read(content, "files")
    except ValueError:
        return []


def read_note(content: bytes) -> list[str]:
    """Read which data files a receipt or a note of a long job is for; raise if it is damaged.

    What is read here stays: of a note that is not understood, that would be nothing.
    """
    return [*_read(content, "files"), *_read(content, "written")]


def _read(content: bytes, key: str) -> list[str]:
    noted = json.loads(content)
    named = noted.get(key, []) if isinstance(noted, dict) else None
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise ValueError("It does not say which files it is for")
    found = [name if "/" in name else f"{DATA}/{name}" for name in named]
    return [path for path in found if _DATA_FILE.fullmatch(path) and ".." not in path.split("/")]
