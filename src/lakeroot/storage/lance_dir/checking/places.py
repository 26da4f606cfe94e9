"""Do the directories below the root, and the markers in them, agree with the rows."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from lakeroot.model.identifiers import Identifier, problem_with_name, show
from lakeroot.objects import Objects
from lakeroot.storage.lance_dir import placement
from lakeroot.storage.lance_dir.checking.findings import Finding, finding
from lakeroot.storage.lance_dir.checking.tables import Files

HASHED: Final = re.compile(r"[0-9a-f]{8}_.+", re.DOTALL)
"""How V2 names the directory of a table."""


def examine_owned(
    identifier: Identifier, location: str, files: Files, cutoff_ms: int
) -> Iterator[Finding]:
    """Look for what a row says, in the directory that it owns."""
    name = show(identifier)
    if not files:
        yield finding(
            "table-missing",
            name,
            f"{name} cannot be opened",
            f"its directory {location} is missing or empty",
            identifier=identifier,
            path=location,
        )
    marker = files.get(placement.DEREGISTERED)
    # Under another name than its directory's, the marker hides the table from V1 clients rightly.
    is_by_its_name = len(identifier) == 1 and location == placement.flat(identifier[0])
    if marker is not None and is_by_its_name and marker.modified_ms <= cutoff_ms:
        yield finding(
            "marker-deregistered",
            name,
            f"{name} is hidden from clients that only look at directories",
            "its directory says that it is deregistered, but it has a row",
            identifier=identifier,
            path=f"{location}/{placement.DEREGISTERED}",
        )


def examine_unowned(
    location: str, files: Files, objects: Objects, cutoff_ms: int, *, has_manifest: bool
) -> Iterator[Finding]:
    """Look at a directory of the root that no row owns."""
    if placement.DEREGISTERED in files or not files:
        return
    is_flat = placement.is_flat(location)
    changed_ms = max(info.modified_ms for info in files.values())
    if files.keys() == {placement.RESERVED}:
        if is_flat:
            reserved = objects.get(f"{location}/{placement.RESERVED}")
            is_for_row = has_manifest and reserved == placement.MARK_FOR_ROW
        else:
            is_for_row = True
        if is_for_row and changed_ms <= cutoff_ms:
            yield finding(
                "marker-reserved",
                location,
                f"The directory {location} is reserved for nobody",
                "a declared table was deregistered, or the writer that was declaring it has died",
                path=f"{location}/{placement.RESERVED}",
            )
    elif is_flat and has_manifest:
        plain = location.removesuffix(placement.SUFFIX)
        name = show((plain,))
        problem = problem_with_name(plain)
        yield finding(
            "directory-unregistered",
            name,
            f"{name} is known by its directory only",
            problem or "it was made by a client that keeps no manifest",
            fix="" if problem is None else f"Register {location} under another name",
            path=location,
        )
    elif not is_flat and changed_ms <= cutoff_ms:
        yield finding(
            "directory-orphan",
            location,
            f"No table is at {location}",
            "it was deregistered, or the writer that created or dropped it has died",
            path=location,
        )


def is_lance_directory(files: Mapping[str, object]) -> bool:
    """Tell whether a directory holds nothing but what Lance and its catalogs put there."""
    known = {"data", "_versions", "_transactions", "_deletions", "_indices", "_refs", "tree"}
    known |= {placement.RESERVED, placement.DEREGISTERED, "_lakeroot"}
    first = {path.partition("/")[0] for path in files}
    if any("/_mem_wal/" in path for path in files):
        return False  # Rows that are in no version yet.
    return all(name in known or name.startswith("_lakeroot-") for name in first)
