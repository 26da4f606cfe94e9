"""How rows become the bytes of a Parquet file: encodings chosen by a look at the first rows."""

import io
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROW_GROUP: Final = 1 << 20
_PAGE: Final = 1 << 16
_BATCH: Final = 1 << 14
_SAMPLE: Final = 4096
_SMALL_STEP: Final = 1 << 16


def encoded(table: Any) -> bytes:
    """Write rows as a Parquet file."""
    sink = io.BytesIO()
    sample = table.slice(0, _SAMPLE)
    repeating = [name for name in table.column_names if _repeats(sample, name)]
    stepping = [n for n in table.column_names if n not in repeating and _steps(sample, n)]
    pq.write_table(
        table,
        sink,
        compression=_codecs(sample.schema, repeating, stepping),
        row_group_size=ROW_GROUP,
        # What is encoded and compressed at a time stays in the processor's cache.
        data_page_size=_PAGE,
        write_batch_size=_BATCH,
        # Dictionaries are worth their time only for columns that repeat.
        use_dictionary=repeating,
        column_encoding=dict.fromkeys(stepping, "DELTA_BINARY_PACKED") or None,
        write_statistics=table.num_rows <= _SAMPLE or _described(sample, repeating),
        store_schema=True,
    )
    return sink.getvalue()


def _codecs(schema: Any, repeating: list[str], stepping: list[str]) -> str | dict[str, str]:
    if any(pa.types.is_nested(field.type) for field in schema):
        return "snappy"  # a table of codecs would have to name every leaf
    # Differences are dense already, and most digits of a measured number are noise: little would be
    # saved, for a quarter of the time of writing.
    dense = {f.name for f in schema if pa.types.is_floating(f.type) and f.name not in repeating}
    plain = dense.union(stepping)
    return {name: "none" if name in plain else "snappy" for name in schema.names} or "snappy"


def _described(sample: Any, repeating: list[str]) -> bool | list[str]:
    # Of text that neither repeats nor comes in order, such as names or documents, the least and the
    # greatest of a million exclude nothing, and finding them takes a fifth of the writing.
    free = {
        name
        for name in sample.column_names
        if _is_text(sample.schema.field(name).type)
        and name not in repeating
        and not _is_ordered(sample[name].combine_chunks())
    }
    return [name for name in sample.column_names if name not in free] if free else True


def _is_text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _is_ordered(values: Any) -> bool:
    following = pc.less_equal(values[:-1], values[1:])
    return pc.all(following).as_py() is not False


def _repeats(sample: Any, name: str) -> bool:
    kind = sample.schema.field(name).type
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or not sample.num_rows:
        return False
    try:
        distinct = pc.count_distinct(sample[name]).as_py()
    except pa.ArrowNotImplementedError:
        return False
    return bool(distinct * 4 <= sample.num_rows)


def _steps(sample: Any, name: str) -> bool:
    # Numbers that grow or fall slowly, such as ids, take a fraction of the space as differences;
    # numbers in no order take no less, and longer to write.
    if not pa.types.is_integer(sample.schema.field(name).type) or sample.num_rows < 2:
        return False
    numbers = pc.cast(sample[name].combine_chunks(), pa.float64(), safe=False)
    largest = pc.max(pc.abs(pc.pairwise_diff(numbers))).as_py()
    return largest is not None and largest < _SMALL_STEP
