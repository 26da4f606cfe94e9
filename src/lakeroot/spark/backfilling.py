"""Compute a new column for a table that is too large to do it twice.

Each fragment's result is a finished data file and a note of it, kept beside the table under the
job's name. A killed job, or one that lost its race at the commit, finds the notes and computes only
what is missing. All fragments become visible in one commit.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import lance
from lance.fragment import FragmentMetadata
from lance.udf import BatchUDF
from pyspark.sql import SparkSession

from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.spark.batch_functions import BatchFunction, Remembering
from lakeroot.spark.catalogs import Located, TableRef, locate
from lakeroot.spark.commits import JOB, VERB, commit, find_named
from lakeroot.spark.distribute import distribute, until_uncontested
from lakeroot.spark.failures import damage
from lakeroot.spark.fingerprints import of_function, of_sql
from lakeroot.spark.fragment_notes import Finished, FragmentNotes, columns_of, key_of
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, check_number, job_name, table_alone
from lakeroot.spark.planning import ReadPlan, missing_column, only_held, plan_read
from lakeroot.spark.resuming import NEVER, SAME, begun, check_resume
from lakeroot.spark.scanning import reopened
from lakeroot.spark.types import refuse_names
from lakeroot.tables.expressions import whole, whole_or_none
from lakeroot.tables.faults import translation

_ADVICE = {
    True: "A function returns a batch (or a frame) of new columns, with a row for each it is given",
    False: "Look at the expressions and at the rows they are computed for",
}


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
    notes: FragmentNotes
    plan: ReadPlan = field(repr=False)
    values: Mapping[str, str] | BatchFunction = field(repr=False)
    reads: tuple[str, ...] | None
    batch_size: int | None


def backfill(
    spark: SparkSession,
    table: str | None = None,
    *,
    values: Mapping[str, str] | BatchFunction,
    job_id: str,
    reads: list[str] | None = None,
    batch_size: int | None = None,
    resume: str = SAME,
    dry_run: bool = False,
    **options: Any,
) -> BackfillResult:
    """Add columns: SQL expressions of Lance by name, or a function from batch to batch.

    `reads` names the columns that the function sees. `job_id` names the work: run again under the
    same name, it goes on where it stopped, and does nothing once it is committed. To go on with
    other expressions or another function is refused; `resume` is then `never`, to begin anew, or
    `anyway`, if they compute the same. A dry run says how many fragments are still to be computed,
    and needs no Spark.
    """
    own = ("values", "job_id", "reads", "batch_size", "resume", "dry_run")
    ref = table_alone(table, options, *own)
    if isinstance(values, Mapping) and not values:
        raise InvalidInputError("A backfill needs at least one column")
    if not isinstance(values, Mapping) and not callable(values):
        raise InvalidInputError(
            f"A backfill cannot compute {values!r}",
            "it takes SQL by column, or a function from batch to batch",
            'Write {"column": "an expression"}',
        )
    job = job_name(job_id)
    if job is None:
        # What is finished would be taken for that of every other job without a name.
        raise InvalidInputError("A backfill needs a job id", "this one is empty")
    check_number("batch_size", batch_size)
    check_resume(resume)
    # Before anything of it runs: what a function has done may show in it.
    computes = of_sql(values) if isinstance(values, Mapping) else of_function(values, reads)
    if resume == NEVER and not dry_run:
        FragmentNotes(locate(ref), job).forget()

    def attempt() -> BackfillResult:
        located = locate(ref)
        dataset = open_table(located)
        done = find_named(dataset, ref, job, "backfill")
        if done is not None:
            return BackfillResult(done, 0, 0, already_done=True)
        _check(dataset, ref, values, reads)
        reading = ReadOptions(version=dataset.version, truncate_nanos=True)
        plan = plan_read(ref, only_held(dataset.schema, reading))
        notes = begun(located, job, computes, resume, look_only=dry_run)
        seen = tuple(reads) if reads else None
        work = Backfill(located, job, notes, plan, values, seen, batch_size)
        if dry_run:
            fragments = dataset.get_fragments()
            known = work.notes.read()
            columns = _columns(work, dataset)
            left = [each for each in fragments if _key(each, columns) not in known]
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
    for name, expression in values.items() if isinstance(values, Mapping) else ():
        if name in names:
            raise InvalidInputError(
                f"Table {ref} already has a column {name!r}",
                "a backfill adds columns, and changes none",
                "Choose another name, or drop the column first; `update` changes values",
            )
        refuse_names([name])
        check_sql(dataset, ref, name, expression)


def check_sql(
    dataset: lance.LanceDataset,
    ref: TableRef,
    column: str,
    expression: str,
    where: str | None = None,
) -> None:
    """Let Lance read an expression and a predicate before anything is computed."""
    columns, kept = {column: whole(expression)}, whole_or_none(where)
    try:
        # The address is for expressions that name no column: Lance does not scan nothing.
        dataset.scanner(columns=columns, filter=kept, limit=1, with_row_address=True).explain_plan()
    except Exception as error:
        what = f"The column {column!r} of table {ref} cannot be computed by {expression!r}"
        raise _told(what, error, "Write it in the SQL of Lance") from error


def _told(what: str, error: Exception, fix: str) -> LakerootError:
    """Say what Lance found wrong with a computation."""
    found = damage(what, str(error))
    if found is not None:
        return found
    known = translation(error, what)
    if known.what != f"{what} failed":
        return type(known)(what, f"{known.what}: {known.why}", known.fix)
    # Of a function that fails Lance says at length that it is one; its own error comes last.
    why = known.why.rpartition("when called with a batch of data: ")[2]
    return type(known)(what, why, fix if isinstance(known, InvalidInputError) else known.fix)


def _run(spark: SparkSession, work: Backfill, dataset: lance.LanceDataset) -> BackfillResult:
    fragments = dataset.get_fragments()
    if not fragments:
        raise InvalidInputError(f"Table {work.table.ref} is empty, so nothing can be computed")
    known = work.notes.go_on()
    columns = _columns(work, dataset)
    # The largest first, so that no core waits at the end for the last one on another.
    largest = sorted(fragments, key=lambda fragment: -fragment.physical_rows)
    missing = [f.fragment_id for f in largest if _key(f, columns) not in known]
    what = f"The backfill {work.job!r} of table {work.table.ref} failed"
    # Once all are known the first is computed again, because the ids of new columns are not kept.
    todo = missing or [fragments[0].fragment_id]
    computed = distribute(spark, todo, partial(_compute, work), what=what)
    known |= {key: each for key, each, _ in computed}
    schema = _one_schema(work, [each for *_, each in computed])
    done = [known[_key(fragment, columns)] for fragment in fragments]
    merged = [_with_files(f, each.note) for f, each in zip(fragments, done, strict=True)]
    work.notes.require(done)
    version = commit(
        work.table,
        dataset,
        lance.LanceOperation.Merge(merged, schema),
        read_version=dataset.version,
        properties={JOB: work.job, VERB: "backfill"},
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


def _columns(work: Backfill, dataset: lance.LanceDataset) -> str:
    """Name the columns of the input, and where the ids of new ones begin."""
    return key_of(dataset.max_field_id, columns_of(dataset, work.reads))


def _key(fragment: lance.LanceFragment, columns: str) -> str:
    """Name the input of one computation: its files, which never change, and the columns in them.

    Deletions are not part of it: the new file has a place for every row, deleted or not.
    """
    return key_of([file.path for file in fragment.metadata.files], columns)


def _raised(what: str, error: Exception) -> LakerootError:
    said = " ".join(str(error).split())
    return InvalidInputError(
        what,
        f"the function raised {type(error).__name__}{': ' if said else ''}{said}",
        "Mend it, and run the backfill again; with `resume='anyway'` what is finished is kept",
    )


def _compute(work: Backfill, number: int) -> tuple[str, Finished, Any]:
    """Compute the new columns of one fragment, and leave a note of the finished file."""
    dataset = reopened(work.plan.scan)
    fragment = dataset.get_fragment(number)
    values: Any = work.values
    if isinstance(values, Mapping):
        values = {name: whole(expression) for name, expression in values.items()}
    is_plain = callable(values) and not isinstance(values, BatchUDF)
    function = Remembering(values) if is_plain else None
    columns = list(work.reads) if work.reads else None
    try:
        metadata, schema = fragment.merge_columns(
            function or values, columns=columns, batch_size=work.batch_size
        )
    except Exception as error:
        what = f"Fragment {number} of table {work.table.ref} cannot be computed"
        if function is not None and function.raised is not None:
            raise _raised(what, function.raised) from error
        raise _told(what, error, _ADVICE[callable(values)]) from error
    # Of a function this is the first that is heard of its columns, and nothing is committed yet.
    refuse_names([name for name in schema.to_pyarrow().names if name not in dataset.schema.names])
    before = {file.path for file in fragment.metadata.files}
    new = [file for file in metadata.to_json()["files"] if file["path"] not in before]
    key = _key(fragment, _columns(work, dataset))
    done = work.notes.keep(key, {"files": new}, [file["path"] for file in new])
    return key, done, schema


def _with_files(fragment: lance.LanceFragment, note: dict[str, Any]) -> FragmentMetadata:
    plain = fragment.metadata.to_json()
    plain["files"] = [*plain["files"], *note["files"]]
    return FragmentMetadata.from_json(json.dumps(plain))
