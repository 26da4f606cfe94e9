"""What is wrong with the catalog, found while the reader waits."""

from threading import Lock
from time import monotonic, time
from typing import Any, Final

from lakeroot.server.console.pages import Page
from lakeroot.server.console.visit import Visit
from lakeroot.server.identity.access import Role
from lakeroot.server.identity.denials import require_namespace

_FRESH_SECONDS: Final = 10.0
MOST_FINDINGS: Final = 500


class HealthPages:
    """Checks the catalog, one check at a time however many people ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._done = -_FRESH_SECONDS
        self._data: dict[str, Any] = {}

    def health(self, visit: Visit) -> Page:
        """The findings, for those who may read everything."""
        require_namespace(visit.access, (), Role.READER)
        check = visit.ours("check")
        with self._lock:
            if monotonic() - self._done > _FRESH_SECONDS:
                self._data = _checked(check)
                self._done = monotonic()
            return Page("health.html", "Health", self._data)


def _checked(check: Any) -> dict[str, Any]:
    start = monotonic()
    found = check()
    return {
        "checked_ms": int(time() * 1000),
        "took_ms": int((monotonic() - start) * 1000),
        "number": len(found),
        "findings": [
            {
                "severity": str(one.severity),
                "code": one.code,
                "object": str(one.object),
                "what": one.what,
                "why": one.why,
                "fix": one.fix,
            }
            for one in found[:MOST_FINDINGS]
        ],
    }
