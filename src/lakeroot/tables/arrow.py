"""Arrow data as it comes in (IPC bytes, a stream, a frame) and as it goes out (IPC bytes)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from lance.schema import LanceSchema

from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.tables.alignment import aligned
from lakeroot.tables.expressions import check_new_name
from lakeroot.tables.faults import translated

_FILE_MAGIC: Final = b"ARROW1"


class ArrowData:
    """Rows to write: Arrow IPC bytes, a table, or a reader that can be read only once.

    Bytes are checked to their end before anything is written, so that a truncated body leaves no
    trace. A reader is streamed; `num_rows` counts what has passed.
    """

    def __init__(self, source: "bytes | pa.Buffer | pa.Table | pa.RecordBatchReader") -> None:
        self._source = source
        self.num_rows = 0
        self.problem: Exception | None = None
        if isinstance(source, pa.RecordBatchReader):
            self.schema: pa.Schema = source.schema
        elif isinstance(source, pa.Table):
            self.schema = source.schema
        else:
            self.schema = _checked_schema(source)

    @property
    def repeatable(self) -> bool:
        """Tell whether the rows can be read again after an attempt that failed."""
        return not isinstance(self._source, pa.RecordBatchReader)

    def reader(self) -> pa.RecordBatchReader:
        """Stream the rows, from the start if they are repeatable."""
        self.num_rows = 0
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        source = self._source
        try:
            if isinstance(source, pa.RecordBatchReader):
                batches: Iterator[pa.RecordBatch] = iter(source)
            elif isinstance(source, pa.Table):
                batches = iter(source.to_batches())
            else:
                batches = _ipc_batches(source)
            for batch in batches:
                self.num_rows += batch.num_rows
                yield aligned(batch)
        except Exception as error:
            # Lance would report this as a failure of its own; the writer needs the true cause.
            self.problem = error
            raise


def _ipc_batches(data: "bytes | pa.Buffer") -> Iterator[pa.RecordBatch]:
    if bytes(memoryview(data)[: len(_FILE_MAGIC)]) == _FILE_MAGIC:
        file = pa.ipc.open_file(data)
        for index in range(file.num_record_batches):
            yield file.get_batch(index)
    else:
        yield from pa.ipc.open_stream(data)


def _checked_schema(data: "bytes | pa.Buffer") -> pa.Schema:
    if not isinstance(data, bytes | bytearray | memoryview | pa.Buffer):
        raise InvalidInputError(
            f"Rows come as Arrow IPC bytes, not as {type(data).__name__}",
            fix="Send an Arrow IPC stream; in Python, a pyarrow table or reader will do as well",
        )
    try:
        with translated("Reading the Arrow IPC stream"):
            if bytes(memoryview(data)[: len(_FILE_MAGIC)]) == _FILE_MAGIC:
                schema = pa.ipc.open_file(data).schema
            else:
                schema = pa.ipc.open_stream(data).schema
            for batch in _ipc_batches(data):
                # In full: what Lance writes without looking, nobody could read again.
                batch.validate(full=True)
    except LakerootError as error:
        raise InvalidInputError(
            "The body is not a whole Arrow IPC stream",
            error.why,
            "Write it with pyarrow.ipc.new_stream, and close the writer before sending",
        ) from error
    return schema


def table_of(data: Any) -> pa.Table:
    """Give rows as a table: Arrow data of any library, a pandas frame, a list of dictionaries."""
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    with translated("Reading the rows"):
        if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
            return pa.Table.from_pylist(data)
        if type(data).__module__.startswith("pandas"):
            return pa.Table.from_pandas(data, preserve_index=False)
    raise InvalidInputError(
        f"A {type(data).__name__} does not hold rows",
        fix="Give an Arrow table, a pandas or polars frame, or a list of dictionaries",
    )


def check_new_schema(schema: pa.Schema) -> None:
    """Refuse a schema that no table can have, before anything is made for the table."""
    with translated("Creating the table"):
        for name in schema.names:
            check_new_name(name)
        LanceSchema.from_pyarrow(schema)


def ipc_file(reader: pa.RecordBatchReader) -> bytes:
    """Write every batch of a reader into the bytes of an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]  # pyarrow has no types


def translated_reader(reader: pa.RecordBatchReader, doing: str) -> pa.RecordBatchReader:
    """Give a reader whose failures, whenever they come, are errors of the catalog."""

    def batches() -> Iterator[pa.RecordBatch]:
        with translated(doing):
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
