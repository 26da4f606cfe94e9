"""What writers that died have left: nobody can see it, and nobody needs it."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from lakeroot.objects import LocalObjects, Objects
from lakeroot.storage.lance_dir.checking.findings import Finding, finding
from lakeroot.storage.lance_dir.checking.tables import MANIFEST, Files
from lakeroot.storage.lance_dir.checking.versions import Kept
from lakeroot.tables.versions import VERSIONS, NamingScheme, manifest_name, parse_staging_name

_PRIVATE: Final = re.compile(r"(_lakeroot-[0-9a-f]{32})/.+")


def examine_leftovers(
    location: str, files: Files, needed: Collection[str], cutoff_ms: int
) -> Iterator[Finding]:
    """Find what is left in the directory of a table; staged manifests ``needed`` are not."""
    private: dict[str, int] = defaultdict(int)
    for path, info in files.items():
        match = _PRIVATE.fullmatch(path)
        if match:
            private[match[1]] = max(private[match[1]], info.modified_ms)
            continue
        staged = MANIFEST.fullmatch(path)
        is_staged = staged is not None and parse_staging_name(staged[2]) is not None
        if is_staged and info.modified_ms <= cutoff_ms and path not in needed:
            yield _left("leftover-staged-manifest", f"{location}/{path}", "a commit was cut off")
    for directory, changed_ms in sorted(private.items()):
        if changed_ms <= cutoff_ms:
            path = f"{location}/{directory}"
            yield _left("leftover-private-directory", path, "a transaction was cut off")


def needed_of(kept: Kept, files: Files) -> set[str]:
    """Give the staged manifests that the versions a catalog keeps are still to be made of."""
    return needed_for((version.manifest_path for version in kept.values()), files)


def needed_for(manifests: Iterable[str], files: Files) -> set[str]:
    """Give those of some manifests that are staged, and whose versions are not in place."""
    staged = (path.rpartition("/")[2] for path in manifests)
    # Once a version is in its place, what it was made of is not needed any more.
    return {f"{VERSIONS}/{name}" for name in staged if not _is_in_place(name, files)}


def _is_in_place(staged: str, files: Files) -> bool:
    final = parse_staging_name(staged)
    if final is None:
        return False
    names = (manifest_name(final.version, scheme) for scheme in NamingScheme)
    return any(f"{VERSIONS}/{name}" in files for name in names)


def examine_unfinished(objects: Objects, cutoff_ms: int) -> Iterator[Finding]:
    """Find files that were being written, anywhere below the root of a disk."""
    if isinstance(objects, LocalObjects):
        for info in objects.list_unfinished(""):
            if info.modified_ms <= cutoff_ms:
                yield _left("leftover-unfinished-file", info.path, "its writer died")


def _left(code: str, path: str, why: str) -> Finding:
    return finding(code, path, f"{path} is of no use to anybody", why, path=path)
