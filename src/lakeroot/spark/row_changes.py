"""Change rows of a table in one pass: new rows go to new fragments, old ones are marked deleted.

The input is a frame of changed rows only: the address of the row that goes (or null), whether a
new row comes, and its columns. It is shuffled by fragment, so one task holds all changes of a
fragment and can write its deletions.
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
from lakeroot.spark.commits import commit
from lakeroot.spark.failures import translated
from lakeroot.spark.row_tasks import over_rows
from lakeroot.spark.write_tasks import WritePlan, Written, target_of, write_rows
from lakeroot.spark.writing import abort

ADDRESS = "__lakeroot_address"
COMES = "__lakeroot_comes"
_OFFSET_BITS = 32


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


def apply_changes(
    changes: DataFrame, plan: WritePlan, properties: dict[str, str], tasks: int
) -> ChangeResult:
    """Run the changes and commit them as the next version, or not at all."""
    return committed(plan, lambda: run_changes(changes, plan, tasks), properties)


def committed(
    plan: WritePlan, work: Callable[[], list[Changed]], properties: dict[str, str]
) -> ChangeResult:
    """Commit what the work has written as the next version, or remove it."""
    try:
        return _committed(plan, work(), properties)
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
        return over_rows(shuffled, functools.partial(change_rows, plan))


def operation_of(parts: list[Changed]) -> Any | None:
    """Make one operation of Lance out of all changes; nothing if there are none."""
    new = [fragment for part in parts for fragment in part.written.fragments]
    updated = [fragment for part in parts for fragment in part.updated]
    removed = [fragment for part in parts for fragment in part.removed]
    if not (new or updated or removed):
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
            yield batch.filter(comes).drop_columns([ADDRESS, COMES])

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
        offsets = every[every >> _OFFSET_BITS == fragment] & ((1 << _OFFSET_BITS) - 1)
        rest = dataset.get_fragment(int(fragment)).delete_rows(offsets.tolist())
        if rest is None:
            removed.append(int(fragment))
        else:
            updated.append(rest)
    return updated, removed


def _committed(plan: WritePlan, parts: list[Changed], properties: dict[str, str]) -> ChangeResult:
    dataset: Any = target_of(plan)
    version = int(dataset.version)
    operation = operation_of(parts)
    if operation is not None:
        version = commit(
            plan.table,
            dataset,
            operation,
            read_version=dataset.version,
            properties=properties,
            strict=True,
            branch=plan.options.branch,
        ).version
    receipts.settle(plan.table, plan.attempt, [n for part in parts for n in part.written.files])
    return ChangeResult(
        version,
        sum(part.inserted_rows for part in parts),
        sum(part.updated_rows for part in parts),
        sum(part.deleted_rows for part in parts),
    )
