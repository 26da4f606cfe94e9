"""The history of the whole catalog, as far as a person may see it."""

from collections.abc import Iterable
from typing import Any, Final

from lakeroot.model.identifiers import Identifier
from lakeroot.server.console.pages import Page
from lakeroot.server.console.visit import Visit
from lakeroot.server.identity.access import Access
from lakeroot.storage.contract import HistoryEntry

PAGE: Final = 40
MOST_OBJECTS: Final = 50


def history(visit: Visit) -> Page:
    """A page of commits, the newest first; `skip` goes back."""
    skip = visit.number("skip", 0, 1_000_000)
    found = list(visit.ours("history")(skip + PAGE + 1))
    entries = [line for line in (_line(one, visit.access) for one in found[skip:]) if line]
    more = len(found) > skip + PAGE
    data = {
        "commits": entries[:PAGE] if more else entries,
        "skip": skip,
        "next_skip": skip + PAGE if more else None,
    }
    return Page("history.html", "History", data)


def latest(visit: Visit, number: int) -> list[dict[str, Any]]:
    """The last few commits of which the person may see something."""
    found = visit.ours("history")(number)
    return [line for line in (_line(entry, visit.access) for entry in found) if line]


def _line(entry: HistoryEntry, access: Access) -> dict[str, Any] | None:
    created, altered, removed = (
        _seen(group, access) for group in (entry.created, entry.altered, entry.removed)
    )
    versions = [pair for pair in entry.versions if access.role_on(pair[0]) is not None]
    shown = len(created) + len(altered) + len(removed) + len(versions)
    there = sum(len(g) for g in (entry.created, entry.altered, entry.removed)) + len(entry.versions)
    if there and not shown:
        return None
    if not there and not access.unlimited:
        return None
    return {
        "version": entry.version,
        "timestamp_ms": entry.timestamp_ms,
        # A message may speak of objects that the reader may not know of.
        "author": entry.author if shown == there else "",
        "message": entry.message if shown == there else "",
        "created": created[:MOST_OBJECTS],
        "altered": altered[:MOST_OBJECTS],
        "removed": removed[:MOST_OBJECTS],
        "versions": [
            {"id": list(table), "version": version} for table, version in versions[:MOST_OBJECTS]
        ],
        "objects": shown,
    }


def _seen(group: Iterable[Identifier], access: Access) -> list[list[str]]:
    return [list(one) for one in group if access.sees(one)]
