"""Write on executors: the rows of one task as fragments that nobody sees until the commit."""

import functools
import itertools
import pickle
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import write_fragments
from pyspark.sql import DataFrame

from lakeroot.model.errors import ConcurrentModificationError, InternalError, LakerootError
from lakeroot.spark import receipts
from lakeroot.spark.catalogs import Located, exists, renewed
from lakeroot.spark.conform import to_table
from lakeroot.spark.failures import explained
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.row_tasks import over_rows
from lakeroot.spark.withdrawing import withdraw
from lakeroot.tables.versions import DATA, data_directory


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
    # The same with the columns that the rows bring and the table lacks, as a manifest of Lance.
    widened: bytes | None = field(default=None, repr=False)
    read_version: int = 0
    declared_here: bool = False
    # Whether the table has no name yet, but a place: it gets its name with its first version.
    is_aside: bool = False
    # The name of this very attempt, for its receipts: a job may be run again under its own name,
    # and must never take what an earlier run has committed for its own leavings.
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
    # What the job does, for whoever finds its commit by the job's name.
    verb: str = "write"
    # Whether tasks have to look if the job still wants what they have written.
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What one task has written."""

    fragments: tuple[Any, ...]
    schema: Any
    rows: int
    # Where the data files lie below the table: those of a branch lie apart.
    directory: str = DATA
    receipt: str | None = None

    @property
    def files(self) -> list[str]:
        """Give the data files by their paths below the table."""
        return _paths(self.fragments, self.directory)


def watched(plan: WritePlan) -> WritePlan:
    """Give the plan for the tasks of a job that begins, and that will be settled."""
    receipts.want(plan.table, plan.attempt)
    return replace(plan, watched=True)


def run(frame: DataFrame, plan: WritePlan) -> list[Written]:
    """Let Spark write the rows; return what the successful attempts report."""
    return over_rows(frame, functools.partial(write_rows, watched(plan)))


def write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write the rows of one task as fragments that nobody sees yet.

    Spark does not wait for the tasks beside one that has failed. While they write, the driver
    cannot take back the name of a new table: their files are there, or have filled the disk. The
    last of them to fail can.
    """
    try:
        return _written(plan, batches)
    except BaseException as error:
        if plan.declared_here and plan.watched and receipts.is_over(plan.table, plan.attempt):
            withdraw(plan.table.ref)
        known = _in_our_words(plan, error)
        if known is None:
            raise
        raise known from error


def _in_our_words(plan: WritePlan, error: BaseException) -> LakerootError | None:
    """Say here what went wrong: Spark's own writes have no other place that could.

    What is not known keeps its trace, which is all there is to tell of it.
    """
    if isinstance(error, ConcurrentModificationError):
        if plan.is_aside:
            return None
        # A task that is only late finds the table where it was.
        found = exists(plan.table.ref)
        is_lost = found is None or found.location != plan.table.location
        return lost_table(plan) if is_lost else None
    if isinstance(error, LakerootError) or not isinstance(error, Exception):
        return None
    known = explained(f"Table {plan.table.ref} cannot be written", error)
    # An internal error that comes with advice is one that was recognised.
    return None if isinstance(known, InternalError) and not known.fix else known


def lost_table(plan: WritePlan) -> ConcurrentModificationError:
    """Say where the table went that tasks wrote to: the job was not over when they found it so."""
    done = "dropped" if exists(plan.table.ref) is None else "dropped and made anew"
    return ConcurrentModificationError(
        f"Table {plan.table.ref} was {done} while the job ran",
        "nothing was written",
        "Run it again, if the rows are still wanted",
    )


def _written(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Written:
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
        data_storage_version=settings.storage_version,
        storage_options=table.storage_options,
        enable_stable_row_ids=settings.stable_row_ids,
    ).operation
    fragments = tuple(operation.fragments)
    rows_written = sum(fragment.physical_rows for fragment in fragments)
    directory = data_directory(settings.branch)
    receipt = receipts.leave(
        plan.table, plan.attempt, _paths(fragments, directory), if_wanted=plan.watched
    )
    schema = getattr(operation, "new_schema", None)
    return Written(fragments, schema, rows_written, directory, receipt)


def _paths(fragments: Iterable[Any], directory: str) -> list[str]:
    return [f"{directory}/{file.path}" for fragment in fragments for file in fragment.files]


def base_of(plan: WritePlan) -> lance.LanceDataset | str:
    """Open the version that was read, with the columns that it has."""
    return target_of(replace(plan, widened=None))


def target_of(plan: WritePlan, table: Located | None = None) -> lance.LanceDataset | str:
    """Open what the fragments are written for, with keys that are good now."""
    table = table or renewed(plan.table)
    if plan.widened is not None:
        return lance.LanceDataset(
            f"{table.location}/{data_directory(plan.options.branch)}".removesuffix(f"/{DATA}"),
            plan.read_version,
            storage_options=dict(table.storage_options or {}) or None,
            serialized_manifest=plan.widened,
        )
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
