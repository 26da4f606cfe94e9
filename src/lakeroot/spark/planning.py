"""Plan a read on the driver: which version, which columns, which fragments in which task."""

import heapq
import math
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import types as st

from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
)
from lakeroot.spark.catalogs import Located, TableRef, expires
from lakeroot.spark.failures import nearest
from lakeroot.spark.opening import Opened, opened_for, unpacked
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.types import exchange_schema, spark_schema

# A Python task costs about 50 ms however little it reads, so small fragments share tasks.
BYTES_PER_TASK = 64 << 20
_SMALL_TABLE = 8 << 20
# So little, and found by an index, is read by the driver itself rather than by a job.
_FEW_ROWS = 1000
_FEW_BYTES = 1 << 20
# Vectors of so many bytes are searched by the driver without an index; 600 MB took 0.3 s.
_SEARCHED_BYTES = 1 << 30
_NARROW_BATCH = 32 * 1024
_BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What one task reads: some fragments, or a range of the rows of one of them."""

    fragments: tuple[int, ...] | None
    offset: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Everything a task must know to read; it travels in the task, never in a plan.

    The open dataset travels with its manifest inside, so that no task looks a version up again
    and all of them read the same one, whatever is committed or cleaned up meanwhile.
    """

    dataset: bytes = field(repr=False)
    key: tuple[str, str | None, int]
    arguments: dict[str, Any] = field(repr=False)
    schema: pa.Schema = field(repr=False)
    table: Located | None = None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A read that is ready to run."""

    ref: TableRef
    version: int
    schema: st.StructType
    scan: Scan
    tasks: tuple[ReadTask, ...]
    rows: int
    bytes: int
    few: bool = False

    def describe(self) -> str:
        """Say what will be read, for a person."""
        columns = ", ".join(self.schema.fieldNames())
        where = self.scan.arguments.get("filter")
        return (
            f"{self.ref} version {self.version}: columns [{columns}]"
            + (f", filter [{where}]" if where else "")
            + f", {len(self.tasks)} tasks, about {self.bytes} bytes"
        )


def plan_read(
    ref: TableRef,
    options: ReadOptions,
    *,
    parallelism: int | None = None,
    pruned: st.StructType | None = None,
    conditions: Sequence[str] = (),
    opened: Opened | None = None,
    spread: bool = False,
) -> ReadPlan:
    """Plan a read; `pruned` is the schema Spark still wants, `conditions` the filters it gives.

    With `spread`, the tasks of a large search find the nearest of their own rows each, and the
    caller chooses among them.
    """
    opened = opened or opened_for(ref, options)
    dataset = opened.dataset
    schema = read_schema(dataset, ref, options)
    if pruned is not None:
        schema = _narrowed(schema, pruned, ref)
    arguments = scan_arguments(dataset, ref, options, schema, conditions)
    branch = named_branch(options)
    scan = Scan(
        pickle.dumps(opened.main),
        (dataset.uri, branch, dataset.version),
        arguments,
        exchange_schema(schema),
        opened.table,
    )
    # The one that was unpacked stays open from query to query, with the indexes it has read.
    warm = dataset if expires(opened.table) else unpacked(scan.key, scan.dataset)
    text = _explained(warm, ref, options, arguments)
    rows = dataset.count_rows()
    size = projected_bytes(dataset, schema.fieldNames())
    expected = _expected_rows(warm, options, arguments, rows, text)
    left = size if expected is None else size * min(expected, rows) // max(rows, 1)
    if spread and expected is None and "nearest" in arguments:
        searched = projected_bytes(dataset, [arguments["nearest"]["column"]])
        tasks = _fragment_groups(dataset, options, searched, parallelism)
    else:
        tasks = _tasks(dataset, options, arguments, left, parallelism)
    few = expected is not None and expected <= _FEW_ROWS and left <= _FEW_BYTES
    return ReadPlan(ref, dataset.version, schema, scan, tasks, rows, left, few)


def named_branch(options: ReadOptions) -> str | None:
    """Return the branch to read, or nothing for the main one."""
    return None if options.branch == "main" else options.branch


def read_schema(dataset: lance.LanceDataset, ref: TableRef, options: ReadOptions) -> st.StructType:
    """Return the Spark schema a read delivers."""
    arrow = dataset.schema
    if options.columns is not None:
        for name in options.columns:
            if name not in arrow.names:
                raise missing_column(name, ref, arrow.names)
        arrow = pa.schema([arrow.field(name) for name in options.columns])
    schema = spark_schema(arrow, truncate_nanos=options.truncate_nanos)
    extra = []
    if options.vector is not None:
        extra.append(st.StructField("_distance", st.FloatType()))
    if options.full_text_query is not None:
        extra.append(st.StructField("_score", st.FloatType()))
    if options.with_row_id:
        extra.append(st.StructField("_rowid", st.LongType()))
    if options.with_row_address:
        extra.append(st.StructField("_rowaddr", st.LongType()))
    return st.StructType([*schema.fields, *extra])


def missing_column(name: str, ref: TableRef, names: Sequence[str]) -> TableColumnNotFoundError:
    """Say that a table has no such column."""
    return TableColumnNotFoundError(f"Table {ref} has no column {name!r}", fix=nearest(name, names))


def _narrowed(schema: st.StructType, wanted: st.StructType, ref: TableRef) -> st.StructType:
    """Keep the columns Spark still wants, as they are in the table."""
    known = {field.name: field for field in schema.fields}
    for name in wanted.fieldNames():
        if name not in known:
            raise missing_column(name, ref, list(known))
    return st.StructType([known[name] for name in wanted.fieldNames()])


def scan_arguments(
    dataset: lance.LanceDataset,
    ref: TableRef,
    options: ReadOptions,
    schema: st.StructType,
    conditions: Sequence[str],
) -> dict[str, Any]:
    """Build the arguments of the Lance scanner."""
    names = schema.fieldNames()
    parts = [*([options.filter] if options.filter else []), *conditions]
    arguments: dict[str, Any] = {
        "columns": [name for name in names if name in dataset.schema.names],
        "with_row_id": "_rowid" in names,
        "with_row_address": "_rowaddr" in names,
        "blob_handling": "all_binary",
    }
    # A search reads its vectors in such batches too, whatever it returns: many rows would be slow.
    if options.batch_size or not options.is_search:
        arguments["batch_size"] = options.batch_size or batch_rows(schema)
    if parts:
        arguments["filter"] = " AND ".join(f"({part})" for part in parts)
    if options.is_search:
        arguments |= _search_arguments(dataset, ref, options)
        wanted = [name for name in ("_distance", "_score") if name in names]
        arguments["columns"] = [*arguments["columns"], *wanted]
    elif options.limit is not None:
        arguments["limit"] = options.limit
    return arguments


def _explained(
    dataset: lance.LanceDataset, ref: TableRef, options: ReadOptions, arguments: dict[str, Any]
) -> str:
    """Return Lance's own plan of a scan, so that errors come now."""
    try:
        return str(dataset.scanner(**arguments).explain_plan())
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).split(", /")[0]
        what = f"Table {ref} cannot be read with the filter {arguments.get('filter')!r}"
        if options.is_search:
            what = f"Table {ref} cannot be searched like this"
        raise InvalidInputError(what, reason) from None


def _search_arguments(
    dataset: lance.LanceDataset, ref: TableRef, options: ReadOptions
) -> dict[str, Any]:
    if options.vector is not None and options.full_text_query is not None:
        raise InvalidInputError(
            "The options 'vector' and 'fullTextQuery' exclude each other",
            fix="Run two reads and join their results by row id",
        )
    if options.full_text_query is not None:
        query: Any = options.full_text_query
        if options.full_text_columns:
            query = {"query": query, "columns": list(options.full_text_columns)}
        return {"full_text_query": query, "limit": options.limit or options.k}
    name = options.vector_column or _only_vector_column(dataset, ref)
    if name not in dataset.schema.names:
        raise missing_column(name, ref, dataset.schema.names)
    nearest_to: dict[str, Any] = {
        "column": name,
        "q": list(options.vector or ()),
        "k": options.limit or options.k,
        "use_index": options.use_index,
    }
    for key in ("metric", "nprobes", "refine_factor"):
        value = getattr(options, key)
        if value is not None:
            nearest_to[key] = value
    return {"nearest": nearest_to, "prefilter": options.prefilter}


def _only_vector_column(dataset: lance.LanceDataset, ref: TableRef) -> str:
    vectors = [f.name for f in dataset.schema if pa.types.is_fixed_size_list(f.type)]
    if len(vectors) != 1:
        raise InvalidInputError(
            f"Table {ref} has {len(vectors)} vector columns",
            fix="Name one in the option `vectorColumn`",
        )
    return str(vectors[0])


def batch_rows(schema: st.StructType) -> int:
    """Choose how many rows cross to Spark at once: many narrow ones, few wide ones."""
    width = sum(_width(exchange) for exchange in exchange_schema(schema))
    for column in schema.fields:
        width += 4 * int(str(column.metadata.get("lakeroot.vector", "[0]")).split("[")[-1][:-1])
    rows = _BATCH_BYTES // max(width, 1)
    return int(min(_NARROW_BATCH, max(256, 1 << int(math.log2(max(rows, 1))))))


def narrowest(schema: st.StructType) -> list[str]:
    """Choose what to read where only the number of rows counts: batches of no columns lose it."""
    columns = sorted(exchange_schema(schema), key=_width)
    return [column.name for column in columns[:1]]


def _width(column: pa.Field) -> int:
    try:
        return max(1, int(column.type.bit_width) // 8)
    except ValueError:
        return 4096 if pa.types.is_binary(column.type) else 32


def projected_bytes(dataset: lance.LanceDataset, columns: Iterable[str]) -> int:
    """Estimate the bytes of the columns that are read, from the sizes of the files."""
    total = sum(_fragment_bytes(fragment) for fragment in dataset.get_fragments())
    whole = sum(_weight(column) for column in dataset.schema) or 1
    names = set(columns)
    part = sum(_weight(column) for column in dataset.schema if column.name in names)
    # In no file, but as large as a column of numbers where the rows go.
    made = 8 * len(names & {"_rowid", "_rowaddr"}) * dataset.count_rows()
    return int(total * part // whole + made)


def _weight(column: pa.Field) -> int:
    if pa.types.is_fixed_size_list(column.type):
        return int(_width(column.with_type(column.type.value_type)) * column.type.list_size)
    return _width(column)


def _fragment_bytes(fragment: lance.LanceFragment) -> int:
    files = fragment.metadata.files
    known = sum(file.file_size_bytes or 0 for file in files)
    return int(known or fragment.physical_rows * 32)


def _tasks(
    dataset: lance.LanceDataset,
    options: ReadOptions,
    arguments: dict[str, Any],
    size: int,
    parallelism: int | None,
) -> tuple[ReadTask, ...]:
    fragments = dataset.get_fragments()
    if options.is_search or options.limit is not None or not fragments:
        return (ReadTask(None),)
    wanted = _wanted_tasks(options, size, parallelism)
    if wanted > len(fragments) and "filter" not in arguments:
        return _row_ranges(fragments, wanted)
    return _fragment_groups(dataset, options, size, parallelism)


def _wanted_tasks(options: ReadOptions, size: int, parallelism: int | None) -> int:
    return options.partitions or max(
        math.ceil(size / BYTES_PER_TASK), (parallelism or 1) if size > _SMALL_TABLE else 1
    )


def _fragment_groups(
    dataset: lance.LanceDataset, options: ReadOptions, size: int, parallelism: int | None
) -> tuple[ReadTask, ...]:
    sizes = {each.fragment_id: _fragment_bytes(each) for each in dataset.get_fragments()}
    return pack(sizes, _wanted_tasks(options, size, parallelism)) if sizes else (ReadTask(None),)


def _expected_rows(
    dataset: lance.LanceDataset,
    options: ReadOptions,
    arguments: dict[str, Any],
    rows: int,
    plan: str,
) -> int | None:
    """Tell how many rows will come, where an index or a limit says so; else all must be read."""
    if options.partitions is not None:
        return None
    if not options.is_search and "filter" not in arguments:
        return options.limit
    if options.is_search:
        found = options.limit or options.k
        if "ANN" in plan or "MatchQuery" in plan or rows <= _FEW_ROWS:
            return found
        column = arguments["nearest"]["column"]
        return found if projected_bytes(dataset, [column]) <= _SEARCHED_BYTES else None
    if "ScalarIndexQuery" not in plan or "refine_filter=--" not in plan:
        return None
    found = int(dataset.count_rows(arguments["filter"]))
    return found if options.limit is None else min(found, options.limit)


def pack(sizes: dict[int, int], groups: int) -> tuple[ReadTask, ...]:
    """Spread fragments over at most so many tasks of about equal size, the largest first."""
    heap: list[tuple[int, int, list[int]]] = [
        (0, number, []) for number in range(max(1, min(groups, len(sizes))))
    ]
    for fragment in sorted(sizes, key=lambda each: -sizes[each]):
        total, number, members = heapq.heappop(heap)
        heapq.heappush(heap, (total + sizes[fragment], number, [*members, fragment]))
    ordered = sorted(heap, key=lambda group: group[1])
    return tuple(ReadTask(tuple(sorted(members))) for _, _, members in ordered)


def _row_ranges(fragments: list[lance.LanceFragment], wanted: int) -> tuple[ReadTask, ...]:
    """Cut the fragments into ranges of rows, so that few large ones still keep all cores busy."""
    total = sum(fragment.count_rows() for fragment in fragments)
    step = max(1, math.ceil(total / wanted))
    return tuple(
        ReadTask((fragment.fragment_id,), start, step)
        for fragment in fragments
        for start in range(0, max(fragment.count_rows(), 1), step)
    )


def with_limit(options: ReadOptions, limit: int) -> ReadOptions:
    """Lower the limit of a read; a search that has none of its own ranks `k` rows."""
    own = options.limit if options.limit is not None else options.k if options.is_search else limit
    return replace(options, limit=min(limit, own))
