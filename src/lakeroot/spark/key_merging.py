"""Merge few rows by their keys in the driver: find the rows that go, write those that come.

Lance's own merge joins the keys of the whole table, with their addresses, on its two sides. Keys
that come together were often made together, so here Lance reads only the keys between the smallest
and the largest of the source, and Arrow joins what is left with the source.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from lakeroot.spark.failures import translated
from lakeroot.spark.filters import column, literal
from lakeroot.spark.row_changes import ADDRESS, COMES, ChangeResult, change_rows, committed
from lakeroot.spark.write_tasks import WritePlan, target_of

PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
# Fewer keys than this are looked up in an index one by one, by Lance.
_LOOKED_UP = 1000
# Keys as dense as this in their range are found by reading the range from an index.
_DENSE = 4
# So many rows are copied at once: one row of the source may replace very many of the table.
_TAKEN = 4096
_NUMBER = "__lakeroot_number"
_JOINED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_decimal,
    pa.types.is_boolean,
)


def can_merge_by_keys(dataset: lance.LanceDataset, rows: int, keys: Sequence[str]) -> bool:
    """Tell whether this merges like Lance does, and not slower.

    Lance keeps stable row ids of changed rows, tells other writers the keys of a declared primary
    key, and finds few keys by an index. Arrow does not join every type.
    """
    fields = [dataset.schema.field(key) for key in keys]
    if dataset.has_stable_row_ids or any(
        name.startswith(PRIMARY_KEY) for field in dataset.schema for name in field.metadata or ()
    ):
        return False
    if any("`" in key for key in keys) or not all(
        any(is_joined(field.type) for is_joined in _JOINED) for field in fields
    ):
        return False
    return rows > _LOOKED_UP or not _indexed(dataset, keys)


def _indexed(dataset: lance.LanceDataset, keys: Sequence[str]) -> bool:
    return any(set(keys) & set(each.field_names) for each in dataset.describe_indices())


def merge_by_keys(
    rows: pa.Table, plan: WritePlan, keys: Sequence[str], *, update: bool, insert: bool
) -> ChangeResult:
    """Replace the rows of the table with the keys of the source's, and add the others.

    The rows have the table's schema, and their keys are unique and never null.
    """

    def work() -> list[Any]:
        with translated(f"Table {plan.table.ref} cannot be merged into"):
            changes = _changes(target_of(plan), rows, keys, update=update, insert=insert)
            return [change_rows(plan, changes)]

    return committed(plan, work)


def _changes(
    dataset: Any, rows: pa.Table, keys: Sequence[str], *, update: bool, insert: bool
) -> Iterator[pa.RecordBatch]:
    """Give each row of the source the address of the row that it replaces, if there is one."""
    addresses, numbers = _matches(dataset, rows.select(list(keys)))
    is_new = np.ones(len(rows), dtype=bool)
    is_new[numbers] = False
    new = np.flatnonzero(is_new) if insert else np.empty(0, np.int64)
    numbers, addresses = (numbers, addresses) if update else (numbers[:0], addresses[:0])
    # One row of the source replaces every row of the table that has its key, each by a copy.
    order = np.concatenate([numbers, new])
    goes = np.concatenate([addresses, np.zeros(len(new), addresses.dtype)])
    sorting = np.argsort(order, kind="stable")
    order = order[sorting]
    comes = pa.array(goes[sorting], mask=is_new[order])
    if np.array_equal(order, np.arange(len(rows))):
        yield from _coming(rows, comes)
        return
    for start in range(0, len(order), _TAKEN):
        some = slice(start, start + _TAKEN)
        yield from _coming(rows.take(pa.array(order[some])), comes[some])


def _coming(rows: pa.Table, addresses: pa.Array) -> list[pa.RecordBatch]:
    yes = pa.repeat(pa.scalar(value=True), len(rows))
    batches: list[pa.RecordBatch] = (
        rows.append_column(ADDRESS, addresses).append_column(COMES, yes).to_batches()
    )
    return batches


def _matches(dataset: Any, keys: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Find the keys in the table: the addresses of rows, and the number of the key of each."""
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    bounds = [_between(name, keys.column(name)) for name in keys.column_names]
    scanner = dataset.scanner(
        columns=keys.column_names,
        with_row_address=True,
        filter=" AND ".join(filter(None, bounds)) or None,
        use_scalar_index=_dense(keys),
    )
    source = acero.RecordBatchReaderSourceNodeOptions(scanner.to_reader())
    numbered = keys.append_column(_NUMBER, pa.array(np.arange(len(keys))))
    join = acero.HashJoinNodeOptions(
        "inner",
        keys.column_names,
        keys.column_names,
        left_output=["_rowaddr"],
        right_output=[_NUMBER],
    )
    inputs = [
        acero.Declaration("record_batch_reader_source", source),
        acero.Declaration("table_source", acero.TableSourceNodeOptions(numbered)),
    ]
    found = acero.Declaration("hashjoin", join, inputs).to_table()
    return (
        found.column("_rowaddr").to_numpy().astype(np.int64),
        found.column(_NUMBER).to_numpy(),
    )


def _between(name: str, values: pa.ChunkedArray) -> str | None:
    """Say that a key is not outside of those of the source; nothing if Lance cannot compare it."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind)):
        return None
    try:
        ends = pc.min_max(values).as_py()
    except OverflowError:  # A date in a year that Python does not have.
        return None
    least, most = literal(ends["min"]), literal(ends["max"])
    if least is None or most is None:
        return None
    return f"{column((name,))} >= {least} AND {column((name,))} <= {most}"


def _dense(keys: pa.Table) -> bool:
    """Tell whether few other keys lie between those of the source, as far as numbers can tell."""
    if keys.num_columns > 1 or not pa.types.is_integer(keys.schema.types[0]):
        return False
    ends = pc.min_max(keys.column(0)).as_py()
    return bool(ends["max"] - ends["min"] < _DENSE * len(keys))
