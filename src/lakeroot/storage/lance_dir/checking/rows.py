"""Do the rows of ``__manifest`` make sense by themselves."""

import json
from collections import defaultdict
from collections.abc import Iterator

from lakeroot.model.identifiers import Identifier, problem_with_name, show
from lakeroot.storage.lance_dir.checking.findings import Finding, finding
from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.placement import is_inside
from lakeroot.storage.lance_dir.rows import NAMESPACE, TABLE_ROW, VERSION_ROW, Row


def examine_rows(index: Index) -> Iterator[Finding]:
    """Look at every row of the newest version."""
    yield from _repeated(index)
    tables: dict[str, list[Identifier]] = defaultdict(list)
    for entry in list(index.entries()):
        row = entry.row
        if row.object_type == VERSION_ROW:
            continue
        if row.object_type not in (NAMESPACE, TABLE_ROW):
            yield _row_finding(
                "row-type-unknown", row, f"is a {row.object_type}", "no rule of ours speaks of it"
            )
            continue
        yield from _one(row, index)
        if row.object_type == TABLE_ROW and row.location is not None:
            tables[row.location].append(row.identifier)
    yield from _shared(tables)


def _repeated(index: Index) -> Iterator[Finding]:
    for identifier, others in index.repeated.items():
        first = index.entry(identifier)
        if first is None:
            continue
        if all(other.row == first.row for other in others):
            yield _row_finding(
                "row-duplicate",
                first.row,
                f"has {len(others) + 1} equal rows",
                "a writer added it without checking",
            )
        else:
            yield _row_finding(
                "row-conflict",
                first.row,
                f"has {len(others) + 1} rows that differ",
                "two writers added it without checking; clients see one or the other",
            )


def _one(row: Row, index: Index) -> Iterator[Finding]:
    parent = row.identifier[:-1]
    above = index.entry(parent) if parent else None
    if parent and (above is None or above.row.object_type != NAMESPACE):
        yield _row_finding(
            "row-parent-missing",
            row,
            "cannot be found from the root",
            f"there is no namespace {show(parent)}",
        )
    problem = next(filter(None, map(problem_with_name, row.identifier)), None)
    if problem:
        yield _row_finding(
            "row-name-invalid", row, "has a name that no new object may have", problem
        )
    if not _is_metadata(row.metadata):
        yield _row_finding(
            "row-metadata-unreadable",
            row,
            "has properties that cannot be read",
            "the column `metadata` is not a JSON object",
        )
    if row.object_type == TABLE_ROW and not _is_usable(row.location):
        said = "null" if row.location is None else repr(row.location)
        yield _row_finding(
            "row-location-invalid",
            row,
            "cannot be opened",
            f"its location is {said}, which is not a directory below the root",
        )


def _is_usable(location: str | None) -> bool:
    return location is not None and is_inside(location)


def _is_metadata(text: str | None) -> bool:
    if not text:
        return True
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _shared(tables: dict[str, list[Identifier]]) -> Iterator[Finding]:
    for location, owners in sorted(tables.items()):
        for other in sorted(set(owners))[1:]:
            yield _location_finding(other, location, f"{show(min(owners))} is there too")
        parts = location.split("/")
        for depth in range(1, len(parts)):
            for outer in tables.get("/".join(parts[:depth]), ()):
                yield _location_finding(owners[0], location, f"it lies inside {show(outer)}")


def _location_finding(identifier: Identifier, location: str, why: str) -> Finding:
    return finding(
        "row-location-shared",
        show(identifier),
        f"{show(identifier)} shares its directory {location} with another table",
        f"{why}; dropping one destroys the other",
        identifier=identifier,
        path=location,
    )


def _row_finding(code: str, row: Row, what: str, why: str) -> Finding:
    name = show(row.identifier)
    return finding(code, name, f"{name} {what}", why, identifier=row.identifier)
