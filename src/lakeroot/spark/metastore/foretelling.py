"""Say what a change of a table of a metastore would do: rows are read and checked, none written."""

from typing import Any

from lakeroot.metastore.records import Delta, Partition
from lakeroot.metastore.states import DeltaType
from lakeroot.metastore.transaction import Transaction
from lakeroot.spark.metastore.tasks import Rewrite
from lakeroot.spark.metastore.writers import Grouped, SparkTableWriter
from lakeroot.spark.row_tasks import over_rows


class Rehearsal(Transaction):
    """A transaction that nobody commits: it may change what it alone sees, wherever it is."""

    def _writable(self) -> None:
        """Let it: a catalog that is open for reading alone stays as it is."""


class ForetellingWriter(SparkTableWriter):
    """Counts what a writer would write."""

    def _written(
        self, table: Any, keys: tuple[str, ...], *, divides: bool, is_partial: bool = False
    ) -> Grouped:
        writing = self._writing(keys, is_partial=is_partial, divides=divides)
        grouped: Grouped = {}
        for counted in over_rows(self._chosen(table), writing.count):
            for values, rows in counted:
                grouped.setdefault(values, [])
                self.tally.rows += rows
        return grouped

    def _appended(
        self, written: Grouped, delta_type: DeltaType, columns: tuple[str, ...] | None
    ) -> list[Delta]:
        self.tally.partitions = self.tally.deltas = len(written)
        return []

    def _rewrite_all(self, work: list[tuple[Partition, Rewrite]]) -> None:
        self.tally.partitions = len(work)
        for _, rewrite in work:
            # How many files a partition has after a change, nobody knows before.
            if rewrite.kind is None and rewrite.plan is not None:
                rows = sum(file.record_count or 0 for file in rewrite.plan.files)
                self.tally.files += max(1, -(-rows // self._rows_per_file))
