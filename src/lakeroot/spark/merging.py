"""Merge a frame into a table: by keys, or by any condition with any clauses.

Merges of one table are serialised: each commits right after the version it has read, or
starts again. Otherwise two merges that insert the same new key would both succeed.
"""

import operator
import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableAlreadyExistsError,
    TableColumnNotFoundError,
)
from lakeroot.spark import receipts
from lakeroot.spark.catalogs import TableRef, exists, locate
from lakeroot.spark.conform import to_table
from lakeroot.spark.distribute import until_uncontested
from lakeroot.spark.failures import nearest, translated
from lakeroot.spark.fitting import cut_columns
from lakeroot.spark.key_merging import can_merge_by_keys, merge_by_keys
from lakeroot.spark.merge_clauses import (
    DELETE,
    INSERT,
    UPDATE,
    Clause,
    Merge,
    lost_answer,
    merge_rows,
    same_keys,
    unused,
)
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import WriteOptions, job_name, parse, table_of
from lakeroot.spark.passing import commit_passing
from lakeroot.spark.row_changes import ChangeResult, done_before
from lakeroot.spark.widening import commit_changes, schema_changed
from lakeroot.spark.workers import begin
from lakeroot.spark.write_tasks import WritePlan, target_of
from lakeroot.spark.writing import abort, fill, prepare, properties_of_plan
from lakeroot.tables.versions import DATA

# A source of this many rows is merged in the driver: faster up to millions of rows.
DRIVER_ROWS = 1_000_000
DRIVER_BYTES = 256 << 20
# Small as an estimate, which compression and filters can put far off: a tenth of what may come.
_TINY_BYTES = 16 << 20
# What a value takes in Arrow, of the types whose values all take the same.
_WIDTHS: Mapping[type[st.DataType], int] = {
    st.NullType: 1,
    st.BooleanType: 1,
    st.ByteType: 1,
    st.ShortType: 2,
    st.IntegerType: 4,
    st.DateType: 4,
    st.FloatType: 4,
    st.LongType: 8,
    st.DoubleType: 8,
    st.TimestampType: 8,
    st.TimestampNTZType: 8,
    st.DecimalType: 16,
}

_VERB = "merge"
_OWN = (
    "on",
    "when_matched",
    "when_not_matched",
    "when_not_matched_by_source",
    "strategy",
    "job_id",
    "dry_run",
)


def merge(
    source: DataFrame,
    table: str | None = None,
    *,
    on: str | Sequence[str],
    when_matched: str = "update",
    when_not_matched: str = "insert",
    when_not_matched_by_source: str = "nothing",
    strategy: str = "auto",
    job_id: str | None = None,
    dry_run: bool = False,
    **options: Any,
) -> ChangeResult:
    """Upsert by keys: rows of the source replace those with the same keys, others are inserted.

    Columns that the source lacks keep their values in replaced rows and are null in new ones.
    Keys must be unique in the source and never null. A dry run counts what would change.
    """
    keys = [on] if isinstance(on, str) else list(on)
    words = (when_matched, when_not_matched, when_not_matched_by_source)
    _check_words(words, strategy)
    settings = parse(WriteOptions, options, *_OWN)
    ref = table_of({**options, "table": table} if table is not None else options)
    if settings.mode is not None:
        raise InvalidInputError("A merge has no mode", fix="Say what it does with `when_matched`")
    check_key_columns(source, keys)
    job_id = job_name(job_id)
    job = job_id or uuid.uuid4().hex
    tried: int | None = None

    def attempt() -> ChangeResult:
        nonlocal tried
        done = done_before(ref, job_id, _VERB, settings.branch)
        if done is None and tried is not None:
            done = lost_answer(ref, job, settings.branch, newer_than=tried)
        if done is not None:
            return done
        if exists(ref) is None:
            if words[1] != "insert":
                locate(ref)  # Refuses a name that nothing has: nothing would come of it.
            check_keys(source, ref, keys)
            if dry_run:
                return ChangeResult(0, inserted=source.count() if words[1] == "insert" else 0)
            tried = tried or 0
            return _created(source, ref, replace(settings, mode="create", job_id=job), words)
        if dry_run:
            return _foretold(source, ref, keys, words, settings)
        appending = _appending(settings, job)
        plan = prepare(ref, source.schema, appending, spark=source.sparkSession)
        plan = replace(plan, verb=_VERB)
        tried = plan.read_version if tried is None else tried
        simple = strategy != "spark" and _simple(source, plan, keys, words)
        small = _small(source) if simple else None
        if small is None or not keys_are_good(small, keys):
            check_keys(source, ref, keys)
        if small is not None:
            return _merge_in_driver(small, plan, keys, words)
        if strategy == "driver":
            raise _not_in_driver(ref, simple=simple)
        refuse_cut_keys(plan, keys)
        return merge_rows(source, plan, _merge(keys, words))

    return until_uncontested(attempt)


def _not_in_driver(ref: TableRef, *, simple: bool) -> InvalidInputError:
    why = "it takes whole rows, by keys without fractions, into the main branch, and deletes none"
    if simple:
        why = f"the source has more than {DRIVER_ROWS:,} rows or {DRIVER_BYTES >> 20} MB"
    return InvalidInputError(
        f"The driver cannot merge this into table {ref}", why, "Leave the choice to 'auto'"
    )


def _merge(keys: Sequence[str], words: tuple[str, str, str]) -> Merge:
    matched, not_matched, by_source = (_clauses(word) for word in words)
    return Merge(same_keys(keys), matched, not_matched, by_source)


def _foretold(
    source: DataFrame,
    ref: TableRef,
    keys: Sequence[str],
    words: tuple[str, str, str],
    settings: WriteOptions,
) -> ChangeResult:
    """Check a merge and count what it would change."""
    plan = prepare(ref, source.schema, _appending(settings, None), spark=source.sparkSession)
    check_keys(source, ref, keys)
    refuse_cut_keys(plan, keys)
    return merge_rows(source, plan, _merge(keys, words), dry_run=True)


def _created(
    source: DataFrame,
    ref: TableRef,
    settings: WriteOptions,
    words: tuple[str, str, str],
) -> ChangeResult:
    """Make the table out of the source: before the first merge nothing matches."""
    rows = source if words[1] == "insert" else source.limit(0)
    try:
        plan = prepare(ref, rows.schema, settings, spark=rows.sparkSession)
        made = fill(rows, replace(plan, verb=_VERB))
    except TableAlreadyExistsError:
        raise ConcurrentModificationError(
            f"Table {ref} was created by another writer meanwhile"
        ) from None
    return ChangeResult(made.version, inserted=made.rows)


def _check_words(words: tuple[str, str, str], strategy: str) -> None:
    allowed = (("update", "delete", "nothing"), ("insert", "nothing"), ("delete", "nothing"))
    for word, valid in zip(words, allowed, strict=True):
        if word not in valid:
            raise InvalidInputError(f"A merge cannot {word!r} there", fix=nearest(word, valid))
    if strategy not in ("auto", "driver", "spark"):
        raise InvalidInputError(
            f"There is no strategy {strategy!r}", fix=nearest(strategy, ["auto", "driver", "spark"])
        )


def _clauses(word: str) -> list[Clause]:
    return {"update": [UPDATE], "insert": [INSERT], "delete": [DELETE], "nothing": []}[word]


def check_key_columns(source: DataFrame, keys: Sequence[str]) -> None:
    """Refuse a source that lacks a key column."""
    if not keys:
        raise InvalidInputError("A merge needs at least one key column")
    for key in keys:
        if key not in source.columns:
            raise TableColumnNotFoundError(
                f"The source has no key column {key!r}", fix=nearest(key, source.columns)
            )
        if keys.count(key) > 1:
            raise InvalidInputError(f"The key column {key!r} is named twice", fix="Name it once")


def keys_are_good(rows: pa.Table, keys: Sequence[str]) -> bool:
    """Tell whether keys are surely unique and never null; where Spark compares otherwise, no."""
    kinds = [rows.schema.field(key).type for key in keys]
    if any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in kinds):
        return False
    if any(rows.column(key).null_count for key in keys):
        return False
    if len(keys) == 1 and pa.types.is_integer(kinds[0]):
        numbers = rows.column(keys[0]).to_numpy()
        # Keys often come in order, and looking is much faster than sorting.
        if not (numbers[1:] > numbers[:-1]).all():
            numbers = np.sort(numbers)
        return bool((numbers[1:] > numbers[:-1]).all())
    return bool(rows.select(list(keys)).group_by(list(keys)).aggregate([]).num_rows == len(rows))


def check_keys(source: DataFrame, ref: TableRef, keys: Sequence[str]) -> None:
    """Refuse a source whose keys are missing, null or repeated, and say which."""
    check_key_columns(source, keys)
    named = [sf.col(f"`{key}`") for key in keys]
    isnull = reduce(operator.or_, (column.isNull() for column in named))
    rows = unused("rows", keys)
    with translated(f"The source of the merge into {ref} cannot be read"):
        wrong = (
            source.groupBy(*named)
            .agg(sf.count("*").alias(rows))
            .where(isnull | (sf.col(rows) > 1))
            .limit(1)
            .collect()
        )
    if not wrong:
        return
    values = ", ".join(f"{key}={wrong[0][key]!r}" for key in keys)
    if any(wrong[0][key] is None for key in keys):
        raise InvalidInputError(
            f"The source of the merge into {ref} has a null key: {values}",
            "a null equals nothing, so the row would be inserted again by every merge",
            "Filter such rows out, or give them a key",
        )
    raise InvalidInputError(
        f"The source of the merge into {ref} has {wrong[0][rows]} rows with {values}",
        "which of them should win cannot be known",
        "Make the source unique by its keys first",
    )


def _appending(settings: WriteOptions, job: str | None) -> WriteOptions:
    # Whether rows have stable ids was decided when the table was made.
    return replace(settings, mode="append", job_id=job, stable_row_ids=False)


def _simple(
    source: DataFrame, plan: WritePlan, keys: Sequence[str], words: tuple[str, str, str]
) -> bool:
    """Tell whether the driver can do this: whole rows into the main branch."""
    whole = set(plan.schema.names) == set(source.columns)
    in_main = plan.options.branch in (None, "main")
    if not (whole and in_main and words[0] != "delete"):
        return False
    return not any(_has_floats(plan.schema.field(key).type) for key in keys)


def refuse_cut_keys(plan: WritePlan, keys: Sequence[str]) -> None:
    """Refuse keys that a join of Spark would find equal though their nanoseconds differ."""
    cut = set(cut_columns(plan.schema)) & set(keys)
    if cut:
        raise InvalidInputError(
            f"Spark cannot merge table {plan.table.ref} by the column {min(cut)!r}",
            "it holds nanoseconds, and Spark's timestamps end at microseconds",
            "Merge by another key, or a source of few and whole rows in the driver",
        )


def _has_floats(kind: pa.DataType) -> bool:
    """Tell whether Lance, which compares bits, finds other keys equal than SQL: -0.0 and 0.0."""
    if pa.types.is_floating(kind):
        return True
    return any(_has_floats(kind.field(number).type) for number in range(kind.num_fields))


def _small(source: DataFrame) -> pa.Table | None:
    """Bring a small source into the driver; nothing if it is not small.

    It must be known before it comes, or a source of few but wide rows would fill the driver. Where
    all values of a column take the same, a number of rows is a number of bytes, and Spark brings
    them by itself. Texts, bytes and lists may be of any length: a task counts them, and stops.
    """
    width = _width(source.schema)
    with translated("The source of the merge cannot be read"):
        if width is None:
            return _counted(source, DRIVER_BYTES)
        most = min(DRIVER_ROWS, DRIVER_BYTES // width)
        # A limit costs a shuffle; what Spark expects to be this little needs none.
        rows = source.toArrow() if _tiny(source) else source.limit(most + 1).toArrow()
    return rows if rows.num_rows <= most else None


def _width(schema: st.StructType) -> int | None:
    """Tell the bytes of a row; nothing if they differ from row to row."""
    widths = [_WIDTHS.get(type(field.dataType)) for field in schema.fields]
    return None if None in widths else sum(filter(None, widths))


def _counted(source: DataFrame, most: int) -> pa.Table | None:
    """Bring rows of any width, unless they have more bytes than this.

    The limit leaves one task, and what that task does not ask for is never made.
    """
    mark = unused("__lakeroot_fits", source.columns)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin()
        size = 0
        for batch in batches:
            size += batch.nbytes
            fits = size <= most
            some = batch if fits else batch.slice(0, 1)
            yield some.append_column(mark, pa.repeat(pa.scalar(fits), len(some)))
            if not fits:
                return

    schema = st.StructType([*source.schema.fields, st.StructField(mark, st.BooleanType())])
    rows = source.limit(DRIVER_ROWS + 1).mapInArrow(task, schema).toArrow()
    if rows.num_rows > DRIVER_ROWS or pc.any(pc.invert(rows.column(mark))).as_py():
        return None
    return rows.drop_columns([mark])


def _tiny(source: DataFrame) -> bool:
    """Tell whether Spark expects few bytes; over Connect, where nobody can ask, it does not."""
    if not hasattr(source, "_jdf"):
        return False
    stats = source._jdf.queryExecution().optimizedPlan().stats()  # noqa: SLF001
    return int(str(stats.sizeInBytes())) <= _TINY_BYTES


def _merge_in_driver(
    rows: pa.Table, plan: WritePlan, keys: Sequence[str], words: tuple[str, str, str]
) -> ChangeResult:
    if plan.dataset is None:
        raise InvalidInputError(
            f"Table {plan.table.ref} does not exist", fix="Create it with a write first"
        )
    dataset: Any = open_table(plan.table)
    if plan.widened is not None:
        if dataset.version != plan.read_version:
            raise ConcurrentModificationError(f"Table {plan.table.ref} changed meanwhile")
        dataset = target_of(plan)
    data = pa.Table.from_batches(to_table(rows.to_batches(), plan.schema), plan.schema)
    if words[2] == "nothing" and can_merge_by_keys(dataset, len(data), keys):
        return merge_by_keys(
            data,
            _now(plan, dataset),
            keys,
            update=words[0] == "update",
            insert=words[1] == "insert",
        )
    builder = dataset.merge_insert(list(keys))
    if words[0] == "update":
        builder = builder.when_matched_update_all()
    if words[1] == "insert":
        builder = builder.when_not_matched_insert_all()
    if words[2] == "delete":
        builder = builder.when_not_matched_by_source_delete()
    with translated(f"Table {plan.table.ref} cannot be merged into"):
        transaction, counts = builder.execute_uncommitted(data)
    new = [file.path for each in transaction.operation.new_fragments for file in each.files]
    written = [f"{DATA}/{path}" for path in new]
    receipts.leave(plan.table, plan.attempt, written)
    try:
        version = _committed(plan, dataset, transaction)
    except BaseException:
        abort(plan)
        raise
    receipts.settle(plan.table, plan.attempt, written)
    return ChangeResult(
        version,
        counts["num_inserted_rows"],
        counts["num_updated_rows"],
        counts["num_deleted_rows"],
    )


def _committed(plan: WritePlan, dataset: lance.LanceDataset, transaction: Any) -> int:
    properties = properties_of_plan(plan)
    if plan.widened is not None:
        return int(commit_changes(plan, transaction.operation, properties).version)
    return int(commit_passing(plan, dataset, transaction, properties).version)


def _now(plan: WritePlan, dataset: lance.LanceDataset) -> WritePlan:
    """Bring a plan to the version that is read now: others commit while the source is fetched."""
    if dataset.version == plan.read_version:
        return plan
    planned: Any = target_of(plan)
    # Columns are known to files by their numbers, which a table that was overwritten counts anew.
    if dataset.lance_schema != planned.lance_schema:
        raise schema_changed(plan)
    return replace(plan, dataset=pickle.dumps(dataset), read_version=dataset.version)
