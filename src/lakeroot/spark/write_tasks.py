"""Write on executors: the rows of one task as fragments that nobody sees until the commit."""

import functools
import itertools
import pickle
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import write_fragments
from pyspark.sql import DataFrame

from lakeroot.spark import receipts
from lakeroot.spark.catalogs import Located, renewed
from lakeroot.spark.conform import to_table
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.row_tasks import over_rows


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write that is ready to run; it travels to every task."""

    table: Located
    mode: str
    schema: pa.Schema = field(repr=False)
    job: str
    options: WriteOptions
    # The table as it was, for appends; a new table and an overwritten one start from nothing.
    dataset: bytes | None = field(default=None, repr=False)
    read_version: int = 0
    declared_here: bool = False
    # The name of this very attempt, for its receipts: a job may be run again under its own name,
    # and must never take what an earlier run has committed for its own leavings.
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class Written:
    """What one task has written."""

    fragments: tuple[Any, ...]
    schema: Any
    rows: int
    receipt: str | None = None

    @property
    def files(self) -> list[str]:
        """Name the data files."""
        return [file.path for fragment in self.fragments for file in fragment.files]


def run(frame: DataFrame, plan: WritePlan) -> list[Written]:
    """Let Spark write the rows; return what the successful attempts report."""
    return over_rows(frame, functools.partial(write_rows, plan))


def write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write the rows of one task as fragments that nobody sees yet."""
    rows = to_table((batch for batch in batches if batch.num_rows), plan.schema)
    first = next(rows, None)
    if first is None:
        return Written((), None, 0)
    settings = plan.options
    table = renewed(plan.table)
    operation = write_fragments(
        pa.RecordBatchReader.from_batches(plan.schema, itertools.chain([first], rows)),
        target_of(plan, table),
        schema=plan.schema,
        mode="overwrite" if plan.dataset is None else "append",
        return_transaction=True,
        max_rows_per_file=settings.max_rows_per_file,
        max_bytes_per_file=settings.max_bytes_per_file,
        data_storage_version=settings.storage_version if plan.dataset is None else None,
        storage_options=table.storage_options,
        enable_stable_row_ids=settings.stable_row_ids,
    ).operation
    fragments = tuple(operation.fragments)
    rows_written = sum(fragment.physical_rows for fragment in fragments)
    names = [file.path for fragment in fragments for file in fragment.files]
    receipt = receipts.leave(plan.table, plan.attempt, names)
    return Written(fragments, getattr(operation, "new_schema", None), rows_written, receipt)


def target_of(plan: WritePlan, table: Located | None = None) -> lance.LanceDataset | str:
    """Open what the fragments are written for, with keys that are good now."""
    table = table or renewed(plan.table)
    if plan.dataset is None:
        return table.location
    if table is plan.table:
        dataset = pickle.loads(plan.dataset)  # noqa: S301  # the driver of this very job made it
    else:
        dataset = lance.dataset(table.location, storage_options=table.storage_options)
    branch = None if plan.options.branch == "main" else plan.options.branch
    if branch is None and table is plan.table:
        return dataset
    # A pickled dataset is of the main branch, and one that is opened anew of the newest version.
    return dataset.checkout_version((branch, plan.read_version))
