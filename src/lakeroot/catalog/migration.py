"""Migration from V1 to V2: every table directory gets a row of the manifest."""

from msgspec import Struct

from lakeroot.catalog.catalog import Catalog
from lakeroot.model.commits import RegisterTable
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.identifiers import ROOT, Identifier, is_valid
from lakeroot.model.progress import each
from lakeroot.model.records import Table


class Migration(Struct, frozen=True):
    """Which tables were given a row, and which were left alone.

    Those are tables that are only declared, and tables with names that no row can hold.
    """

    migrated: tuple[Identifier, ...]
    declared: tuple[Identifier, ...]
    dry_run: bool
    unnameable: tuple[Identifier, ...] = ()


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
    written: list[Table] = []
    declared: list[Identifier] = []
    unnameable: list[Identifier] = []
    for name in each(list(view.tables(ROOT, None, None)), "Looking at tables"):
        table = view.get((name,))
        if not isinstance(table, Table) or view.owner_of(table.location) is not None:
            continue
        if not is_valid(table.identifier):
            # A row of `a$b` would be the table b of a namespace a: the table would lose its name.
            unnameable.append(table.identifier)
        elif store.has_data(table):
            written.append(table)
        else:
            declared.append(table.identifier)
    if written and not dry_run:
        catalog.commit(
            *(RegisterTable(table.identifier, table.location) for table in written),
            message=f"Migrate {len(written)} tables from V1",
        )
    migrated = tuple(table.identifier for table in written)
    return Migration(migrated, tuple(declared), dry_run, tuple(unnameable))
