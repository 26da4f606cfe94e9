"""What the tasks of a job have written, kept beside the table until the job is over.

Spark reports the successful attempt of each task, and only if the whole job succeeds. Files of
lost executors, of tasks that were repeated and of failed jobs are known to nobody else, so each
task leaves a receipt under the name of the attempt at the job. The driver collects them: what was
not committed is deleted. If the driver dies too, the receipts remain for garbage collection.
"""

import json
import uuid
from collections.abc import Iterable

from lakeroot.model.errors import LakerootError
from lakeroot.objects import Objects
from lakeroot.spark.catalogs import Located
from lakeroot.spark.commits import files_of

RECEIPTS = "_lakeroot/jobs"


def leave(table: Located, attempt: str, data_files: Iterable[str]) -> str:
    """Write down which data files a task has finished; return where."""
    text = json.dumps({"files": sorted(data_files)})
    path = f"{RECEIPTS}/{attempt}/{uuid.uuid4().hex}.json"
    files_of(table).put(path, text.encode())
    return path


def settle(table: Located, attempt: str, committed: Iterable[str]) -> int:
    """Delete what an attempt at a job has written and not committed; return how many files.

    A failure here loses nothing: the receipts stay, and garbage collection does the same work.
    """
    kept = set(committed)
    files = files_of(table)
    try:
        receipts = [info.path for info in files.list(f"{RECEIPTS}/{attempt}/")]
        orphans = [name for path in receipts for name in _listed(files, path) if name not in kept]
        files.delete([f"data/{name}" for name in orphans])
        files.delete_directory(f"{RECEIPTS}/{attempt}")
    except LakerootError:
        return 0
    return len(orphans)


def _listed(files: Objects, path: str) -> list[str]:
    text = files.get(path)
    return [] if text is None else list(json.loads(text)["files"])
