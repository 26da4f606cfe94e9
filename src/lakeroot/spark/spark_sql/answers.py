"""What the SQL catalog answers: every operation of Spark's catalog, over a Lance namespace."""

import base64
import datetime as dt
import json
import uuid
from typing import Any

import lance_namespace as ln
import pyarrow as pa
from pyspark.sql import types as st

from lakeroot.model import errors
from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.failures import translated
from lakeroot.spark.opening import Opened, opened_for
from lakeroot.spark.options import ReadOptions, parse
from lakeroot.spark.planning import read_schema
from lakeroot.spark.source_writing import LakerootWriter
from lakeroot.spark.spark_sql import creating
from lakeroot.spark.spark_sql.altering import alter
from lakeroot.spark.spark_sql.commenting import with_comments
from lakeroot.spark.spark_sql.reads import conditions_of
from lakeroot.spark.spark_sql.sinks import Sinks, messages
from lakeroot.spark.spark_sql.tasks import encoded
from lakeroot.spark.write_tasks import watched

_CHOOSING = frozenset({"version", "tag", "branch", "asof"})


def _key(table: dict[str, Any]) -> str:
    return json.dumps([table["id"], table.get("pinned")])


class Answers(Sinks):
    """Answer the questions of one catalog; one object serves one name in one session."""

    def __init__(
        self, catalog: Catalog, parallelism: int, written_column: str, *, columnar: bool
    ) -> None:
        super().__init__(parallelism, written_column, columnar=columnar)
        self.catalog = catalog
        self.writes: dict[str, LakerootWriter] = {}

    def _client(self) -> ln.LanceNamespace:
        return self.catalog.connect()

    def _ref(self, names: list[str]) -> TableRef:
        return TableRef(self.catalog, tuple(names))

    def wanted(self, request: dict[str, Any]) -> tuple[TableRef, ReadOptions, Opened]:
        """Say which table is read, and how, and open it."""
        table = request["table"]
        chosen = {key: value for key, value in table.items() if key not in ("id", "cut", "pinned")}
        given = {**request.get("options", {}), **chosen, "truncateNanos": True}
        if "pinned" in table and not {k.lower() for k in given} & _CHOOSING:
            given["version"] = table["pinned"]
        ref, options = self._ref(table["id"]), parse(ReadOptions, given)
        # Options of the query may choose another version than the pinned one, or another branch.
        same = "pinned" in table and options.version == table["pinned"] and options.branch is None
        kept = self.opened.get(_key(table)) if same else None
        return ref, options, kept or opened_for(ref, options)

    def described(self, schema: st.StructType, table: pa.Schema) -> st.StructType:
        """Show the comments of columns."""
        return with_comments(schema, table)

    # Tables

    def op_load_table(self, request: dict[str, Any]) -> dict[str, Any]:
        """Describe a table at a version, tag, branch or time."""
        ref = self._ref(request["id"])
        chosen = chosen_version(request)
        options = parse(ReadOptions, {**chosen, "truncateNanos": True})
        opened = opened_for(ref, options)
        dataset = opened.dataset
        schema = self.described(read_schema(dataset, ref, options), dataset.schema)
        # A plain read is pinned to the version that Spark has analysed the query with.
        pinned = chosen or {"pinned": dataset.version}
        table = {"id": request["id"], "cut": opened.cut, **pinned}
        if not chosen:
            self.keep(_key(table), opened)
        return {
            "table": table,
            "schema": schema.json(),
            "properties": {"provider": "lakeroot", "version": str(dataset.version)},
        }

    def op_create_table(self, request: dict[str, Any]) -> bool:
        """Create an empty table."""
        ref = self._ref(request["id"])
        creating.check(ref, request)
        creating.empty(ref, request)
        return True

    def op_create_table_like(self, request: dict[str, Any]) -> bool:
        """Create an empty table with the columns of another."""
        ref, columns = self._ref(request["id"]), None
        if "columns" in request:
            columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(request["columns"])))
        creating.check(ref, request)
        creating.empty(ref, request, columns)
        return True

    def op_arrow_schema(self, request: dict[str, Any]) -> str:
        """Say the columns of a table as they are, for one like it in any catalog."""
        _, _, opened = self.wanted(request)
        return encoded(opened.dataset.schema.serialize().to_pybytes())

    def op_stream_into_table(self, request: dict[str, Any]) -> dict[str, Any]:
        """Check a table that a stream is to make, which it does when its first batch comes."""
        creating.check(self._ref(request["id"]), request)
        table = {"id": request["id"], "cut": []}
        return {"table": table, "properties": {"provider": "lakeroot"}}

    def op_create_table_as_select(self, request: dict[str, Any]) -> dict[str, Any]:
        """Check a table that a query is to fill; it goes on saying what it is to be."""
        creating.check(self._ref(request["id"]), request)
        staged = {key: request[key] for key in ("mode", "schema", "properties")}
        table = {"id": request["id"], "cut": [], "staged": staged}
        return {"table": table, "properties": {"provider": "lakeroot"}}

    def op_replace_table(self, request: dict[str, Any]) -> dict[str, Any]:
        """Check a table whose next version is to be another, with a query or without."""
        return self.op_create_table_as_select(request)

    def op_create_staged(self, request: dict[str, Any]) -> bool:
        """Create or replace a table with no rows."""
        ref, staged = self._ref(request["table"]["id"]), request["table"]["staged"]
        if creating.done_before(ref, {}, staged["properties"]) is None:
            creating.empty(ref, staged)
        return True

    def op_alter_table(self, request: dict[str, Any]) -> dict[str, Any]:
        """Add, rename and drop columns."""
        alter(self._ref(request["id"]), request["changes"])
        return self.op_load_table({"id": request["id"]})

    def op_drop_table(self, request: dict[str, Any]) -> bool:
        """Drop a table with its data."""
        try:
            with translated("The table cannot be dropped"):
                self._client().drop_table(ln.DropTableRequest(id=request["id"]))
        except errors.NotFoundError:
            return False
        return True

    def op_rename_table(self, request: dict[str, Any]) -> bool:
        """Rename a table, also into another namespace."""
        *namespace, name = request["to"]
        with translated("The table cannot be renamed"):
            self._client().rename_table(
                ln.RenameTableRequest(
                    id=request["id"], new_table_name=name, new_namespace_id=namespace
                )
            )
        return True

    def op_list_tables(self, request: dict[str, Any]) -> list[str]:
        """List the tables of a namespace."""
        with translated("The tables cannot be listed"):
            return list(self._client().list_tables(ln.ListTablesRequest(id=request["id"])).tables)

    # Namespaces

    def op_list_namespaces(self, request: dict[str, Any]) -> list[str]:
        """List the namespaces below one."""
        asked = ln.ListNamespacesRequest(id=request["id"])
        with translated("The namespaces cannot be listed"):
            return list(self._client().list_namespaces(asked).namespaces)

    def op_describe_namespace(self, request: dict[str, Any]) -> dict[str, str]:
        """Return the properties of a namespace."""
        asked = ln.DescribeNamespaceRequest(id=request["id"])
        with translated("The namespace cannot be described"):
            return dict(self._client().describe_namespace(asked).properties or {})

    def op_create_namespace(self, request: dict[str, Any]) -> bool:
        """Create a namespace."""
        asked = ln.CreateNamespaceRequest(
            id=request["id"],
            properties={k: v for k, v in request["properties"].items() if k != "owner"},
        )
        with translated("The namespace cannot be created"):
            self._client().create_namespace(asked)
        return True

    def op_drop_namespace(self, request: dict[str, Any]) -> bool:
        """Drop a namespace, with everything in it if that was said."""
        behavior = "Cascade" if request["cascade"] else "Restrict"
        asked = ln.DropNamespaceRequest(id=request["id"], behavior=behavior)
        with translated("The namespace cannot be dropped"):
            self._client().drop_namespace(asked)
        return True

    # Changes

    def target(self, request: dict[str, Any]) -> TableRef:
        """Find the table of a name."""
        return self._ref(request["table"]["id"])

    def op_delete(self, request: dict[str, Any]) -> bool:
        """Delete rows by predicate."""
        from pyspark.sql import SparkSession

        from lakeroot.spark.changing import delete_rows

        where = " AND ".join(f"({each})" for each in conditions_of(request)) or "true"
        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        delete_rows(spark, self._ref(request["table"]["id"]), where)
        return True

    def op_truncate(self, request: dict[str, Any]) -> bool:
        """Delete all rows."""
        return self.op_delete({**request, "predicates": []})

    def op_prepare_write(self, request: dict[str, Any]) -> dict[str, Any]:
        """Prepare a write: the function that Spark's workers run."""
        ref, given = self._ref(request["table"]["id"]), request["options"]
        staged = request["table"].get("staged")
        properties = None if staged is None else staged["properties"]
        if creating.done_before(ref, given, properties) is not None:
            target = LakerootWriter(None)
        elif staged is not None:
            target = LakerootWriter(watched(creating.planned(ref, staged, given)))
        else:
            schema = st.StructType.fromJson(json.loads(request["schema"]))
            plan = creating.insertion(ref, schema, given, overwrite=request["overwrite"])
            target = LakerootWriter(watched(plan))
        token = uuid.uuid4().hex
        self.writes[token] = target
        return self.prepared(token, target, ref)

    def op_commit_write(self, request: dict[str, Any]) -> bool:
        """Publish what the tasks have written."""
        target = self.writes.pop(request["write"])
        target.commit(messages(request))
        return True

    def op_abort_write(self, request: dict[str, Any]) -> bool:
        """Remove what the tasks have written."""
        target = self.writes.pop(request["write"], None)
        if target is not None:
            target.abort([])
        return True


def chosen_version(request: dict[str, Any]) -> dict[str, Any]:
    """Read VERSION AS OF (a number, a tag or a branch) and TIMESTAMP AS OF."""
    if "micros" in request:
        moment = dt.datetime.fromtimestamp(request["micros"] / 1e6, dt.UTC)
        return {"asOf": moment.isoformat()}
    text = request.get("version")
    if text is None:
        return {}
    if text.isdigit():
        return {"version": text}
    kind, _, name = text.rpartition(":")
    return {"branch" if kind == "branch" else "tag": name}
