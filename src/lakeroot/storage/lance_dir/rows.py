"""The rows of the ``__manifest`` table, and the Lance files that hold them."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from lakeroot.model.errors import InvalidTableStateError, LakerootError
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.model.records import NO_PROPERTIES, Namespace, Record, Table
from lakeroot.objects import LocalObjects, Objects
from lakeroot.storage.lance_dir import small_file
from lakeroot.storage.lance_dir.schema import FORMAT_VERSION, PRIMARY_KEY
from lakeroot.storage.lance_dir.threads import on_own_thread
from lakeroot.storage.lance_dir.version_file import Deletion, Fragment
from lakeroot.storage.lance_dir.versions import TABLE

NAMESPACE: Final = "namespace"
TABLE_ROW: Final = "table"
VERSION_ROW: Final = "table_version"
CREATED_AT: Final = "lakeroot.created_at"
"""Where the time of creation lives: a column of its own would be dropped by other writers."""
_REMEMBERED: Final = 4096


class Row(NamedTuple):
    """A row as it is stored."""

    object_id: str
    object_type: str
    location: str | None
    metadata: str | None
    base_objects: Sequence[str | None] | None = None

    @property
    def identifier(self) -> Identifier:
        """Give the identifier; names cannot hold the delimiter, so nothing is lost."""
        return tuple(self.object_id.split(DELIMITER))


def row_of(record: Record) -> Row:
    """Write an object as a row."""
    object_id = DELIMITER.join(record.identifier)
    metadata = dict(record.properties)
    if record.created_at_ms is not None:
        metadata[CREATED_AT] = str(record.created_at_ms)
    text = json.dumps(metadata, ensure_ascii=False) if metadata else None
    if isinstance(record, Table):
        return Row(object_id, TABLE_ROW, record.location, text)
    return Row(object_id, NAMESPACE, None, text)


def record_of(row: Row) -> Record | None:
    """Read a row as an object; nothing if it is of a kind we do not know."""
    if row.object_type == NAMESPACE:
        return Namespace(row.identifier, *_metadata(row.metadata))
    if row.object_type == TABLE_ROW:
        properties, created_at_ms = _metadata(row.metadata)
        if not properties:
            return _plain_table(row.object_id, row.location, created_at_ms)
        return Table(row.identifier, row.location or "", properties, created_at_ms)
    return None


# One commit looks at the same table several times, and most tables have no properties.
@lru_cache(_REMEMBERED)
def _plain_table(object_id: str, location: str | None, created_at_ms: int | None) -> Table:
    identifier = tuple(object_id.split(DELIMITER))
    # Without a location it can still be listed and dropped, but not opened.
    return Table(identifier, location or "", NO_PROPERTIES, created_at_ms)


def _metadata(text: str | None) -> tuple[Mapping[str, str], int | None]:
    if not text:
        return NO_PROPERTIES, None
    properties, created_at_ms = _parsed(text)
    return dict(properties) if properties else NO_PROPERTIES, created_at_ms


@lru_cache(_REMEMBERED)
def _parsed(text: str) -> tuple[tuple[tuple[str, str], ...], int | None]:
    """Read the metadata of a row; one commit looks at the same row several times."""
    try:
        found = json.loads(text)
    except ValueError:
        return (("metadata", text),), None
    if not isinstance(found, dict):
        return (("metadata", text),), None
    created = found.pop(CREATED_AT, None)
    # Other writers may have put numbers or lists there; a property is a string.
    properties = ((k, v if isinstance(v, str) else json.dumps(v)) for k, v in found.items())
    created_at_ms = int(created) if isinstance(created, str) and created.isdigit() else None
    return tuple(properties), created_at_ms


@cache
def arrow_schema() -> Any:
    """Give the schema of the table as Arrow knows it."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("object_id", pa.string(), nullable=False, metadata={PRIMARY_KEY: "0"}),
            pa.field("object_type", pa.string(), nullable=False),
            pa.field("location", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
        ]
    )


def arrow_table(rows: Iterable[Row]) -> Any:
    """Put rows into columns."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(Row._fields)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, arrow_schema(), strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=arrow_schema())


def rows_of(table: Any) -> Iterator[Row]:
    """Take rows out of columns."""
    columns = (table.column(name).to_pylist() for name in Row._fields)
    return map(Row._make, zip(*columns, strict=True))


class RowFiles:
    """The data files and deletion files of the table."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def write(self, rows: Sequence[Row]) -> Fragment:
        """Write rows to a new file; it is invisible until a version names it."""
        name = f"{uuid4().hex}.lance"
        content = small_file.encode(rows) or on_own_thread(_written_by_lance, rows)
        self._objects.put(f"{TABLE}/data/{name}", content, is_named_later=True)
        return Fragment(id=-1, path=name, size_bytes=len(content), rows=len(rows))

    def rows(self, fragment: Fragment) -> Iterable[Row]:
        """Read the rows of a file, the deleted ones included."""
        return self.few_rows(fragment) or rows_of(self.read(fragment))

    def few_rows(self, fragment: Fragment, object_id: str | None = None) -> list[Row] | None:
        """Read a file of a few plain rows without the engine; nothing if it is another.

        If one identifier is looked for and is seen not to be there, no rows are read.
        """
        if fragment.rows > small_file.MOST_ROWS:
            return None
        path = f"{TABLE}/data/{fragment.path}"
        content = self._objects.get(path)
        if content is None:
            raise MissingFileError(path)
        if object_id is not None and small_file.lacks(content, object_id):
            return []
        found = small_file.decode(content)
        return found if found is not None and len(found) == fragment.rows else None

    def read(self, fragment: Fragment, columns: list[str] | None = None) -> Any:
        """Read the rows of a file, the deleted ones included, as an Arrow table."""
        return on_own_thread(self._read, fragment, columns)

    def _read(self, fragment: Fragment, columns: list[str] | None) -> Any:
        with undamaged(f"data/{fragment.path}"), self._opened(fragment, columns) as reader:
            return reader.read_all(batch_size=max(fragment.rows, 1)).to_table()

    def read_row(self, fragment: Fragment, offset: int) -> Row:
        """Read one row of a file."""
        return on_own_thread(self._read_row, fragment, offset)

    def _read_row(self, fragment: Fragment, offset: int) -> Row:
        with undamaged(f"data/{fragment.path}"), self._opened(fragment, None) as reader:
            return next(rows_of(reader.take_rows([offset]).to_table()))

    def write_deletion(self, fragment_id: int, read_version: int, offsets: set[int]) -> Deletion:
        """Write down which rows of a file are gone."""
        import pyarrow as pa

        deletion = Deletion(0, read_version, uuid4().int & 2**63 - 1, len(offsets))
        schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(
                pa.RecordBatch.from_arrays([pa.array(sorted(offsets), pa.uint32())], schema=schema)
            )
        path = f"{TABLE}/{deletion.path(fragment_id)}"
        self._objects.put(path, sink.getvalue().to_pybytes(), is_named_later=True)
        return deletion

    def read_deletion(self, fragment: Fragment) -> set[int]:
        """Read which rows of a file are gone."""
        if fragment.deletion is None:
            return set()
        import pyarrow as pa

        path = fragment.deletion.path(fragment.id)
        content = self._objects.get(f"{TABLE}/{path}")
        if content is None:
            raise MissingFileError(path)
        with undamaged(path):
            return set(pa.ipc.open_file(content).read_all().column(0).to_pylist())

    def _opened(self, fragment: Fragment, columns: list[str] | None) -> "_Opened":
        return _Opened(self._objects, fragment, columns)


def _written_by_lance(rows: Sequence[Row]) -> bytes:
    from lance.file import LanceFileWriter

    scratch = _scratch() / f"{uuid4().hex}.lance"
    try:
        with LanceFileWriter(str(scratch), arrow_schema(), version=FORMAT_VERSION) as writer:
            for batch in arrow_table(rows).to_batches():
                writer.write_batch(batch)
        return scratch.read_bytes()
    finally:
        scratch.unlink(missing_ok=True)


class MissingFileError(Exception):
    """A file that a version names is not there."""


@contextmanager
def undamaged(path: str) -> Iterator[None]:
    """Say in our words that a file of the table is damaged; Lance panics at some of the damage."""
    try:
        yield
    except (LakerootError, MissingFileError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise InvalidTableStateError(
            "The catalog cannot be read",
            f"the file {path} of its `__manifest` table is damaged",
            "Run `lakeroot fsck` to see what is whole",
        ) from error


class _Opened:
    """A data file, opened where it lies, or from a copy where it lies in a bucket."""

    def __init__(self, objects: Objects, fragment: Fragment, columns: list[str] | None) -> None:
        self._objects = objects
        self._fragment = fragment
        self._columns = columns
        self._copy: Path | None = None

    def __enter__(self) -> Any:
        from lance.file import LanceFileReader

        path = f"{TABLE}/data/{self._fragment.path}"
        if isinstance(self._objects, LocalObjects):
            if not self._objects.exists(path):
                raise MissingFileError(path)
            return LanceFileReader(self._objects.local_path(path), columns=self._columns)
        content = self._objects.get(path)
        if content is None:
            raise MissingFileError(path)
        self._copy = _scratch() / f"{uuid4().hex}.lance"
        self._copy.write_bytes(content)
        return LanceFileReader(str(self._copy), columns=self._columns)

    def __exit__(self, *_: object) -> None:
        if self._copy is not None:
            self._copy.unlink(missing_ok=True)


@cache
def _scratch() -> Path:
    import atexit

    directory = tempfile.mkdtemp(prefix="lakeroot-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)
