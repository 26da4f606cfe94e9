"""Looking after a catalog of any kind: checking it, repairing it, collecting its garbage."""

from abc import abstractmethod
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from lakeroot.catalog import Catalog
from lakeroot.catalog.old_versions import KEPT_AT_LEAST, collect_old_versions, require_kept
from lakeroot.catalog.repairing import Repair, repair
from lakeroot.model.identifiers import Identifier
from lakeroot.model.spreading import Spread, here
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.border import translated
from lakeroot.storage.findings import Finding
from lakeroot.storage.garbage import Collected
from lakeroot.storage.spans import GRACE, RETENTION


class CaredNamespace(LakerootNamespace):
    """A catalog that can be looked after, by one process or (with ``spread``) by many."""

    def check(self, grace: timedelta = GRACE, *, spread: Spread = here) -> list[Finding]:
        """Find everything that is wrong with the catalog and its tables; change nothing.

        With ``spread`` other processes look at the tables; `lakeroot.spark.fsck` gives one.
        """
        return self._check(grace, (), spread)

    def repair(self, findings: Iterable[Finding], *, dry_run: bool = False) -> list[Repair]:
        """Repair the findings that can be repaired without losing anything."""
        with translated():
            return repair(self.catalog, self._mend, findings, dry_run=dry_run)

    def gc(
        self,
        older_than: timedelta = RETENTION,
        *,
        dry_run: bool = False,
        old_versions: bool = False,
        keep: int = KEPT_AT_LEAST,
        spread: Spread = here,
    ) -> Collected:
        """Delete what no state of the last seven days can reach; ``dry_run`` says what it is.

        With ``old_versions`` also the versions of tables that no state of these days shows; of
        each table at least ``keep`` stay, and all that tags and branches name. With ``spread``
        other processes do what is to be done per table; `lakeroot.spark.gc` gives one.
        """
        kept = keep if old_versions else None
        return self._gc(older_than, (), dry_run=dry_run, keep=kept, spread=spread)

    def _check(self, grace: timedelta, under: Identifier, spread: Spread) -> list[Finding]:
        with translated():
            return self._found(grace, under, spread)

    def _gc(
        self,
        older_than: timedelta,
        under: Identifier,
        *,
        dry_run: bool,
        keep: int | None,
        spread: Spread,
    ) -> Collected:
        """Collect; old versions too if it is said how many of them to keep."""
        with translated():
            if keep is not None:
                require_kept(keep)  # Before anything is deleted.
            done = self._collected(older_than, under, dry_run=dry_run, spread=spread)
            if keep is None:
                return done
            cleaned = collect_old_versions(
                self.catalog,
                older_than,
                keep=keep,
                dry_run=dry_run,
                under=under,
                spread=spread,
                **self._cleaning(),
            )
            return replace(done, garbage=(*done.garbage, *cleaned))

    def _cleaning(self) -> dict[str, Any]:
        """Say how tables are cleaned up, where that differs."""
        return {}

    @abstractmethod
    def _found(self, grace: timedelta, under: Identifier, spread: Spread) -> list[Finding]:
        """Find what is wrong."""

    @abstractmethod
    def _mend(self, catalog: Catalog, one: Finding) -> bool:
        """Repair one finding; tell whether that was done."""

    @abstractmethod
    def _collected(
        self, older_than: timedelta, under: Identifier, *, dry_run: bool, spread: Spread
    ) -> Collected:
        """Collect the garbage, but for old versions of tables."""
