"""What the tasks of a job have written, kept beside the table until the job is over.

Spark reports the successful attempt of each task, and only if the whole job succeeds. Files of
lost executors, of tasks that were repeated and of failed jobs are known to nobody else, so each
task leaves a receipt under the name of the attempt at the job. The driver collects them: what was
not committed is deleted. If the driver dies too, the receipts remain for garbage collection.

Spark ends a job at the first failure, and does not wait for the tasks beside it; nor does it for
the slower of two attempts at one task. So a job says beside its receipts that it still wants them.
The driver takes that back before it looks for receipts, and a task looks for it after it has left
its own: one of the two sees the other, and removes what the task has written.
"""

import uuid
from collections.abc import Iterable

from lakeroot.model.errors import ConcurrentModificationError, LakerootError
from lakeroot.spark.catalogs import Located, files_of
from lakeroot.tables.receipts import RECEIPTS, read_receipt, write_receipt


def want(table: Located, attempt: str) -> None:
    """Say that a job begins, and wants what its tasks write."""
    files_of(table).put(_wanted(attempt), write_receipt(()))


def leave(
    table: Located, attempt: str, data_files: Iterable[str], *, if_wanted: bool = False
) -> str:
    """Write down which data files a task has finished, by their paths; return where.

    If nobody wants them any more, they are removed, and the task fails where nobody hears it.
    """
    path = f"{_folder(attempt)}/{uuid.uuid4().hex}.json"
    written = list(data_files)
    files = files_of(table)
    files.put(path, write_receipt(written))
    if if_wanted and not files.exists(_wanted(attempt)):
        files.delete([*written, path])
        files.prune_directory(_folder(attempt))
        raise ConcurrentModificationError(
            f"The job on table {table.ref} is over",
            "this task was too late for it, or the table was dropped and made anew meanwhile",
        )
    return path


def is_over(table: Located, attempt: str) -> bool:
    """Tell whether a job that wanted what its tasks write does so no more, as far as one can see.

    One that has succeeded is over too: then the table has files, and nobody takes its name.
    """
    try:
        return not files_of(table).exists(_wanted(attempt))
    except LakerootError:
        return False


def settle(table: Located, attempt: str, committed: Iterable[str]) -> int:
    """Delete what an attempt at a job has written and not committed; return how many files.

    A failure here loses nothing: the receipts stay, and garbage collection does the same work.
    """
    kept = set(committed)
    files = files_of(table)
    try:
        files.delete([_wanted(attempt)])
        receipts = [info.path for info in files.list(f"{_folder(attempt)}/")]
        written = (path for name in receipts for path in read_receipt(files.get(name) or b""))
        orphans = [path for path in written if path not in kept]
        files.delete(orphans)
        # Only these: one that is left in this moment is for its task to remove.
        files.delete(receipts)
        files.prune_directory(_folder(attempt))
    except LakerootError:
        return 0
    return len(orphans)


def _folder(attempt: str) -> str:
    return f"{RECEIPTS}/{attempt}"


def _wanted(attempt: str) -> str:
    return f"{_folder(attempt)}/wanted.json"
