"""Say what a change of a table of a metastore would do: rows are read and checked, none written."""

from typing import Any

from lakeroot.metastore.data.plan import StepKind
from lakeroot.metastore.data.rewriting import rewritten_files
from lakeroot.metastore.records import Delta
from lakeroot.metastore.states import DeltaType
from lakeroot.metastore.transaction import Transaction
from lakeroot.spark.metastore.writers import Grouped, SparkTableWriter, Work
from lakeroot.spark.row_tasks import over_rows


class Rehearsal(Transaction):
    """A transaction that nobody commits: it may change what it alone sees, wherever it is."""

    def _writable(self) -> None:
        """Let it: a catalog that is open for reading alone stays as it is."""


class ForetellingWriter(SparkTableWriter):
    """Counts what a writer would write."""

    def _written(
        self, table: Any, keys: tuple[str, ...], kind: StepKind, *, divides: bool
    ) -> Grouped:
        writing = self._writing(keys, kind, divides=divides)
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

    def _rewrite_all(self, work: list[Work]) -> None:
        self.tally.partitions = len(work)
        for each in work:
            # How many files a partition has after a change, nobody knows before.
            if each.rewrite.kind is None and each.rewrite.plan is not None:
                self.tally.files += rewritten_files(each.rewrite.plan, self._rows_per_file)
