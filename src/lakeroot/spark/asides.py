"""New tables that have a place and no name yet: they get it when they are published.

A table that is published with others must not be seen before them, not even its name. So it is
written into a directory of its own that no catalog knows, and nobody but `gc` would ever find it.
"""

from typing import Any

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.commits import Change
from lakeroot.model.errors import NotFoundError, TableNotFoundError
from lakeroot.model.records import Table
from lakeroot.model.rules import require_room_for_table
from lakeroot.spark.catalogs import Located, TableRef, files_of, locate, look_up
from lakeroot.storage.overlay import Overlay


def place_aside(ref: TableRef) -> Located | None:
    """Choose a place for a new table, of a catalog of ours that arbitrates versions.

    Nothing, where its name is reserved and it has a place, or where names come one by one.
    """
    try:
        look_up(ref)
    except TableNotFoundError:
        store = _catalog(ref).store
        require_room_for_table(Overlay(store.read()), ref.identifier)
        place = store.place_unseen(ref.identifier)
        options = dict(store.root.storage_options) or None
        return None if place is None else Located(ref, store.uri(place), options)
    return None


def naming(table: Located) -> list[Change]:
    """Say what gives a table that was written aside its name and its versions."""
    catalog = _catalog(table.ref)
    place = catalog.store.location_of(table.location)
    return TableVersions(catalog).named(Table(table.ref.identifier, place, {}))


def is_named(table: Located) -> bool:
    """Tell whether a table that was written aside has got its name."""
    try:
        return locate(table.ref).location == table.location
    except NotFoundError:
        return False


def discard_aside(table: Located) -> None:
    """Remove a table that gets no name."""
    files_of(table).delete_directory("")


def _catalog(ref: TableRef) -> Catalog:
    client: Any = ref.catalog.connect() if ref.catalog is not None else None
    catalog: Catalog = client.catalog
    return catalog
