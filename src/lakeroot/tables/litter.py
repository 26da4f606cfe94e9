"""Which files of a Lance table its versions name, and how they name them.

A version of any branch calls its files by their paths below the branch (``data/x.lance``), also
those that lie in the directory of another branch. These names are unique in a table, so whoever
looks for files that no version names does not have to know which branch is made of which others.
Nothing here touches storage: these are the rules, as functions of strings.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from lakeroot.tables.versions import DATA, OF_ANY_BRANCH, SUFFIX, TREE, VERSIONS

BRANCHES: Final = "_refs/branches"
TAGS: Final = "_refs/tags"
HINT: Final = f"{VERSIONS}/latest_version_hint.json"
"""Where Lance notes which version is the newest, so as to find it sooner."""

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAMED: Final = re.compile(
    rf"{OF_ANY_BRANCH}"
    rf"(?:(?P<whole>{DATA}/[^/]+\.lance|_deletions/[^/]+\.(?:arrow|bin)|_transactions/[^/]+\.txn)"
    rf"|(?P<blob>{DATA}/[^/]+)/[^/]+\.blob"
    rf"|(?P<index>_indices/{_UUID})/.+)"
)
_TEMPORARY: Final = re.compile(
    rf"{OF_ANY_BRANCH}"
    rf"(?:{DATA}|{DATA}/[^/]+|{VERSIONS}|_deletions|_transactions|_indices/{_UUID}|_refs/[^/]+)"
    r"/\.tmp[0-9A-Za-z]{6}"
)
_MANIFEST: Final = re.compile(
    rf"({OF_ANY_BRANCH}{VERSIONS}|_lakeroot-[0-9a-f]{{32}})/[^/]+{re.escape(SUFFIX)}(?:-[^/]+)?"
)
_IN_BRANCH: Final = re.compile(
    rf"(?P<branch>{OF_ANY_BRANCH})"
    rf"(?:{VERSIONS}/[^/]+|{DATA}/[^/]+\.lance|{DATA}/[^/]+/[^/]+\.blob|{DATA}/\.tmp[^/]+"
    rf"|_deletions/[^/]+|_transactions/[^/]+|_indices/{_UUID}/.+)"
)


def name_of(path: str) -> str | None:
    """Give what a version calls a file, or what it is a part of: an index, a file with blobs.

    Nothing for files that versions do not name, whatever they are.
    """
    match = _NAMED.fullmatch(path)
    if match is None:
        return None
    return match["whole"] or match["index"] or f"{match['blob']}.lance"


def is_temporary(path: str) -> bool:
    """Tell whether a file is one that Lance writes before it gets its name, on a disk."""
    return _TEMPORARY.fullmatch(path) is not None


def is_manifest(path: str) -> bool:
    """Tell whether a file is the manifest of a version: committed, staged, or kept back."""
    return _MANIFEST.fullmatch(path) is not None


def branch_of(path: str) -> str | None:
    """Give the branch in whose directory a file lies; nothing for the main branch."""
    match = _IN_BRANCH.fullmatch(path)
    before = "" if match is None else match["branch"]
    return before.removeprefix(f"{TREE}/").removesuffix("/") or None


def branches_named(paths: Iterable[str]) -> set[str]:
    """Give the branches that a table has, by the files of their names."""
    before = f"{BRANCHES}/"
    names = (path.removeprefix(before) for path in paths if path.startswith(before))
    return {unquote(name.removesuffix(".json")) for name in names if name.endswith(".json")}


def was_ever_committed(paths: Iterable[str]) -> bool:
    """Tell whether a version was ever in a table, by what only later writers leave.

    The first writer leaves data, and a transaction that has read no version.
    """
    later = ("_deletions/", "_indices/", "_refs/", f"{TREE}/")
    return any(
        path.startswith(later) or (path.startswith("_transactions/") and "/0-" not in path)
        for path in paths
    )
