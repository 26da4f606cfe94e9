"""Writing a partition anew: files without rows of a change stay, and are named again.

A delete of a thousand rows in one corner of a partition copies the files of that corner, not all of
them. A file that stays belongs to the state before and to the one after; vacuum goes by what is
named, so it lives for as long as one of them does.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakeroot.metastore.data.bounds import may_have
from lakeroot.metastore.data.files import content_of, in_parallel, rewritten_share, rows_in
from lakeroot.metastore.data.merge import Rows, codes_among, merged
from lakeroot.metastore.data.plan import DataFile, PartitionPlan, StepKind
from lakeroot.metastore.data.reads import read_partition
from lakeroot.metastore.manifests import ManifestEntry
from lakeroot.metastore.records import Delta, TableVersion
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.view import View

_MOSTLY_EVERYWHERE: Final = 4
"""A change with more than one in so many of the rows is in most files: none is looked into."""
_TOO_MANY: Final = 2
"""So many times as many files as there could be are put together by the next change."""

Files = Sequence[DataFile | ManifestEntry]
"""The files of a partition, in their order: those that stay, and new ones."""
Write = Callable[[Any, int], Iterable[ManifestEntry]]
"""Writes rows as new files, of at most so many rows each."""


def rewrite(
    view: View,
    plan: PartitionPlan | None,
    change: Rows | None,
    version: TableVersion,
    most: int,
    write: Write,
) -> Files | None:
    """Make the files of a partition anew; nothing if the change touches none of its rows.

    Without a plan there is no partition yet, and without a change its rows stay what they are.
    """
    if plan is not None and change is not None and _may_stay(plan, change, version, most):
        return _file_by_file(view, plan, change, version, most, write)
    rows = _whole(view, plan, change, version.schema)
    return list(write(rows, rewritten_share(rows.num_rows, most)))


def named(files: Files, deltas: Iterable[Delta]) -> list[ManifestEntry]:
    """Name files in a new manifest; those that stay as the deltas before name them."""
    manifests = [delta.manifest for delta in deltas if delta.manifest is not None]
    known = {entry.url: entry for manifest in manifests for entry in manifest.entries}
    return [file if isinstance(file, ManifestEntry) else known[file.url] for file in files]


def needs_rewriting(plan: PartitionPlan, most: int) -> bool:
    """Tell whether readers would have to merge a partition, or whether it has too many files."""
    return plan.needs_merge or len(plan.files) > rewritten_files(plan, most)


def rewritten_files(plan: PartitionPlan, most: int) -> int:
    """Say how many files a partition becomes that is written anew, as far as its files tell."""
    rows = _count(plan)
    return max(1, -(-rows // rewritten_share(rows, most)))


def _count(plan: PartitionPlan) -> int:
    return sum(file.record_count or 0 for file in plan.files)


def _whole(
    view: View, plan: PartitionPlan | None, change: Rows | None, schema: Schema | None
) -> Any:
    before = None if plan is None else read_partition(view, plan, schema)
    if change is None or schema is None:
        return before  # Also of a table without a schema, which is only put together.
    steps = [] if before is None else [Rows(StepKind.INSERT, before)]
    return merged([*steps, change], schema)


def _may_stay(plan: PartitionPlan, change: Rows, version: TableVersion, most: int) -> bool:
    """Tell whether files may stay, and looking for them takes less than copying all."""
    if plan.needs_merge or len(plan.files) > _TOO_MANY * rewritten_files(plan, most):
        return False
    is_sorted = version.sort_scheme is not None and bool(version.sort_scheme.keys)
    if is_sorted and change.kind is StepKind.UPSERT:
        return False
    # Every file is asked for every key, and copying asks the rows once.
    asked = change.table.num_rows * max(_MOSTLY_EVERYWHERE, len(plan.files))
    return bool(asked <= _count(plan))


def _file_by_file(
    view: View,
    plan: PartitionPlan,
    change: Rows,
    version: TableVersion,
    most: int,
    write: Write,
) -> Files | None:
    schema: Any = version.schema
    share = rewritten_share(_count(plan), most)
    look = partial(_touched, view, schema, change)
    found = list(in_parallel(look, [(file,) for file in plan.files]))
    touched = [rows for rows in found if rows is not None]
    if change.kind is StepKind.UPSERT and change.table.num_rows:
        kept = [file for file, rows in zip(plan.files, found, strict=True) if rows is None]
        before = [Rows(StepKind.INSERT, pa.concat_tables(touched))] if touched else []
        return [*kept, *write(merged([*before, change], schema), share)]
    if not touched:
        return None
    files: list[DataFile | ManifestEntry] = []
    # What is left of files side by side goes where they were, so that the order of rows stays.
    pairs = zip(plan.files, found, strict=True)
    for stays, some in groupby(pairs, lambda pair: pair[1] is None):
        if stays:
            files += [file for file, _ in some]
            continue
        left = pa.concat_tables([rows for _, rows in some]).cast(schema.arrow)
        files += write(left, share) if left.num_rows else ()
    return files or list(write(schema.arrow.empty_table(), share))


def _touched(view: View, schema: Schema, change: Rows, file: DataFile) -> Any | None:
    """Read a file with rows of the change, without those it deletes; nothing of another file.

    One of an older schema is read in any case: whether its values can be of the types of now must
    be known before there is no way back.
    """
    data = content_of(view.log, file)
    names = list(change.keys)
    wanted = change.table.select(names)
    is_old = file.schema_id != schema.schema_id
    if not is_old and not may_have(file, data, schema, wanted):
        return None
    keys = rows_in(file, data, schema, set(names)).select(names)
    both = pa.concat_tables([keys, wanted.cast(keys.schema)])
    codes = codes_among(both, names, [(keys.num_rows, both.num_rows)])
    is_meant = np.isin(codes[: keys.num_rows], codes[keys.num_rows :])
    if not is_old and not is_meant.any():
        return None
    rows = rows_in(file, data, schema)
    return rows.filter(pa.array(~is_meant)) if change.kind is StepKind.DELETE else rows
