"""Compute a new column for a table that is too large to do it twice.

Each fragment's result is a finished data file and a note of it, kept beside the table under the
job's name. A killed job, or one that lost its race at the commit, finds the notes and computes only
what is missing. All fragments become visible in one commit.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata
from pyspark.sql import SparkSession

from lakeroot.model.errors import AlreadyExistsError, InvalidInputError
from lakeroot.spark.catalogs import Located, TableRef, locate
from lakeroot.spark.commits import JOB, commit, find_job
from lakeroot.spark.distribute import distribute, until_uncontested
from lakeroot.spark.failures import translated
from lakeroot.spark.fragment_notes import FragmentNotes, key_of
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, table_of
from lakeroot.spark.planning import ReadPlan, missing_column, plan_read
from lakeroot.spark.scanning import reopened

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """What a backfill has done."""

    version: int
    fragments: int
    computed: int
    already_done: bool = False


@dataclass(frozen=True, slots=True)
class Backfill:
    """What every task of a backfill knows."""

    table: Located
    job: str
    plan: ReadPlan = field(repr=False)
    values: Mapping[str, str] | BatchFunction = field(repr=False)
    reads: tuple[str, ...] | None
    batch_size: int | None

    @property
    def notes(self) -> FragmentNotes:
        """The notes of this job."""
        return FragmentNotes(self.table, self.job)


def backfill(
    spark: SparkSession,
    table: str | None = None,
    *,
    values: Mapping[str, str] | BatchFunction,
    job_id: str,
    reads: list[str] | None = None,
    batch_size: int | None = None,
    dry_run: bool = False,
    **options: Any,
) -> BackfillResult:
    """Add columns: SQL expressions of Lance by name, or a function from batch to batch.

    `reads` names the columns that the function sees. `job_id` names the work: run again under the
    same name, it goes on where it stopped, and does nothing once it is committed. A dry run says
    how many fragments are still to be computed, and needs no Spark.
    """
    ref = table_of({**options, "table": table} if table is not None else options)
    if isinstance(values, Mapping) and not values:
        raise InvalidInputError("A backfill needs at least one column")

    def attempt() -> BackfillResult:
        located = locate(ref)
        dataset = open_table(located)
        done = find_job(dataset, JOB, job_id)
        if done is not None:
            return BackfillResult(done, 0, 0, already_done=True)
        _check(dataset, ref, values, reads)
        plan = plan_read(ref, ReadOptions(version=dataset.version, truncate_nanos=True))
        work = Backfill(located, job_id, plan, values, tuple(reads) if reads else None, batch_size)
        if dry_run:
            fragments = dataset.get_fragments()
            known = work.notes.read()
            left = [each for each in fragments if _key(each, dataset) not in known]
            return BackfillResult(dataset.version, len(fragments), len(left))
        return _run(spark, work, dataset)

    return until_uncontested(attempt)


def _check(
    dataset: lance.LanceDataset, ref: TableRef, values: Any, reads: list[str] | None
) -> None:
    names = dataset.schema.names
    for name in reads or ():
        if name not in names:
            raise missing_column(name, ref, names)
    for name in values if isinstance(values, Mapping) else ():
        if name in names:
            raise AlreadyExistsError(
                f"Table {ref} already has a column {name!r}",
                fix="Choose another name, or drop the column first",
            )


def _run(spark: SparkSession, work: Backfill, dataset: lance.LanceDataset) -> BackfillResult:
    fragments = dataset.get_fragments()
    if not fragments:
        raise InvalidInputError(f"Table {work.table.ref} is empty, so nothing can be computed")
    known = work.notes.read()
    # The largest first, so that no core waits at the end for the last one on another.
    largest = sorted(fragments, key=lambda fragment: -fragment.physical_rows)
    missing = [f.fragment_id for f in largest if _key(f, dataset) not in known]
    what = f"The backfill {work.job!r} of table {work.table.ref} failed"
    # Once all are known the first is computed again, because the ids of new columns are not kept.
    todo = missing or [fragments[0].fragment_id]
    computed = distribute(spark, todo, partial(_compute, work), what=what)
    known |= {key: note for key, note, _ in computed}
    schema = _one_schema(work, [each for *_, each in computed])
    merged = [_with_files(f, known[_key(f, dataset)]) for f in fragments]
    version = commit(
        work.table,
        dataset,
        lance.LanceOperation.Merge(merged, schema),
        read_version=dataset.version,
        properties={JOB: work.job},
        strict=True,
    ).version
    work.notes.forget()
    return BackfillResult(version, len(fragments), len(missing))


def _one_schema(work: Backfill, schemas: list[Any]) -> Any:
    """Return what the table becomes: all fragments number the new columns from the same version."""
    for schema in schemas:
        if schema != schemas[0]:
            work.notes.forget()
            raise InvalidInputError(
                f"The backfill {work.job!r} of table {work.table.ref} computes different columns",
                f"one fragment has {schemas[0].to_pyarrow()}, another {schema.to_pyarrow()}",
                "Let the function return the same columns and types for every batch",
            )
    return schemas[0]


def _key(fragment: lance.LanceFragment, dataset: lance.LanceDataset) -> str:
    """Name the input of one computation: its files, which never change, and the ids of fields.

    Deletions are not part of it: the new file has a place for every row, deleted or not.
    """
    files = [file.path for file in fragment.metadata.files]
    return key_of(files, dataset.max_field_id)


def _compute(work: Backfill, number: int) -> tuple[str, dict[str, Any], Any]:
    """Compute the new columns of one fragment, and leave a note of the finished file."""
    dataset = reopened(work.plan.scan)
    fragment = dataset.get_fragment(number)
    values = dict(work.values) if isinstance(work.values, Mapping) else work.values
    columns = list(work.reads) if work.reads else None
    with translated(f"Fragment {number} of table {work.table.ref} cannot be computed"):
        metadata, schema = fragment.merge_columns(
            values, columns=columns, batch_size=work.batch_size
        )
    before = {file.path for file in fragment.metadata.files}
    new = [file for file in metadata.to_json()["files"] if file["path"] not in before]
    note = {"files": new}
    key = _key(fragment, dataset)
    work.notes.keep(key, note)
    return key, note, schema


def _with_files(fragment: lance.LanceFragment, note: dict[str, Any]) -> FragmentMetadata:
    plain = fragment.metadata.to_json()
    plain["files"] = [*plain["files"], *note["files"]]
    return FragmentMetadata.from_json(json.dumps(plain))
