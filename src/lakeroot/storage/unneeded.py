"""Finding the files inside a Lance table that nothing needs: no version, no branch, no job.

Lance's own cleanup finds such files as well, but not those of branches, and only together with old
versions. Here every version that is there is read, of every branch, and staged ones too: what one
of them names stays, however old it is. While something cannot be understood, nothing is unneeded.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from lakeroot.objects import LocalObjects, Objects
from lakeroot.storage.garbage import Moments
from lakeroot.storage.lance_dir.checking.tables import MANIFEST, Files
from lakeroot.storage.lance_dir.checking.versions import Kept
from lakeroot.storage.lance_dir.manifest_facts import require_names
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.tables import litter
from lakeroot.tables.job_notes import is_job_note
from lakeroot.tables.receipts import job_of, read_note
from lakeroot.tables.versions import SUFFIX, TREE, VERSIONS, parse_manifest_name

UNNAMED: Final = "no version names it, and its writer is gone"
HALF: Final = "its writer died"
OF_A_BRANCH: Final = "its branch was deleted, or never finished"
OF_A_JOB: Final = "a job died before it was over"
OF_THE_PAST: Final = "its job is long over"
_AT_ONCE: Final = 16


class VanishedError(Exception):
    """What was listed is not there any more, or not alone: somebody is at work, look again."""


@dataclass(frozen=True, slots=True)
class Now:
    """What is in a table, looked at after it was listed first and after the catalog was asked."""

    objects: Objects = field(repr=False)
    files: Files
    kept: Kept
    """The versions that the catalog keeps, if it does."""
    left: Collection[str] = ()
    """Staged manifests and private directories that are to go: what they name is not needed."""


def unneeded(
    before: Files, now: Now, moments: Moments, is_owned: Callable[[str], bool]
) -> dict[str, str]:
    """Give the files that can go, of those seen before, and why; in the order in which they go.

    Nothing goes that was not old when it was seen first. ``is_owned`` tells whether a directory of
    the table is a table of its own.
    """
    old = {path for path, info in before.items() if info.modified_ms <= moments.unnamed_ms}
    dead = _dead_branches(now, moments, is_owned)
    buried = {path for path in now.files if litter.branch_of(path) in dead} & old
    quiet = _quiet_jobs(now, moments)
    names = _old_names(before, now, moments)
    maybe = {path for path in old if litter.name_of(path) in names}
    free = maybe - _needed(maybe, now, buried, quiet)
    tombs = sorted(path for path in buried if litter.name_of(path) is None)
    half = sorted(path for path in old if litter.is_temporary(path))
    notes = sorted(path for path in old if job_of(path) in quiet)
    _require_quiet(now, quiet)
    told = (path for path, info in before.items() if info.modified_ms <= moments.told_ms)
    # The versions of a branch go before what they name: there is never one that is not whole. The
    # notes of a job come after what they are for: who dies in between has lost none.
    return {
        **dict.fromkeys(tombs, OF_A_BRANCH),
        **dict.fromkeys(half, HALF),
        **{path: OF_A_BRANCH if path in buried else UNNAMED for path in sorted(free)},
        **dict.fromkeys(notes, OF_A_JOB),
        **dict.fromkeys(sorted(filter(is_job_note, told)), OF_THE_PAST),
    }


def _old_names(before: Files, now: Now, moments: Moments) -> set[str]:
    """Give the names of which no part is young: of an index, or a file with its blobs.

    Who writes many parts may take days, and the first are needed as long as the last.
    """
    young: set[str] = set()
    names: set[str] = set()
    for path, info in (*before.items(), *now.files.items()):
        name = litter.name_of(path)
        if name is not None:
            names.add(name)
            if info.modified_ms > moments.unnamed_ms:
                young.add(name)
    return names - young


def what_is_lost(now: Now) -> str:
    """Say which version is missing that was there, so that what it named is not known; or nothing.

    Who has looked while a version was made, or a tag moved, may be mistaken, and looks again.
    """
    there: dict[str, set[int]] = {}
    for path in now.files:
        match = MANIFEST.fullmatch(path)
        name = parse_manifest_name(match[2]) if match else None
        if match and name is not None:
            there.setdefault(match[1], set()).add(name.version)
    if _has_lost_main(now, max(there.get("", ()), default=0)):
        return "its newest version is missing"
    for branch in sorted(litter.branches_named(now.files)):
        before = f"{TREE}/{branch}/"
        newest = max(there.get(before, ()), default=0)
        if not newest or _hinted(now, before) > newest:
            return f"the newest version of its branch {branch} is missing"
    tags = [path for path in now.files if path.startswith(f"{litter.TAGS}/")]
    for path, content in zip(tags, _read(now.objects, tags), strict=True):
        facts = _facts(content)
        tagged, version = facts.get("branch"), facts.get("version")
        if not isinstance(version, int) or not isinstance(tagged, str | None):
            return f"{path} cannot be read"
        before = f"{TREE}/{tagged}/" if tagged else ""
        detached = f"{before}{VERSIONS}/d{version}{SUFFIX}"
        is_there = version in there.get(before, ()) or detached in now.files
        if not is_there and (before or not _is_staged(now, version)):
            return f"{path} names version {version}, which is missing"
    return ""


def _has_lost_main(now: Now, newest: int) -> bool:
    if now.kept:
        return max(now.kept) > newest and not _is_staged(now, max(now.kept))
    if newest:
        return _hinted(now, "") > newest
    return litter.HINT in now.files or litter.was_ever_committed(now.files)


def _is_staged(now: Now, version: int) -> bool:
    """Tell whether a version that the catalog keeps is still to be put into its place."""
    kept = now.kept.get(version)
    if kept is None:
        return False
    return f"{VERSIONS}/{kept.manifest_path.rpartition('/')[2]}" in now.files


def _hinted(now: Now, before: str) -> int:
    """Read which version of a branch Lance has noted as the newest; it may be behind."""
    path = f"{before}{litter.HINT}"
    noted = _facts(now.objects.get(path)).get("version") if path in now.files else None
    return noted if isinstance(noted, int) else 0


def _needed(maybe: set[str], now: Now, buried: set[str], quiet: set[str]) -> set[str]:
    """Give those of some files that a version needs, or a job that may be running."""
    by_name: dict[str, list[str]] = {}
    for path in maybe:
        by_name.setdefault(litter.name_of(path) or "", []).append(path)
    needed: set[str] = set()
    for named in _names(now, buried, quiet):
        for name in named & by_name.keys():
            needed.update(by_name.pop(name))
        if not by_name:
            break  # Most versions of most tables do not have to be read.
    return needed


def _names(now: Now, buried: set[str], quiet: set[str]) -> Iterator[set[str]]:
    """Give what each version names, and each note of a job that may be running."""
    others = {None, *quiet}
    notes = [path for path in now.files if job_of(path) not in others]
    for path, content in zip(notes, _read(now.objects, notes), strict=True):
        with _about(path):
            names = {litter.name_of(named) or "" for named in read_note(content)}
        yield names
    manifests = sorted(
        path
        for path in now.files
        if litter.is_manifest(path) and path not in buried and not _is_left(path, now.left)
    )  # Where names are of the newer kind, the newest is the first.
    seen: set[bytes] = set()
    for path, content in zip(manifests, _read(now.objects, manifests), strict=True):
        with _about(path):
            names = require_names(content, seen)
        yield names


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Say which file it is that is not understood."""
    try:
        yield
    except ValueError as error:
        raise MalformedError(f"{path}: {error}") from error


def _is_left(path: str, left: Collection[str]) -> bool:
    return path in left or path.partition("/")[0] in left


def _dead_branches(now: Now, moments: Moments, is_owned: Callable[[str], bool]) -> set[str]:
    """Give branches that have no name, and that nobody has touched for long.

    Lance writes the first version of a branch before its name, and takes the name away before it
    deletes the files. Until they are gone nobody can give another branch that name.
    """
    touched: dict[str, int] = {}
    begun: set[str] = set()
    for path, info in now.files.items():
        branch = litter.branch_of(path)
        if branch is not None:
            touched[branch] = max(touched.get(branch, 0), info.modified_ms)
            if path.startswith(f"{TREE}/{branch}/{VERSIONS}/"):
                begun.add(branch)
    named = litter.branches_named(now.files)
    # Whatever lies in the directory of a branch that has a name may be a part of it.
    inside = tuple(f"{branch}/" for branch in named)
    unnamed = {branch for branch in begun - named if not branch.startswith(inside)}
    if not unnamed:
        return set()
    refs = [
        path for path in now.files if path.startswith((f"{litter.BRANCHES}/", f"{litter.TAGS}/"))
    ]
    for content in _read(now.objects, refs):
        facts = _facts(content)
        if not facts:
            return set()  # What a damaged tag names is not known.
        unnamed -= {facts.get("parentBranch"), facts.get("branch")}
    return {
        branch
        for branch in unnamed
        if touched[branch] <= moments.unnamed_ms and not is_owned(f"{TREE}/{branch}")
    }


def _quiet_jobs(now: Now, moments: Moments) -> set[str]:
    """Give the directories of jobs that have left nothing for so long that they are dead."""
    touched: dict[str, int] = {}
    for path, info in now.files.items():
        job = job_of(path)
        if job is not None:
            touched[job] = max(touched.get(job, 0), info.modified_ms)
    return {job for job, last_ms in touched.items() if last_ms <= moments.unnamed_ms}


def _require_quiet(now: Now, quiet: set[str]) -> None:
    """Look again after the versions were read, which takes long: a job may go on any time."""
    for job in quiet:
        for info in now.objects.list(f"{job}/"):
            if now.files.get(info.path) != info:
                raise VanishedError


def _facts(content: bytes | None) -> dict[str, object]:
    try:
        found = json.loads(content or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read(objects: Objects, paths: Iterable[str]) -> Iterator[bytes]:
    """Read files, in order; in a bucket each is a request, and some are made at a time."""
    ordered = list(paths)
    if isinstance(objects, LocalObjects) or len(ordered) < _AT_ONCE:
        yield from (_found(objects.get(path)) for path in ordered)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(ordered), _AT_ONCE):
            for content in pool.map(objects.get, ordered[start : start + _AT_ONCE]):
                yield _found(content)


def _found(content: bytes | None) -> bytes:
    if content is None:
        raise VanishedError
    return content
