"""The directory catalog as a Lance namespace, built from string properties."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lakeroot.catalog import Catalog
from lakeroot.catalog.discarding import discard_namespace, discard_table
from lakeroot.catalog.migration import Migration, migrate
from lakeroot.catalog.old_versions import KEPT_AT_LEAST, collect_old_versions
from lakeroot.catalog.repairing import Repair, mend_directory, repair
from lakeroot.catalog.undoing import Trashed, inverse_of, recovery_of, trash
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import identifier_of
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.border import ecosystem_error
from lakeroot.namespace.jobs import runner_of
from lakeroot.namespace.opening import open_directory
from lakeroot.namespace.past import PastNamespace
from lakeroot.namespace.undoing import apply
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.findings import Finding
from lakeroot.storage.lance_dir.collecting import Collected
from lakeroot.storage.lance_dir.maintenance import Optimized
from lakeroot.storage.lance_dir.vacuum import Vacuumed
from lakeroot.storage.spans import GRACE, RETENTION

if TYPE_CHECKING:  # Loaded by those who look after a catalog; most only look at it.
    from lakeroot.storage.lance_dir.checking import Spread


class DirectoryNamespace(LakerootNamespace):
    """A directory or a bucket as a Lance namespace.

    Properties: ``root`` (a path or URL), ``manifest_enabled``, ``dir_listing_enabled``,
    ``table_version_management``, ``inline_optimization_enabled``, ``commit_retries``,
    ``vend_input_storage_options``, ``durable``, ``author``, ``jobs`` (who runs jobs: ``spark``)
    with ``jobs.*`` for it, and ``storage.*`` for the storage.
    """

    def __init__(self, **properties: Any) -> None:
        self._properties = dict(properties)
        try:
            rest, self.job_runner = runner_of(type(self), properties)
            store, author, vends = open_directory(rest)
        except LakerootError as error:
            raise ecosystem_error(error) from error
        super().__init__(Catalog(store, author), vends_storage_options=vends)
        self._store = store

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._properties)

    def create_namespaces(
        self, namespaces: Mapping[tuple[str, ...], Mapping[str, str]] | Sequence[Sequence[str]]
    ) -> None:
        """Create many namespaces in one commit, parents before their children."""
        with _translated():
            self.catalog.create_namespaces(_many(namespaces))

    def declare_tables(
        self, tables: Mapping[tuple[str, ...], Mapping[str, str]] | Sequence[Sequence[str]]
    ) -> list[str]:
        """Declare many tables in one commit; give their locations in the same order."""
        with _translated():
            declared = self.catalog.declare_tables(_many(tables))
            return [self.catalog.store.uri(table.location) for table in declared]

    def migrate(self, *, dry_run: bool = False) -> Migration:
        """Give every V1 table a row of the manifest, all in one commit; nothing moves."""
        with _translated():
            return migrate(self.catalog, dry_run=dry_run)

    def enable_version_management(self) -> None:
        """Make the catalog the arbiter of its tables' versions; those there are taken in."""
        with _translated():
            TableVersions(self.catalog).enable()

    def disable_version_management(self) -> None:
        """Leave the versions to the tables' own files again, whatever connections ask for."""
        with _translated():
            TableVersions(self.catalog).disable()

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        with _translated():
            return list(self.catalog.history(limit))

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> PastNamespace:
        """Give the catalog as it was at one of its versions, or at a time; read only."""
        with _translated():
            past = self.catalog.at(version, timestamp_ms)
            return PastNamespace(past, vends_storage_options=self.vends_storage_options)

    def undo(self, commit: int, *, dry_run: bool = False) -> list[str]:
        """Take a commit back by a commit of its own; say what that changes."""
        with _translated():
            inverse = inverse_of(self.catalog, commit)
            if not dry_run:
                apply(self, inverse)
            return inverse.lines()

    def undrop(self, names: Sequence[str], *, dry_run: bool = False) -> list[str]:
        """Give a table its name back, as long as its data is there; say what that changes."""
        with _translated():
            inverse = recovery_of(self.catalog, identifier_of(names))
            if not dry_run:
                apply(self, inverse)
            return inverse.lines()

    def discard_table(self, names: Sequence[str]) -> bool:
        """Drop a table so that `undrop` brings it back until `gc` collects its data.

        Tells whether there is data to bring back. `drop_table` deletes it at once.
        """
        with _translated():
            return discard_table(self.catalog, identifier_of(names))

    def discard_namespace(self, names: Sequence[str]) -> list[list[str]]:
        """Drop a namespace with all in it, in one commit; give the tables that can come back."""
        with _translated():
            return [list(one) for one in discard_namespace(self.catalog, identifier_of(names))]

    @property
    def has_trash(self) -> bool:
        """Whether what is dropped can be brought back: not without a manifest."""
        return self._store.manifest is not None

    def trash(self) -> list[Trashed]:
        """List the tables that lost their names and still have their data, the latest first."""
        with _translated():
            return trash(self.catalog)

    def optimize(self) -> Optimized:
        """Fold the manifest into one data file and build its indexes, for other readers."""
        with _translated():
            return self._store.optimize(self.catalog.author)

    def vacuum(self, older_than: timedelta = RETENTION, *, dry_run: bool = False) -> Vacuumed:
        """Delete the files of the manifest that no version of the last seven days needs.

        `at` and `history` then reach back as far as that and no further.
        """
        with _translated():
            return self._store.vacuum(older_than, dry_run=dry_run, author=self.catalog.author)

    def check(self, grace: timedelta = GRACE, spread: "Spread | None" = None) -> list[Finding]:
        """Find everything that is wrong with the catalog and its tables; change nothing.

        With `spread` other processes look at the tables; `lakeroot.spark.fsck` gives one.
        """
        with _translated():
            return self._store.check(grace, spread)

    def repair(self, findings: Iterable[Finding], *, dry_run: bool = False) -> list[Repair]:
        """Repair the findings that can be repaired without losing anything."""
        with _translated():
            return repair(self.catalog, mend_directory(self._store), findings, dry_run=dry_run)

    def gc(
        self,
        older_than: timedelta = RETENTION,
        *,
        dry_run: bool = False,
        old_versions: bool = False,
        keep: int = KEPT_AT_LEAST,
    ) -> Collected:
        """Delete what nothing in the catalog can reach, untouched for seven days; vacuum too.

        With ``old_versions`` also the versions of tables that no state of these days shows; of
        each table at least ``keep`` stay, and all that tags and branches name.
        """
        with _translated():
            done = self._store.gc(older_than, dry_run=dry_run, author=self.catalog.author)
            if not old_versions:
                return done
            cleaned = collect_old_versions(self.catalog, older_than, keep=keep, dry_run=dry_run)
            return replace(done, garbage=(*done.garbage, *cleaned))


class _translated:  # noqa: N801 (reads as a word in a with statement)
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, LakerootError):
            raise ecosystem_error(error) from error


def _reopened(kind: type[DirectoryNamespace], properties: dict[str, Any]) -> DirectoryNamespace:
    return kind(**properties)


def _many(
    objects: Mapping[tuple[str, ...], Mapping[str, str]] | Sequence[Sequence[str]],
) -> list[tuple[tuple[str, ...], Mapping[str, str]]]:
    if isinstance(objects, Mapping):
        return [(identifier_of(names), properties) for names, properties in objects.items()]
    return [(identifier_of(names), {}) for names in objects]
