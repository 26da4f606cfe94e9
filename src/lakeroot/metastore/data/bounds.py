"""What a Parquet file says of its columns: whether it can have a row with one of some keys."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeroot.metastore.data.plan import DataFile
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.states import ContentType


def may_have(file: DataFile, data: bytes, schema: Schema, keys: Any) -> bool:
    """Tell whether a file may have rows with some keys; only whole numbers exclude any.

    A file that was written with other columns than the table has now is not asked: a name may mean
    another column there.
    """
    if file.content_type != ContentType.PARQUET or file.schema_id != schema.schema_id:
        return True
    try:
        found = pq.read_metadata(pa.BufferReader(data))
    except (pa.ArrowInvalid, OSError):
        return True  # Whoever reads it says what is wrong.
    return all(_is_between(found, keys[name], name) for name in keys.column_names)


def _is_between(found: Any, wanted: Any, name: str) -> bool:
    # In a file a name with a dot may be that of a field inside of another.
    is_plain = pa.types.is_signed_integer(wanted.type) and "." not in name
    if not is_plain or wanted.null_count or not len(wanted):
        return True
    least, most = pc.min_max(wanted).as_py().values()
    for number in range(found.num_row_groups):
        group = found.row_group(number)
        columns = map(group.column, range(group.num_columns))
        said = next((each.statistics for each in columns if each.path_in_schema == name), None)
        if said is None or not said.has_min_max or (said.min <= most and said.max >= least):
            return True
    return False
