"""Removing what dead writers have left, so that a writer who is alive loses nothing."""

from collections.abc import Callable
from typing import Final

from lakeroot.objects import Objects
from lakeroot.storage.lance_dir.checking import Finding

REMOVABLE: Final = frozenset(
    {
        "leftover-staged-manifest",
        "leftover-private-directory",
        "leftover-unfinished-file",
        "marker-deregistered",
        "marker-reserved",
    }
)
"""The findings whose file or directory is of no use: a leftover, or a marker that lies."""


def size_of(objects: Objects, one: Finding) -> int:
    """Say how many bytes removing it would free."""
    found = objects.head(one.path)
    return found.size if found else sum(info.size for info in objects.list(one.path))


def remove(objects: Objects, one: Finding, is_owned: Callable[[str], bool]) -> bool:
    """Remove the file or directory of a finding; tell whether it is gone.

    ``is_owned`` asks afresh whether a row owns a directory. A marker that turns out to be right
    after all, because a writer was quicker, is put back.
    """
    if one.code == "leftover-private-directory":
        objects.delete_directory(one.path)
        return True
    location, _, _ = one.path.rpartition("/")
    lies_while_owned = one.code == "marker-deregistered"
    if one.code.startswith("marker-"):
        content = objects.get(one.path)
        if content is None or is_owned(location) != lies_while_owned:
            return False
        objects.delete([one.path])
        if is_owned(location) != lies_while_owned:
            objects.put_if_absent(one.path, content)
            return False
        if not lies_while_owned and not objects.has_any(location):
            objects.delete_directory(location)
        return True
    objects.delete([one.path])
    return True
