"""The catalog, its namespaces, and the tree beside every page."""

from typing import Any, Final

from lance_namespace import DescribeNamespaceRequest, NamespaceExistsRequest
from lance_namespace.errors import LanceNamespaceError

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.server.console.history_pages import latest
from lakeroot.server.console.pages import Page
from lakeroot.server.console.summaries import summaries
from lakeroot.server.console.visit import PAGE, Visit
from lakeroot.server.identity.access import Role
from lakeroot.server.identity.denials import require_sight

MOST_FOUND: Final = 200
_MOST_IN_TREE: Final = 100
_MOST_COUNTED: Final = 100
_MOST_OPEN: Final = 6
_LATEST: Final = 6


def catalog(visit: Visit) -> Page:
    """The catalog from its root, or what a search finds in it."""
    wanted = visit.text("q")
    if wanted:
        return _search(visit, wanted)
    data = {**_contents(visit, ()), "latest": _latest(visit)}
    return Page("namespace.html", "Catalog", data)


def namespace(visit: Visit, identifier: Identifier) -> Page:
    """A namespace: its properties, and what is in it."""
    require_sight(visit.access, identifier)
    visit.namespace.namespace_exists(NamespaceExistsRequest(id=list(identifier)))
    return Page("namespace.html", show(identifier), _contents(visit, identifier), identifier)


def tree(visit: Visit, where: Identifier) -> list[dict[str, Any]]:
    """The tree, open along the way to an object."""
    return _level(visit, (), where)


def _contents(visit: Visit, identifier: Identifier) -> dict[str, Any]:
    require_sight(visit.access, identifier)
    after_namespace, after_table = visit.text("namespaces_after"), visit.text("tables_after")
    spaces, more_spaces = visit.namespaces(identifier, after_namespace or None, PAGE)
    tables, more_tables = visit.tables(identifier, after_table or None, PAGE)
    return {
        "id": list(identifier),
        "properties": _properties(visit, identifier),
        "namespaces": [_counted(visit, (*identifier, name)) for name in spaces],
        "tables": summaries(visit, [(*identifier, name) for name in tables]),
        "next_namespaces": more_spaces,
        "next_tables": more_tables,
        "latest": [],
    }


def _counted(visit: Visit, identifier: Identifier) -> dict[str, Any]:
    spaces, more_spaces = visit.namespaces(identifier, None, _MOST_COUNTED)
    tables, more_tables = visit.tables(identifier, None, _MOST_COUNTED)
    return {
        "id": list(identifier),
        "namespaces": len(spaces),
        "tables": len(tables),
        "more": bool(more_spaces or more_tables),
    }


def _latest(visit: Visit) -> list[dict[str, Any]]:
    """The last few commits; nothing of a catalog without history, or of one that is the past."""
    if visit.at is not None or not hasattr(visit.namespace, "history"):
        return []
    try:
        return latest(visit, _LATEST)
    except (LakerootError, LanceNamespaceError):
        return []  # a directory without a manifest has tables, but no history


def _properties(visit: Visit, identifier: Identifier) -> dict[str, str]:
    if not visit.access.allows(identifier, Role.READER):
        return {}
    found = visit.namespace.describe_namespace(DescribeNamespaceRequest(id=list(identifier)))
    return dict(found.properties or {})


def _search(visit: Visit, wanted: str) -> Page:
    words = wanted.lower().split()
    found = []
    for identifier in visit.all_tables():
        name = show(identifier).lower()
        if all(word in name for word in words):
            found.append(identifier)
            if len(found) > MOST_FOUND:
                break
    data = {
        "q": wanted,
        "more": len(found) > MOST_FOUND,
        "tables": summaries(visit, found[:PAGE]),
        "names_only": [list(identifier) for identifier in found[PAGE:MOST_FOUND]],
    }
    return Page("search.html", f"Search for {wanted}", data)


def _level(visit: Visit, parent: Identifier, where: Identifier) -> list[dict[str, Any]]:
    spaces, more_spaces = visit.namespaces(parent, None, _MOST_IN_TREE)
    tables, more_tables = visit.tables(parent, None, _MOST_IN_TREE)
    depth, few = len(parent), len(spaces) <= _MOST_OPEN and not more_spaces
    nodes: list[dict[str, Any]] = []
    for name in spaces:
        identifier = (*parent, name)
        on_the_way = where[: depth + 1] == identifier or (not parent and few)
        node = {"id": list(identifier), "kind": "namespace", "current": where == identifier}
        node["children"] = _level(visit, identifier, where) if on_the_way else []
        nodes.append(node)
    nodes += [
        {
            "id": [*parent, name],
            "kind": "table",
            "current": where == (*parent, name),
            "children": [],
        }
        for name in tables
    ]
    if more_spaces or more_tables:
        nodes.append({"id": list(parent), "kind": "more", "current": False, "children": []})
    return nodes
