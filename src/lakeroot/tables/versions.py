"""Version files of a Lance table: their names, where they may lie, and ranges of versions.

A version of a table is one manifest file in ``_versions/`` (on a branch, in
``tree/<branch>/_versions/``). Its name follows one of two schemes:

    V1   ``7.manifest``
    V2   ``18446744073709551608.manifest``   2**64 - 1 - version, so that the newest sorts first

A manifest that is written but not committed yet is *staged* beside it, as ``<name>-<suffix>``.
Nothing here touches storage: these are the rules, as functions of strings and numbers.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from lakeroot.model.errors import InvalidInputError

VERSIONS: Final = "_versions"
TREE: Final = "tree"
DATA: Final = "data"
MAIN: Final = "main"
SUFFIX: Final = ".manifest"
OF_ANY_BRANCH: Final = rf"(?:{TREE}/(?:(?!_mem_wal/)[^/]+/)+)?"
"""A pattern of what is before the paths of a branch; before those of the main branch is nothing.

Below ``_mem_wal/`` Lance keeps tables of their own: rows that are not yet in the branch.
"""
LAST_VERSION: Final = 2**63 - 1
"""Lance sets the highest bit for detached versions, which no branch lists."""

_INVERTED: Final = 2**64 - 1
_V2_DIGITS: Final = 20
_MANIFEST: Final = re.compile(r"(0|[1-9][0-9]{0,18}|[0-9]{20})\.manifest", re.ASCII)
_SUFFIX: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,127}", re.ASCII)
_STAGED: Final = re.compile(rf"([0-9]{{1,20}}\.manifest)-({_SUFFIX.pattern})", re.ASCII)
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?", re.DOTALL)


class NamingScheme(StrEnum):
    """How the number of a version becomes the name of its manifest."""

    V1 = "V1"
    V2 = "V2"


class ManifestName(Struct, frozen=True):
    """The name of a committed manifest, understood."""

    version: int
    scheme: NamingScheme

    def __str__(self) -> str:
        return manifest_name(self.version, self.scheme)


class StagedManifest(Struct, frozen=True):
    """A staged manifest that is known to lie in the table's own versions directory.

    Both paths are relative to the table, so joining them to the table's location can lead
    nowhere else.
    """

    final: ManifestName
    directory: str
    name: str

    @property
    def path(self) -> str:
        """Where the staged file is, relative to the table."""
        return f"{self.directory}/{self.name}"

    @property
    def final_path(self) -> str:
        """Where the committed manifest belongs, relative to the table."""
        return f"{self.directory}/{self.final}"


class VersionRange(Struct, frozen=True):
    """The versions from `start` up to but not including `end`; no end means all that follow."""

    start: int
    end: int | None

    def __contains__(self, version: int) -> bool:
        return self.start <= version and (self.end is None or version < self.end)


def naming_scheme(text: str | None) -> NamingScheme:
    """Read the naming scheme of a request, in any case; nothing means V2."""
    if not text:
        return NamingScheme.V2
    try:
        return NamingScheme(text.upper())
    except ValueError:
        raise InvalidInputError(
            f"There is no manifest naming scheme {text!r}", fix="Use V1 or V2"
        ) from None


def require_version(version: int) -> int:
    """Refuse a number that no committed version can have."""
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInputError(f"A version is a whole number; {version!r} is not")
    if not 1 <= version <= LAST_VERSION:
        raise InvalidInputError(
            f"{version} is not a version of a table", "versions are numbered from 1"
        )
    return version


def manifest_name(version: int, scheme: NamingScheme = NamingScheme.V2) -> str:
    """Name the manifest of a version."""
    return _named(require_version(version), scheme)


# Every look at a version needs its name, and most looks are at the newest few.
@lru_cache(4096)
def _named(version: int, scheme: NamingScheme) -> str:
    if scheme is NamingScheme.V1:
        return f"{version}{SUFFIX}"
    return f"{_INVERTED - version:0{_V2_DIGITS}}{SUFFIX}"


def parse_manifest_name(name: str) -> ManifestName | None:
    """Understand the name of a committed manifest; nothing for any other file."""
    match = _MANIFEST.fullmatch(name)
    if match is None:
        return None
    digits = match[1]
    if len(digits) == _V2_DIGITS:
        found = ManifestName(_INVERTED - int(digits), NamingScheme.V2)
    else:
        found = ManifestName(int(digits), NamingScheme.V1)
    return found if 1 <= found.version <= LAST_VERSION else None


def staging_name(version: int, scheme: NamingScheme, suffix: str) -> str:
    """Name the staged manifest of a version; the suffix tells one attempt from another."""
    name = f"{manifest_name(version, scheme)}-{suffix}"
    if _STAGED.fullmatch(name) is None:
        raise InvalidInputError(f"{suffix!r} cannot be the suffix of a staged manifest")
    return name


def parse_staging_name(name: str) -> ManifestName | None:
    """Understand the name of a staged manifest: the version and scheme it would have."""
    match = _STAGED.fullmatch(name)
    return None if match is None else parse_manifest_name(match[1])


def versions_directory(branch: str | None = None) -> str:
    """Where the manifests of a branch lie, relative to the table; nothing means the main branch."""
    if branch is None or branch == MAIN:
        return VERSIONS
    parts = branch.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in branch:
        raise InvalidInputError(f"{branch!r} cannot be the name of a branch")
    return f"{TREE}/{branch}/{VERSIONS}"


def data_directory(branch: str | None = None) -> str:
    """Where the data files that are written to a branch lie, relative to the table."""
    return f"{versions_directory(branch).removesuffix(VERSIONS)}{DATA}"


@lru_cache(4096)
def object_key(location: str) -> str:
    """Give a location as object stores see it: without scheme, bucket and leading slash.

    Lance clients name manifests this way: ``/lake/t.lance`` and ``file:///lake/t.lance`` are
    ``lake/t.lance``; ``s3://bucket/lake/t.lance`` is ``lake/t.lance`` too.
    """
    match = _URI.fullmatch(location)
    path = location if match is None else match[3] or ""
    return path.strip("/")


def staged_manifest(
    location: str,
    manifest_path: str,
    *,
    version: int,
    scheme: NamingScheme = NamingScheme.V2,
    branch: str | None = None,
) -> StagedManifest:
    """Check that a staging path lies in the table's own versions directory and fits its version.

    The path may be written as clients do, as an object key (with or without a leading slash), as a
    full address under `location`, or relative to the table. Anything else is refused, and nothing
    was read: a catalog that moves files on request must not move other people's.
    """
    final = ManifestName(require_version(version), scheme)
    directory = versions_directory(branch)
    expected = f"{object_key(location)}/{directory}/{manifest_name(version, scheme)}-"
    if manifest_path.startswith(expected) and _SUFFIX.fullmatch(manifest_path, len(expected)):
        # As clients write it: nothing has to be taken apart.
        return StagedManifest(final, directory, manifest_path.rpartition("/")[2])
    relative = _below(location, manifest_path)
    folder, _, name = relative.rpartition("/")
    if folder != directory:
        raise InvalidInputError(
            f"The staged manifest {manifest_path!r} is not in the table's own {directory}/",
            fix=f"Stage the manifest under {object_key(location)}/{directory}/",
        )
    if parse_staging_name(name) != final:
        raise InvalidInputError(
            f"{name!r} is not a staged manifest of version {version} in scheme {scheme}",
            fix=f"Name it {final}-<suffix>",
        )
    return StagedManifest(final, directory, name)


def _below(location: str, path: str) -> str:
    """Write a path relative to the table, if it is under the table; else leave it as it is."""
    if "://" in path:
        prefix = location.rstrip("/") + "/"
    else:
        prefix = object_key(location) + "/"
        path = path.removeprefix("/")
    return path.removeprefix(prefix)


def version_range(start: int, end: int) -> VersionRange:
    """Read a range of a request: the start counts, the end does not, a negative end means all."""
    for bound in (start, end):
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise InvalidInputError(f"A range of versions has whole numbers; {bound!r} is not one")
    if start < 0:
        raise InvalidInputError(f"A range of versions cannot start at {start}", fix="Start at 0")
    if end < 0:
        return VersionRange(start, None)
    if end < start:
        raise InvalidInputError(
            f"The range of versions {start}..{end} is reversed",
            "its end comes before its start",
            "Give the smaller version first; the end itself is not included",
        )
    return VersionRange(start, end)


def covered(versions: Iterable[int], ranges: Sequence[VersionRange]) -> list[int]:
    """List the versions that lie in any of the ranges, each once, in ascending order."""
    return sorted({v for v in versions if any(v in one for one in ranges)})
