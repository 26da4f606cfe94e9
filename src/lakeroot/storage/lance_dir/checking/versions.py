"""Are the versions that the catalog keeps of a table in step with the files of the table."""

from collections.abc import Callable, Collection, Iterator, Mapping

from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import TableVersion
from lakeroot.objects import Objects
from lakeroot.storage.lance_dir.checking.findings import Finding, finding
from lakeroot.storage.lance_dir.checking.tables import Files
from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.rows import VERSION_ROW
from lakeroot.tables.versions import (
    VERSIONS,
    NamingScheme,
    manifest_name,
    parse_manifest_name,
    parse_staging_name,
)

Kept = Mapping[int, TableVersion]


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


def _is_there(objects: Objects, number: int) -> bool:
    names = (manifest_name(number, scheme) for scheme in NamingScheme)
    return any(objects.exists(f"{VERSIONS}/{name}") for name in names)
