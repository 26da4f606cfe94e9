"""What tasks do with the rows of a metastore: read and merge partitions, write data files."""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from lakeroot.metastore import naming
from lakeroot.metastore.data.evolution import conformed, matching
from lakeroot.metastore.data.files import in_parallel, pieces, read_file, write_rows
from lakeroot.metastore.data.merge import Rows
from lakeroot.metastore.data.plan import DataFile, PartitionPlan, StepKind
from lakeroot.metastore.data.reads import read_partition
from lakeroot.metastore.data.rewriting import Files as PartitionFiles
from lakeroot.metastore.data.rewriting import rewrite
from lakeroot.metastore.data.transforms import divided, ordered
from lakeroot.metastore.locators import PartitionValues, new_id
from lakeroot.metastore.manifests import ManifestEntry
from lakeroot.metastore.records import TableVersion
from lakeroot.metastore.schemes import PartitionScheme
from lakeroot.metastore.states import ContentType
from lakeroot.objects import Objects, open_root, parse_root

# So many rows of a task, or bytes, are held at once, whatever the number of rows of a file.
ROWS_AT_ONCE: Final = 1 << 20
BYTES_AT_ONCE: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Place:
    """A metastore, in values that travel to any process."""

    root: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def open(self) -> "Files":
        """Open the files of the catalog in this process."""
        parsed = parse_root(self.root, self.storage_options)
        return Files(open_root(parsed), parsed.uri)


@dataclass(frozen=True, slots=True)
class Files:
    """What reading and writing data files takes of a catalog; its log stays with the driver."""

    objects: Objects
    catalog_root: str

    @property
    def log(self) -> Any:
        """Stand in for the log of a view, of which data files need no more than this."""
        return self


@dataclass(frozen=True, slots=True)
class Writing:
    """What every task of a write knows."""

    place: Place
    txn_id: str
    version: TableVersion
    scheme: PartitionScheme | None
    directories: Mapping[PartitionValues, str]
    keys: tuple[str, ...]
    rows_per_file: int
    kind: StepKind
    """What the rows are for: those of an insert alone have all columns."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[tuple[PartitionValues, Any]]:
        """Write the rows of one task; give the files with the partitions they belong to."""
        files = self.place.open()
        written = []
        for values, rows in self._divided(batches):
            directory = self.directories.get(values) or new_id()
            entries = self._entries(files, directory, rows, self.rows_per_file)
            written += [(values, entry) for entry in entries]
        return written

    def count(self, batches: Iterable[pa.RecordBatch]) -> list[tuple[PartitionValues, int]]:
        """Check the rows of one task, and count them by partition; nothing is written."""
        return [(values, rows.num_rows) for values, rows in self._divided(batches)]

    def _divided(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[PartitionValues, pa.Table]]:
        for table in _gathered(batches):
            if self.kind is StepKind.DELETE:
                fitted = matching(self.version, table)
            else:
                is_partial = self.kind is not StepKind.INSERT
                _, fitted = conformed(self.version, table, is_partial=is_partial)
            yield from divided(fitted, self.scheme)

    def _entries(self, files: Files, directory: str, table: Any, most: int) -> list[ManifestEntry]:
        scheme, schema = self.version.sort_scheme, self.version.schema
        is_sorted = scheme is not None and bool(scheme.keys) and not self.keys
        rows = ordered(table, scheme) if is_sorted else table
        write = partial(
            write_rows,
            files.log,
            schema_id=None if schema is None else schema.schema_id,
            sort_scheme_id=scheme.id if is_sorted and scheme is not None else None,
            equality_fields=self.keys,
        )
        # A repeated task writes under another name; what it leaves bears the transaction's.
        named = partial(naming.data_path, directory, self.txn_id)
        named_pieces = [(named(uuid.uuid4().int >> 80), piece) for piece in pieces(rows, most)]
        if TaskContext.get() is not None:  # The other processors have tasks of their own.
            return [write(*each) for each in named_pieces]
        return list(in_parallel(write, named_pieces))

    def rewrite(self, work: "Rewrite") -> PartitionFiles | None:
        """Make the files of one partition anew, with the change that comes on top."""
        files: Any = self.place.open()
        change = None if work.kind is None else _change(files, work, self.version)
        write = partial(self._entries, files, work.own_id)
        return rewrite(files, work.plan, change, self.version, self.rows_per_file, write)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One partition to be written anew as another one."""

    own_id: str
    plan: PartitionPlan | None
    kind: StepKind | None = None
    changes: tuple[ManifestEntry, ...] = ()
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None


def _change(files: Files, work: Rewrite, version: TableVersion) -> Rows:
    schema: Any = version.schema
    kind = work.kind or StepKind.UPSERT
    wanted = set(work.keys) if kind is StepKind.DELETE else work.columns
    tables = [read_file(files.log, _data_file(entry), schema, wanted) for entry in work.changes]
    return Rows(kind, pa.concat_tables(tables), work.keys, work.columns)


def _data_file(entry: ManifestEntry) -> DataFile:
    meta = entry.meta
    kind = meta.content_type or ContentType.PARQUET.value
    return DataFile(entry.url, kind, meta.schema_id, meta.record_count, meta.content_length)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put small batches together, so that they do not become small files."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def partition_rows(
    place: Place, plan: PartitionPlan, schema: Any, columns: Sequence[str] | None
) -> pa.Table:
    """Read the rows of one partition, or of some of its files, merged."""
    view: Any = place.open()
    return read_partition(view, plan, schema, None if columns is None else tuple(columns))
