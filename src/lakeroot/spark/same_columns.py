"""Whether a table still has the columns that rows were written for.

Files know columns by their numbers. A table that was replaced, or whose columns were changed, may
have the same names, even the same types, under other numbers: what was written for the old ones
would make it unreadable, or be read as null.
"""

from typing import Any

import lance
from lance.schema import LanceSchema

from lakeroot.spark.types import is_blob
from lakeroot.spark.write_tasks import WritePlan, target_of


def has_same_columns(newest: lance.LanceDataset, plan: WritePlan) -> bool:
    """Tell whether a version has the columns for which the rows of a plan were written.

    A column that the rows leave out may have gone.
    """
    target: Any = target_of(plan)
    read, now = columns_in(target.lance_schema), columns_in(newest.lance_schema)
    written = {name: column for name, column in read.items() if name in plan.schema.names}
    return now in (read, written)


def columns_in(schema: LanceSchema) -> dict[str, tuple[Any, ...]]:
    """Give what a file must agree with, by the name of the column; notes on it do not matter."""
    columns: dict[str, tuple[Any, ...]] = {}
    for field in schema.fields():
        arrow = field.to_arrow()
        columns[field.name()] = (_numbers(field), arrow, is_blob(arrow))
    return columns


def _numbers(field: Any) -> tuple[Any, ...]:
    return (field.id(), *(_numbers(child) for child in field.children()))
