"""Dropping with a way back: the name goes now, the data when garbage is collected.

The commit says which directories were dropped, as that of a drop does, so a collector takes them
after its window, and until then the names can be given back. A drop of the Lance namespace is
something else: its specification wants the data deleted.
"""

from lakeroot.catalog.catalog import Catalog
from lakeroot.model.commits import (
    Change,
    DeregisterTable,
    DropNamespace,
    DropTable,
    RegisterTable,
    Unchanged,
)
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Record, Table
from lakeroot.model.rules import require_namespace
from lakeroot.storage.overlay import Overlay


def discard_table(catalog: Catalog, identifier: Identifier) -> bool:
    """Take a table's name away; tell whether its data is kept until it is collected."""
    _require_history(catalog)
    table = _with_row(catalog, catalog.table(identifier))
    change = _removal(catalog, table)
    catalog.commit(
        change, requires=[Unchanged(identifier, table)], message=f"Drop {show(identifier)}"
    )
    return isinstance(change, DeregisterTable)


def discard_namespace(catalog: Catalog, identifier: Identifier) -> list[Identifier]:
    """Drop a namespace and everything in it in one commit; give the tables whose data is kept."""
    _require_history(catalog)
    require_namespace(Overlay(catalog.store.read()), identifier)
    changes, seen = _within(catalog, identifier)
    catalog.commit(
        *changes,
        requires=[Unchanged(one.identifier, one) for one in seen],
        message=f"Drop {show(identifier)}",
    )
    return [one.identifier for one in changes if isinstance(one, DeregisterTable)]


def _within(catalog: Catalog, identifier: Identifier) -> tuple[list[Change], list[Record]]:
    """Work out how to remove a namespace and all in it, the deepest first, and what was seen."""
    view = catalog.store.read()
    changes: list[Change] = []
    seen: list[Record] = []
    for name in view.tables(identifier, None, None):
        table = view.get((*identifier, name))
        if isinstance(table, Table):
            changes.append(_removal(catalog, table))
            seen.append(table)
    for name in view.namespaces(identifier, None, None):
        inner, also_seen = _within(catalog, (*identifier, name))
        changes += inner
        seen += also_seen
    return [*changes, DropNamespace(identifier)], seen


def _removal(catalog: Catalog, table: Table) -> Change:
    if catalog.store.has_data(table):
        return DeregisterTable(table.identifier, to_trash=True)
    return DropTable(table.identifier)


def _with_row(catalog: Catalog, table: Table) -> Table:
    """Give a table that only its directory knows a row: the history tells of rows alone."""
    view = catalog.store.read()
    if view.owner_of(table.location) is not None or not catalog.store.has_data(table):
        return table
    change = RegisterTable(table.identifier, table.location, dict(table.properties))
    catalog.commit(change, message=f"Take {show(table.identifier)} in, to be dropped")
    return catalog.table(table.identifier)


def _require_history(catalog: Catalog) -> None:
    if getattr(catalog.store, "manifest", None) is None:
        raise UnsupportedOperationError(
            "This catalog has no trash",
            "without `__manifest` nothing remembers where a table was",
            "Drop the table with its data",
        )
