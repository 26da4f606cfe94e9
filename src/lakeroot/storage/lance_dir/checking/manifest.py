"""Is the ``__manifest`` table whole: its versions, and every file they name."""

from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec import Struct, field

from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.objects import Objects
from lakeroot.storage.lance_dir import index_section, versions
from lakeroot.storage.lance_dir.checking.findings import Finding, finding
from lakeroot.storage.lance_dir.healing import lost_rows
from lakeroot.storage.lance_dir.history import HISTORY_START
from lakeroot.storage.lance_dir.manifest_facts import files_named_in
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.restarts import is_restart
from lakeroot.storage.lance_dir.rows import VERSION_ROW
from lakeroot.storage.lance_dir.version_file import VersionFile, decode
from lakeroot.tables.versions import LAST_VERSION

_KINDS_OF_FILES = ("data", "_deletions", "_indices")


class Examined(Struct):
    """What was found, and whether the rows of the newest version can be trusted."""

    findings: list[Finding] = field(default_factory=list)
    exists: bool = False
    is_readable: bool = True


def examine_manifest(objects: Objects, table: ManifestTable) -> Examined:
    """Read every version of the table that is kept, and the rows of the newest."""
    numbers = sorted(n for n in versions.all_versions(objects) if n <= LAST_VERSION)
    if not numbers:
        return _without_versions(objects)
    newest = numbers[-1]
    head, problem = _decoded(objects, newest)
    examined = Examined(exists=True)
    if head is None:
        examined.findings.append(_unreadable(objects, numbers, problem))
        examined.is_readable = False
        return examined
    start = head.table_metadata.get(HISTORY_START, "")
    first = int(start) if start.isascii() and start.isdigit() else 1
    kept = [number for number in numbers if number >= first]
    contents = [(number, objects.get(versions.path_of(number))) for number in kept]
    # Listed after the versions were read: what they name was written before.
    present = _present(objects)
    examined.findings += _gaps(kept)
    for number, content in contents:
        if number != newest and content is not None:
            examined.findings += _past(number, content, present)
    broken = [*_head(table, head, present)]
    examined.findings += broken
    examined.is_readable = all(one.code == "manifest-index-missing" for one in broken)
    if examined.is_readable:
        examined.findings += _restarts(table, objects, contents)
    return examined


def _without_versions(objects: Objects) -> Examined:
    if not objects.has_any(f"{versions.TABLE}/data"):
        return Examined()
    lost = finding(
        "manifest-unreadable",
        versions.TABLE,
        "The catalog has rows but no version",
        f"there is no version file in {versions.DIRECTORY}",
        fix="Put the version files back from a backup; if the very first commit was cut off, "
        "delete the directory `__manifest`",
    )
    return Examined([lost], exists=True, is_readable=False)


def _decoded(objects: Objects, number: int) -> tuple[VersionFile | None, str]:
    content = objects.get(versions.path_of(number))
    if content is None:
        return None, "it is gone"
    try:
        found = decode(content)
    except MalformedError as error:
        return None, str(error)
    if found.version != number:
        return None, f"it says that it is version {found.version}"
    return found, ""


def _unreadable(objects: Objects, numbers: list[int], problem: str) -> Finding:
    newest = numbers[-1]
    whole = next((n for n in reversed(numbers[:-1]) if _decoded(objects, n)[0]), None)
    fix = "Put the file back from a backup"
    if whole is not None:
        fix += f"; without it the catalog can only be had as of version {whole}"
    return finding(
        "manifest-unreadable",
        versions.TABLE,
        f"Version {newest} of the catalog, the newest, cannot be read",
        f"its file {versions.path_of(newest)} is damaged: {problem}",
        fix=fix,
        path=versions.path_of(newest),
    )


def _present(objects: Objects) -> set[str]:
    found = set()
    for directory in _KINDS_OF_FILES:
        for info in objects.list(f"{versions.TABLE}/{directory}"):
            below = info.path.removeprefix(f"{versions.TABLE}/")
            found.add("/".join(below.split("/")[:2]))
    return found


def _gaps(numbers: list[int]) -> Iterator[Finding]:
    for before, after in pairwise(numbers):
        if after != before + 1:
            yield finding(
                "history-gap",
                versions.TABLE,
                f"Versions of the catalog are missing between {before} and {after}",
                "other clients find the newest version by asking for the next, and stop there",
                path=versions.path_of(before + 1),
            )


def _past(number: int, content: bytes, present: set[str]) -> Iterator[Finding]:
    try:
        missing = sorted(_needed(content) - present)
        why = f"the file {missing[0]} is missing" if missing else ""
    except MalformedError as error:
        why = f"its file is damaged: {error}"
    if why:
        yield finding(
            "history-unreadable",
            versions.TABLE,
            f"Version {number} of the catalog, an older one, cannot be read",
            why,
            path=versions.path_of(number),
        )


def _restarts(
    table: ManifestTable, objects: Objects, contents: list[tuple[int, bytes | None]]
) -> Iterator[Finding]:
    """Find versions that were made as if there was none before, and what is missing since."""
    for number, content in contents:
        if number == 1 or not is_restart(content):
            continue
        rows = lost_rows(table, objects, number).values()
        missing = [row for row in rows if row.object_type != VERSION_ROW]
        if missing:
            yield finding(
                "history-restarted",
                versions.TABLE,
                f"{len(missing)} objects lost their names in version {number} of the catalog",
                "another client took the catalog for a new one, and made it over what was there",
                version=number,
            )


def _needed(content: bytes) -> set[str]:
    decode(content)
    return {path for path in files_named_in(content) if not path.startswith("_transactions/")}


def _head(table: ManifestTable, head: VersionFile, present: set[str]) -> Iterator[Finding]:
    files = [*_head_files(table, head, present)]
    yield from files
    if not files:
        yield from _whole(table, head)
    indexes = index_section.decode(head.index_section) if head.index_section else []
    for index in indexes:
        if f"_indices/{index.directory}" not in present:
            yield finding(
                "manifest-index-missing",
                versions.TABLE,
                f"The index {index.name} of the catalog is not there",
                f"its directory _indices/{index.directory} is missing; clients that use it fail",
            )


def _head_files(table: ManifestTable, head: VersionFile, present: set[str]) -> Iterator[Finding]:
    for fragment in head.fragments:
        data = f"data/{fragment.path}"
        deletion = fragment.deletion.path(fragment.id) if fragment.deletion else ""
        for path in filter(None, (data, deletion)):
            if path not in present:
                yield _lost(head, path, "manifest-file-missing", "it is missing")
            elif head.editable:
                read = table.files.read if path == data else table.files.read_deletion
                problem = _problem(read, fragment)
                if problem:
                    yield _lost(head, path, "manifest-file-unreadable", problem)


def _whole(table: ManifestTable, head: VersionFile) -> Iterator[Finding]:
    """Read the newest version the way every client of ours does."""
    try:
        table.refresh()
    except UnsupportedOperationError as error:
        yield finding("manifest-too-new", versions.TABLE, error.what, error.why)
        return
    problem = _problem(lambda: table.index)
    if problem:
        path = versions.path_of(head.version).removeprefix(f"{versions.TABLE}/")
        yield _lost(head, path, "manifest-file-unreadable", problem)


def _problem(read: Callable[..., object], *arguments: object) -> str:
    """Say why something cannot be read; nothing if it can."""
    try:
        read(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 (a damaged file makes the engine fail in any way)
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def _lost(head: VersionFile, path: str, code: str, reason: str) -> Finding:
    return finding(
        code,
        versions.TABLE,
        f"Version {head.version} of the catalog, the newest, cannot be read",
        f"of its file {path}: {reason}",
        path=f"{versions.TABLE}/{path}",
    )
