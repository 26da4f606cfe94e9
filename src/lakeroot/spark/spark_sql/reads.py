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
from lakeroot.spark.spark_sql.predicates import predicate
from lakeroot.spark.spark_sql.tasks import PICKLE, encoded, reader
from lakeroot.spark.types import NANOS, spark_schema
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

    def may_cut(self, request: dict[str, Any]) -> bool:
        """Tell whether columns may lose their nanoseconds.

        Tables are described as if they might, or nobody could ask for their other columns; so it
        counts what the query itself says.
        """
        return parse(ReadOptions, request.get("options", {})).truncate_nanos

    def refuse_cut(self, read: pa.Schema) -> None:
        """Refuse to read columns that would lose their nanoseconds."""
        spark_schema(read)

    def described(self, schema: st.StructType, table: pa.Schema) -> st.StructType:
        """Give what Spark is to know of columns that are read, which is what it knew before."""
        del table
        return schema

    def op_push(self, request: dict[str, Any]) -> list[str | None]:
        """Say which predicates Lance evaluates.

        None, if the options bound or rank the rows: a predicate of the query comes after that.
        """
        given = {key.replace("_", "").lower() for key in request.get("options", {})}
        if given & _BOUNDED:
            return [None] * len(request["predicates"])
        cut = dict(request["table"]["cut"])
        if self.may_cut(request):
            # Who sees times without nanoseconds compares them without, too.
            cut = {path: None if how == NANOS else how for path, how in cut.items()}
        return [predicate(tree, cut) for tree in request["predicates"]]

    def op_plan(self, request: dict[str, Any]) -> dict[str, Any]:
        """Plan a scan: the function and the tasks that Spark's workers run."""
        ref, options, opened = self.wanted(request)
        if "limit" in request:
            options = with_limit(options, request["limit"])
        names = request["columns"]
        refused = self._refused(request, opened.dataset.schema)
        options = replace(
            options, with_row_id="_rowid" in names, with_row_address="_rowaddr" in names
        )
        plan = plan_read(
            ref,
            options,
            parallelism=self.parallelism,
            pruned=names or _any_column(request, read_schema(opened.dataset, ref, options)),
            conditions=conditions_of(request),
            opened=opened,
            few=few,
        )
        answer = {
            "schema": self.described(plan.schema, opened.dataset.schema).json(),
            "text": plan.describe(),
            "bytes": plan.bytes,
            # A filter's selectivity is unknown, and a wrong count is worse than none.
            "rows": -1 if "filter" in plan.scan.arguments else plan.rows,
        }
        if refused is not None:
            return {**answer, "refused": f"{type(refused).__name__}: {refused}"}
        if plan.here is not None:
            return {**answer, "local": encoded(stream_of(plan.here))}
        return {
            **answer,
            "columnar": self.columnar,
            "what": f"Table {ref} cannot be read",
            "function": encoded(PICKLE.dumps((reader(plan.scan), plan.schema))),
            "tasks": [encoded(PICKLE.dumps(task)) for task in plan.tasks],
        }

    def _refused(self, request: dict[str, Any], schema: pa.Schema) -> LakerootError | None:
        """Refuse to cut nanoseconds: at once, unless Spark plans what it may never read.

        For a DELETE it plans to read all of the table, and then leaves that to the catalog.
        """
        names = request["columns"]
        if self.may_cut(request):
            return None
        try:
            self.refuse_cut(pa.schema([field for field in schema if field.name in names]))
        except LakerootError as error:
            if request["predicates"] or set(schema.names).difference(names):
                raise
            return error
        return None

    def op_count(self, request: dict[str, Any]) -> int:
        """Count rows, from metadata and indexes where they suffice."""
        ref, options, opened = self.wanted(request)
        conditions = [*([options.filter] if options.filter else []), *conditions_of(request)]
        where = " AND ".join(map(whole, conditions))
        with translated(f"Rows of table {ref} cannot be counted"):
            return int(opened.dataset.count_rows(where or None))


def _any_column(request: dict[str, Any], schema: st.StructType) -> list[str]:
    """Choose what to read where only the number of rows counts, of what Spark knows the table by.

    A query in SQL does not know what a search adds, nor a frame what its own schema leaves out.
    """
    known = set(request["known"])
    return narrowest(st.StructType([field for field in schema.fields if field.name in known]))


def conditions_of(request: dict[str, Any]) -> list[str]:
    """Write the predicates of a request, all of which were found to be for Lance."""
    conditions = []
    for tree in request["predicates"]:
        written = predicate(tree, request["table"]["cut"])
        if written is None:  # Rows would be chosen that nobody has asked for.
            raise errors.InternalError(f"Lance was given a condition that it cannot hold: {tree}")
        conditions.append(written)
    return conditions


def stream_of(rows: pa.Table) -> bytes:
    """Write rows as the stream of Arrow that Spark takes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())
