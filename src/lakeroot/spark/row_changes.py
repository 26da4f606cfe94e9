"""Change rows of a table in one pass: new rows go to new fragments, old ones are marked deleted.

The input is a frame of changed rows only: the address of the row that goes (or null), whether a
new row comes, and its columns. It is shuffled by fragment, so one task holds all changes of a
fragment and can write its deletions.

Columns with values that Spark cannot hold exactly stay behind where a change leaves them as they
are: the frame lacks them, or says by row that they are kept, and the task takes them from the
table by the address of the row.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark import receipts
from lakeroot.spark.catalogs import TableRef, exists
from lakeroot.spark.commits import JOB, find_job, find_named
from lakeroot.spark.conform import fitted
from lakeroot.spark.failures import translated
from lakeroot.spark.fitting import kept_apart
from lakeroot.spark.opening import newest_at
from lakeroot.spark.row_tasks import over_rows
from lakeroot.spark.widening import commit_changes
from lakeroot.spark.write_tasks import WritePlan, Written, base_of, target_of, watched, write_rows
from lakeroot.spark.writing import abort, newest_of, properties_of_plan

ADDRESS = "__lakeroot_address"
COMES = "__lakeroot_comes"
# With the name of a column behind it: whether the row keeps the value that the table has.
KEPT = "__lakeroot_kept_"
_OFFSET_BITS = 32
_OFFSETS = (1 << _OFFSET_BITS) - 1


@dataclass(frozen=True, slots=True)
class Changed:
    """What one task has changed."""

    written: Written
    updated: tuple[Any, ...]
    removed: tuple[int, ...]
    inserted_rows: int
    updated_rows: int
    deleted_rows: int


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What a merge, an update or a delete has done."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    already_done: bool = False


def done_before(
    ref: TableRef, job_id: str | None, verb: str, branch: str | None = None
) -> ChangeResult | None:
    """Find the earlier commit of a job that the user has named."""
    found = None if job_id is None else exists(ref)
    if found is None or job_id is None:
        return None
    version = find_named(newest_at(found, branch), ref, job_id, verb)
    return None if version is None else ChangeResult(version, already_done=True)


def foretold(changes: DataFrame, plan: WritePlan) -> ChangeResult:
    """Count what the changes would do, and do nothing."""
    goes, comes = sf.col(ADDRESS).isNotNull(), sf.col(COMES)
    counts = {"inserted": comes & ~goes, "updated": comes & goes, "deleted": goes & ~comes}
    with translated(f"Table {plan.table.ref} cannot be changed"):
        found = changes.agg(*(sf.count_if(each).alias(name) for name, each in counts.items()))
        return ChangeResult(plan.read_version, **found.collect()[0].asDict())


def apply_changes(changes: DataFrame, plan: WritePlan, tasks: int) -> ChangeResult:
    """Run the changes and commit them as the next version, or not at all."""
    return committed(plan, lambda: run_changes(changes, plan, tasks))


def committed(plan: WritePlan, work: Callable[[], list[Changed]]) -> ChangeResult:
    """Commit what the work has written as the next version, or remove it."""
    try:
        return _committed(plan, work(), properties_of_plan(plan))
    except BaseException:
        abort(plan)
        raise


def run_changes(changes: DataFrame, plan: WritePlan, tasks: int) -> list[Changed]:
    """Write new rows and deletions that nobody sees yet."""
    fragment = sf.shiftrightunsigned(sf.col(ADDRESS), _OFFSET_BITS)
    # Rows without an address are new; a number in their place spreads them over the tasks.
    spread = sf.coalesce(fragment, sf.monotonically_increasing_id())
    with translated(f"Table {plan.table.ref} cannot be changed"):
        shuffled = changes.repartition(tasks, spread)
        return over_rows(shuffled, functools.partial(change_rows, watched(plan)))


def operation_of(parts: list[Changed], plan: WritePlan) -> Any | None:
    """Make one operation of Lance out of all changes; nothing if there are none."""
    new = [fragment for part in parts for fragment in part.written.fragments]
    updated = [fragment for part in parts for fragment in part.updated]
    removed = [fragment for part in parts for fragment in part.removed]
    if not (new or updated or removed or plan.widened):
        return None
    return lance.LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=new,
        update_mode="rewrite_rows",
    )


def change_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Changed:
    """Write the new rows of one task, and the deletions of its fragments."""
    addresses: list[pa.Array] = []
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    old_rows = _OldRows(plan)

    def coming() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            goes, comes = batch.column(ADDRESS), batch.column(COMES)
            old = goes.drop_null()
            updated = pc.sum(pc.and_(comes, goes.is_valid())).as_py() or 0
            new = pc.sum(comes).as_py() or 0
            counts["updated"] += updated
            counts["inserted"] += new - updated
            counts["deleted"] += len(old) - updated
            addresses.append(old)
            yield old_rows.kept_in(batch.filter(comes)).drop_columns([ADDRESS, COMES])

    written = write_rows(plan, coming())
    updated, removed = _deletions(plan, addresses)
    return Changed(
        written,
        tuple(updated),
        tuple(removed),
        counts["inserted"],
        counts["updated"],
        counts["deleted"],
    )


class _OldRows:
    """The rows that are replaced, for the columns that a change keeps apart from Spark."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._names = kept_apart(plan.schema)
        self._fragments: dict[int, tuple[lance.LanceFragment, np.ndarray | None]] = {}

    @functools.cached_property
    def _dataset(self) -> Any:
        return base_of(self._plan)

    def kept_in(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give rows that come the values of the columns that they keep."""
        for name in self._names:
            given = name in batch.schema.names
            if given and KEPT + name not in batch.schema.names:
                continue
            values = self._kept(batch, self._plan.schema.field(name))
            if given:
                batch = batch.drop_columns([name, KEPT + name])
            batch = batch.append_column(name, values)
        return batch

    def _kept(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        addresses, rows = batch.column(ADDRESS), batch.num_rows
        new, keeps = pa.nulls(rows, field.type), np.ones(rows, dtype=bool)
        if field.name in batch.schema.names:
            new = fitted(batch.column(field.name), field)
            keeps = batch.column(KEPT + field.name).to_numpy(zero_copy_only=False)
        # A row that is new, and one of before the column came, has nothing to keep.
        has_old = addresses.is_valid().to_numpy(zero_copy_only=False)
        if field.name not in self._dataset.schema.names:
            has_old = np.zeros(rows, dtype=bool)
        old = self._taken(field, addresses.filter(pa.array(keeps & has_old)))
        places = np.arange(rows)
        places[keeps & has_old] = rows + np.arange(len(old))
        both = pa.concat_arrays([new, old])
        return both.take(pa.array(places, mask=keeps & ~has_old))

    def _taken(self, field: pa.Field, addresses: pa.Array) -> pa.Array:
        """Read values of a column by the addresses of their rows."""
        every, order = np.unique(addresses.to_numpy(), return_inverse=True)
        found = []
        for number in np.unique(every >> _OFFSET_BITS):
            fragment, living = self._fragment(int(number))
            places = every[every >> _OFFSET_BITS == number]
            # Lance counts the rows that are not deleted.
            places = places & _OFFSETS if living is None else np.searchsorted(living, places)
            taken = fragment.take(places.tolist(), columns=[field.name]).column(0)
            found += [fitted(each, field) for each in taken.chunks]
        both = pa.concat_arrays([pa.nulls(0, field.type), *found])
        return both.take(pa.array(order))

    def _fragment(self, number: int) -> tuple[lance.LanceFragment, np.ndarray | None]:
        if number not in self._fragments:
            fragment = self._dataset.get_fragment(number)
            living = None
            if fragment.num_deletions:
                rows = fragment.scanner(columns=[], with_row_address=True).to_table()
                living = rows.column("_rowaddr").to_numpy().astype(np.int64)
            self._fragments[number] = fragment, living
        return self._fragments[number]


def _deletions(plan: WritePlan, addresses: list[pa.Array]) -> tuple[list[Any], list[int]]:
    if not addresses:
        return [], []
    every = np.sort(np.concatenate([each.to_numpy(zero_copy_only=False) for each in addresses]))
    if len(every) and (every[1:] == every[:-1]).any():
        raise InvalidInputError(
            f"Several rows of the source match one row of table {plan.table.ref}",
            "which of them should win cannot be known",
            "Make the source unique by its keys first",
        )
    dataset: Any = target_of(plan)
    updated, removed = [], []
    for fragment in np.unique(every >> _OFFSET_BITS):
        offsets = every[every >> _OFFSET_BITS == fragment] & _OFFSETS
        rest = dataset.get_fragment(int(fragment)).delete_rows(offsets.tolist())
        if rest is None:
            removed.append(int(fragment))
        else:
            updated.append(rest)
    return updated, removed


def _committed(plan: WritePlan, parts: list[Changed], properties: dict[str, str]) -> ChangeResult:
    version = plan.read_version
    operation = operation_of(parts, plan)
    if operation is not None:
        version = _version_made(plan, operation, properties)
    receipts.settle(plan.table, plan.attempt, [n for part in parts for n in part.written.files])
    return ChangeResult(
        version,
        sum(part.inserted_rows for part in parts),
        sum(part.updated_rows for part in parts),
        sum(part.deleted_rows for part in parts),
    )


def _version_made(plan: WritePlan, operation: Any, properties: dict[str, str]) -> int:
    """Commit changed rows; where the answer is an error, look whether they are there after all.

    Whoever took the number may have been this very job, and must not change the rows again.
    """
    try:
        return int(commit_changes(plan, operation, properties).version)
    except BaseException:
        found = find_job(newest_of(plan), JOB, plan.job, newer_than=plan.read_version)
        if found is None:
            raise
        return found
