"""Jobs of a run on tables of a metastore: rows of the pipeline become deltas.

No note is needed: the transaction of a job names it, and is found by that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from lakeroot.objects import parse_root
from lakeroot.spark import metastore
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.metastore.places import metastore_at
from lakeroot.spark.moving import files_blamed
from lakeroot.spark.pipelines.job_kinds import Job

Rows = Callable[[str], DataFrame]
_COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True)
class MetastoreJob:
    """A job, and the catalog of its pipeline, which it is about unless it names another."""

    catalog: Catalog
    job: Job

    @property
    def _verb(self) -> str:
        return self.job.job.rpartition(" ")[2]

    @property
    def root(self) -> str:
        """Say which directory the metastore is, however its catalog is written."""
        root = dict(self._metastore.properties).get("root")
        return parse_root(root).uri if root else ""

    @property
    def _metastore(self) -> Catalog:
        named: Catalog = self.job.options.get("metastore", self.catalog)
        return named

    @property
    def _where(self) -> dict[str, Any]:
        return metastore_at(self._metastore.impl, dict(self._metastore.properties))

    def done_before(self, job_id: str | None = None) -> Any:
        """Find what the job has done; a table that is missing is an error."""
        return metastore.find_done(self._verb, str(self.job.table), job_id=job_id, **self._where)

    def do(self, spark: SparkSession, rows: Rows, job_id: str, message: str) -> Any:
        """Do the job once; rows are made for one that was not done."""
        before = self.done_before(job_id)
        if before is not None:
            return before
        told = {name: self.job.options[name] for name in ("on",) if name in self.job.options}
        named = {"job_id": job_id, "message": message or None}
        change = getattr(metastore, self._verb)
        with files_blamed():
            given = spark if self._verb == _COMPACT else rows(self.job.options["from"])
            return change(given, str(self.job.table), **told, **named, **self._where)
