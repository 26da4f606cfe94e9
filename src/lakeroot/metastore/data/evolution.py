"""Schema evolution: changes that are asked for, and changes that new data asks for."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeroot.metastore.data.files import cast
from lakeroot.metastore.properties import SCHEMA_CONSISTENCY, SCHEMA_EVOLUTION, setting
from lakeroot.metastore.records import TableVersion
from lakeroot.metastore.schemas import (
    CONSISTENCY,
    DOC,
    FIELD_ID,
    FUTURE_DEFAULT,
    PAST_DEFAULT,
    Field,
    Schema,
    default_scalar,
    largest_field_id,
    numbered,
    pack_default,
)
from lakeroot.metastore.states import SchemaConsistency, SchemaEvolution
from lakeroot.model.errors import TableColumnNotFoundError, TableSchemaValidationError


@dataclass(frozen=True, slots=True)
class AddField:
    """Add a column; rows that are there have ``past_default`` or null in it."""

    field: Any
    past_default: Any = None
    future_default: Any = None


@dataclass(frozen=True, slots=True)
class RemoveField:
    """Remove a column; its id is never used again."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameField:
    """Give a column another name; its id stays."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class WidenField:
    """Give a column a wider type."""

    name: str
    type: Any


@dataclass(frozen=True, slots=True)
class ChangeField:
    """Change what is said of a column; what is not given stays."""

    name: str
    doc: str | None = None
    nullable: bool | None = None
    consistency: SchemaConsistency | None = None
    future_default: Any = None


Update = AddField | RemoveField | RenameField | WidenField | ChangeField


def evolved(
    version: TableVersion, updates: list[Update], *, allow_incompatible: bool = False
) -> Schema:
    """Apply updates to the schema of a table version: the next schema, with the next id."""
    if version.schema is None:
        raise TableSchemaValidationError("A table without a schema has no columns to change")
    fields = list(version.schema.arrow)
    for update in updates:
        if isinstance(update, RemoveField | RenameField):
            _refuse_if_placing(version, update.name)
        if isinstance(update, WidenField):
            _refuse_other_partitions(version, update.name, update.type)
        fields = _after(fields, update, allow_incompatible=allow_incompatible)
    return _next(version, fields)


def _next(version: TableVersion, fields: list[Any]) -> Schema:
    history = version.schemas or ()
    current = version.schema
    known = [*history] if current is None else [*history, current]
    last = max((schema.schema_id for schema in known), default=-1)
    metadata = {} if current is None else dict(current.arrow.metadata or {})
    return numbered(fields, metadata, last + 1, largest_field_id(known) + 1)


def _refuse_if_placing(version: TableVersion, name: str) -> None:
    schemes = (version.partition_scheme, version.sort_scheme)
    keys = [key for scheme in schemes if scheme is not None for key in scheme.keys or ()]
    if any(name in key.key for key in keys):
        raise TableSchemaValidationError(
            f"The column {name!r} must stay as it is",
            "the table is partitioned or sorted by it",
            "Make a new version of the table with other schemes",
        )


def _refuse_other_partitions(version: TableVersion, name: str, kind: Any) -> None:
    """Refuse a type with which rows of one value would be looked for in another partition."""
    scheme, schema = version.partition_scheme, version.schema
    found = None if schema is None else schema.field(name)
    if scheme is None or found is None or found.arrow.type == kind:
        return
    are_whole = pa.types.is_integer(found.arrow.type) and pa.types.is_integer(kind)
    if not are_whole and any(name in key.key for key in scheme.keys or ()):
        raise TableSchemaValidationError(
            f"The column {name!r} cannot become {kind}",
            f"the table is partitioned by it, as {found.arrow.type}",
            "Give values of that type, or make a new version of the table",
        )


def _after(fields: list[Any], update: Update, *, allow_incompatible: bool) -> list[Any]:
    match update:
        case ChangeField(name):
            changed = _changed(_find(fields, name), update, allow_incompatible=allow_incompatible)
            return [changed if field.name == name else field for field in fields]
        case AddField(field, past, future):
            return [*fields, _new_field(fields, field, past, future)]
        case RemoveField(name):
            found = _find(fields, name)
            if Field(found).is_merge_key or not allow_incompatible:
                raise _refused(f"The column {name!r} cannot be removed", "readers may rely on it")
            return [field for field in fields if field.name != name]
        case RenameField(name, new_name):
            _find(fields, name)
            _free(fields, new_name)
            return [field.with_name(new_name) if field.name == name else field for field in fields]
        case WidenField(name, kind):
            found = _find(fields, name)
            if not allow_incompatible and not is_wider(found.type, kind):
                raise _refused(
                    f"The column {name!r} cannot become {kind}", f"not every {found.type} is one"
                )
            return [field.with_type(kind) if field.name == name else field for field in fields]


def _changed(arrow: Any, update: ChangeField, *, allow_incompatible: bool) -> Any:
    field, metadata = Field(arrow), dict(arrow.metadata or {})
    if update.doc is not None:
        metadata[DOC] = update.doc.encode()
    if update.future_default is not None:
        metadata[FUTURE_DEFAULT] = pack_default(update.future_default, arrow.type)
    if update.consistency is not None and update.consistency is not field.consistency:
        is_loose = field.consistency in (None, SchemaConsistency.NONE)
        if not allow_incompatible and (is_loose or _ranks(field)):
            raise _refused(
                f"The column {field.name!r} cannot become {update.consistency.value}",
                "rows are compared by it" if _ranks(field) else "rows of other types may be there",
            )
        metadata[CONSISTENCY] = update.consistency.value.encode()
    if update.nullable is False and arrow.nullable and not allow_incompatible:
        has_defaults = field.past_default is not None and FUTURE_DEFAULT in metadata
        if not has_defaults:
            raise _refused(f"The column {field.name!r} must have values", "it has no defaults")
    nullable = arrow.nullable if update.nullable is None else update.nullable
    return arrow.with_metadata(metadata).with_nullable(nullable)


def _ranks(field: Field) -> bool:
    return field.is_merge_key or field.is_event_time or field.merge_order is not None


def _new_field(fields: list[Any], field: Any, past: Any, future: Any) -> Any:
    _free(fields, field.name)
    if _ranks(Field(field)):
        raise TableSchemaValidationError(
            f"The column {field.name!r} cannot be added",
            "merge keys, merge orders and event times are chosen when a table is made",
            "Make a new version of the table",
        )
    if not field.nullable and (past is None or future is None):
        raise _refused(
            f"The column {field.name!r} cannot be added", "it has no value for the rows without it"
        )
    metadata = {key: v for key, v in (field.metadata or {}).items() if key != FIELD_ID}
    if past is not None:
        metadata[PAST_DEFAULT] = pack_default(past, field.type)
    if future is not None:
        metadata[FUTURE_DEFAULT] = pack_default(future, field.type)
    return field.with_metadata(metadata)


def _find(fields: list[Any], name: str) -> Any:
    found = next((field for field in fields if field.name == name), None)
    if found is None:
        raise TableColumnNotFoundError(f"There is no column {name!r}")
    return found


def _free(fields: list[Any], name: str) -> None:
    if any(field.name.casefold() == name.casefold() for field in fields):
        raise _refused(f"There is already a column {name!r}", "names are unique in any case")


def _refused(what: str, why: str) -> TableSchemaValidationError:
    return TableSchemaValidationError(what, why, "Allow incompatible changes if you mean it")


def is_wider(old: Any, new: Any) -> bool:
    """Tell whether every value of a type is also a value of another."""
    if old == new or pa.types.is_null(old):
        return True
    try:
        unified = pa.unify_schemas(
            [pa.schema([("c", old)]), pa.schema([("c", new)])], promote_options="permissive"
        )
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return False
    return bool(unified.field("c").type == new)


def conformed(
    version: TableVersion, table: Any, *, is_partial: bool = False
) -> tuple[Schema | None, Any]:
    """Fit new rows to a table: the new schema if they change it, and the rows with its columns.

    Raises:
        TableSchemaValidationError: the rows do not fit, and may not change the schema.
    """
    if version.schema is None:
        return None, table
    schema = _grown(version, table)
    current = schema or version.schema
    columns, fields = [], []
    for field in current.fields:
        if field.name in table.column_names:
            columns.append(_checked(cast(table[field.name], field), field))
        elif is_partial:
            continue
        else:
            columns.append(_missing(field, table.num_rows))
        fields.append(field.arrow)
    return schema, pa.table(columns, schema=pa.schema(fields, metadata=current.arrow.metadata))


def matching(version: TableVersion, table: Any) -> Any:
    """Fit rows to be found to a table, which stays as it is: no row has a value it cannot hold."""
    if version.schema is None:
        return table
    mode = SchemaEvolution(setting(version.properties, SCHEMA_EVOLUTION))
    fallback = SchemaConsistency(setting(version.properties, SCHEMA_CONSISTENCY))
    fields = [field for field in version.schema.fields if field.name in table.column_names]
    columns, fits = [], pa.repeat(pa.scalar(True), table.num_rows)  # noqa: FBT003
    for field in fields:
        _widened(field, table, fallback, mode)  # Refuses what can be no value of it at all.
        column, held = _held(table[field.name], field)
        columns.append(column)
        fits = pc.and_(fits, held)
    metadata = version.schema.arrow.metadata
    schema = pa.schema([field.arrow for field in fields], metadata=metadata)
    return pa.table(columns, schema=schema).filter(fits)


def _held(column: Any, field: Field) -> tuple[Any, Any]:
    """Give values in the type of a field, and which of them it holds; the others are null."""
    try:
        return cast(column, field), pa.repeat(pa.scalar(True), len(column))  # noqa: FBT003
    except TableSchemaValidationError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise  # Of such a type there are no values to be held.
    values = [_as(value, field.arrow.type) for value in column]
    pairs = zip(values, column, strict=True)
    held = [value.is_valid or not before.is_valid for value, before in pairs]
    found = pa.array([value.as_py() for value in values], field.arrow.type)
    return found, pa.array(held, pa.bool_())


def _as(value: Any, kind: Any) -> Any:
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        return pa.scalar(None, kind)


def _grown(version: TableVersion, table: Any) -> Schema | None:
    schema = version.schema
    if schema is None:
        return None
    mode = SchemaEvolution(setting(version.properties, SCHEMA_EVOLUTION))
    fallback = SchemaConsistency(setting(version.properties, SCHEMA_CONSISTENCY))
    fields = [_widened(field, table, fallback, mode) for field in schema.fields]
    for field in fields:
        _refuse_other_partitions(version, field.name, field.type)
    known = {field.name.casefold() for field in schema.fields}
    for column in table.schema:
        if column.name.casefold() in known and column.name not in schema.arrow.names:
            raise _refused(f"There is already a column like {column.name!r}", "in another case")
        if column.name not in schema.arrow.names:
            if mode is not SchemaEvolution.AUTO:
                raise TableSchemaValidationError(
                    f"The table has no column {column.name!r}",
                    f"its schema evolution is {mode.value}",
                    "Add the column first, or leave it out",
                )
            fields.append(pa.field(column.name, column.type))
    return None if fields == list(schema.arrow) else _next(version, fields)


def _widened(field: Field, table: Any, fallback: SchemaConsistency, mode: SchemaEvolution) -> Any:
    if field.name not in table.column_names:
        return field.arrow
    kind, wanted = table.schema.field(field.name).type, field.arrow.type
    consistency = field.consistency or fallback
    if kind == wanted or consistency is SchemaConsistency.COERCE or pa.types.is_null(kind):
        return field.arrow
    if consistency is SchemaConsistency.VALIDATE:
        raise TableSchemaValidationError(
            f"The column {field.name!r} has the type {kind}", f"it must be {wanted}"
        )
    if is_wider(kind, wanted) or mode is not SchemaEvolution.AUTO:
        return field.arrow
    try:
        unified = pa.unify_schemas(
            [pa.schema([("c", wanted)]), pa.schema([("c", kind)])], promote_options="permissive"
        )
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise TableSchemaValidationError(
            f"The column {field.name!r} has the type {kind}",
            f"the table has {wanted}, and no type holds both",
        ) from error
    return field.arrow.with_type(unified.field("c").type)


def _checked(column: Any, field: Field) -> Any:
    if not field.arrow.nullable and column.null_count:
        raise TableSchemaValidationError(f"The column {field.name!r} has nulls", "it must not")
    return column


def _missing(field: Field, count: int) -> Any:
    value = field.future_default
    if value is None and not field.arrow.nullable:
        raise TableSchemaValidationError(
            f"The column {field.name!r} is missing", "it has no default and must not be null"
        )
    kind = field.arrow.type
    return pa.nulls(count, kind) if value is None else pa.repeat(default_scalar(value, kind), count)
