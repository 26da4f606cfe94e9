"""Read on an executor: one task's fragments as Arrow batches for Spark."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import lance
import pyarrow as pa

from lakeroot.model.errors import InvalidTableStateError, LakerootError, TableNotFoundError
from lakeroot.spark.catalogs import Located, TableRef, exists, expires, locate
from lakeroot.spark.conform import to_spark
from lakeroot.spark.failures import damage
from lakeroot.spark.opening import open_table, unpacked
from lakeroot.spark.planning import ReadTask, Scan


@functools.lru_cache(maxsize=16)
def _lent(key: tuple[str, str | None, int], ref: TableRef) -> lance.LanceDataset:
    _, branch, version = key
    return open_table(locate(ref)).checkout_version((branch, version))


def reopened(scan: Scan) -> lance.LanceDataset:
    """Open the version that a scan reads.

    Keys that expire do not travel well: a worker asks the catalog for its own, and so does Lance
    whenever they are about to expire, however long the task takes.
    """
    if scan.table is not None and expires(scan.table):
        return _lent(scan.key, scan.table.ref)
    return unpacked(scan.key, scan.dataset)


def batches(scan: Scan, task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Read what a task must read."""
    dataset = reopened(scan)
    arguments: dict[str, Any] = dict(scan.arguments)
    if task.fragments is not None:
        arguments["fragments"] = [_fragment(dataset, number) for number in task.fragments]
    if task.limit is not None:
        arguments |= {"offset": task.offset, "limit": task.limit}
    if not scan.schema.names:
        yield from _empty_rows(dataset, arguments, scan.schema)
        return
    try:
        for batch in dataset.scanner(**arguments).to_batches():
            if batch.num_rows:
                yield to_spark(batch, scan.schema)
    except (OSError, pa.ArrowInvalid) as error:  # Lance's own errors come as either
        if scan.table is not None and _is_dropped(scan.table):
            raise TableNotFoundError(
                f"Table {scan.table.ref} was dropped while it was read"
            ) from error
        what = f"The table at {scan.key[0]} cannot be read at version {scan.key[2]}"
        raise damage(what, str(error)) or InvalidTableStateError(
            what,
            str(error).split(", /")[0],
            "A data file is missing or damaged: run fsck, or read an older version",
        ) from error


def _is_dropped(table: Located) -> bool:
    """Tell whether a table is surely gone; a catalog that does not answer tells nothing."""
    try:
        found = exists(table.ref)
    except LakerootError:
        return False
    return found is None or found.location != table.location


def few(scan: Scan, most: int) -> pa.Table | None:
    """Read a scan here and now; nothing, if it has more than so many rows."""
    arguments: dict[str, Any] = dict(scan.arguments)
    # A limit of a search counts what was found, before a filter that comes after it.
    late = "filter" in arguments and not arguments.get("prefilter", True)
    if late and not {"limit", "nearest"} & arguments.keys():
        return None
    if not late and "nearest" not in arguments:
        arguments["limit"] = min(arguments.get("limit", most + 1), most + 1)
    found = batches(replace(scan, arguments=arguments), ReadTask(None))
    rows = pa.Table.from_batches(found, scan.schema)
    return rows if rows.num_rows <= most else None


def _fragment(dataset: lance.LanceDataset, number: int) -> lance.LanceFragment:
    fragment = dataset.get_fragment(number)
    if fragment is None:
        raise InvalidTableStateError(f"The table at {dataset.uri} has no fragment {number}")
    return fragment


def _empty_rows(
    dataset: lance.LanceDataset, arguments: dict[str, Any], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield rows without columns, which is all that a plain count needs."""
    arguments = {**arguments, "columns": [], "with_row_id": True}
    for batch in dataset.scanner(**arguments).to_batches():
        yield pa.RecordBatch.from_struct_array(
            pa.StructArray.from_arrays([], fields=[], mask=None)
            if batch.num_rows == 0
            else pa.array([{}] * batch.num_rows, pa.struct([]))
        ).cast(schema)
