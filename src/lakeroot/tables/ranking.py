"""Hits of a full text search in one order: the best first, and equal ones by their row ids.

Lance finds the best hits, but of those with the same score it keeps some and leaves out others,
and not the same ones when it is asked for more. Pages cut from that repeat rows and skip others.
So hits are asked for by their ids alone, until the last one wanted is better than the next one.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

ROW_ID: Final = "_rowid"
SCORE: Final = "_score"
_MANY: Final = 1024
"""Ids of fewer hits than this take no less time; so many rows are read at once."""


def best(hits: Callable[[int], pa.Table], count: int) -> tuple[pa.Table, int]:
    """Rank the best hits, up to a count; tell how many must be asked for to have these."""
    limit = count + 1
    while True:
        found = hits(limit)
        ranked = found.sort_by([(SCORE, "descending"), (ROW_ID, "ascending")])
        if ranked.num_rows < limit or _is_better(ranked, count):
            return ranked.slice(0, count), limit
        limit = max(4 * limit, _MANY)


def _is_better(ranked: pa.Table, place: int) -> bool:
    """Tell whether the hit before a place is better than all from there on."""
    return ranked.num_rows > place and bool(
        ranked[SCORE][place - 1].as_py() > ranked[SCORE][place].as_py()
    )


def rows_of(
    ranked: pa.Table, names: list[str], read: Callable[[list[int]], pa.Table]
) -> Iterator[pa.Table]:
    """Read ranked rows, some at a time, and give them their scores."""
    for start in range(0, ranked.num_rows, _MANY):
        part = ranked.slice(start, _MANY)
        found = in_order(read(part[ROW_ID].to_pylist()), part)
        if SCORE in names and SCORE not in found.column_names:
            found = found.append_column(SCORE, part[SCORE])
        yield found.select(names)


def in_order(found: pa.Table, ranked: pa.Table) -> pa.Table:
    """Put rows that were found, in any order and with their ids, into the order of their ranks."""
    return found.take(pc.index_in(ranked[ROW_ID], value_set=found[ROW_ID].combine_chunks()))
