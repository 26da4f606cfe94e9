"""Partition transforms, evaluated on columns, and the division of rows into partitions."""

import decimal
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeroot.metastore.data.buckets import bucket_of, iceberg_bucket_of
from lakeroot.metastore.data.merge import key_codes
from lakeroot.metastore.locators import PartitionValues
from lakeroot.metastore.schemes import PartitionKey, PartitionScheme, SortScheme, Transform
from lakeroot.metastore.values import partition_value
from lakeroot.model.errors import InvalidInputError

_EPOCH_UNITS: Final = {"day": 86_400, "hour": 3_600}
_STRATEGIES: Final = {"default": bucket_of, "iceberg": iceberg_bucket_of}


def divided(table: Any, scheme: PartitionScheme | None) -> Iterator[tuple[PartitionValues, Any]]:
    """Divide rows into partitions: the values of each, and its rows in their order."""
    if scheme is None or not scheme.keys or not table.num_rows:
        yield None, table
        return
    names = [f"k{number}" for number in range(len(scheme.keys))]
    arrays = [transformed(table, key) for key in scheme.keys]
    keys = pa.table(arrays, names=names)
    codes = key_codes(keys, names)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    found: dict[str, tuple[PartitionValues, list[Any]]] = {}
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = order[start:end]
        values: PartitionValues = tuple(
            partition_value(keys[name][int(rows[0])].as_py()) for name in names
        )
        # What differs in Arrow may be one value as it is stored: moments without nanoseconds.
        found.setdefault(repr(values), (values, []))[1].append(rows)
    for values, parts in found.values():
        yield values, table.take(pa.array(np.sort(np.concatenate(parts))))


def transformed(table: Any, key: PartitionKey) -> Any:
    """Evaluate one partition key on rows."""
    if len(key.key) != 1:
        column = table[key.key[0]]
        for name in key.key[1:]:
            column = pc.struct_field(column, name)
    elif key.key[0] in table.column_names:
        column = table[key.key[0]]
    else:
        raise InvalidInputError(f"There is no column {key.key[0]!r} to partition by")
    transform = key.transform or Transform()
    function = _FUNCTIONS.get(transform.name)
    if function is None:
        raise InvalidInputError(f"The transform {transform.name!r} is not known")
    try:
        return function(column, dict(transform.parameters or {}))
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInputError(
            f"The transform {transform.name!r} cannot be evaluated",
            f"the column {key.key[0]!r} has the type {column.type}",
        ) from error


def _identity(column: Any, _: dict[str, Any]) -> Any:
    return column


def _void(column: Any, _: dict[str, Any]) -> Any:
    return pa.nulls(len(column), pa.int32())


def _in_utc(column: Any) -> Any:
    # Partitions do not depend on the time zone in which a column is shown.
    kind = column.type
    return column.cast(pa.timestamp(kind.unit, "UTC")) if getattr(kind, "tz", None) else column


def _year(column: Any, _: dict[str, Any]) -> Any:
    return pc.subtract(pc.year(_in_utc(column)), 1970)


def _month(column: Any, _: dict[str, Any]) -> Any:
    column = _in_utc(column)
    years = pc.multiply(pc.subtract(pc.year(column), 1970), 12)
    return pc.add(years, pc.subtract(pc.month(column), 1))


def _since_epoch(unit: str) -> Callable[[Any, dict[str, Any]], Any]:
    def count(column: Any, _: dict[str, Any]) -> Any:
        moments = _in_utc(column)
        kind = pa.timestamp("s", tz=getattr(moments.type, "tz", None))
        floored = pc.floor_temporal(moments, unit=unit).cast(kind)
        return pc.divide(floored.cast(pa.int64()), _EPOCH_UNITS[unit])

    return count


def _truncate(column: Any, parameters: dict[str, Any]) -> Any:
    width = parameters.get("width")
    if not isinstance(width, int) or width < 1:
        raise InvalidInputError("The transform 'truncate' needs a positive width")
    if pa.types.is_integer(column.type):
        values = np.asarray(pc.fill_null(column, 0), dtype=np.int64)
        return pa.array(values - values % width, mask=np.asarray(pc.is_null(column)))
    if pa.types.is_decimal(column.type):
        return _truncated_decimals(column, width)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pc.binary_slice(column, 0, width)
    return pc.utf8_slice_codeunits(column, 0, width)


def _truncated_decimals(column: Any, width: int) -> Any:
    # The width counts units of the last place; like Iceberg, always towards minus infinity.
    with decimal.localcontext(prec=2 * column.type.precision + 2):
        step = width * decimal.Decimal(1).scaleb(-column.type.scale)
        lower = [
            None if value is None else value - (value % step + step) % step
            for value in column.to_pylist()
        ]
    return pa.array(lower, column.type)


def _bucket(column: Any, parameters: dict[str, Any]) -> Any:
    buckets = parameters.get("numBuckets")
    if not isinstance(buckets, int) or buckets < 1:
        raise InvalidInputError("The transform 'bucket' needs a number of buckets")
    number = _STRATEGIES.get(parameters.get("bucketingStrategy") or "default")
    if number is None:
        raise InvalidInputError(
            f"The bucketing strategy {parameters['bucketingStrategy']!r} is not known",
            fix=f"Use one of {', '.join(_STRATEGIES)}",
        )
    encoded = pc.dictionary_encode(_flat(column))
    numbers = pa.array(
        [number(value, buckets) for value in encoded.dictionary.to_pylist()], pa.int32()
    )
    return numbers.take(encoded.indices)


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


_FUNCTIONS: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "identity": _identity,
    "void": _void,
    "year": _year,
    "month": _month,
    "day": _since_epoch("day"),
    "hour": _since_epoch("hour"),
    "truncate": _truncate,
    "bucket": _bucket,
}


def ordered(table: Any, scheme: SortScheme | None) -> Any:
    """Sort rows by a sort scheme; rows that are equal in it keep their order."""
    if scheme is None or not scheme.keys or table.num_rows < 2:
        return table
    keys = [(key.key[0], key.order.value, key.null_order.value) for key in scheme.keys]
    place = max(table.column_names, key=len) + "'"  # a name that no column has
    numbered = table.append_column(place, pa.array(np.arange(table.num_rows)))
    keys.append((place, "ascending", "at_end"))
    return table.take(pc.sort_indices(numbered, sort_keys=keys))
