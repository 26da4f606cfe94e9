"""Write the rows of frames into a table of a metastore, within a transaction.

The rules are those of `TableWriter`: it is given frames in the place of Arrow tables, decides on
their schema alone, and leaves the rows to the tasks.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeroot.metastore.data.plan import COLUMNS, StepKind, plan_partition
from lakeroot.metastore.data.rewriting import named, needs_rewriting
from lakeroot.metastore.data.tables import AUTHOR, TableWriter
from lakeroot.metastore.jobs import JOB
from lakeroot.metastore.locators import PartitionValues, new_id
from lakeroot.metastore.manifests import ManifestEntry, manifest_of
from lakeroot.metastore.records import Delta, Partition
from lakeroot.metastore.schemes import PartitionScheme
from lakeroot.metastore.states import DeltaType
from lakeroot.metastore.transaction import Transaction
from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.distribute import distribute
from lakeroot.spark.metastore.tasks import Place, Rewrite, Writing
from lakeroot.spark.row_tasks import over_rows
from lakeroot.spark.short_frames import brought
from lakeroot.spark.types import table_schema

Grouped = dict[PartitionValues, list[ManifestEntry]]


@dataclass(slots=True)
class Tally:
    """What a writer has counted so far."""

    rows: int = 0
    partitions: int = 0
    deltas: int = 0
    files: int = 0
    files_before: int = 0


class SparkTableWriter(TableWriter):
    """Changes of one table within a transaction, by frames."""

    def __init__(
        self,
        spark: SparkSession,
        place: Place,
        txn: Transaction,
        names: tuple[str, str],
        job_id: str | None = None,
    ) -> None:
        super().__init__(txn, *names)
        self.tally = Tally()
        self._spark = spark
        self._place = place
        # The transaction tells of the job; its deltas do too, to whoever reads them.
        self._named = {} if job_id is None else {JOB: job_id}
        self._frame: DataFrame | None = None

    def compact(self) -> None:
        """Rewrite each partition that readers would have to merge, or that has too many files."""
        found = []
        for partition in self.txn.partitions(self._stream):
            plan = plan_partition(partition, self.txn.deltas(partition), self._version)
            self.tally.files_before += len(plan.files)
            if needs_rewriting(plan, self._rows_per_file):
                found.append(Work(partition.values, partition, Rewrite(new_id(), plan)))
            else:
                self.tally.files += len(plan.files)
        self._rewrite_all(found)

    def _given(self, rows: Any) -> Any:
        if not hasattr(rows, "mapInArrow"):
            raise InvalidInputError(f"A DataFrame is expected, not a {type(rows).__name__}")
        self._frame = rows
        return table_schema(rows.schema).empty_table()

    def _write(
        self,
        table: Any,
        delta_type: DeltaType,
        keys: tuple[str, ...] = (),
        columns: tuple[str, ...] | None = None,
    ) -> list[Delta]:
        written = self._written(table, keys, StepKind.INSERT, divides=True)
        return self._appended(written, delta_type, columns)

    def _change(
        self, kind: StepKind, table: Any, keys: tuple[str, ...], columns: tuple[str, ...] | None
    ) -> list[Delta]:
        anywhere = self._lies_anywhere(kind, table, keys)
        written = self._written(table, keys, kind, divides=not anywhere)
        if anywhere:
            everything = [entry for entries in written.values() for entry in entries]
            partitions = self.txn.partitions(self._stream) if written else ()
            touched: list[tuple[PartitionValues, Partition | None, Any]] = [
                (partition.values, partition, everything) for partition in partitions
            ]
        else:
            touched = [
                (values, self.txn.find_partition(self._stream, values), entries)
                for values, entries in written.items()
            ]
            touched = [each for each in touched if kind is StepKind.UPSERT or each[1] is not None]
        if self._merges_on_write(touched):
            self._rewrite_all(
                [self._with_change(kind, each, keys, columns) for each in touched],
            )
            return []
        delta_type = DeltaType.UPSERT if kind is StepKind.UPSERT else DeltaType.DELETE
        return self._appended({each[0]: each[2] for each in touched}, delta_type, columns)

    def _appended(
        self, written: Grouped, delta_type: DeltaType, columns: tuple[str, ...] | None
    ) -> list[Delta]:
        told = {} if columns is None else {COLUMNS: list(columns)}
        properties = {**told, **self._named} or None
        self.tally.partitions = self.tally.deltas = len(written)
        self.tally.files = len({entry.url for each in written.values() for entry in each})
        return [
            self.txn.append_delta(
                self._stream,
                manifest_of(entries, AUTHOR),
                delta_type=delta_type,
                values=values,
                properties=properties,
            )
            for values, entries in written.items()
        ]

    def _written(
        self, table: Any, keys: tuple[str, ...], kind: StepKind, *, divides: bool
    ) -> Grouped:
        """Let tasks write the frame's rows; give the files by partition."""
        frame = self._chosen(table)
        writing = self._writing(keys, kind, divides=divides)
        short = brought(frame)
        if short is None:
            results = over_rows(_together(frame, writing.scheme), writing.write)
        else:
            results = [writing.write(short.to_batches())]
        grouped: Grouped = {}
        for written in results:
            for values, entry in written:
                self.txn.lease.files.append(entry.url)
                grouped.setdefault(values, []).append(entry)
                self.tally.rows += entry.meta.record_count or 0
        return grouped

    def _chosen(self, table: Any) -> DataFrame:
        """Give the columns of the frame that are wanted."""
        frame = self._frame
        assert frame is not None  # noqa: S101  # every change begins with a frame
        names = [name for name in table.column_names if name in frame.columns]
        return frame.select(*(_column(name) for name in names))

    def _writing(
        self,
        keys: tuple[str, ...] = (),
        kind: StepKind = StepKind.INSERT,
        *,
        divides: bool = True,
    ) -> Writing:
        known = {p.values: p.id for p in self.txn.partitions(self._stream)}
        return Writing(
            place=self._place,
            txn_id=self.txn.txn_id,
            version=self._version,
            scheme=self._stream.partition_scheme if divides else None,
            directories=known,
            keys=keys,
            rows_per_file=self._rows_per_file,
            kind=kind,
        )

    def _with_change(
        self,
        kind: StepKind,
        each: tuple[PartitionValues, Partition | None, list[ManifestEntry]],
        keys: tuple[str, ...],
        columns: tuple[str, ...] | None,
    ) -> "Work":
        values, partition, entries = each
        deltas = () if partition is None else tuple(self.txn.deltas(partition))
        plan = None if partition is None else plan_partition(partition, deltas, self._version)
        rewrite = Rewrite(new_id(), plan, kind, tuple(entries), keys, columns)
        return Work(values, partition, rewrite, deltas)

    def _rewrite_all(self, work: list["Work"]) -> None:
        """Let each task make one partition anew, and put them in the place of the old ones."""
        what = "A partition cannot be written anew"
        rewrites = [each.rewrite for each in work]
        results = distribute(self._spark, rewrites, self._writing().rewrite, what=what)
        for each, files in zip(work, results, strict=True):
            if files is None:
                continue
            new = [file.url for file in files if isinstance(file, ManifestEntry)]
            self.tally.partitions += 1
            self.tally.files += len(new)
            self.txn.lease.files.extend(new)
            entries, properties = named(files, each.deltas), self._named or None
            self._replace(each.rewrite.own_id, each.values, each.partition, entries, properties)


@dataclass(frozen=True, slots=True)
class Work:
    """A partition that is written anew, if it is there, and what it consists of now."""

    values: PartitionValues
    partition: Partition | None
    rewrite: Rewrite
    deltas: tuple[Delta, ...] = ()


def _together(frame: DataFrame, scheme: PartitionScheme | None) -> DataFrame:
    """Let rows of one partition come together, or every task writes a file of each."""
    if scheme is None or not scheme.keys:
        return frame
    return frame.repartition(*(_column(key.key[0]) for key in scheme.keys))


def _column(name: str) -> Any:
    return sf.col("`" + name.replace("`", "``") + "`")
