"""Where the values of a batch lie in memory.

Arrow IPC puts buffers at multiples of 8 bytes, and pyarrow reads them where they are. Lance wants
numbers of 16 bytes at multiples of 16, any other at multiples of its own size, and panics if they
are not. What lies elsewhere is copied; the rest, which is nearly everything, is passed on as it is.
"""

from typing import Final

import pyarrow as pa

_WIDEST: Final = 16
_OFFSETS: Final = 8


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch whose values lie where Lance can read them."""
    columns = batch.columns
    crooked = [place for place, column in enumerate(columns) if not _is_aligned(column)]
    if not crooked:
        return batch
    for place in crooked:
        columns[place] = _copied(columns[place])
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_aligned(array: pa.Array) -> bool:
    if isinstance(array, pa.ExtensionArray):
        return _is_aligned(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _is_aligned(array.indices) and _is_aligned(array.dictionary)
    if isinstance(array, pa.StructArray):
        return all(_is_aligned(array.field(place)) for place in range(array.type.num_fields))
    if isinstance(array, pa.FixedSizeListArray):
        return _is_aligned(array.values)
    if isinstance(array, pa.ListArray | pa.LargeListArray):
        return _lies_well(array, _OFFSETS) and _is_aligned(array.values)
    return _lies_well(array, _step(array.type))


def _lies_well(array: pa.Array, step: int) -> bool:
    """Look at the values or offsets, always second; bits and bytes may lie anywhere."""
    buffers = array.buffers()
    values = buffers[1] if len(buffers) > 1 else None
    return values is None or values.address % step == 0


def _step(kind: pa.DataType) -> int:
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _WIDEST
    if pa.types.is_fixed_size_binary(kind):
        return 1
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return min(max(1, int(kind.bit_width) // 8), _WIDEST)
    return _OFFSETS


def _copied(array: pa.Array) -> pa.Array:
    # Joined with nothing, an array is copied without the rows of its buffers that it leaves out.
    copy = pa.concat_arrays([array, array.slice(0, 0)])
    if _is_aligned(copy):
        return copy
    # Dictionaries are shared even so.
    return copy.copy_to(pa.default_cpu_memory_manager())
