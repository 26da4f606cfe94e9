"""The metastore catalog as a Lance namespace, built from string properties."""

from datetime import timedelta
from typing import Any

from lakeroot.catalog import Catalog
from lakeroot.catalog.repairing import mend_versions
from lakeroot.metastore import Metastore
from lakeroot.metastore.vacuum import DAY_MS, Vacuumed
from lakeroot.model.identifiers import Identifier
from lakeroot.model.spreading import Spread
from lakeroot.namespace.border import translated
from lakeroot.namespace.caring import CaredNamespace
from lakeroot.namespace.jobs import runner_of
from lakeroot.namespace.past import PastNamespace
from lakeroot.namespace.properties import STORAGE, Properties
from lakeroot.objects import parse_root
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.deltacat import DeltaCatStore
from lakeroot.storage.deltacat.collecting import collect
from lakeroot.storage.deltacat.repairing import MENDABLE, mend
from lakeroot.storage.findings import Finding
from lakeroot.storage.garbage import Collected
from lakeroot.storage.lance_dir.removing import REMOVABLE, remove


class DeltaCatNamespace(CaredNamespace):
    """A catalog in the DeltaCAT storage model as a Lance namespace, with one level of namespaces.

    Properties: ``root`` (a path or URL), ``layout`` (``spec`` or ``deltacat-2``, for a new
    catalog), ``table_version_management`` (on unless switched off), ``durable``,
    ``vend_input_storage_options``, ``author``, ``jobs`` with ``jobs.*``, and ``storage.*`` for the
    storage.
    """

    def __init__(self, **properties: Any) -> None:
        self._properties = dict(properties)
        with translated():
            rest, self.job_runner = runner_of(type(self), properties)
            self.store, author, vends = _opened(Properties(rest))
        super().__init__(Catalog(self.store, author), vends_storage_options=vends)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._properties)

    @property
    def metastore(self) -> Metastore:
        """The metastore below, with its tables of any format."""
        return self.store.metastore

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        return list(self.catalog.history(limit))

    def _found(self, grace: timedelta, under: Identifier, spread: Spread) -> list[Finding]:
        return self.store.check(grace, spread)

    def _mend(self, catalog: Catalog, one: Finding) -> bool:
        if one.code in MENDABLE:
            return mend(self.store, one)
        if one.code in REMOVABLE:
            return remove(self.store.objects, one, lambda _: False)
        return mend_versions(catalog, one)

    def _collected(
        self, older_than: timedelta, under: Identifier, *, dry_run: bool, spread: Spread
    ) -> Collected:
        return collect(self.store, older_than, dry_run=dry_run, spread=spread)

    def vacuum(self, *, retention_ms: int = 7 * DAY_MS, dry_run: bool = False) -> Vacuumed:
        """Remove what no state of the retention can reach; seven days unless told otherwise."""
        with translated():
            return self.store.vacuum(retention_ms=retention_ms, dry_run=dry_run)

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> PastNamespace:
        """Give the catalog as it was at one of its versions, or at a time; read only."""
        with translated():
            past = self.catalog.at(version, timestamp_ms)
        return PastNamespace(past, vends_storage_options=self.vends_storage_options)


def _opened(properties: Properties) -> tuple[DeltaCatStore, str, bool]:
    place = properties.required("root", "/my/lake")
    layout = properties.text("layout") or None
    keeps = properties.switch("table_version_management", default=True)
    durable = properties.switch("durable", default=True)
    author = properties.text("author")
    vends = properties.switch("vend_input_storage_options", default=True)
    root = parse_root(place, properties.below(STORAGE))
    properties.finish()
    return DeltaCatStore(root, layout=layout, keeps_versions=keeps, durable=durable), author, vends


def _reopened(kind: type[DeltaCatNamespace], properties: dict[str, Any]) -> DeltaCatNamespace:
    return kind(**properties)
