"""What Spark asks about a read: which filters Lance takes, what the tasks are, how many rows."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from lakeroot.model import errors
from lakeroot.model.errors import LakerootError
from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.failures import explained, translated
from lakeroot.spark.opening import Opened
from lakeroot.spark.options import ReadOptions, parse
from lakeroot.spark.planning import plan_read, read_schema, with_limit
from lakeroot.spark.scanning import few
from lakeroot.spark.sizes import narrowest
from lakeroot.spark.sql.predicates import predicate
from lakeroot.spark.sql.tasks import PICKLE, encoded, reader
from lakeroot.spark.types import spark_schema
from lakeroot.tables.expressions import whole

_KINDS: tuple[tuple[type[LakerootError], str], ...] = (
    (errors.TableNotFoundError, "NoSuchTable"),
    (errors.TableAlreadyExistsError, "TableExists"),
    (errors.NamespaceNotFoundError, "NoSuchNamespace"),
    (errors.NamespaceAlreadyExistsError, "NamespaceExists"),
    (errors.NamespaceNotEmptyError, "NamespaceNotEmpty"),
)
_BOUNDED = frozenset({"limit", "vector", "fulltextquery"})
_KEPT = 16


class Reads(ABC):
    """Answer what Spark asks about reads; a subclass says which table a request means."""

    def __init__(self, parallelism: int, *, columnar: bool) -> None:
        self.parallelism = parallelism
        self.columnar = columnar
        self.opened: dict[str, Opened] = {}

    def keep(self, key: str, opened: Opened) -> None:
        """Keep what was opened to analyse a query, because planning it asks for the same."""
        self.opened[key] = opened
        # Questions come from as many threads as Spark has queries.
        for old in list(self.opened)[:-_KEPT]:
            self.opened.pop(old, None)

    def apply(self, question: str) -> str:
        """Answer a question; an error is an answer too, because nothing may be raised in Java."""
        request = json.loads(question)
        try:
            operation: Callable[[dict[str, Any]], Any] = getattr(self, "op_" + request["op"])
            return json.dumps({"ok": operation(request)})
        except Exception as error:  # noqa: BLE001
            known = error if isinstance(error, LakerootError) else explained("Failed", error)
            kind = next((word for base, word in _KINDS if isinstance(known, base)), "Other")
            text = f"{type(known).__name__}: {known}"
            return json.dumps({"error": kind, "message": text})

    @abstractmethod
    def wanted(self, request: dict[str, Any]) -> tuple[TableRef, ReadOptions, Opened]:
        """Say which table is read, and how, and open it."""

    def op_push(self, request: dict[str, Any]) -> list[str | None]:
        """Say which predicates Lance evaluates.

        None, if the options bound or rank the rows: a predicate of the query comes after that.
        """
        given = {key.replace("_", "").lower() for key in request.get("options", {})}
        if given & _BOUNDED:
            return [None] * len(request["predicates"])
        known = dict(request["table"]["cut"])
        cut = frozenset(path for path, most in known.items() if most is None)
        largest = {path: most for path, most in known.items() if most is not None}
        return [predicate(tree, cut, largest) for tree in request["predicates"]]

    def op_plan(self, request: dict[str, Any]) -> dict[str, Any]:
        """Plan a scan: the function and the tasks that Spark's workers run."""
        ref, options, opened = self.wanted(request)
        if "limit" in request:
            options = with_limit(options, request["limit"])
        names = request["columns"]
        if not _may_cut(request, options):
            read = [field for field in opened.dataset.schema if field.name in names]
            spark_schema(pa.schema(read))
        options = replace(
            options, with_row_id="_rowid" in names, with_row_address="_rowaddr" in names
        )
        plan = plan_read(
            ref,
            options,
            parallelism=self.parallelism,
            pruned=names or _any_column(request, read_schema(opened.dataset, ref, options)),
            conditions=_conditions(request),
            opened=opened,
            few=few,
        )
        answer = {
            "schema": plan.schema.json(),
            "text": plan.describe(),
            "bytes": plan.bytes,
            # A filter's selectivity is unknown, and a wrong count is worse than none.
            "rows": -1 if "filter" in plan.scan.arguments else plan.rows,
        }
        if plan.here is not None:
            return {**answer, "local": encoded(stream_of(plan.here))}
        return {
            **answer,
            "columnar": self.columnar,
            "function": encoded(PICKLE.dumps((reader(plan.scan), plan.schema))),
            "tasks": [encoded(PICKLE.dumps(task)) for task in plan.tasks],
        }

    def op_count(self, request: dict[str, Any]) -> int:
        """Count rows, from metadata and indexes where they suffice."""
        ref, options, opened = self.wanted(request)
        conditions = [*([options.filter] if options.filter else []), *_conditions(request)]
        where = " AND ".join(map(whole, conditions))
        with translated(f"Rows of table {ref} cannot be counted"):
            return int(opened.dataset.count_rows(where or None))


def _any_column(request: dict[str, Any], schema: st.StructType) -> list[str]:
    """Choose what to read where only the number of rows counts, of what Spark knows the table by.

    A query in SQL does not know what a search adds, nor a frame what its own schema leaves out.
    """
    known = set(request["known"])
    return narrowest(st.StructType([field for field in schema.fields if field.name in known]))


def _may_cut(request: dict[str, Any], options: ReadOptions) -> bool:
    """Tell whether columns may lose their nanoseconds.

    Tables of a catalog are described as if they might, or nobody could ask for their other columns;
    so of them it counts what the query itself says.
    """
    if "id" in request["table"]:
        return parse(ReadOptions, request.get("options", {})).truncate_nanos
    return options.truncate_nanos


def _conditions(request: dict[str, Any]) -> list[str]:
    conditions = [predicate(tree) for tree in request["predicates"]]
    return [each for each in conditions if each is not None]


def stream_of(rows: pa.Table) -> bytes:
    """Write rows as the stream of Arrow that Spark takes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())
