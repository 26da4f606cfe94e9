"""Every route of the Iceberg REST catalog that this server answers, as data."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from lakeroot.server.identity.access import Role

READER, WRITER, ADMIN = Role.READER, Role.WRITER, Role.ADMIN


class On(Enum):
    """What the caller needs a role on."""

    NOTHING = auto()  # the answer holds nothing of the catalog
    PARENT = auto()  # the namespace named in the query; filtered
    LISTED = auto()  # the namespace of the path; filtered
    SEEN = auto()
    NAMESPACE = auto()
    NEW_NAMESPACE = auto()
    TABLE = auto()
    NEW_TABLE = auto()
    RENAMED = auto()
    MEMBERS = auto()


@dataclass(frozen=True, slots=True)
class Route:
    """One operation and how it is called; the path starts after the prefix."""

    operation: str
    method: str
    path: str
    role: Role
    on: On
    success: int = 200
    advertised: bool = True

    @property
    def changes(self) -> bool:
        """Tell whether the operation changes anything."""
        return self.role > READER


_NS: Final = "namespaces/{namespace}"
_T: Final = "namespaces/{namespace}/tables/{table}"
_V: Final = "namespaces/{namespace}/views"

ROUTES: Final[tuple[Route, ...]] = (
    Route("getConfig", "GET", "config", READER, On.NOTHING, advertised=False),
    Route("listNamespaces", "GET", "namespaces", READER, On.PARENT),
    Route("createNamespace", "POST", "namespaces", WRITER, On.NEW_NAMESPACE),
    Route("loadNamespaceMetadata", "GET", _NS, READER, On.NAMESPACE),
    Route("namespaceExists", "HEAD", _NS, READER, On.SEEN, 204),
    Route("dropNamespace", "DELETE", _NS, ADMIN, On.NAMESPACE, 204),
    Route("updateProperties", "POST", f"{_NS}/properties", WRITER, On.NAMESPACE),
    Route("listTables", "GET", f"{_NS}/tables", READER, On.LISTED),
    Route("createTable", "POST", f"{_NS}/tables", WRITER, On.NEW_TABLE),
    Route("registerTable", "POST", f"{_NS}/register", ADMIN, On.NEW_TABLE),
    Route("loadTable", "GET", _T, READER, On.TABLE),
    Route("updateTable", "POST", _T, WRITER, On.TABLE),
    Route("dropTable", "DELETE", _T, WRITER, On.TABLE, 204),
    Route("tableExists", "HEAD", _T, READER, On.TABLE, 204),
    Route("reportMetrics", "POST", f"{_T}/metrics", READER, On.TABLE, 204),
    Route("loadCredentials", "GET", f"{_T}/credentials", READER, On.TABLE),
    Route("planTableScan", "POST", f"{_T}/plan", READER, On.TABLE),
    Route("fetchScanTasks", "POST", f"{_T}/tasks", READER, On.TABLE),
    Route("renameTable", "POST", "tables/rename", WRITER, On.RENAMED, 204),
    Route("commitTransaction", "POST", "transactions/commit", WRITER, On.MEMBERS, 204),
    Route("listViews", "GET", _V, READER, On.LISTED, advertised=False),
    Route("createView", "POST", _V, WRITER, On.NEW_TABLE, advertised=False),
    Route("loadView", "GET", f"{_V}/{{table}}", READER, On.SEEN, advertised=False),
    Route("viewExists", "HEAD", f"{_V}/{{table}}", READER, On.SEEN, advertised=False),
    Route("replaceView", "POST", f"{_V}/{{table}}", READER, On.SEEN, advertised=False),
    Route("dropView", "DELETE", f"{_V}/{{table}}", READER, On.SEEN, advertised=False),
)

_FIRST_WORDS: Final = frozenset(route.path.partition("/")[0] for route in ROUTES)


def endpoints() -> list[str]:
    """What `config` tells clients they may call."""
    return [f"{r.method} /v1/{{prefix}}/{r.path}" for r in ROUTES if r.advertised]


def without_prefix(parts: list[str]) -> list[str]:
    """Drop a catalog prefix of any length: there is one catalog, under whatever name."""
    for place, part in enumerate(parts):
        if part in _FIRST_WORDS:
            return parts[place:]
    return parts


class Matcher:
    """Finds the routes of a path by looking up its fixed parts."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_shape: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            shape = tuple("*" if p.startswith("{") else p for p in route.path.split("/"))
            self._by_shape.setdefault(shape, {})[route.method] = route

    def routes_of(self, parts: list[str]) -> dict[str, Route] | None:
        """The routes, by method, of a path without version and prefix; nothing if there is none."""
        found = self._by_shape.get(tuple(parts))
        if found is None and len(parts) > 1:
            shape = [parts[0], "*", *parts[2:]]
            found = self._by_shape.get(tuple(shape))
            if found is None and len(shape) > 3:
                shape[3] = "*"
                found = self._by_shape.get(tuple(shape))
        return found
