"""Rows as callers give them: Arrow, or Python's lists and dictionaries."""

import contextlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from lakeroot.metastore.schemas import Schema, schema_of
from lakeroot.model.errors import InvalidInputError


def as_table(rows: Any, schema: Schema | None = None) -> Any:
    """Read rows as an Arrow table."""
    try:
        table = _read(rows, schema)
    except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError("The rows cannot be read", str(error)) from error
    if table is None:
        raise InvalidInputError(
            f"Rows cannot be read from a {type(rows).__name__}",
            fix="Give an Arrow table, or a list of dictionaries",
        )
    if len(set(table.column_names)) < table.num_columns:
        raise InvalidInputError("The rows have two columns of one name", fix="Rename one of them")
    return table


def _read(rows: Any, schema: Schema | None) -> Any:
    match rows:
        case pa.Table():
            return rows
        case pa.RecordBatch():
            return pa.Table.from_batches([rows])
        case list():
            return _typed(pa.Table.from_pylist(rows), schema)
        case dict():
            return _typed(pa.table(rows), schema)
        case _:
            return pa.table(rows) if hasattr(rows, "__arrow_c_stream__") else None


def _typed(table: Any, schema: Schema | None) -> Any:
    # Python's values have no width: they take the table's types wherever they fit.
    for field in () if schema is None else schema.fields:
        place = table.schema.get_field_index(field.name)
        if place >= 0:
            with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                column = table.column(place).cast(field.arrow.type)
                table = table.set_column(place, field.name, column)
    return table


def inferred(rows: Any, merge_keys: Iterable[str] = ()) -> Schema:
    """Make the schema of a table from its first rows."""
    return schema_of(as_table(rows).schema.remove_metadata(), merge_keys=merge_keys)
