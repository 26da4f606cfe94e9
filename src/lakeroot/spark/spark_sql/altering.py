"""Change the columns of a table as ALTER TABLE says: all that it says in one version, or none."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark.catalogs import TableRef, locate
from lakeroot.spark.failures import translated
from lakeroot.spark.opening import open_table
from lakeroot.spark.spark_sql.commenting import COMMENT
from lakeroot.spark.spark_sql.creating import with_clauses
from lakeroot.spark.types import table_schema
from lakeroot.tables.columns import require_values_left

Change = Mapping[str, Any]
Path = tuple[str, ...]
_KINDS = ("AddColumn", "RenameColumn", "DeleteColumn", "UpdateColumnNullability")
_FIRST_FORMAT = "0.1"


def alter(ref: TableRef, changes: Sequence[Change]) -> None:
    """Add, rename or drop columns; what cannot be is refused before anything is done."""
    if not changes:
        return  # DROP COLUMN IF EXISTS has found none.
    dataset = open_table(locate(ref))
    kinds = {change["kind"] for change in changes}
    unknown = kinds.difference(_KINDS)
    if unknown:
        raise UnsupportedOperationError(
            f"Table {ref} cannot be altered like this",
            f"{min(unknown)} is not possible",
            "ADD COLUMN, RENAME COLUMN, DROP COLUMN and DROP NOT NULL are",
        )
    if len(kinds) != 1:
        # Lance has no commit that does several of them, and half of a statement is none.
        raise UnsupportedOperationError(
            f"Table {ref} cannot drop and add columns in one statement",
            "the values of all its columns would be lost",
            "Use CREATE OR REPLACE TABLE, or ADD COLUMN and DROP COLUMN",
        )
    with translated(f"Table {ref} cannot be altered"):
        if kinds == {"AddColumn"}:
            dataset.add_columns(list(_added(dataset, changes, ref)))
        elif kinds == {"DeleteColumn"}:
            dropped = _dropped(dataset.schema, changes, ref)
            require_values_left(dataset, dropped)
            dataset.drop_columns(dropped)
        else:
            dataset.alter_columns(*(_altered(dataset.schema, change, ref) for change in changes))


def _added(dataset: Any, changes: Iterable[Change], ref: TableRef) -> pa.Schema:
    fields = []
    for change in changes:
        *above, name = change["column"]
        _refuse_clauses(change, above, ref)
        if name in dataset.schema.names:
            raise InvalidInputError(f"Table {ref} already has a column {name!r}")
        (new,) = st.StructType.fromJson(json.loads(change["field"])).fields
        comment = {COMMENT: change["comment"]} if "comment" in change else {}
        fields.append(st.StructField(name, new.dataType, metadata=comment))
    if dataset.data_storage_version == _FIRST_FORMAT:
        raise UnsupportedOperationError(
            "A table in the first version of Lance's files takes no new columns",
            fix="Write it anew with CREATE OR REPLACE TABLE",
        )
    said = st.StructType(fields)
    return with_clauses(table_schema(said), said)


def _refuse_clauses(change: Change, above: Sequence[str], ref: TableRef) -> None:
    name = ".".join(change["column"])
    if above:
        raise UnsupportedOperationError(
            f"Column {name!r} of table {ref} cannot be added",
            "it would be a field inside of another column",
            "Add a column of its own",
        )
    if not change["nullable"]:
        raise UnsupportedOperationError(
            f"Column {name!r} of table {ref} cannot be added as NOT NULL",
            "the rows that are there have no value for it",
            "Leave NOT NULL out",
        )
    if "position" in change:
        raise UnsupportedOperationError(
            f"Column {name!r} of table {ref} cannot be added {change['position']}",
            "a new column is always the last",
            "Leave FIRST and AFTER out, and name the columns in the order that you want",
        )


def _dropped(schema: pa.Schema, changes: Iterable[Change], ref: TableRef) -> list[str]:
    paths = {tuple(change["column"]) for change in changes}
    for path in paths:
        _field(schema, path, ref)
    if not _left(list(schema), (), paths, ref):
        raise UnsupportedOperationError(
            f"Table {ref} cannot lose all its columns",
            fix="Keep one, or replace them with CREATE OR REPLACE TABLE",
        )
    # A field goes with the column it is inside of.
    whole = [path for path in paths if not any(path[:n] in paths for n in range(1, len(path)))]
    return sorted(map(".".join, whole))


def _left(fields: list[pa.Field], above: Path, gone: set[Path], ref: TableRef) -> list[pa.Field]:
    """Give the columns that stay; a struct has to keep a field, or Lance takes it away too."""
    left = [field for field in fields if (*above, field.name) not in gone]
    for field in left:
        path = (*above, field.name)
        inner = list(field.type) if pa.types.is_struct(field.type) else []
        if inner and not _left(inner, path, gone, ref):
            raise UnsupportedOperationError(
                f"Column {'.'.join(path)!r} of table {ref} cannot lose all its fields",
                fix="Keep one, or drop the whole column",
            )
    return left


def _altered(schema: pa.Schema, change: Change, ref: TableRef) -> dict[str, Any]:
    path, name = tuple(change["column"]), change.get("name")
    _field(schema, path, ref)
    if name is None:
        return {"path": ".".join(path), "nullable": change["nullable"]}
    # The same names are possible as for columns of a new table.
    table_schema(st.StructType([st.StructField(name, st.IntegerType())]))
    return {"path": ".".join(path), "name": name}


def _field(schema: pa.Schema, path: Path, ref: TableRef) -> pa.Field:
    fields, found = list(schema), None
    for name in path:
        found = next((field for field in fields if field.name == name), None)
        if found is None:
            raise TableColumnNotFoundError(f"Table {ref} has no column {'.'.join(path)!r}")
        fields = list(found.type) if pa.types.is_struct(found.type) else []
    return found
