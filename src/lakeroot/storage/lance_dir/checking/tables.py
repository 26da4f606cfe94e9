"""Is a table whole: the newest version of each of its branches, and every file it names."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from lakeroot.model.identifiers import Identifier, show
from lakeroot.objects import ObjectInfo, Objects
from lakeroot.storage.lance_dir import index_section, placement, protobuf
from lakeroot.storage.lance_dir.checking.findings import Finding, finding
from lakeroot.storage.lance_dir.manifest_facts import files_named_in
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import FOOTER, FRAGMENTS, VersionFile, decode
from lakeroot.tables.versions import OF_ANY_BRANCH, VERSIONS, parse_manifest_name

Files = Mapping[str, ObjectInfo]
"""The files of one table, by their path below it."""

MANIFEST: Final = re.compile(rf"({OF_ANY_BRANCH}){VERSIONS}/([^/]+)")
# Fields of Lance's DataFile and DeletionFile messages.
_PATH, _SIZE, _BASE = 1, 6, 7
_INTERNAL_INDEX: Final = "__lance"
"""How Lance names the indexes that it keeps inside the version file."""


def examine_table(
    identifier: Identifier, location: str, files: Files, objects: Objects
) -> Iterator[Finding]:
    """Look at the files of a table that a row or its directory shows; ``objects`` are its own."""
    newest = _newest(files)
    if "" not in newest and not (files.keys() & {placement.RESERVED, placement.DEREGISTERED}):
        yield finding(
            "table-without-version",
            show(identifier),
            f"{show(identifier)} cannot be opened",
            "its directory has files, but no version and no marker that says it is only declared",
            identifier=identifier,
            path=location,
        )
    for branch, path in sorted(newest.items()):
        content = objects.get(path)
        if content is not None:  # Otherwise it was cleaned up just now.
            about = _About(identifier, location, branch, path)
            yield from _version(about, content, files, objects)


def _newest(files: Files) -> dict[str, str]:
    """Give the newest manifest of each branch; the main branch is the empty prefix."""
    best: dict[str, tuple[int, str]] = {}
    for path in files:
        match = MANIFEST.fullmatch(path)
        name = parse_manifest_name(match[2]) if match else None
        if match and name is not None:
            best[match[1]] = max(best.get(match[1], (0, "")), (name.version, path))
    return {branch: path for branch, (_, path) in best.items()}


class _About:
    """Which version of which table the findings are about."""

    def __init__(self, identifier: Identifier, location: str, branch: str, path: str) -> None:
        self.identifier = identifier
        self.branch = branch
        self.path = path
        self._location = location
        name = parse_manifest_name(path.rpartition("/")[2])
        self.version = name.version if name else 0

    def finding(self, code: str, path: str, why: str) -> Finding:
        name = show(self.identifier)
        on_branch = f" on its branch {self.branch[5:-1]}" if self.branch else ""
        return finding(
            code,
            name,
            f"Version {self.version} of {name}, the newest{on_branch}, is not whole",
            why,
            identifier=self.identifier,
            path=f"{self._location}/{path}",
            version=self.version,
        )


def _version(about: _About, content: bytes, files: Files, objects: Objects) -> Iterator[Finding]:
    try:
        version, named = decode(content), _named(content)
    except (MalformedError, ValueError) as error:
        yield about.finding("table-unreadable", about.path, f"its manifest is damaged: {error}")
        return
    if version.version != about.version:
        why = f"its manifest says that it is version {version.version}"
        yield about.finding("table-unreadable", about.path, why)
        return
    for below, size in sorted(named.items()):
        path = about.branch + below
        found = files.get(path) or objects.head(path)
        if found is None:
            if objects.exists(about.path):
                why = f"its file {path} is missing"
                yield about.finding("table-file-missing", path, why)
        elif size and found.size != size:
            why = f"its file {path} should have {size} bytes and has {found.size}"
            yield about.finding("table-file-damaged", path, why)
    yield from _indexes(about, version, files, objects)


def _indexes(
    about: _About, version: VersionFile, files: Files, objects: Objects
) -> Iterator[Finding]:
    indexes = index_section.decode(version.index_section) if version.index_section else []
    present = {"/".join(p.split("/")[:2]) for p in files if p.startswith("_indices/")}
    for index in indexes:
        directory = f"_indices/{index.directory}"
        is_own = not about.branch and not index.name.startswith(_INTERNAL_INDEX)
        if is_own and directory not in present and not objects.has_any(directory):
            why = f"the directory {directory} of its index {index.name} is missing"
            yield about.finding("table-index-missing", directory, why)


def _named(content: bytes) -> dict[str, int]:
    """Give the files that a version names in its own directory, with their sizes if it says so.

    Files that lie in another table's directory (of a clone or a branch) are left to that table.
    """
    sizes: dict[str, int] = {}
    elsewhere: set[str] = set()
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    for number, _, fragment in protobuf.fields(protobuf.unframed(content, position)):
        if number != FRAGMENTS or not isinstance(fragment, bytes):
            continue
        deletion_is_elsewhere = False
        for part, _, value in protobuf.fields(fragment):
            if not isinstance(value, bytes):
                continue
            if part == 3:
                deletion_is_elsewhere = any(n == _BASE for n, _, _ in protobuf.fields(value))
            if part == 2:
                found = {n: v for n, _, v in protobuf.fields(value)}
                path, size = found.get(_PATH), found.get(_SIZE, 0)
                if isinstance(path, bytes) and isinstance(size, int):
                    sizes[f"data/{path.decode()}"] = size
                    if _BASE in found:
                        elsewhere.add(f"data/{path.decode()}")
        if deletion_is_elsewhere:
            elsewhere |= {p for p in files_named_in(content) if p.startswith("_deletions/")}
    named = files_named_in(content) - elsewhere
    return {p: sizes.get(p, 0) for p in named if not p.startswith("_transactions/")}
