"""Rows of a table, a page at a time, with a filter and an order; and the images in them."""

from typing import Any, Final

import pyarrow as pa
from lance import LanceDataset
from lance.dataset import ColumnOrdering

from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.server.console.addresses import table_address
from lakeroot.server.console.cells import image_kind, plain
from lakeroot.server.console.pages import Page
from lakeroot.server.console.rendering import SECURITY
from lakeroot.server.console.schemas import kind_of, short_type
from lakeroot.server.console.visit import Visit
from lakeroot.server.wire import Response
from lakeroot.tables.expressions import whole, whole_or_none

ROWS: Final = 25
MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 40
MOST_SORTED: Final = 20_000_000
MOST_COUNTED: Final = 20_000_000
MOST_IMAGE_BYTES: Final = 16 << 20
_ROW: Final = "_rowid"


def rows(visit: Visit, identifier: Identifier) -> Page:
    """A page of rows of the newest version, or of the one that was asked for."""
    version = visit.number("version", 0) or None
    where, sort = visit.text("where"), visit.text("sort")
    limit = max(1, visit.number("limit", ROWS, MOST_ROWS))
    offset = visit.number("offset", 0)
    with visit.opened(identifier, "Reading rows", version) as dataset:
        total = dataset.count_rows()
        names = dataset.schema.names
        chosen = None if len(names) <= MOST_COLUMNS else names[:MOST_COLUMNS]
        found = dataset.scanner(
            columns=chosen,
            filter=whole_or_none(where),
            limit=limit + 1,
            offset=offset,
            with_row_id=True,
            order_by=_order(dataset, sort, total),
        ).to_table()
        matching = total
        if where:
            matching = dataset.count_rows(whole(where)) if total <= MOST_COUNTED else None
        shown_version = dataset.version
    data = {
        "id": list(identifier),
        "version": shown_version,
        "pinned": version is not None,
        "where": where,
        "sort": sort,
        "offset": offset,
        "limit": limit,
        "total": total,
        "matching": matching,
        "more": found.num_rows > limit,
        "left_out_columns": len(names) - len(chosen) if chosen else 0,
        **_table(found.slice(0, limit), visit, identifier, shown_version),
    }
    return Page("table_rows.html", show(identifier), data, identifier, "rows")


def image(visit: Visit, identifier: Identifier) -> Response:
    """The image in one cell of one version, exactly as it is stored."""
    column, row = visit.text("column"), visit.number("row", 0, 2**63)
    version = visit.number("version", 0) or None
    with visit.opened(identifier, "Reading an image", version) as dataset:
        if column not in dataset.schema.names:
            raise TableColumnNotFoundError(f"The table has no column {column!r}")
        found = dataset.scanner(columns=[column], filter=f"_rowid = {row}", limit=1).to_table()
    value = found.column(column)[0].as_py() if found.num_rows else None
    content = value if isinstance(value, bytes) else b""
    kind = image_kind(content)
    if kind is None or len(content) > MOST_IMAGE_BYTES:
        raise UnsupportedOperationError("There is no image here that can be shown")
    headers = {**SECURITY, "Cache-Control": "private, max-age=3600"}
    return Response(200, content, kind, headers)


def _order(dataset: LanceDataset, sort: str, total: int) -> list[ColumnOrdering] | None:
    if not sort:
        return None
    column = sort.removeprefix("-")
    if column not in dataset.schema.names:
        raise TableColumnNotFoundError(
            f"The table has no column {column!r}", fix="Sort by one of the columns it has"
        )
    if kind_of(dataset.schema.field(column).type) in ("vector", "bytes", "nested"):
        raise InvalidInputError(f"The values of {column!r} have no order", "they are not simple")
    if total > MOST_SORTED:
        raise UnsupportedOperationError(
            "The table is too large to be sorted for a page",
            f"it has {total:,} rows; at most {MOST_SORTED:,} are sorted",
            "Filter the rows instead, or sort with Spark",
        )
    return [ColumnOrdering(column, ascending=not sort.startswith("-"), nulls_first=False)]


def _table(found: pa.Table, visit: Visit, identifier: Identifier, version: int) -> dict[str, Any]:
    numbers = found.column(_ROW).to_pylist()
    content = found.drop_columns([_ROW])
    columns = [
        {"name": field.name, "type": short_type(field.type), "kind": kind_of(field.type)}
        for field in content.schema
    ]
    values = [[plain(value) for value in column.to_pylist()] for column in content.columns]
    lines = []
    for at, number in enumerate(numbers):
        cells = [column[at] for column in values]
        for column, cell in zip(columns, cells, strict=True):
            if column["kind"] == "bytes" and isinstance(cell, dict) and cell.get("image"):
                cell["address"] = table_address(
                    identifier, "image", version=version, row=number,
                    column=column["name"], at=visit.at,
                )  # fmt: skip
        lines.append({"row": str(number), "cells": cells})
    return {"columns": columns, "rows": lines}
