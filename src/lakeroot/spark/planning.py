"""Plan a read on the driver: which version, which columns, which fragments in which task."""

import heapq
import math
from collections.abc import Callable, Sequence
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
from lakeroot.spark.expecting import asked_of_indexes, expected_rows, is_by_keys, most_rows
from lakeroot.spark.failures import nearest
from lakeroot.spark.opening import Opened, opened_for, unpacked
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.sizes import batch_rows, fragment_bytes, projected_bytes
from lakeroot.spark.types import exchange_schema, held, spark_schema
from lakeroot.tables.expressions import whole

# A Python task costs about 50 ms however little it reads, so small fragments share tasks.
BYTES_PER_TASK = 64 << 20
_SMALL_TABLE = 8 << 20
_LEAST_PER_TASK = 4 << 20


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
    # How many rows of this width are few.
    most: int
    # The rows themselves, where they are few and whoever plans wants them at once.
    here: pa.Table | None = field(default=None, repr=False)

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
    pruned: Sequence[str] | None = None,
    conditions: Sequence[str] = (),
    opened: Opened | None = None,
    spread: bool = False,
    few: Callable[[Scan, int], pa.Table | None] | None = None,
) -> ReadPlan:
    """Plan a read; `pruned` names the columns Spark still wants, `conditions` are its filters.

    With `spread`, the tasks of a large search find the nearest of their own rows each, and the
    caller chooses among them. `few` reads a scan at once, if it has no more than so many rows; it
    is asked only where a limit, a search or an index keeps it from reading much.
    """
    opened = opened or opened_for(ref, options)
    dataset = opened.dataset
    schema = read_schema(dataset, ref, options)
    if pruned is not None:
        schema = _narrowed(schema, pruned, ref)
    arguments = scan_arguments(dataset, ref, options, schema, conditions)
    scan = Scan(
        opened.packed,
        (dataset.uri, opened.branch, dataset.version),
        arguments,
        exchange_schema(schema),
        opened.table,
    )
    # The one that was unpacked stays open from query to query, with the indexes it has read.
    warm = dataset if expires(opened.table) else unpacked(scan.key, scan.dataset)
    text = _explained(warm, ref, options, arguments)
    rows = dataset.count_rows()
    size = projected_bytes(dataset, schema.fieldNames())
    most = most_rows(rows, size)
    few = few if schema.fields else None
    asked = asked_of_indexes(warm, options, arguments, text)
    # Whoever looks keys up means few rows, so they are read before they are counted.
    here = few(scan, most) if few and is_by_keys(asked) else None
    if here is not None:
        expected: int | None = here.num_rows
    else:
        expected = expected_rows(warm, options, arguments, rows, text, asked)
    if few and here is None and _may_be_few(options, expected, rows, most):
        here = few(scan, most)
    left = size if expected is None else size * min(expected, rows) // max(rows, 1)
    if here is not None:
        tasks: tuple[ReadTask, ...] = (ReadTask(None),)
    elif spread and expected is None and "nearest" in arguments and options.prefilter:
        # What is filtered after the search must be found among all rows first, by one task.
        searched = projected_bytes(dataset, [arguments["nearest"]["column"]])
        tasks = _fragment_groups(dataset, options, searched, parallelism)
    else:
        tasks = _tasks(dataset, options, arguments, left, parallelism)
    return ReadPlan(ref, dataset.version, schema, scan, tasks, rows, left, most, here)


def _may_be_few(options: ReadOptions, expected: int | None, rows: int, most: int) -> bool:
    """Tell whether to try and read at once; of the rows that words match no more than are few."""
    if expected is None:
        return options.full_text_query is not None and options.partitions is None
    return min(expected, rows) <= most


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


def only_held(table: pa.Schema, options: ReadOptions) -> ReadOptions:
    """Leave out the columns that Spark cannot hold, for a job that may need none of them.

    Where there is no other, the addresses of rows stand for them.
    """
    names = held(table)
    if len(names) == len(table):
        return options
    by_address = options.with_row_address or not names
    return replace(options, columns=tuple(names), with_row_address=by_address)


def missing_column(
    name: str, ref: TableRef | str, names: Sequence[str]
) -> TableColumnNotFoundError:
    """Say that a table has no such column."""
    return TableColumnNotFoundError(f"Table {ref} has no column {name!r}", fix=nearest(name, names))


def _narrowed(schema: st.StructType, wanted: Sequence[str], ref: TableRef) -> st.StructType:
    """Keep the columns Spark still wants, as they are in the table."""
    known = {field.name: field for field in schema.fields}
    for name in wanted:
        if name not in known:
            raise missing_column(name, ref, list(known))
    return st.StructType([known[name] for name in wanted])


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
        arguments["filter"] = " AND ".join(map(whole, parts))
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
    if options.ranked == 0:
        raise InvalidInputError("A search for 0 rows is none", fix="Set `limit` above 0")
    if options.full_text_query is not None:
        query: Any = options.full_text_query
        if options.full_text_columns:
            for name in options.full_text_columns:
                if name.split(".")[0] not in dataset.schema.names:
                    raise missing_column(name, ref, dataset.schema.names)
            query = {"query": query, "columns": list(options.full_text_columns)}
        bound = {} if options.ranked is None else {"limit": options.ranked}
        return {"full_text_query": query, "prefilter": options.prefilter, **bound}
    name = options.vector_column or _only_vector_column(dataset, ref)
    if name not in dataset.schema.names:
        raise missing_column(name, ref, dataset.schema.names)
    if not _holds_vectors(dataset.schema.field(name).type):
        raise InvalidInputError(
            f"Column {name!r} of table {ref} holds no vectors",
            f"its type is {dataset.schema.field(name).type}",
            "Name a column of vectors in the option `vectorColumn`",
        )
    nearest_to: dict[str, Any] = {
        "column": name,
        "q": list(options.vector or ()),
        "k": options.ranked,
        "use_index": options.use_index,
    }
    for key in ("metric", "nprobes", "refine_factor"):
        value = getattr(options, key)
        if value is not None:
            nearest_to[key] = value
    return {"nearest": nearest_to, "prefilter": options.prefilter}


def _holds_vectors(kind: pa.DataType) -> bool:
    """Tell whether each value is a vector, or several of one size."""
    several = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(pa.types.is_fixed_size_list(kind.value_type if several else kind))


def _only_vector_column(dataset: lance.LanceDataset, ref: TableRef) -> str:
    vectors = [f.name for f in dataset.schema if pa.types.is_fixed_size_list(f.type)]
    if len(vectors) != 1:
        raise InvalidInputError(
            f"Table {ref} has {len(vectors)} vector columns",
            fix="Name one in the option `vectorColumn`",
        )
    return str(vectors[0])


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
    """Choose a number of tasks that run in whole rounds: in a last one of few, cores stand idle."""
    if options.partitions or size <= _SMALL_TABLE:
        return options.partitions or 1
    at_once = min(parallelism or 1, math.ceil(size / _LEAST_PER_TASK))
    return at_once * math.ceil(size / BYTES_PER_TASK / at_once)


def _fragment_groups(
    dataset: lance.LanceDataset, options: ReadOptions, size: int, parallelism: int | None
) -> tuple[ReadTask, ...]:
    sizes = {each.fragment_id: fragment_bytes(each) for each in dataset.get_fragments()}
    return pack(sizes, _wanted_tasks(options, size, parallelism)) if sizes else (ReadTask(None),)


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
    """Lower the limit of a read; a search may have one of its own in `k`.

    What is filtered after its search may need more of what was found than are wanted.
    """
    if options.is_search and options.filter is not None and not options.prefilter:
        return options
    own = options.ranked if options.is_search else options.limit
    return replace(options, limit=limit if own is None else min(limit, own))
