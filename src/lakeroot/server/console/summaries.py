"""What fits on one line about a table; a table that cannot be opened says why."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from lance_namespace.errors import LanceNamespaceError

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier
from lakeroot.server.console.visit import Visit
from lakeroot.server.problems import clean

_AT_ONCE: Final = 8


def summaries(visit: Visit, tables: Sequence[Identifier]) -> list[dict[str, Any]]:
    """Look at several tables at once."""
    if not tables:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(tables))) as pool:
        return list(pool.map(lambda one: summary(visit, one), tables))


def summary(visit: Visit, identifier: Identifier) -> dict[str, Any]:
    """Look at one table."""
    found: dict[str, Any] = {
        "id": list(identifier),
        "state": "ok",
        "version": None,
        "rows": None,
        "columns": None,
        "bytes": None,
        "timestamp_ms": None,
        "problem": "",
    }
    try:
        if visit.described(identifier).is_only_declared:
            return {**found, "state": "declared"}
        with visit.opened(identifier, "Opening the table") as dataset:
            manifest = dataset.get_version()
            return {
                **found,
                "version": dataset.version,
                "rows": number_in(manifest["metadata"], "total_rows"),
                "columns": len(dataset.schema.names),
                "bytes": number_in(manifest["metadata"], "total_files_size"),
                "timestamp_ms": int(manifest["timestamp"].timestamp() * 1000),
            }
    except (LakerootError, LanceNamespaceError) as problem:
        return {**found, "state": "unreadable", "problem": clean(str(problem))}


def number_in(metadata: dict[str, Any], name: str) -> int | None:
    """A number that the manifest of a version sums up; older writers leave it out."""
    value = str(metadata.get(name, ""))
    return int(value) if value.isdigit() else None
