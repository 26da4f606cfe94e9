"""Migration from V1 to V2: every table directory gets a row of the manifest."""

from msgspec import Struct

from lakeroot.catalog.catalog import Catalog
from lakeroot.model.commits import RegisterTable
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.model.records import Table


class Migration(Struct, frozen=True):
    """Which tables were given a row, and which are only declared and were left alone."""

    migrated: tuple[Identifier, ...]
    declared: tuple[Identifier, ...]
    dry_run: bool


def migrate(catalog: Catalog, *, dry_run: bool = False) -> Migration:
    """Register every root table that only its directory knows, all in one commit.

    Nothing moves and nothing is copied. Running it again finds nothing to do.
    """
    store = catalog.store
    if getattr(store, "directory", None) is None or getattr(store, "manifest", None) is None:
        raise UnsupportedOperationError(
            "There is nothing to migrate here",
            "migration needs both the manifest and the directory listing",
            "Set `manifest_enabled` and `dir_listing_enabled` to true",
        )
    view = store.read()
    found = (view.get((name,)) for name in view.tables(ROOT, None, None))
    unlisted = [
        table
        for table in found
        if isinstance(table, Table) and view.owner_of(table.location) is None
    ]
    written = [table for table in unlisted if store.has_data(table)]
    declared = tuple(table.identifier for table in unlisted if table not in written)
    if written and not dry_run:
        catalog.commit(
            *(RegisterTable(table.identifier, table.location) for table in written),
            message=f"Migrate {len(written)} tables from V1",
        )
    return Migration(tuple(table.identifier for table in written), declared, dry_run)
