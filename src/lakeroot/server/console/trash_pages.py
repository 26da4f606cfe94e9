"""Tables that lost their names and still have their data."""

from lakeroot.server.console.pages import Page
from lakeroot.server.console.visit import Visit
from lakeroot.server.identity.access import Role


def trash(visit: Visit) -> Page:
    """What can come back, of what the person may see."""
    lines = [
        {
            "id": list(one.table.identifier),
            "location": one.table.location,
            "commit": one.commit,
            "timestamp_ms": one.timestamp_ms,
            "may_restore": visit.access.allows(one.table.identifier, Role.ADMIN),
        }
        for one in visit.ours("trash")()
        if visit.access.role_on(one.table.identifier) is not None
    ]
    return Page("trash.html", "Trash", {"tables": lines}, has_form=True)
