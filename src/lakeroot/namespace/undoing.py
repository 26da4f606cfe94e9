"""Taking commits back, versions of tables included, in one commit."""

from collections.abc import Iterator, Sequence
from typing import Any

from lakeroot.catalog import Catalog
from lakeroot.catalog.undoing import Inverse
from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.commits import Change, RegisterTable
from lakeroot.model.records import Table
from lakeroot.namespace.staging import StagingClient
from lakeroot.tables import refs
from lakeroot.tables.handle import TableHandle


def apply(namespace: Any, inverse: Inverse) -> None:
    """Commit an inverse: names and versions together, or nothing."""
    catalog = namespace.catalog
    changes = [*inverse.changes, *_taken_in(catalog, inverse.changes)]
    if not inverse.restores:
        catalog.commit(*changes, requires=inverse.requires, message=inverse.message)
        return
    staging = StagingClient(namespace)
    try:
        for table, version in inverse.restores:
            refs.restore(_staged(namespace, staging, table), version)
        VersionCommits(catalog).commit_staged(staging.staged, changes, inverse.message)
    except Exception:
        staging.discard()
        raise
    staging.forget_copies()


def _taken_in(catalog: Catalog, changes: Sequence[Change]) -> Iterator[Change]:
    """Where the catalog keeps versions, a table that comes back brings its own."""
    if catalog.store.keeps_versions:
        versions = TableVersions(catalog)
        for change in changes:
            if isinstance(change, RegisterTable):
                table = Table(change.identifier, change.location, change.properties)
                yield from versions.taken_in(versions.known(table))


def _staged(namespace: Any, staging: StagingClient, table: Table) -> TableHandle:
    store = namespace.catalog.store
    return TableHandle(
        store.uri(table.location),
        dict(store.root.storage_options) or None,
        namespace_client=staging,
        table_id=table.identifier,
        managed=True,
        attempts=1,
    )
