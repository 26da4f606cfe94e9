"""How wide rows are and how large columns, as far as schemas and the sizes of files tell."""

import math
from collections.abc import Iterable

import lance
import pyarrow as pa
from pyspark.sql import types as st

from lakeroot.spark.types import exchange_schema

_NARROW_BATCH = 32 * 1024
_BATCH_BYTES = 4 << 20


def batch_rows(schema: st.StructType) -> int:
    """Choose how many rows cross to Spark at once: many narrow ones, few wide ones."""
    width = sum(_width(exchange) for exchange in exchange_schema(schema))
    for column in schema.fields:
        width += 4 * int(str(column.metadata.get("lakeroot.vector", "[0]")).split("[")[-1][:-1])
    rows = _BATCH_BYTES // max(width, 1)
    return int(min(_NARROW_BATCH, max(256, 1 << int(math.log2(max(rows, 1))))))


def narrowest(schema: st.StructType) -> list[str]:
    """Choose what to read where only the number of rows counts: batches of no columns lose it."""
    columns = sorted(exchange_schema(schema), key=_width)
    return [column.name for column in columns[:1]]


def projected_bytes(dataset: lance.LanceDataset, columns: Iterable[str]) -> int:
    """Estimate the bytes of the columns that are read, from the sizes of the files."""
    total = sum(fragment_bytes(fragment) for fragment in dataset.get_fragments())
    whole = sum(weight(column) for column in dataset.schema) or 1
    names = set(columns)
    part = sum(weight(column) for column in dataset.schema if column.name in names)
    # In no file, but as large as a column of numbers where the rows go.
    made = 8 * len(names & {"_rowid", "_rowaddr"}) * dataset.count_rows()
    return int(total * part // whole + made)


def fragment_bytes(fragment: lance.LanceFragment) -> int:
    """Estimate the bytes of a fragment."""
    files = fragment.metadata.files
    known = sum(file.file_size_bytes or 0 for file in files)
    return int(known or fragment.physical_rows * 32)


def weight(column: pa.Field) -> int:
    """Estimate the bytes of a value."""
    if pa.types.is_fixed_size_list(column.type):
        return int(_width(column.with_type(column.type.value_type)) * column.type.list_size)
    return _width(column)


def _width(column: pa.Field) -> int:
    try:
        return max(1, int(column.type.bit_width) // 8)
    except ValueError:
        return 4096 if pa.types.is_binary(column.type) else 32
