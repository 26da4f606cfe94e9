"""Copying the files of a table, so that every version of it is seen whole or not at all."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.model.progress import counted
from lakeroot.namespace.sides import TableFacts
from lakeroot.objects import ObjectInfo, Objects, Streams
from lakeroot.tables.versions import VERSIONS, parse_manifest_name

# Markers of catalogs, and what Iceberg clients left: not the table's.
_NOT_COPIED: Final = (".lance-", "_iceberg/")
_AT_ONCE: Final = 4


def copy_files(original: TableFacts, copy: TableFacts) -> int:
    """Copy what the copy lacks, manifests last and in order; tell how many files that was.

    It may be broken off at any moment and begun again: files that are there are not copied twice.
    """
    source, target = original.files, copy.files
    found = [info for info in source.list("") if not info.path.startswith(_NOT_COPIED)]
    there = {info.path: info.size for info in target.list("")}
    missing = [
        info
        for info in sorted(found, key=_order)
        if not _is_staged(info.path) and there.get(info.path) != info.size
    ]
    data = [info for info in missing if not _is_manifest(info.path)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        copies = pool.map(lambda info: _copy_data(source, target, info), data)
        copied = sum(counted(copies, "Copying files", len(data)))
    manifests = (info for info in missing if _is_manifest(info.path))
    return copied + sum(_copy_manifest(source, target, info) for info in manifests)


def is_behind(original: TableFacts, copy: TableFacts) -> int | None:
    """Tell how many versions a copy lacks; nothing if it has some that the original has not."""
    theirs, ours = _versions(original.files), _versions(copy.files)
    if any(path not in theirs or theirs[path] != size for path, size in ours.items()):
        return None
    return len(theirs) - len(ours)


def _copy_data(source: Streams, target: Streams, info: ObjectInfo) -> int:
    """Copy a file of any size, piece by piece: it need not fit into memory."""
    chunks = source.read_chunks(info.path)
    if chunks is None:
        return 0  # cleaned up since it was listed, with the version that needed it
    target.write_chunks(info.path, chunks, info.size)
    return 1


def _copy_manifest(source: Objects, target: Objects, info: ObjectInfo) -> int:
    data = source.get(info.path)
    if data is None:
        return 0
    if not target.put_if_absent(info.path, data) and target.get(info.path) != data:
        raise ConcurrentModificationError(
            f"Somebody else wrote {info.path} of the copy", fix="Compare the tables"
        )
    return 1


def _order(info: ObjectInfo) -> tuple[bool, int]:
    """Data first; then manifests, the oldest first."""
    name = parse_manifest_name(info.path.rpartition("/")[2])
    return _is_manifest(info.path), name.version if name else 0


def _is_manifest(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder.endswith(VERSIONS) and parse_manifest_name(name) is not None


def _is_staged(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder.endswith(VERSIONS) and parse_manifest_name(name) is None


def _versions(files: Objects) -> dict[str, int]:
    level = files.list_directory(VERSIONS).objects
    return {info.path: info.size for info in level if _is_manifest(info.path)}
