"""Data files: rows to and from Parquet, with the columns the table has now."""

import gzip
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet as pq

from lakeroot.metastore.data.encoding import encoded
from lakeroot.metastore.data.plan import DataFile
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.manifests import ManifestEntry, ManifestMeta
from lakeroot.metastore.schemas import FIELD_ID, Field, Schema, default_scalar
from lakeroot.metastore.states import ContentType
from lakeroot.model.errors import (
    InternalError,
    TableSchemaValidationError,
    UnsupportedOperationError,
)

T = TypeVar("T")

ROWS_WORTH_A_FILE: Final = 1 << 18
MOST_WRITERS: Final = 4
REWRITTEN_FILES: Final = 8
"""Partitions are written anew as so many files, if they are large enough."""


def write_rows(
    log: CommitLog,
    path: str,
    table: Any,
    *,
    schema_id: int | None,
    sort_scheme_id: str | None = None,
    equality_fields: tuple[str, ...] = (),
) -> ManifestEntry:
    """Write rows as one Parquet file and describe it."""
    data = encoded(table)
    log.objects.put(path, data, is_named_later=True)
    params = {"equality_field_locators": list(equality_fields)} if equality_fields else None
    meta = ManifestMeta(
        record_count=table.num_rows,
        content_length=len(data),
        source_content_length=table.nbytes,
        entry_params=params,
        schema_id=schema_id,
        sort_scheme_id=sort_scheme_id,
    )
    return ManifestEntry(path, meta)


def pieces(table: Any, most: int) -> list[Any]:
    """Cut rows into the contents of files of at most ``most`` rows."""
    return [table.slice(start, most) for start in range(0, max(table.num_rows, 1), most)]


def rewritten_share(count: int, most: int) -> int:
    """Say how many rows a file gets of a partition that is written anew.

    The next change writes anew only the files with its rows, and readers read several side by side;
    but a large partition does not become thousands of files.
    """
    return min(most, max(ROWS_WORTH_A_FILE, math.ceil(count / REWRITTEN_FILES)))


def share(count: int, most: int) -> int:
    """Say how many rows a file gets, so that idle processors have one to write too."""
    writers = max(1, min(_idle_processors(), MOST_WRITERS, count // ROWS_WORTH_A_FILE))
    return min(most, math.ceil(count / writers)) or most


def _idle_processors() -> int:
    # Writers that share a processor finish later than one alone. The load counts this process too.
    return math.ceil((os.cpu_count() or 1) + 1 - os.getloadavg()[0])


def in_parallel(work: Callable[..., T], files: Sequence[tuple[Any, ...]]) -> Iterator[T]:
    """Write or read several files at once; give the results in the order of the files."""
    if len(files) == 1:
        yield work(*files[0])
        return
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_WRITERS))
    try:
        for future in [pool.submit(work, *file) for file in files]:
            yield future.result()
    finally:
        # Whoever gives up must know that no file of its own can still appear.
        pool.shutdown(wait=True, cancel_futures=True)


def read_file(log: CommitLog, file: DataFile, schema: Schema | None, columns: Any = None) -> Any:
    """Read the rows of a file with the columns the table has now; ``columns`` are those wanted."""
    return rows_in(file, content_of(log, file), schema, columns)


def content_of(log: CommitLog, file: DataFile) -> bytes:
    """Fetch a file."""
    data = log.objects.get(relative(log, file.url))
    if data is None:
        raise InternalError(
            f"The data file {file.url} is missing", "something other than the catalog removed it"
        )
    return data


def rows_in(file: DataFile, data: bytes, schema: Schema | None, columns: Any = None) -> Any:
    """Read the rows of a file that was fetched; ``columns`` are those wanted."""
    try:
        table = _decoded(file, data, schema, columns)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise InternalError(f"The data file {file.url} cannot be read", "it is damaged") from error
    return table if schema is None else projected(table, schema, columns)


def relative(log: CommitLog, url: str) -> str:
    """Give the path of a data file below the root; old catalogs have whole addresses."""
    if "://" not in url and not url.startswith("/"):
        return url
    plain = url.removeprefix("file://")
    root = log.catalog_root.removeprefix("file://").rstrip("/")
    if root and plain.startswith(f"{root}/"):
        return plain[len(root) + 1 :]
    if "/data/" in plain:
        # The catalog has been moved since; its data directory moved with it.
        return "data/" + plain.rpartition("/data/")[2]
    raise UnsupportedOperationError(f"The data file {url} lies outside the catalog")


def projected(table: Any, schema: Schema, columns: Any = None) -> Any:
    """Give rows the columns of a schema: matched by field id, else by name; missing ones filled."""
    arrays, fields = [], []
    for field, position in _matched(table.schema, schema, columns):
        if position is None:
            arrays.append(default_column(field, table.num_rows))
        else:
            arrays.append(cast(table.column(position), field))
        fields.append(field.arrow.with_nullable(True))  # noqa: FBT003
    return pa.table(arrays, schema=pa.schema(fields, metadata=schema.arrow.metadata))


def _matched(found: Any, schema: Schema, columns: Any) -> Iterator[tuple[Field, int | None]]:
    by_id = _ids(found)
    for field in schema.fields:
        if columns is not None and field.name not in columns:
            continue
        position = by_id.get(field.id) if field.id is not None else None
        if position is None and field.name in found.names:
            position = found.names.index(field.name)
            if field.id is not None and position in by_id.values():
                position = None  # the name now belongs to another field
        yield field, position


def default_column(field: Field, count: int) -> Any:
    """Fill a column for rows that were written before it existed."""
    value = field.past_default
    kind = field.arrow.type
    return pa.nulls(count, kind) if value is None else pa.repeat(default_scalar(value, kind), count)


def cast(column: Any, field: Field) -> Any:
    """Give a column the type of a field, or say why it cannot have it."""
    if column.type == field.arrow.type:
        return column
    try:
        return column.cast(field.arrow.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TableSchemaValidationError(
            f"The column {field.name!r} cannot have the type {field.arrow.type}",
            f"its values are of type {column.type}: {error}",
        ) from error


def _ids(schema: Any) -> dict[int, int]:
    found = {}
    for position, field in enumerate(schema):
        text = (field.metadata or {}).get(FIELD_ID)
        if text is not None:
            found[int(text)] = position
    return found


def _decoded(file: DataFile, data: bytes, schema: Schema | None, columns: Any) -> Any:
    match file.content_type:
        case ContentType.PARQUET.value:
            return _from_parquet(data, schema, columns)
        case ContentType.FEATHER.value:
            return pa.feather.read_table(_readable(data))
        case ContentType.CSV.value:
            return pa.csv.read_csv(_readable(_plain(data)))
        case ContentType.JSON.value:
            return pa.json.read_json(_readable(_plain(data)))
        case _:
            raise UnsupportedOperationError(
                f"The data file {file.url} cannot be read", f"its format is {file.content_type}"
            )


def _from_parquet(data: bytes, schema: Schema | None, columns: Any) -> Any:
    file = pq.ParquetFile(_readable(data))
    if schema is None:
        return file.read()
    names = file.schema_arrow.names
    matches = _matched(file.schema_arrow, schema, columns)
    wanted = [names[position] for _, position in matches if position is not None]
    # One column tells at least how many rows there are.
    return file.read(columns=wanted or names[:1])


def _readable(data: bytes) -> Any:
    """Copy the bytes of a file to where Arrow's threads read them.

    A thread may hold them for a moment longer than the read takes. If they are Python's, and Python
    ends in this moment, the thread ends the process with SIGABRT.
    """
    copy = pa.BufferOutputStream()
    copy.write(data)
    return pa.BufferReader(copy.getvalue())


def _plain(data: bytes) -> bytes:
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
