"""The directory catalog as a Lance namespace, built from string properties."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from lakeroot.catalog import Catalog
from lakeroot.catalog.discarding import discard_namespace, discard_table
from lakeroot.catalog.migration import Migration, migrate
from lakeroot.catalog.repairing import mend_directory
from lakeroot.catalog.undoing import Trashed, inverse_of, recovery_of, trash
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.identifiers import Identifier, identifier_of
from lakeroot.model.spreading import Spread
from lakeroot.namespace.border import translated
from lakeroot.namespace.caring import CaredNamespace
from lakeroot.namespace.jobs import runner_of
from lakeroot.namespace.opening import open_directory
from lakeroot.namespace.past import PastNamespace
from lakeroot.namespace.undoing import apply
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.findings import Finding
from lakeroot.storage.garbage import Collected
from lakeroot.storage.lance_dir.maintenance import Optimized
from lakeroot.storage.lance_dir.vacuum import Vacuumed
from lakeroot.storage.spans import RETENTION


class DirectoryNamespace(CaredNamespace):
    """A directory or a bucket as a Lance namespace.

    Properties: ``root`` (a path or URL), ``manifest_enabled``, ``dir_listing_enabled``,
    ``table_version_management``, ``inline_optimization_enabled``, ``commit_retries``,
    ``vend_input_storage_options``, ``durable``, ``author``, ``jobs`` (who runs jobs: ``spark``)
    with ``jobs.*`` for it, and ``storage.*`` for the storage.
    """

    def __init__(self, **properties: Any) -> None:
        self._properties = dict(properties)
        with translated():
            rest, self.job_runner = runner_of(type(self), properties)
            store, author, vends = open_directory(rest)
        super().__init__(Catalog(store, author), vends_storage_options=vends)
        self._store = store

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._properties)

    def create_namespaces(
        self, namespaces: Mapping[tuple[str, ...], Mapping[str, str]] | Sequence[Sequence[str]]
    ) -> None:
        """Create many namespaces in one commit, parents before their children."""
        with translated():
            self.catalog.create_namespaces(_many(namespaces))

    def declare_tables(
        self, tables: Mapping[tuple[str, ...], Mapping[str, str]] | Sequence[Sequence[str]]
    ) -> list[str]:
        """Declare many tables in one commit; give their locations in the same order."""
        with translated():
            declared = self.catalog.declare_tables(_many(tables))
            return [self.catalog.store.uri(table.location) for table in declared]

    def migrate(self, *, dry_run: bool = False) -> Migration:
        """Give every V1 table a row of the manifest, all in one commit; nothing moves."""
        with translated():
            return migrate(self.catalog, dry_run=dry_run)

    def enable_version_management(self) -> None:
        """Make the catalog the arbiter of its tables' versions; those there are taken in."""
        with translated():
            TableVersions(self.catalog).enable()

    def disable_version_management(self) -> None:
        """Leave the versions to the tables' own files again, whatever connections ask for."""
        with translated():
            TableVersions(self.catalog).disable()

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        with translated():
            return list(self.catalog.history(limit))

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> PastNamespace:
        """Give the catalog as it was at one of its versions, or at a time; read only."""
        with translated():
            past = self.catalog.at(version, timestamp_ms)
            return PastNamespace(past, vends_storage_options=self.vends_storage_options)

    def undo(self, commit: int, *, dry_run: bool = False) -> list[str]:
        """Take a commit back by a commit of its own; say what that changes."""
        with translated():
            inverse = inverse_of(self.catalog, commit)
            if not dry_run:
                apply(self, inverse)
            return inverse.lines()

    def undrop(self, names: Sequence[str], *, dry_run: bool = False) -> list[str]:
        """Give a table its name back, as long as its data is there; say what that changes."""
        with translated():
            inverse = recovery_of(self.catalog, identifier_of(names))
            if not dry_run:
                apply(self, inverse)
            return inverse.lines()

    def discard_table(self, names: Sequence[str]) -> bool:
        """Drop a table so that `undrop` brings it back until `gc` collects its data.

        Tells whether there is data to bring back. `drop_table` deletes it at once.
        """
        with translated():
            return discard_table(self.catalog, identifier_of(names))

    def discard_namespace(self, names: Sequence[str]) -> list[list[str]]:
        """Drop a namespace with all in it, in one commit; give the tables that can come back."""
        with translated():
            return [list(one) for one in discard_namespace(self.catalog, identifier_of(names))]

    @property
    def has_trash(self) -> bool:
        """Whether what is dropped can be brought back: not without a manifest."""
        return self._store.manifest is not None

    def trash(self) -> list[Trashed]:
        """List the tables that lost their names and still have their data, the latest first."""
        with translated():
            return trash(self.catalog)

    def optimize(self) -> Optimized:
        """Fold the manifest into one data file and build its indexes, for other readers."""
        with translated():
            return self._store.optimize(self.catalog.author)

    def vacuum(self, older_than: timedelta = RETENTION, *, dry_run: bool = False) -> Vacuumed:
        """Delete the files of the manifest that no version of the last seven days needs.

        `at` and `history` then reach back as far as that and no further.
        """
        with translated():
            return self._store.vacuum(older_than, dry_run=dry_run, author=self.catalog.author)

    def _found(self, grace: timedelta, under: Identifier, spread: Spread) -> list[Finding]:
        return self._store.check(grace, spread)

    def _mend(self, catalog: Catalog, one: Finding) -> bool:
        return mend_directory(self._store)(catalog, one)

    def _collected(
        self, older_than: timedelta, under: Identifier, *, dry_run: bool, spread: Spread
    ) -> Collected:
        author = self.catalog.author
        return self._store.gc(older_than, dry_run=dry_run, author=author, spread=spread)


def _reopened(kind: type[DirectoryNamespace], properties: dict[str, Any]) -> DirectoryNamespace:
    return kind(**properties)


def _many(
    objects: Mapping[tuple[str, ...], Mapping[str, str]] | Sequence[Sequence[str]],
) -> list[tuple[tuple[str, ...], Mapping[str, str]]]:
    if isinstance(objects, Mapping):
        return [(identifier_of(names), properties) for names, properties in objects.items()]
    return [(identifier_of(names), {}) for names in objects]
