"""Fill a column that a table has already, by an SQL expression, without touching the others.

Each fragment gets a file with the column's new values and nothing else. Like a backfill, the job
keeps a note per finished fragment, goes on where it stopped, and commits once.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata
from pyspark.sql import SparkSession

from lakeroot.spark.backfilling import BackfillResult, check_sql
from lakeroot.spark.catalogs import Located, locate
from lakeroot.spark.commits import JOB, VERB, commit, find_named
from lakeroot.spark.distribute import distribute, until_uncontested
from lakeroot.spark.failures import translated
from lakeroot.spark.fragment_notes import Finished, FragmentNotes, columns_of, key_of
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, table_alone
from lakeroot.spark.planning import ReadPlan, missing_column, only_held, plan_read
from lakeroot.spark.scanning import reopened
from lakeroot.tables.expressions import whole, whole_or_none


@dataclass(frozen=True, slots=True)
class Refill:
    """What every task of a refill knows."""

    table: Located
    plan: ReadPlan = field(repr=False)
    column: str
    expression: str
    where: str | None
    batch_size: int | None

    @property
    def notes(self) -> FragmentNotes:
        """The notes of this work; whoever asks for the same work again goes on with it."""
        return FragmentNotes(
            self.table, json.dumps(["refill", self.column, self.expression, self.where])
        )


def refill(
    spark: SparkSession,
    table: str | None = None,
    *,
    column: str,
    expression: str,
    where: str | None = None,
    job_id: str,
    batch_size: int | None = None,
    **options: Any,
) -> BackfillResult:
    """Set a column to an SQL expression of Lance, in all rows or where a predicate holds.

    Only this column is rewritten. `job_id` names the work in the table's history: run again
    under the same name, it does nothing once it is committed.
    """
    own = ("column", "expression", "where", "job_id", "batch_size")
    ref = table_alone(table, options, *own)

    def attempt() -> BackfillResult:
        located = locate(ref)
        dataset = open_table(located)
        done = find_named(dataset, ref, job_id, "backfill")
        if done is not None:
            return BackfillResult(done, 0, 0, already_done=True)
        if column not in dataset.schema.names:
            raise missing_column(column, ref, dataset.schema.names)
        check_sql(dataset, ref, column, expression, where)
        reading = ReadOptions(version=dataset.version, truncate_nanos=True)
        plan = plan_read(ref, only_held(dataset.schema, reading))
        work = Refill(located, plan, column, expression, where, batch_size)
        return _run(spark, work, dataset, job_id)

    return until_uncontested(attempt)


def _run(
    spark: SparkSession, work: Refill, dataset: lance.LanceDataset, job_id: str
) -> BackfillResult:
    fragments = dataset.get_fragments()
    known = work.notes.go_on()
    columns = key_of(columns_of(dataset))
    missing = [f.fragment_id for f in fragments if _key(f, columns) not in known]
    what = f"The column {work.column!r} of table {work.table.ref} cannot be filled"
    known |= dict(distribute(spark, missing, partial(_compute, work), what=what))
    done = [known[_key(fragment, columns)] for fragment in fragments]
    changed = [each.note for each in done if each.note["fragment"] is not None]
    if not changed:
        work.notes.forget()
        return BackfillResult(dataset.version, len(fragments), len(missing))
    updated = [FragmentMetadata.from_json(json.dumps(note["fragment"])) for note in changed]
    operation = lance.LanceOperation.Update(
        updated_fragments=updated,
        fields_modified=sorted({number for note in changed for number in note["fields"]}),
        update_mode="rewrite_columns",
        updated_fragment_offsets={
            note["fragment"]["id"]: base64.b64decode(note["offsets"]) for note in changed
        },
    )
    work.notes.require(done)
    version = commit(
        work.table,
        dataset,
        operation,
        read_version=dataset.version,
        properties={JOB: job_id, VERB: "backfill"},
    ).version
    work.notes.forget()
    return BackfillResult(version, len(fragments), len(missing))


def _key(fragment: lance.LanceFragment, columns: str) -> str:
    """Name the input of one computation: the fragment as it is, deletions included, and columns."""
    return key_of(fragment.metadata.to_json(), columns)


def _compute(work: Refill, number: int) -> tuple[str, Finished]:
    """Write the column of one fragment anew, and leave a note of the finished file."""
    dataset = reopened(work.plan.scan)
    fragment = dataset.get_fragment(number)
    kind = dataset.schema.field(work.column).type
    with translated(f"Fragment {number} of table {work.table.ref} cannot be computed"):
        scanner = fragment.scanner(
            columns={work.column: whole(work.expression)},
            filter=whole_or_none(work.where),
            with_row_address=True,
            batch_size=work.batch_size,
        )
        schema = pa.schema([(work.column, kind), ("_rowaddr", pa.uint64())])
        rows = _cast(scanner.to_reader(), schema)
        first = next(rows, None)
        note: dict[str, Any] = {"fragment": None, "fields": [], "offsets": ""}
        if first is not None:
            reader = pa.RecordBatchReader.from_batches(schema, _again(first, rows))
            metadata, fields, offsets = fragment.update_columns(
                reader, left_on="_rowaddr", with_offsets=True
            )
            note = {
                "fragment": metadata.to_json(),
                "fields": list(fields),
                "offsets": base64.b64encode(offsets).decode(),
            }
    key = _key(fragment, key_of(columns_of(dataset)))
    before = {file.path for file in fragment.metadata.files}
    now = note["fragment"]["files"] if note["fragment"] is not None else []
    written = [file["path"] for file in now if file["path"] not in before]
    return key, work.notes.keep(key, note, written)


def _cast(batches: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            values = batch.column(0).cast(schema.field(0).type)
            yield pa.record_batch([values, batch.column("_rowaddr")], schema=schema)


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
