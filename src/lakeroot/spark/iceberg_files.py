"""Parquet files of an export into Iceberg: tasks write them, and what nobody named is deleted.

All files of one export lie in a directory of its own. Spark does not tell the driver what tasks
have written if one of them fails, so the driver must be able to list it.
"""

import contextlib
import logging
import posixpath
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

_log = logging.getLogger(__name__)
_ROWS_PER_FILE = 1 << 20


def write_files(
    directory: str, io: dict[str, str], batches: Iterable[pa.RecordBatch]
) -> dict[str, int]:
    """Write the rows of one task, a file for each million; a task that fails leaves none.

    Returns how many rows are in which file.
    """
    from pyiceberg.io import load_file_io

    files = load_file_io(io, directory)
    counts: dict[str, int] = {}
    try:
        _write(files, directory, batches, counts)
    except Exception:
        # They are closed by now: a bucket would have a file only after that, and keep it.
        _delete(files, counts)
        raise
    return counts


def _write(
    files: Any, directory: str, batches: Iterable[pa.RecordBatch], counts: dict[str, int]
) -> None:
    writer: pq.ParquetWriter | None = None
    path = ""
    with contextlib.ExitStack() as stack:
        for batch in batches:
            if writer is None:
                path = f"{directory}/{uuid.uuid4()}.parquet"
                counts[path] = 0
                stream = stack.enter_context(files.new_output(path).create())
                writer = stack.enter_context(pq.ParquetWriter(stream, batch.schema))
            writer.write_batch(batch)
            counts[path] += batch.num_rows
            if counts[path] >= _ROWS_PER_FILE:
                stack.pop_all().close()
                writer = None


def remove_files(directory: str, io: dict[str, str], known: Iterable[str] = ()) -> None:
    """Delete all files of an export: those that are known, and those that the storage lists.

    What a task that Spark has not ended yet still writes stays, and so does what cannot be listed.
    """
    from pyiceberg.io import load_file_io

    try:
        files = load_file_io(io, directory)
        _delete(files, known)
        _delete(files, [f"{directory}/{name}" for name in _names(files, directory)])
        _prune(files, directory)
    except Exception as error:  # noqa: BLE001  # whatever it is, the export's own failure is told
        _log.warning("What tasks have left in %s stays there, because: %s", directory, error)


def _delete(files: Any, paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            files.delete(path)


def _names(files: Any, directory: str) -> list[str]:
    """List a directory: pyiceberg's own files cannot, but the libraries beneath them can."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if isinstance(files, PyArrowFileIO):
        system, path = _of_arrow(files, directory)
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [each.base_name for each in found]
    where = urlparse(directory)
    beneath = files.get_fs(where.scheme or "file", where.hostname)  # that of fsspec
    if not beneath.exists(directory):
        return []
    return [posixpath.basename(each) for each in beneath.ls(directory, detail=False)]


def _prune(files: Any, directory: str) -> None:
    """Remove the directory from a disk; a bucket has none, and Arrow would mark the one above."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if isinstance(files, PyArrowFileIO):
        system, path = _of_arrow(files, directory)
        if isinstance(system, fs.LocalFileSystem):
            with contextlib.suppress(FileNotFoundError):  # No task has written anything.
                system.delete_dir(path)


def _of_arrow(files: Any, directory: str) -> tuple[fs.FileSystem, str]:
    scheme, host, path = files.parse_location(directory, files.properties)
    return files.fs_by_scheme(scheme, host), path
