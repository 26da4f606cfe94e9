"""Make tables as CREATE and REPLACE say, and keep or refuse every clause: none is passed over."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from lakeroot.model.errors import (
    InvalidInputError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark.catalogs import TableRef, exists, locate
from lakeroot.spark.fitting import fit
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import WriteOptions, camel, parse
from lakeroot.spark.spark_sql.commenting import COMMENT, with_comment
from lakeroot.spark.types import is_blob, table_schema
from lakeroot.spark.write_tasks import WritePlan
from lakeroot.spark.writing import WriteResult, already_done, finish, prepare

# What Spark says of every table by itself.
_SPARKS_OWN_PROPERTIES = frozenset({"provider", "owner", "external", "is_managed_location"})
_PLACES = frozenset({"location", "path", "option.path"})
_FORMATS = frozenset({"lakeroot", "lance"})
# What a table keeps nothing of: it is said to the write that brings rows.
_OF_ROWS = ("max_rows_per_file", "max_bytes_per_file", "merge_schema")


def check(ref: TableRef, request: Mapping[str, Any]) -> None:
    """Refuse what no table can have, and a REPLACE of nothing, before anything is written."""
    properties = {key.lower(): value for key, value in request["properties"].items()}
    _refuse_layout(request["partitions"])
    if _PLACES & properties.keys() or properties.get("external", "false") == "true":
        raise UnsupportedOperationError(
            f"The place of table {ref} cannot be chosen",
            "the catalog decides where its tables lie",
            "Leave LOCATION and EXTERNAL out",
        )
    if COMMENT in properties:
        raise UnsupportedOperationError(
            f"Table {ref} cannot have a comment", fix="Leave it out, or give comments to columns"
        )
    provider = properties.get("provider")
    # A frame that is saved as a table always names a format, and if it was not told one, this.
    if provider is not None and provider.lower() not in {*_FORMATS, request.get("unsaid")}:
        raise UnsupportedOperationError(
            f"Table {ref} cannot be a table of {provider}",
            "the catalog holds Lance tables",
            "Leave USING out, or say USING lance",
        )
    if exists(ref) is None and request.get("mode") == "replace":
        raise TableNotFoundError(f"There is no table {ref}")
    schema, options = _asked(request)
    table_schema(schema, vectors=options.vectors, blobs=frozenset(options.blobs))


def _refuse_layout(kinds: Sequence[str]) -> None:
    """Refuse what Spark calls partitions, by the name that its user has given it."""
    if not kinds:
        return
    if {"bucket", "sorted_bucket"}.issuperset(kinds):
        what, words = "has no buckets", "bucketBy and sortBy (in SQL: CLUSTERED BY)"
    elif set(kinds) == {"cluster_by"}:
        what, words = "is not clustered", "CLUSTER BY (of a frame: clusterBy)"
    else:
        what = "is not partitioned by directories"
        words = "PARTITIONED BY (of a frame: partitionBy)"
    raise UnsupportedOperationError(
        f"A Lance table {what}",
        fix=f"Leave {words} out; filters are answered by statistics and indexes",
    )


def planned(
    ref: TableRef, request: Mapping[str, Any], more: Mapping[str, str] | None = None
) -> WritePlan:
    """Plan a table that is made, or whose next version has these columns and no old row.

    More options are those of the write that fills it.
    """
    schema, options = _asked(request, more)
    mode = "create" if request.get("mode", "create") == "create" else "overwrite"
    plan = prepare(ref, schema, replace(options, mode=mode))
    return replace(plan, schema=with_clauses(plan.schema, schema))


def empty(
    ref: TableRef, request: Mapping[str, Any], columns: pa.Schema | None = None
) -> WriteResult:
    """Make a table without rows, or its next version; `columns` are the very ones of another."""
    _, options = _asked(request)
    plain = WriteOptions()
    for name in _OF_ROWS:
        if getattr(options, name) != getattr(plain, name):
            raise InvalidInputError(
                f"The option {camel(name)!r} is of rows, and table {ref} is made without any",
                "a table keeps nothing of it",
                "Give it to the write that brings rows: INSERT INTO ... WITH (...) SELECT ...",
            )
    plan = planned(ref, request)
    return finish(plan if columns is None else replace(plan, schema=columns), [])


def _asked(
    request: Mapping[str, Any], more: Mapping[str, str] | None = None
) -> tuple[st.StructType, WriteOptions]:
    schema = st.StructType.fromJson(json.loads(request["schema"]))
    return schema, _options(more or {}, request["properties"])


def _options(given: Mapping[str, str], properties: Mapping[str, str] | None = None) -> WriteOptions:
    said = {
        key.removeprefix("option."): value
        for key, value in (properties or {}).items()
        if key.removeprefix("option.") not in _SPARKS_OWN_PROPERTIES
    }
    options = parse(WriteOptions, {**said, **given})
    if options.mode is not None:
        raise InvalidInputError(
            "The option 'mode' is not for tables of a catalog in Spark",
            "the statement itself, or the call, says what becomes of a table that exists",
            "Leave it out",
        )
    return options


def done_before(
    ref: TableRef, given: Mapping[str, str], properties: Mapping[str, str] | None = None
) -> WriteResult | None:
    """Find the earlier commit of the job that a write names, by an option or a property."""
    return already_done(ref, _options(given, properties))


def with_clauses(schema: pa.Schema, said: st.StructType) -> pa.Schema:
    """Keep NOT NULL, which Spark says of no column of a query, and comments."""
    return pa.schema(
        [
            with_comment(field, clauses).with_nullable(clauses.nullable)
            for field, clauses in zip(schema, said.fields, strict=True)
        ]
    )


def insertion(
    ref: TableRef, schema: st.StructType, given: Mapping[str, str], *, overwrite: bool
) -> WritePlan:
    """Plan an INSERT; one that replaces all rows leaves the columns what they were."""
    if not overwrite:
        return prepare(ref, schema, replace(_options(given), mode="append"))
    table = open_table(locate(ref)).schema
    options = replace(_options(given), mode="overwrite")
    plan = prepare(ref, schema, options)
    # Spark's types are fewer: made of them alone, a column would become another.
    kept = zip(table, fit(schema, table, str(ref)), strict=True)
    fields = [
        _with_metadata(plan.schema.field(old.name) if _is_asked(old, options) else new, old)
        for old, new in kept
    ]
    return replace(plan, schema=pa.schema(fields))


def _is_asked(column: pa.Field, options: WriteOptions) -> bool:
    """Tell whether the options of a write make a vector or a blob of a column that is none."""
    size = (options.vectors or {}).get(column.name)
    if size is not None:
        return not (pa.types.is_fixed_size_list(column.type) and column.type.list_size == size)
    return column.name in options.blobs and not is_blob(column)


def _with_metadata(new: pa.Field, old: pa.Field) -> pa.Field:
    metadata = {**(old.metadata or {}), **(new.metadata or {})}
    return new.with_nullable(old.nullable).with_metadata(metadata or None)
