"""Computed columns: declared with an SQL expression, empty until a job fills them.

The expression is kept in the metadata of the field, so that it travels with the table.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from lance import LanceDataset

from lakeroot.model.errors import InvalidInputError, TableColumnNotFoundError
from lakeroot.tables.expressions import check_new_name, planned_schema, whole
from lakeroot.tables.handle import TableHandle, on_latest, working_on
from lakeroot.tables.rows import Committed, committed

EXPRESSION: Final = b"lakeroot.computed"


def declare_computed(
    handle: TableHandle, expressions: Mapping[str, str], *, branch: str | None = None
) -> Committed:
    """Add columns that hold null, each with the expression that computes it."""
    for name, expression in expressions.items():
        if not name or not expression.strip():
            raise InvalidInputError(
                f"The computed column {name!r} needs a name and an SQL expression"
            )
        check_new_name(name)

    def change(dataset: LanceDataset) -> Committed:
        taken = [name for name in expressions if name in dataset.schema.names]
        if taken:
            raise InvalidInputError(f"The table already has a column {taken[0]!r}")
        fields = [_field(dataset, name, text) for name, text in expressions.items()]
        dataset.add_columns(pa.schema(fields))
        return Committed(*committed(dataset))

    return on_latest(handle, "Adding computed columns", branch, change)


def _field(dataset: LanceDataset, name: str, expression: str) -> pa.Field:
    """Let Lance work out the type of an expression."""
    kind = planned_schema(dataset, {name: whole(expression)}).field(name).type
    return pa.field(name, kind, nullable=True, metadata={EXPRESSION: expression.encode()})


def expression_of(handle: TableHandle, column: str, *, branch: str | None = None) -> str:
    """Give the expression that computes a column."""
    with working_on(handle, "Looking for the column") as table:
        schema = table.open(branch=branch).schema
    if column not in schema.names:
        raise TableColumnNotFoundError(
            f"The table has no column {column!r}", fix="Describe the table to see its columns"
        )
    found = (schema.field(column).metadata or {}).get(EXPRESSION)
    if found is None:
        raise InvalidInputError(
            f"Nothing says how the column {column!r} is computed",
            fix="Add it with `computed`, an SQL expression, and backfill it then",
        )
    return bytes(found).decode()
