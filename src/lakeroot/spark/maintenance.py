"""Keep tables fast: compact fragments and build indexes, in parallel, with one commit each."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import lance
import pyarrow as pa
from lance.indices import IndicesBuilder
from lance.optimize import Compaction
from pyspark.sql import SparkSession

from lakeroot.model.errors import InvalidInputError, TableIndexAlreadyExistsError
from lakeroot.spark.catalogs import Located, TableRef, locate
from lakeroot.spark.commits import require_read
from lakeroot.spark.distribute import distribute, until_uncontested
from lakeroot.spark.failures import damage, translated
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, check_number, table_alone
from lakeroot.spark.planning import (
    ReadPlan,
    ReadTask,
    missing_column,
    only_held,
    pack,
    plan_read,
)
from lakeroot.spark.reading import parallelism
from lakeroot.spark.scanning import reopened
from lakeroot.spark.sizes import projected_bytes
from lakeroot.tables.indexes import index_kind

SCALAR = ("BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER", "INVERTED")
VECTOR = ("IVF_PQ", "IVF_FLAT")
_PQ_CENTROIDS = 256
# Lance trains with two rows for each of them at least.
_FEWEST_ROWS_FOR_PQ = 2 * _PQ_CENTROIDS


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction has done."""

    version: int
    fragments_before: int
    fragments_after: int
    tasks: int


@dataclass(frozen=True, slots=True)
class IndexResult:
    """What an index build has made."""

    version: int
    name: str
    segments: int


def compact(
    spark: SparkSession,
    table: str | None = None,
    *,
    target_rows_per_fragment: int = 1024 * 1024,
    dry_run: bool = False,
    **options: Any,
) -> CompactResult:
    """Rewrite small fragments, and those with many deleted rows, into large ones.

    A dry run says how many fragments there would be, as far as their numbers of rows tell.
    """
    ref = table_alone(table, options, "target_rows_per_fragment", "dry_run")
    check_number("target_rows_per_fragment", target_rows_per_fragment)

    def attempt() -> CompactResult:
        located = locate(ref)
        dataset = open_table(located)
        before = len(dataset.get_fragments())
        with translated(f"Table {ref} cannot be compacted"):
            plan = Compaction.plan(dataset, {"target_rows_per_fragment": target_rows_per_fragment})
        if dry_run or not plan.tasks:
            after = before - sum(_saved(task, target_rows_per_fragment) for task in plan.tasks)
            return CompactResult(dataset.version, before, after, len(plan.tasks))
        what = f"Table {ref} cannot be compacted"
        work = partial(_compact_in, dataset)
        rewrites = distribute(spark, plan.tasks, work, what=what, size=_size(dataset))
        require_read(located, dataset)
        with translated(what):
            Compaction.commit(dataset, rewrites)
        done = open_table(locate(ref))
        return CompactResult(done.version, before, len(done.get_fragments()), len(plan.tasks))

    return until_uncontested(attempt)


def _saved(task: Any, target_rows: int) -> int:
    """Tell how many fragments fewer there are when a task is done."""
    rows = sum(fragment.num_rows for fragment in task.fragments)
    return int(len(task.fragments) - math.ceil(rows / target_rows))


def _compact_in(dataset: lance.LanceDataset, task: Any) -> Any:
    return task.execute(dataset)


def _size(dataset: lance.LanceDataset) -> int:
    return sum(
        file.file_size_bytes or 0
        for fragment in dataset.get_fragments()
        for file in fragment.metadata.files
    )


def job_kind(kind: str) -> str:
    """Read the kind of an index that a job is to build, by any of its names."""
    word = index_kind(kind)
    if word not in (*SCALAR, *VECTOR):
        raise InvalidInputError(
            f"No job builds an index of kind {kind!r}",
            f"jobs build {', '.join((*SCALAR, *VECTOR))}",
            "Let one process build it: `lakeroot index create`, or create_table_index",
        )
    return word


def index(
    spark: SparkSession,
    table: str | None = None,
    *,
    column: str,
    kind: str,
    name: str | None = None,
    replace: bool = False,
    metric: str = "l2",
    partitions: int | None = None,
    sub_vectors: int | None = None,
    dry_run: bool = False,
    **options: Any,
) -> IndexResult:
    """Build an index over a column: each task over some fragments, all in one commit.

    `column` may be a field of a struct, as `column.field`. `kind` is BTREE, BITMAP, LABEL_LIST,
    NGRAM, ZONEMAP, BLOOMFILTER, INVERTED (full text), or IVF_PQ and IVF_FLAT for vectors, with
    `metric`, `partitions` and `sub_vectors`. A dry run checks that the index can be built, and
    needs no Spark.
    """
    own = ("column", "kind", "name", "replace", "metric", "partitions", "sub_vectors", "dry_run")
    ref = table_alone(table, options, *own)
    word = job_kind(kind)
    check_number("partitions", partitions)
    check_number("sub_vectors", sub_vectors)
    called = name or f"{column}_idx"

    def attempt() -> IndexResult:
        located = locate(ref)
        dataset = open_table(located)
        _check_column(dataset, ref, column, word)
        taken = [each.name for each in dataset.describe_indices()]
        if called in taken and not replace:
            raise TableIndexAlreadyExistsError(
                f"Table {ref} already has an index {called!r}", fix="Set `replace` to true"
            )
        if dry_run:
            return IndexResult(dataset.version, called, 0)
        arguments: dict[str, Any] = {"replace": replace}
        if word in VECTOR:
            arguments |= {"metric": metric}
            arguments |= _trained(dataset, ref, column, word, metric, partitions, sub_vectors)
        return _built(spark, located, dataset, column, word, called, arguments)

    return until_uncontested(attempt)


def _check_column(dataset: lance.LanceDataset, ref: TableRef, column: str, kind: str) -> None:
    field = _field(dataset.schema, column)
    if field is None:
        raise missing_column(column, ref, dataset.schema.names)
    known = _kinds_for(field.type)
    if column not in dataset.schema.names:
        known = tuple(each for each in known if each in SCALAR)  # Lance trains whole columns alone.
    if kind not in known:
        raise InvalidInputError(
            f"Column {column!r} of table {ref} cannot have an index of kind {kind}",
            f"it holds {field.type}",
            f"Use {', '.join(known)}" if known else "",
        )
    if not dataset.get_fragments():
        raise InvalidInputError(f"Table {ref} is empty", fix="Write rows first, then index them")


def _field(schema: pa.Schema, path: str) -> pa.Field | None:
    """Find a column, or a field inside of structs."""
    if path in schema.names:
        return schema.field(path)
    first, *inner = path.split(".")
    found = schema.field(first) if first in schema.names else None
    for name in inner:
        if found is None or not pa.types.is_struct(found.type):
            return None
        at = found.type.get_field_index(name)
        found = found.type.field(at) if at >= 0 else None
    return found


def _kinds_for(kind: pa.DataType) -> tuple[str, ...]:
    """Tell which indexes a column of a type can have."""
    if pa.types.is_fixed_size_list(kind):
        numbers = kind.value_type
        unsigned = pa.types.is_unsigned_integer(numbers)
        return VECTOR if unsigned or pa.types.is_floating(numbers) else ()
    if isinstance(kind, pa.BaseExtensionType):
        return SCALAR  # Lance knows some of them, and says which it does not.
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    fits = {
        "BTREE": not (pa.types.is_nested(kind) or pa.types.is_dictionary(kind)),
        "LABEL_LIST": lists,
        "NGRAM": _is_text(kind),
        "INVERTED": _is_text(kind.value_type if lists else kind),
    }
    fits["BITMAP"] = fits["BTREE"]
    return tuple(each for each in SCALAR if fits.get(each, True))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _trained(
    dataset: lance.LanceDataset,
    ref: TableRef,
    column: str,
    kind: str,
    metric: str,
    partitions: int | None,
    sub_vectors: int | None,
) -> dict[str, Any]:
    """Find the centroids that all tasks must share, from a sample, in the driver."""
    rows = dataset.count_rows()
    if kind == "IVF_PQ" and rows < _FEWEST_ROWS_FOR_PQ:
        raise InvalidInputError(
            f"Table {ref} has {rows} rows; IVF_PQ needs {_FEWEST_ROWS_FOR_PQ}",
            fix="Use IVF_FLAT, or search without an index",
        )
    builder = IndicesBuilder(dataset, column)
    number = partitions or max(1, min(4096, int(rows**0.5) // 2))
    with _training(f"The index of column {column!r} of table {ref} cannot be trained"):
        ivf = builder.train_ivf(
            number, distance_type=metric, sample_rate=_sample_rate(rows, number)
        )
        found: dict[str, Any] = {
            "ivf_centroids": ivf.centroids,
            "num_partitions": ivf.num_partitions,
        }
        if kind == "IVF_PQ":
            size = dataset.schema.field(column).type.list_size
            parts = sub_vectors or next(n for n in (size // 16, size // 8, size // 2, 1) if n >= 1)
            pq = builder.train_pq(ivf, parts, sample_rate=_sample_rate(rows, _PQ_CENTROIDS))
            found |= {"pq_codebook": pq.codebook, "num_sub_vectors": parts}
    return found


@contextmanager
def _training(what: str) -> Iterator[None]:
    """Tell numbers that Lance does not take, which are its `ValueError`, from what fails."""
    with translated(what):
        try:
            yield
        except ValueError as error:
            raise damage(what, str(error)) or InvalidInputError(what, str(error)) from error


def _sample_rate(rows: int, centroids: int) -> int:
    """Take 256 rows per centroid for training, or what a small table has."""
    return max(2, min(256, rows // centroids))  # Lance refuses one


def _built(
    spark: SparkSession,
    table: Located,
    dataset: lance.LanceDataset,
    column: str,
    kind: str,
    name: str,
    arguments: dict[str, Any],
) -> IndexResult:
    ref = table.ref
    # Lance reads the column itself, nanoseconds and all.
    options = ReadOptions(version=dataset.version, truncate_nanos=True)
    plan = plan_read(ref, only_held(dataset.schema, options))
    sizes = {f.fragment_id: max(1, f.count_rows()) for f in dataset.get_fragments()}
    whole = column if column in dataset.schema.names else column.split(".")[0]
    small = projected_bytes(dataset, [whole]) < (8 << 20)
    tasks = pack(sizes, 1 if small else parallelism(spark))
    what = f"The index {name!r} of table {ref} cannot be built"
    work = partial(_index_in, plan, column, kind, name, arguments)
    segments = distribute(spark, tasks, work, what=what)
    require_read(table, dataset)
    with translated(what):
        dataset.commit_existing_index_segments(name, column, segments)
    return IndexResult(open_table(locate(ref)).version, name, len(segments))


def _index_in(
    plan: ReadPlan, column: str, kind: str, name: str, arguments: dict[str, Any], task: ReadTask
) -> Any:
    """Build one segment of an index over the fragments of a task."""
    return reopened(plan.scan).create_index_uncommitted(
        column, kind, name=name, fragment_ids=list(task.fragments or ()), **arguments
    )
