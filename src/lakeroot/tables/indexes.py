"""Indexes of one table: create every kind pylance builds, list, describe, drop."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from lance import LanceDataset

from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    TableIndexNotFoundError,
)
from lakeroot.tables.handle import TableHandle, on_latest, working_on
from lakeroot.tables.paging import Page, page
from lakeroot.tables.rows import Committed, committed

_FTS: Final = frozenset(
    {
        "with_position",
        "base_tokenizer",
        "language",
        "max_token_length",
        "lower_case",
        "stem",
        "remove_stop_words",
        "ascii_folding",
    }
)
_IVF: Final = frozenset(
    {"distance_type", "num_partitions", "target_partition_size", "sample_rate", "max_iterations"}
)
_HNSW: Final = frozenset({"m", "ef_construction"})
_PQ: Final = frozenset({"num_sub_vectors", "num_bits"})
_BITS: Final = frozenset({"num_bits"})

SCALAR_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "BTREE": frozenset(),
    "BITMAP": frozenset(),
    "LABEL_LIST": frozenset(),
    "NGRAM": frozenset(),
    "ZONEMAP": frozenset(),
    "BLOOMFILTER": frozenset(),
    "RTREE": frozenset(),
    "MINHASHLSH": frozenset(),
    "INVERTED": _FTS,
}
VECTOR_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "IVF_FLAT": _IVF,
    "IVF_SQ": _IVF | _BITS,
    "IVF_PQ": _IVF | _PQ,
    "IVF_RQ": _IVF | _BITS,
    "IVF_HNSW_FLAT": _IVF | _HNSW,
    "IVF_HNSW_SQ": _IVF | _HNSW | _BITS,
    "IVF_HNSW_PQ": _IVF | _HNSW | _PQ,
}
"""The kinds of index, each with the options it takes."""

_ALIASES: Final = {"FTS": "INVERTED", "VECTOR": "IVF_PQ"}
_SCALAR_QUANTIZER_BITS: Final = 8
# pylance has other words for these two.
_PYLANCE_WORDS: Final = {"distance_type": "metric", "max_iterations": "max_iters"}


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """An index to create. The options are those of the specification's CreateTableIndex request."""

    column: str
    index_type: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index of a table, as listed."""

    name: str
    uuid: str
    columns: tuple[str, ...]
    index_type: str
    type_url: str
    num_indexed_rows: int
    num_unindexed_rows: int
    size_bytes: int | None
    num_segments: int
    created_at: datetime | None
    index_version: int | None
    index_details: str
    status: str = "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class IndexStats:
    """How much of a table an index covers."""

    index_type: str
    distance_type: str | None
    num_indexed_rows: int
    num_unindexed_rows: int
    num_indices: int


def create_index(
    handle: TableHandle, request: IndexRequest, *, branch: str | None = None
) -> Committed:
    """Build an index on a column and commit it; a name that is taken is refused."""
    kind = index_kind(request.index_type)
    if request.name == "":
        raise InvalidInputError(
            "The name of an index cannot be empty",
            fix="Leave it out to have it named by its column",
        )
    options = _checked_options(kind, request.options)

    def build(dataset: LanceDataset) -> Committed:
        if kind in SCALAR_TYPES:
            dataset.create_scalar_index(
                request.column, kind, name=request.name, replace=False, **options
            )
        else:
            if "PQ" in kind and "num_sub_vectors" not in options:
                options["num_sub_vectors"] = _suggested_sub_vectors(dataset, request.column)
            dataset.create_index(request.column, kind, name=request.name, replace=False, **options)
        return Committed(*committed(dataset))

    return on_latest(handle, f"Creating the {kind} index", branch, build)


def require_scalar(index_type: str) -> None:
    """Refuse a kind of index that finds vectors."""
    kind = index_kind(index_type)
    if kind not in SCALAR_TYPES:
        raise InvalidInputError(
            f"An index of type {kind} is not a scalar index",
            fix=f"Use CreateTableIndex, or one of: {', '.join((*SCALAR_TYPES, 'FTS'))}",
        )


def drop_index(handle: TableHandle, name: str, *, branch: str | None = None) -> Committed:
    """Drop an index; the rows stay."""

    def drop(dataset: LanceDataset) -> Committed:
        dataset.drop_index(name)
        return Committed(*committed(dataset))

    return on_latest(handle, "Dropping the index", branch, drop)


def list_indices(
    handle: TableHandle,
    *,
    version: int | None = None,
    branch: str | None = None,
    page_token: str | None = None,
    limit: int | None = None,
) -> Page[IndexInfo]:
    """List the indexes of a table, one page of them, by name."""
    with working_on(handle, "Listing indexes") as table:
        dataset = table.open(version=version, branch=branch)
        num_rows = dataset.count_rows()
        found = {index.name: _info(index, num_rows) for index in dataset.describe_indices()}
    return page(found, page_token, limit)


def describe_index_stats(
    handle: TableHandle, name: str, *, version: int | None = None, branch: str | None = None
) -> IndexStats:
    """Tell how much of a table an index covers."""
    with working_on(handle, "Describing the index") as table:
        dataset = table.open(version=version, branch=branch)
        if name not in {index.name for index in dataset.describe_indices()}:
            raise TableIndexNotFoundError(
                f"The table has no index {name!r}",
                fix="List the indexes of the table to see those it has",
            )
        stats = dataset.stats.index_stats(name)
    parts = stats.get("indices") or [{}]
    metric = parts[0].get("metric_type")
    return IndexStats(
        index_type=stats["index_type"],
        distance_type=metric.lower() if metric else None,
        num_indexed_rows=stats["num_indexed_rows"],
        num_unindexed_rows=stats["num_unindexed_rows"],
        num_indices=stats["num_indices"],
    )


def index_kind(index_type: str) -> str:
    """Read an index type in any case, with or without underscores."""
    plain = index_type.upper().replace("_", "")
    for kind in (*SCALAR_TYPES, *VECTOR_TYPES, *_ALIASES):
        if kind.replace("_", "") == plain:
            return _ALIASES.get(kind, kind)
    known = (*SCALAR_TYPES, "FTS", *VECTOR_TYPES)
    near = difflib.get_close_matches(index_type.upper(), known, n=1)
    raise InvalidInputError(
        f"There is no index type {index_type!r}",
        fix=f"Did you mean {near[0]!r}?" if near else f"Use one of: {', '.join(known)}",
    )


def _checked_options(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in given.items() if value is not None}
    known = SCALAR_TYPES[kind] if kind in SCALAR_TYPES else VECTOR_TYPES[kind]
    strange = sorted(options.keys() - known)
    if strange:
        raise InvalidInputError(
            f"An index of type {kind} takes no {', '.join(strange)}",
            fix=f"It takes: {', '.join(sorted(known)) or 'no options'}",
        )
    if "SQ" in kind and options.pop("num_bits", _SCALAR_QUANTIZER_BITS) != _SCALAR_QUANTIZER_BITS:
        raise InvalidInputError(f"An index of type {kind} has {_SCALAR_QUANTIZER_BITS} bits")
    return {_PYLANCE_WORDS.get(name, name): value for name, value in options.items()}


def _suggested_sub_vectors(dataset: LanceDataset, column: str) -> int:
    """Split vectors into parts of 16 or 8 numbers where they divide; else keep them whole."""
    found = dataset.lance_schema.field_case_insensitive(column)
    if found is None:
        raise TableColumnNotFoundError(f"The table has no column {column!r}")
    kind = found.to_arrow().type
    while not pa.types.is_fixed_size_list(kind) and pa.types.is_list(kind):
        kind = kind.value_type
    dimension = getattr(kind, "list_size", 1)
    return next((dimension // size for size in (16, 8) if dimension % size == 0), 1)


def _info(index: Any, num_rows: int) -> IndexInfo:
    segments = index.segments
    created = [segment.created_at for segment in segments if segment.created_at is not None]
    return IndexInfo(
        name=index.name,
        uuid=str(segments[0].uuid),
        columns=tuple(index.field_names),
        index_type=index.index_type,
        type_url=index.type_url,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(0, num_rows - index.num_rows_indexed),
        size_bytes=index.total_size_bytes,
        num_segments=len(segments),
        created_at=min(created) if created else None,
        index_version=segments[0].index_version,
        index_details=json.dumps(index.details, default=str),
    )
