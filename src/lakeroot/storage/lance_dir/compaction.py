"""Keeping the number of data files small, so that every client reads the table quickly.

Each commit adds one small file. When there are too many, the smallest are folded into one, taking
in the next larger as long as it is not much larger than those before together. Sizes then grow
geometrically: a catalog of any size has a handful of files, and a row is rewritten a few times in
its life rather than at every commit.
"""

from collections.abc import Container, Sequence
from typing import Final

from lakeroot.storage.lance_dir.version_file import Fragment

MOST_FRAGMENTS: Final = 8
MOST_DELETED: Final = 1024
_MUCH_LARGER: Final = 2
_LARGE_CATALOG: Final = 5000


def worth_rewriting(fragments: Sequence[Fragment], deleted: dict[str, set[int]]) -> set[str]:
    """Choose the data files to fold into one new file, by path."""
    chosen = {
        fragment.path
        for fragment in fragments
        if len(deleted.get(fragment.path, ())) > min(MOST_DELETED, fragment.rows // 2)
    }
    if len(fragments) <= MOST_FRAGMENTS:
        return chosen
    together = 0
    for fragment in sorted(fragments, key=lambda fragment: fragment.rows):
        if len(chosen) > 1 and fragment.rows > _MUCH_LARGER * together:
            break
        chosen.add(fragment.path)
        together += fragment.rows
    return chosen


def rewrote_the_largest(before: Sequence[Fragment], kept: Container[str]) -> bool:
    """Tell whether a commit rewrote the largest file of a large catalog: a compaction."""
    largest = max(before, key=lambda fragment: fragment.rows, default=None)
    return (
        largest is not None
        and sum(fragment.live_rows for fragment in before) >= _LARGE_CATALOG
        and largest.path not in kept
    )
