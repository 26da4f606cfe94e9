"""Are the versions that the catalog keeps of a table in step with the files of the table."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import TableVersion
from lakeroot.objects import Objects
from lakeroot.storage.findings import REPAIR
from lakeroot.storage.lance_dir.checking.findings import Finding, finding
from lakeroot.storage.lance_dir.checking.tables import Files
from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.rows import VERSION_ROW
from lakeroot.tables import litter
from lakeroot.tables.versions import (
    VERSIONS,
    NamingScheme,
    manifest_name,
    parse_manifest_name,
    parse_staging_name,
)

Kept = Mapping[int, TableVersion]
_SOME: Final = 3


def examine_versions(
    identifier: Identifier,
    location: str,
    files: Files,
    objects: Objects,
    kept: Kept,
    kept_now: Callable[[Identifier], Kept],
) -> Iterator[Finding]:
    """Compare the versions that a catalog keeps of a table with its manifests."""
    on_disk = {
        name.version: path
        for path in files
        if path.startswith(f"{VERSIONS}/")
        for name in [parse_manifest_name(path.removeprefix(f"{VERSIONS}/"))]
        if name is not None
    }
    newest = max([*kept, *on_disk], default=0)

    def found(code: str, number: int, why: str) -> Finding:
        name = show(identifier)
        what = f"Version {number} of {name} is not in step with the catalog"
        return finding(code, name, what, why, identifier=identifier, path=location, version=number)

    for number in sorted(kept):
        if number in on_disk or _is_there(objects, number):
            continue
        staged = kept[number].manifest_path.rpartition("/")[2]
        is_staged = parse_staging_name(staged) is not None
        if is_staged and objects.exists(f"{VERSIONS}/{staged}"):
            yield found("version-unfinished", number, "its manifest was not put into place yet")
        elif number not in kept_now(identifier):
            continue  # Deleted while we looked.
        elif number == newest and _was_cleaned_up(number, on_disk, files, objects):
            # What was newer went through the catalog, and nothing is lost by going back.
            why = "it was cleaned up before a later version was deleted, and became the newest"
            one = found("version-missing", number, why)
            yield replace(one, fix=REPAIR, repairable=True)
        elif number == newest:
            yield found("version-missing", number, "it is the newest, and its manifest is gone")
        else:
            yield found("version-stale", number, "its manifest was cleaned up")
    direct = sorted(number for number in on_disk if number > max(kept, default=0))
    if direct:
        now = kept_now(identifier)
        for number in direct:
            if number not in now:
                yield found(
                    "version-direct", number, "a client put it there without asking the catalog"
                )


def _was_cleaned_up(number: int, on_disk: Collection[int], files: Files, objects: Objects) -> bool:
    """Tell a version that Lance cleaned up, when it was not the newest, from one that was lost.

    There was a later one then, and Lance leaves of the versions before only those that are named.
    """
    named: set[object] = set()
    for path in files:
        if path.startswith((f"{litter.TAGS}/", f"{litter.BRANCHES}/")):
            facts = _facts(objects.get(path))
            if facts.get("branch") is None and facts.get("parentBranch") is None:
                named |= {facts.get("version"), facts.get("parentVersion")}
    noted = _facts(objects.get(litter.HINT)).get("version")
    had_later = isinstance(noted, int) and noted > number
    return had_later and bool(on_disk) and named.issuperset(on_disk)


def _facts(content: bytes | None) -> dict[str, Any]:
    try:
        found: Any = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def examine_version_rows(index: Index, tables: Collection[Identifier]) -> Iterator[Finding]:
    """Find version rows that belong to no table, or to no version."""
    for entry in list(index.entries()):
        row = entry.row
        if row.object_type != VERSION_ROW:
            continue
        name = show(row.identifier)
        number = row.identifier[-1]
        if not (number.isascii() and number.isdigit()):
            why = f"{number!r} is not the number of a version"
        elif row.identifier[:-1] not in tables:
            why = f"there is no table {show(row.identifier[:-1])}"
        else:
            continue
        yield finding(
            "version-row-orphan",
            name,
            f"The version row {name} belongs to nothing",
            why,
            identifier=row.identifier,
        )


def examine_unmanaged(tables: Sequence[Identifier]) -> Iterator[Finding]:
    """Say that versions are kept which nobody asks for: management is switched off."""
    if tables:
        names = ", ".join(map(show, tables[:_SOME])) + (", ..." if len(tables) > _SOME else "")
        yield finding(
            "version-row-unmanaged",
            names,
            f"The catalog keeps versions of {names}, though its version management is switched off",
            "they were added at the moment it was, and are not brought up to date",
            identifier=tables[0],
        )


def _is_there(objects: Objects, number: int) -> bool:
    names = (manifest_name(number, scheme) for scheme in NamingScheme)
    return any(objects.exists(f"{VERSIONS}/{name}") for name in names)
