"""How many rows a read will find, where an index, a limit or a search says so before it runs."""

import re
from typing import Any

import lance

from lakeroot.spark.options import ReadOptions
from lakeroot.spark.sizes import projected_bytes, weight

# So little, and found by an index, is read by the driver itself rather than by a job.
FEW_ROWS = 1000
_FEW_BYTES = 1 << 20
# So much that no index knows may be read beside what the indexes know.
_UNKNOWN_BYTES = 8 << 20
# What a field inside of a column may take.
_WIDTH_WITHIN = 32
# Vectors of so many bytes are searched by the driver without an index; 600 MB took 0.3 s.
_SEARCHED_BYTES = 1 << 30
# Indexes that know the rows of a value; others know where it may be, which can be everywhere.
_EXACT_INDEXES = frozenset({"BTree", "Bitmap", "LabelList"})
# What Lance says where indexes answer a whole filter, and what it asks them.
_ANSWERED = re.compile(r"refine_filter=--.*?ScalarIndexQuery: query=([^\n]*)", re.DOTALL)


def most_rows(rows: int, size: int) -> int:
    """Tell how many of so many rows of so many bytes are few."""
    return min(FEW_ROWS, _FEW_BYTES * rows // size if size else FEW_ROWS)


def asked_of_indexes(
    dataset: lance.LanceDataset, options: ReadOptions, arguments: dict[str, Any], plan: str
) -> str | None:
    """Tell what indexes are asked, where they know all rows of a filter, or nearly all."""
    if "filter" not in arguments or options.is_search or options.partitions is not None:
        return None
    answered = _ANSWERED.search(plan)
    if answered is None:
        return None
    rows = dataset.count_rows()
    weights = {column.name: weight(column) for column in dataset.schema}
    for index in dataset.describe_indices():
        if f"]@{index.name}(" not in answered[1]:
            continue
        width = sum(weights.get(name, _WIDTH_WITHIN) for name in index.field_names)
        unknown = (rows - index.num_rows_indexed) * width
        if index.index_type not in _EXACT_INDEXES or unknown > _UNKNOWN_BYTES:
            return None
    return answered[1]


def is_by_keys(asked: str | None) -> bool:
    """Tell whether indexes are asked for values one by one, and not for a range of them."""
    return asked is not None and not set(asked) & {"<", ">"}


def expected_rows(
    dataset: lance.LanceDataset,
    options: ReadOptions,
    arguments: dict[str, Any],
    rows: int,
    plan: str,
    asked: str | None,
) -> int | None:
    """Tell how many rows will come, where an index or a limit says so; else all must be read."""
    if options.partitions is not None:
        return None
    if not options.is_search and "filter" not in arguments:
        return options.limit
    if options.is_search:
        found = options.limit or options.k
        if "ANN" in plan or "MatchQuery" in plan or rows <= FEW_ROWS:
            return found
        column = arguments["nearest"]["column"]
        return found if projected_bytes(dataset, [column]) <= _SEARCHED_BYTES else None
    if asked is None:
        return None
    found = int(dataset.count_rows(arguments["filter"]))
    return found if options.limit is None else min(found, options.limit)
