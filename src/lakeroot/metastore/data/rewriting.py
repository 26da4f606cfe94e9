"""Writing a partition anew: files without rows of a change stay, and are named again.

A delete of a thousand rows in one corner of a partition copies the files of that corner, not all of
them. A file that stays belongs to the state before and to the one after; vacuum goes by what is
named, so it lives for as long as one of them does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakeroot.metastore.data.files import content_of, in_parallel, rewritten_share, rows_in
from lakeroot.metastore.data.merge import Rows, codes_among, merged
from lakeroot.metastore.data.plan import DataFile, PartitionPlan, StepKind
from lakeroot.metastore.data.reads import read_partition
from lakeroot.metastore.manifests import ManifestEntry
from lakeroot.metastore.records import Delta, TableVersion
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.view import View

_FEW: Final = 4
"""Where a change has so large a part of the rows, it is in most files: none is looked into."""

Entries = Mapping[str, ManifestEntry]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A partition after a change: the files that stay, and the rows of the others."""

    rows: Any
    before: tuple[DataFile, ...] = ()
    after: tuple[DataFile, ...] = ()
    """The files that stay, on both sides of the place where the new ones go."""
    rows_per_file: int = 0

    @property
    def has_new(self) -> bool:
        """Whether there is a file to write: each partition has one, be it without rows."""
        return bool(self.rows.num_rows) or not (self.before or self.after)

    def named(self, new: Iterable[ManifestEntry], entries: Entries) -> list[ManifestEntry]:
        """Name all files; those that stay as they were named before."""
        before, after = ([entries[file.url] for file in some] for some in (self.before, self.after))
        return [*before, *new, *after]


def rewritten(
    view: View, plan: PartitionPlan | None, change: Rows | None, version: TableVersion, most: int
) -> Rewritten:
    """Apply a change to a partition; where nothing has to be merged first, file by file."""
    schema: Any = version.schema
    if plan is None or change is None or not _may_stay(plan, change, version):
        steps = [] if plan is None else [Rows(StepKind.INSERT, read_partition(view, plan, schema))]
        rows = merged([*steps, *([] if change is None else [change])], schema)
        return Rewritten(rows, rows_per_file=rewritten_share(rows.num_rows, most))
    counts = [file.record_count or 0 for file in plan.files]
    share = rewritten_share(sum(counts), most)
    # Or each upsert would add a small file, and nobody would put them together.
    small = 0 if change.kind is StepKind.DELETE else share // 2
    look = partial(_touched, view, schema, change, small)
    found = list(in_parallel(look, [(file,) for file in plan.files]))
    touched = [rows for rows in found if rows is not None]
    place = next((at for at, rows in enumerate(found) if rows is not None), len(found))
    kept = [(at, file) for at, file in enumerate(plan.files) if found[at] is None]
    return Rewritten(
        _changed(touched, change, schema),
        tuple(file for at, file in kept if at < place),
        tuple(file for at, file in kept if at > place),
        share,
    )


def needs_rewriting(plan: PartitionPlan, most: int) -> bool:
    """Tell whether readers would have to merge a partition, or whether it has too many files."""
    return plan.needs_merge or len(plan.files) > rewritten_files(plan, most)


def rewritten_files(plan: PartitionPlan, most: int) -> int:
    """Say how many files a partition becomes that is written anew, as far as its files tell."""
    rows = sum(file.record_count or 0 for file in plan.files)
    return max(1, -(-rows // rewritten_share(rows, most)))


def entries_by_url(deltas: Iterable[Delta]) -> Entries:
    """Give what the manifests of a partition say of its files."""
    manifests = [delta.manifest for delta in deltas if delta.manifest is not None]
    return {entry.url: entry for manifest in manifests for entry in manifest.entries}


def _may_stay(plan: PartitionPlan, change: Rows, version: TableVersion) -> bool:
    if plan.needs_merge:
        return False
    if change.kind is StepKind.DELETE:
        return True
    is_sorted = version.sort_scheme is not None and bool(version.sort_scheme.keys)
    counts = [file.record_count for file in plan.files]
    if is_sorted or None in counts:
        return False
    return bool(_FEW * change.table.num_rows <= sum(filter(None, counts)))


def _touched(view: View, schema: Schema, change: Rows, small: int, file: DataFile) -> Any | None:
    """Read a file with rows of the change; nothing if there are none in it.

    What is left of the rows of a delete is not looked at any more.
    """
    data = content_of(view.log, file)
    if small and (file.record_count or 0) < small:
        return rows_in(file, data, schema)
    names = list(change.keys)
    keys = rows_in(file, data, schema, set(names)).select(names)
    both = pa.concat_tables([keys, change.table.select(names).cast(keys.schema)])
    codes = codes_among(both, names, [(keys.num_rows, both.num_rows)])
    is_meant = np.isin(codes[: keys.num_rows], codes[keys.num_rows :])
    if not is_meant.any():
        return None
    rows = rows_in(file, data, schema)
    return rows.filter(pa.array(~is_meant)) if change.kind is StepKind.DELETE else rows


def _changed(touched: list[Any], change: Rows, schema: Schema) -> Any:
    if change.kind is StepKind.DELETE:
        return pa.concat_tables(touched or [schema.arrow.empty_table()]).cast(schema.arrow)
    before = [Rows(StepKind.INSERT, pa.concat_tables(touched))] if touched else []
    return merged([*before, change], schema)
