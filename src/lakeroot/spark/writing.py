"""Write DataFrames as tables: tasks write fragments, the driver commits them once."""

import pickle
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import lance
from lance.schema import LanceSchema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lakeroot.model.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.spark import receipts
from lakeroot.spark.asides import discard_aside, is_named, place_aside
from lakeroot.spark.catalogs import Located, TableRef, exists, files_of, locate, located_from
from lakeroot.spark.commits import JOB, MESSAGE, VERB, commit, find_commit, find_job, find_named
from lakeroot.spark.distribute import strictly_at_first, until_uncontested
from lakeroot.spark.failures import nearest, translated
from lakeroot.spark.fitting import check_encodings, fit, minds_case, new_columns, refuse_alike
from lakeroot.spark.opening import newest_at, open_table
from lakeroot.spark.options import WriteOptions, parse, table_of
from lakeroot.spark.same_columns import columns_in, has_same_columns
from lakeroot.spark.types import table_schema
from lakeroot.spark.widening import schema_changed, widened, with_columns
from lakeroot.spark.withdrawing import withdraw
from lakeroot.spark.write_tasks import WritePlan, Written, lost_table, run, target_of
from lakeroot.tables.versions import MAIN, data_directory

APPEND, OVERWRITE, CREATE, IGNORE = "append", "overwrite", "create", "ignore"
_MODES = {
    "append": APPEND,
    "overwrite": OVERWRITE,
    "create": CREATE,
    "error": CREATE,
    "errorifexists": CREATE,
    "ignore": IGNORE,
}


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write has done."""

    table: TableRef
    version: int
    rows: int
    files: int
    job: str
    already_done: bool = False


def write(frame: DataFrame, table: str | None = None, **options: Any) -> WriteResult:
    """Write a DataFrame as a table, in one commit.

    `mode` is append (the default; a missing table is created), overwrite, create (an existing
    table is an error) or ignore (an existing table is left alone). A `job_id` makes the write
    idempotent: the second time it does nothing.
    """
    given = {**options, "table": table} if table is not None else options
    settings = parse(WriteOptions, given)
    ref = table_of(given)
    before = already_done(ref, settings)
    if before is not None:
        return before
    return fill(frame, prepare(ref, frame.schema, settings, spark=frame.sparkSession))


def fill(frame: DataFrame, plan: WritePlan) -> WriteResult:
    """Write the rows of a frame as a plan says, and commit them; if that fails, nothing stays."""
    try:
        with translated(f"Table {plan.table.ref} cannot be written"):
            written = run(frame, plan)
    except BaseException as error:
        abort(plan)
        if isinstance(error, ConcurrentModificationError):
            raise lost_table(plan) from error
        raise
    return finish(plan, written)


def prepare(
    ref: TableRef,
    schema: st.StructType,
    options: WriteOptions,
    *,
    aside: bool = False,
    spark: SparkSession | None = None,
) -> WritePlan:
    """Check everything that can be wrong, and name the place for the files.

    The name of a new table is reserved, unless it is written aside: then nobody sees it before it
    is published. The session, or the active one, says whether upper and lower case make two names.
    """
    exact = _minds_case(spark)
    mode = mode_of(options)
    check_columns(schema, ref)
    found = exists(ref)
    job = options.job_id or uuid.uuid4().hex
    if found is not None and mode == CREATE:
        raise TableAlreadyExistsError(
            f"Table {ref} already exists", fix="Use mode 'append', 'overwrite' or 'ignore'"
        )
    if found is not None and mode == APPEND:
        dataset = newest_at(found, options.branch)
        main = dataset if options.branch in (None, "main") else open_table(found)
        if options.merge_schema and not exact:
            refuse_alike(schema, dataset.schema.names, ref)
        plan = WritePlan(
            found,
            mode,
            dataset.schema,
            job,
            options,
            pickle.dumps(main),
            _with_new_columns(dataset, schema, options, ref),
            dataset.version,
        )
        target: Any = target_of(plan)
        check_encodings(target.schema, options, ref)
        _check_row_ids(main, options, ref)
        return replace(plan, schema=fit(schema, target.schema, str(ref)))
    if options.branch not in (None, MAIN):
        if mode == APPEND:
            raise TableNotFoundError(
                f"There is no table {ref} to write a branch of",
                fix="Write it first, and make the branch",
            )
        raise InvalidInputError(f"Mode {mode!r} cannot write to a branch", fix="Use mode 'append'")
    columns = table_schema(schema, vectors=options.vectors, blobs=frozenset(options.blobs))
    old = None if found is None else open_table(found)
    if not exact:
        refuse_alike(schema, [] if old is None else old.schema.names, ref, replaces=True)
    if found is not None and old is not None:
        _check_row_ids(old, options, ref)
        return WritePlan(found, mode, columns, job, options, read_version=old.version)
    place = place_aside(ref) if aside else None
    if place is not None:
        return WritePlan(place, mode, columns, job, options, is_aside=True)
    table, declared = _declared(ref)
    return WritePlan(table, mode, columns, job, options, declared_here=declared)


def _check_row_ids(table: lance.LanceDataset, options: WriteOptions, ref: TableRef) -> None:
    """Refuse what Lance would pass over: a table begins with stable row ids, or never has them."""
    if options.stable_row_ids and not table.has_stable_row_ids:
        raise InvalidInputError(
            f"Rows of table {ref} cannot have stable ids",
            "that is settled when a table is made, and it was made without",
            "Leave `stableRowIds` out, or write another table",
        )


def _minds_case(spark: SparkSession | None) -> bool:
    """Ask a session about upper and lower case; where there is none, nobody knows."""
    session = spark or SparkSession.getActiveSession()
    return session is None or minds_case(session)


def check_columns(schema: st.StructType, ref: TableRef) -> None:
    """Refuse rows without columns, of which nothing would be kept."""
    if not schema.fields:
        raise InvalidInputError(
            f"Table {ref} cannot be written",
            "the rows have no columns",
            "Select at least one",
        )


def mode_of(options: WriteOptions) -> str:
    """Read the mode of a write."""
    word = (options.mode or APPEND).lower()
    if word not in _MODES:
        raise InvalidInputError(f"There is no mode {word!r}", fix=nearest(word, _MODES))
    return _MODES[word]


def _with_new_columns(
    dataset: lance.LanceDataset, schema: st.StructType, options: WriteOptions, ref: TableRef
) -> bytes | None:
    """Give the version that rows with new columns are written for, if there are any."""
    added = new_columns(schema, dataset.schema)
    if not (added and options.merge_schema):
        return None
    columns = table_schema(schema, vectors=options.vectors, blobs=frozenset(options.blobs))
    with translated(f"Table {ref} cannot take new columns"):
        return widened(dataset, [columns.field(name) for name in added])


def _declared(ref: TableRef) -> tuple[Located, bool]:
    """Reserve the name of a new table; tell whether it was this job that reserved it."""
    if ref.catalog is None:
        return locate(ref), False
    from lance_namespace import DeclareTableRequest

    request = DeclareTableRequest(id=list(ref.identifier))
    try:
        with translated(f"Table {ref} cannot be declared"):
            answer = ref.catalog.connect().declare_table(request)
    except (AlreadyExistsError, ConcurrentModificationError):
        # Somebody declared it, a moment or a crash ago, and has not written it.
        return locate(ref), False
    return located_from(ref, answer), True


def finish(plan: WritePlan, written: Iterable[Written]) -> WriteResult:
    """Commit what the tasks have written, and remove what is left of other attempts."""
    parts = [each for each in written if each.fragments]
    files = [path for part in parts for path in part.files]
    try:
        version = _committed(plan, parts)
    except BaseException as error:
        found = _found_after(plan, error)
        if found is None:
            abort(plan)
            raise
        version = found
    if not _is_ours(plan, version, files):
        receipts.settle(plan.table, plan.attempt, ())
        return WriteResult(plan.table.ref, version, 0, 0, plan.job, already_done=True)
    receipts.settle(plan.table, plan.attempt, files)
    return WriteResult(
        plan.table.ref, version, sum(part.rows for part in parts), len(files), plan.job
    )


def _is_ours(plan: WritePlan, version: int, files: Sequence[str]) -> bool:
    """Tell whether a version brought these files, and not those of another at the same job."""
    if plan.options.job_id is None or not files:
        return True
    names = {name.rpartition("/")[2] for name in files}
    branch = plan.options.branch
    try:
        made = newest_of(plan).checkout_version((None if branch == MAIN else branch, version))
    except (OSError, ValueError, LakerootError):
        return True  # It was cleaned up: nobody knows, so no file is deleted.
    newest_first = reversed(made.get_fragments())
    brought = (file.path for fragment in newest_first for file in fragment.metadata.files)
    return any(path.rpartition("/")[2] in names for path in brought)


def _found_after(plan: WritePlan, error: BaseException) -> int | None:
    """Look whether a commit whose answer was lost has happened after all."""
    if isinstance(error, AlreadyExistsError | ConcurrentModificationError):
        return None
    try:
        return find_job(newest_of(plan), JOB, plan.job, newer_than=plan.read_version)
    except LakerootError:
        # Nobody knows: leave every file where it is, garbage collection will know later.
        raise error from None


def properties_of_plan(plan: WritePlan) -> dict[str, str]:
    """Return what the commit says of itself."""
    message = {MESSAGE: plan.options.message} if plan.options.message else {}
    return {JOB: plan.job, VERB: plan.verb, **message}


def _committed(plan: WritePlan, parts: list[Written]) -> int:
    fragments = [fragment for part in parts for fragment in part.fragments]
    properties = properties_of_plan(plan)
    if plan.dataset is not None:
        return append_fragments(plan, fragments, properties)
    schema = next((part.schema for part in parts if part.schema is not None), plan.schema)
    operation = lance.LanceOperation.Overwrite(schema, fragments)
    new = plan.read_version == 0
    try:
        if not fragments and plan.options.storage_version is not None:
            # It is of the driver: workers that import this do not wait for clients of catalogs.
            from lakeroot.spark.empty_versions import commit_empty

            return commit_empty(
                plan.table,
                plan.schema,
                plan.options.storage_version,
                properties,
                is_new=new,
                stable_row_ids=plan.options.stable_row_ids,
            )
        base: Any = plan.table.location if new else open_table(plan.table)
        return int(
            commit(
                plan.table,
                base,
                operation,
                read_version=0 if new else base.version,
                properties=properties,
                stable_row_ids=plan.options.stable_row_ids or None,
            ).version
        )
    except LakerootError:
        if not new or exists(plan.table.ref) is None:
            raise
        return _after_lost_creation(plan, fragments, properties)


def _after_lost_creation(plan: WritePlan, fragments: list[Any], properties: dict[str, str]) -> int:
    """Go on when another writer created the same table first: append, or give way."""
    dataset = open_table(plan.table)
    written_for = columns_in(LanceSchema.from_pyarrow(plan.schema))
    if plan.mode != APPEND or columns_in(dataset.lance_schema) != written_for:
        raise TableAlreadyExistsError(
            f"Table {plan.table.ref} was created by another writer meanwhile", fix="Run it again"
        ) from None
    return append_fragments(replace(plan, dataset=pickle.dumps(dataset)), fragments, properties)


def newest_of(plan: WritePlan) -> lance.LanceDataset:
    """Open the newest version of the table, or of the branch, that is written."""
    return newest_at(plan.table, plan.options.branch)


def append_fragments(plan: WritePlan, fragments: list[Any], properties: dict[str, str]) -> int:
    """Commit an append, and the columns that come with it, as the next version, whichever it is."""
    tried = False

    def attempt(*, strict: bool) -> int | None:
        nonlocal tried
        newest = newest_of(plan)
        # Whoever took the number may have been this very job, if the answer was lost. One that the
        # user has named may have been run by another driver since.
        said = {key: properties[key] for key in (JOB, VERB) if key in properties} or properties
        looks = tried or plan.options.job_id is not None
        done = find_commit(newest, said, newer_than=plan.read_version) if looks else None
        if done is not None:
            return done
        tried = True
        return append_to(newest, plan, fragments, properties, strict=strict)

    strictly = partial(attempt, strict=True)
    if plan.widened is not None:
        version = until_uncontested(strictly)
    else:
        version = strictly_at_first(strictly, partial(attempt, strict=False))
    if version is None:
        raise schema_changed(plan)
    return version


def append_to(
    newest: lance.LanceDataset,
    plan: WritePlan,
    fragments: list[Any],
    properties: dict[str, str],
    *,
    strict: bool,
) -> int | None:
    """Commit an append, if it is strict right after what was looked at; no rows, no version.

    Nothing is committed if the columns are not those that the rows were written for.
    """
    operation: Any = lance.LanceOperation.Append(fragments)
    if plan.widened is not None:
        operation = with_columns(plan, operation, newest)
    elif not fragments:
        return int(newest.version)
    elif not has_same_columns(newest, plan):
        operation = None
    if operation is None:
        return None
    _require_files(plan, fragments)
    done = commit(
        plan.table,
        newest,
        operation,
        read_version=newest.version,
        properties=properties,
        # Lance would take an append past a change of the columns.
        strict=strict,
        branch=plan.options.branch,
    )
    return int(done.version)


def _require_files(plan: WritePlan, fragments: list[Any]) -> None:
    """Refuse files that are gone with the table that they were written for: another has its place.

    Its versions are counted anew, so the number alone does not tell.
    """
    names = (file.path for fragment in fragments for file in fragment.files)
    first = next(names, None)
    place = data_directory(plan.options.branch)
    if first is not None and not files_of(plan.table).exists(f"{place}/{first}"):
        raise lost_table(plan)


def _surely_uncommitted(plan: WritePlan) -> bool:
    try:
        if plan.is_aside:
            return not is_named(plan.table)
        return find_job(newest_of(plan), JOB, plan.job, newer_than=plan.read_version) is None
    except TableNotFoundError:
        return True
    except LakerootError:
        return False


def abort(plan: WritePlan) -> None:
    """Remove what a failed job has left: its files, and the name it had reserved.

    If it is not certain that nothing was committed, everything stays where it is.
    """
    if not _surely_uncommitted(plan):
        return
    if plan.is_aside:
        discard_aside(plan.table)
        return
    receipts.settle(plan.table, plan.attempt, ())
    if plan.declared_here:
        withdraw(plan.table.ref)


def already_done(ref: TableRef, options: WriteOptions) -> WriteResult | None:
    """Tell whether there is nothing to write: the job has run, or `ignore` finds a table."""
    return _done_before(ref, options) or _left_alone(ref, options)


def _done_before(ref: TableRef, options: WriteOptions) -> WriteResult | None:
    """Find the earlier commit of a job that the user has named."""
    found = exists(ref) if options.job_id else None
    if found is None or options.job_id is None:
        return None
    version = find_named(newest_at(found, options.branch), ref, options.job_id, "write")
    if version is None:
        return None
    return WriteResult(ref, version, 0, 0, options.job_id, already_done=True)


def _left_alone(ref: TableRef, options: WriteOptions) -> WriteResult | None:
    """Find the table that mode `ignore` does not touch."""
    found = exists(ref) if mode_of(options) == IGNORE else None
    if found is None:
        return None
    return WriteResult(ref, open_table(found).version, 0, 0, "", already_done=True)
