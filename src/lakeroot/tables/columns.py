"""Columns of one table: add, alter, drop, and the metadata of the schema and its fields."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from lance import LanceDataset

from lakeroot.model.errors import InvalidInputError, TableColumnNotFoundError
from lakeroot.tables.expressions import check_new_name, planned_schema, whole
from lakeroot.tables.handle import TableHandle, on_latest
from lakeroot.tables.rows import Committed, committed

_WHOLE_LISTS = ("0.1", "2.0", "2.1")


@dataclass(frozen=True, slots=True)
class ColumnAlteration:
    """A change of one column, found by its path: a new name, type or nullability."""

    path: str
    rename: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class FieldMetadata:
    """Metadata to set on one field, found by its path; a null value deletes its key."""

    path: str
    metadata: Mapping[str, str | None]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class MetadataUpdated(Committed):
    """The metadata of a schema after an update."""

    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldsUpdated(Committed):
    """The metadata of the updated fields, by path, after an update."""

    fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def add_columns(
    handle: TableHandle, expressions: Mapping[str, str], *, branch: str | None = None
) -> Committed:
    """Add columns, each computed for the rows of now by an SQL expression."""
    if not expressions:
        raise InvalidInputError("There is no column to add")
    for name, expression in expressions.items():
        if not name or not expression or not expression.strip():
            raise InvalidInputError(
                f"The new column {name!r} needs a name and an SQL expression",
                fix="For a column without values, write CAST(NULL AS BIGINT)",
            )
        check_new_name(name)
    computed = {name: whole(expression) for name, expression in expressions.items()}

    def change(dataset: LanceDataset) -> Committed:
        taken = [name for name in expressions if name in dataset.schema.names]
        if taken:
            raise InvalidInputError(f"The table already has a column {taken[0]!r}")
        # What cannot be planned must not be committed: nobody could read it.
        planned_schema(dataset, computed)
        dataset.add_columns(computed)
        return Committed(*committed(dataset))

    return on_latest(handle, "Adding columns", branch, change)


def alter_columns(
    handle: TableHandle, alterations: Iterable[ColumnAlteration], *, branch: str | None = None
) -> Committed:
    """Rename columns, change their types or whether they may hold nulls; all or none of it."""
    wanted = [_alteration(one) for one in alterations]
    _refuse_none_or_twice([one["path"] for one in wanted], "altered")

    def change(dataset: LanceDataset) -> Committed:
        for one in wanted:
            _field(dataset, one["path"])
        dataset.alter_columns(*wanted)
        return Committed(*committed(dataset))

    return on_latest(handle, "Altering columns", branch, change)


def drop_columns(
    handle: TableHandle, columns: Sequence[str], *, branch: str | None = None
) -> Committed:
    """Drop columns; all or none of them."""
    _refuse_none_or_twice(list(columns), "dropped")

    def change(dataset: LanceDataset) -> Committed:
        for path in columns:
            _field(dataset, path)
        require_values_left(dataset, columns)
        dataset.drop_columns(list(columns))
        return Committed(*committed(dataset))

    return on_latest(handle, "Dropping columns", branch, change)


def require_values_left(dataset: LanceDataset, columns: Iterable[str]) -> None:
    """Refuse to drop columns, found by their paths, if rows were left without any file of values.

    A column that was added without values is in no file. Lance drops files of which no column is
    left, and then cannot read rows that have no file, nor say how many they are.
    """
    dropped = {_field(dataset, path).id() for path in columns}
    # Only in the newest format does Lance drop a part of a list; in others, the list goes with it.
    whole_lists = dataset.data_storage_version in _WHOLE_LISTS
    left: set[int] = set()
    for each in dataset.lance_schema.fields():
        left |= _left(each, dropped, whole_lists=whole_lists)
    if not left:
        return  # That no column is left is refused, whatever the rows.
    for fragment in dataset.get_fragments():
        if all(left.isdisjoint(file.fields) for file in fragment.metadata.files):
            raise InvalidInputError(
                "These columns cannot be dropped",
                "the others were added without values to some rows, which would be in no file of"
                " the table: nobody could read them",
                "Give a column that stays values first, by an update or a backfill of all rows, or"
                " overwrite the table",
            )


def _left(one: Any, dropped: set[int], *, whole_lists: bool) -> set[int]:
    """Collect the numbers of a field, and of those inside of it, that a drop leaves."""
    if one.id() in dropped:
        return set()
    inside = one.children()
    parts = [_left(child, dropped, whole_lists=whole_lists) for child in inside]
    left = set().union(*parts)
    if inside and not left:
        return set()
    if whole_lists and not pa.types.is_struct(one.to_arrow().type):
        every = [_left(child, set(), whole_lists=True) for child in inside]
        if parts != every:
            return set()
    return left | {one.id()}


def update_schema_metadata(
    handle: TableHandle,
    metadata: Mapping[str, str | None],
    *,
    replace: bool = False,
    branch: str | None = None,
) -> MetadataUpdated:
    """Set keys of the schema's metadata, or replace all of it; a null value deletes its key."""

    def change(dataset: LanceDataset) -> MetadataUpdated:
        updated = dataset.update_schema_metadata(dict(metadata), replace=replace)
        return MetadataUpdated(*committed(dataset), metadata=dict(updated))

    return on_latest(handle, "Updating the schema's metadata", branch, change)


def update_field_metadata(
    handle: TableHandle, updates: Iterable[FieldMetadata], *, branch: str | None = None
) -> FieldsUpdated:
    """Set metadata of fields in one version of the table; all or none of it."""
    wanted = list(updates)
    _refuse_none_or_twice([one.path for one in wanted], "updated")

    def change(dataset: LanceDataset) -> FieldsUpdated:
        # Lance replaces all fields of an update or none; keys that go away say it for each.
        merged = {one.path: _merged(dataset, one) for one in wanted}
        dataset.update_field_metadata(merged)
        after = {path: _metadata(_field(dataset, path)) for path in merged}
        return FieldsUpdated(*committed(dataset), fields=after)

    return on_latest(handle, "Updating the fields' metadata", branch, change)


def _alteration(one: ColumnAlteration) -> dict[str, Any]:
    changes = {"name": one.rename, "nullable": one.nullable, "data_type": one.data_type}
    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        raise InvalidInputError(
            f"The alteration of {one.path!r} changes nothing",
            fix="Give a new name, a type or whether it may hold nulls",
        )
    if given.get("name") == "":
        raise InvalidInputError(f"The new name of {one.path!r} is empty")
    if one.rename is not None:
        check_new_name(one.rename)
    return {"path": one.path, **given}


def _merged(dataset: LanceDataset, update: FieldMetadata) -> dict[str, str | None]:
    present = _metadata(_field(dataset, update.path))
    dropped: dict[str, str | None] = dict.fromkeys(present) if update.replace else {}
    return dropped | dict(update.metadata)


def _field(dataset: LanceDataset, path: str) -> Any:
    found = dataset.lance_schema.field(path)
    if found is None:
        raise TableColumnNotFoundError(
            f"The table has no column {path!r}", fix="Describe the table to see its columns"
        )
    return found


def _metadata(found: Any) -> dict[str, str]:
    return {
        key.decode(): value.decode() for key, value in (found.to_arrow().metadata or {}).items()
    }


def _refuse_none_or_twice(paths: list[str], verb: str) -> None:
    if not paths:
        raise InvalidInputError(f"There is no column to be {verb}")
    twice = [path for path, times in Counter(paths).items() if times > 1]
    if twice:
        raise InvalidInputError(f"The column {twice[0]!r} is {verb} twice")
