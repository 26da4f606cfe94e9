"""Every route of the Lance REST specification, as data.

A route says which operation it is, where the fields of its request come from, what its body and
its answer look like, and which role its caller needs on which object. `id` always comes from the
path. Everything else in this package reads this table.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import lance_namespace as api

from lakeroot.server.identity.access import Role

READER, WRITER, ADMIN = Role.READER, Role.WRITER, Role.ADMIN


class Body(Enum):
    """What the body of a request is."""

    JSON = auto()  # an object with the fields of the request; may be left out
    MAP = auto()  # an object that is one field of the request: its metadata
    ARROW = auto()  # an Arrow IPC stream; the fields of the request are in the query


class Answer(Enum):
    """What the body of a response is."""

    JSON = auto()
    EMPTY = auto()
    NUMBER = auto()  # the bare count
    TEXT = auto()  # a bare JSON string
    MAP = auto()  # the bare metadata
    ARROW_FILE = auto()


class On(Enum):
    """What the caller needs a role on."""

    NAMESPACE = auto()
    NEW_NAMESPACE = auto()
    LISTED = auto()  # a namespace of which the caller sees only what is granted to them
    SEEN = auto()  # a namespace that the caller may know of
    TABLE = auto()
    NEW_TABLE = auto()
    RENAMED = auto()  # both the old and the new name
    MEMBERS = auto()  # every member of the batch
    TRANSACTION = auto()  # the table of the transaction
    EVERYTHING = auto()  # the whole catalog, filtered
    QUERIED = auto()  # the whole catalog: a view's query may read any table and call any function


@dataclass(frozen=True, slots=True)
class Route:
    """One operation and how it is called."""

    operation: str
    path: str
    request: Any
    role: Role
    on: On
    query: tuple[str, ...] = ()
    body: Body = Body.JSON
    answer: Answer = Answer.JSON
    success: int = 200
    method: str = "POST"
    quick: bool = False

    @property
    def changes(self) -> bool:
        """Tell whether the operation changes anything."""
        return self.role > READER


_PAGE: Final = ("page_token", "limit")
_TABLES: Final = (*_PAGE, "include_declared")
_MERGE: Final = (
    "branch", "on", "when_matched_update_all", "when_matched_update_all_filt",
    "when_not_matched_insert_all", "when_not_matched_by_source_delete",
    "when_not_matched_by_source_delete_filt", "timeout", "use_index",
)  # fmt: skip
_DESCRIBE: Final = ("with_table_uri", "load_detailed_metadata", "check_declared")
_VERSIONS: Final = ("branch", *_PAGE, "descending")


def _namespace(action: str, operation: str, request: Any, role: Role, on: On, **more: Any) -> Route:
    return Route(operation, f"/v1/namespace/{{id}}/{action}", request, role, on, **more)


def _read(action: str, operation: str, request: Any, **more: Any) -> Route:
    return Route(operation, f"/v1/table/{{id}}/{action}", request, READER, On.TABLE, **more)


def _write(action: str, operation: str, request: Any, on: On = On.TABLE, **more: Any) -> Route:
    return Route(operation, f"/v1/table/{{id}}/{action}", request, WRITER, on, **more)


ROUTES: Final[tuple[Route, ...]] = (
    _namespace("list", "list_namespaces", api.ListNamespacesRequest, READER, On.LISTED,
               method="GET", query=_PAGE, quick=True),
    _namespace("describe", "describe_namespace", api.DescribeNamespaceRequest, READER,
               On.NAMESPACE, quick=True),
    _namespace("create", "create_namespace", api.CreateNamespaceRequest, WRITER, On.NEW_NAMESPACE),
    _namespace("drop", "drop_namespace", api.DropNamespaceRequest, ADMIN, On.NAMESPACE),
    _namespace("exists", "namespace_exists", api.NamespaceExistsRequest, READER, On.SEEN,
               answer=Answer.EMPTY, quick=True),
    _namespace("table/list", "list_tables", api.ListTablesRequest, READER, On.LISTED,
               method="GET", query=_TABLES, quick=True),
    Route("list_all_tables", "/v1/table", api.ListTablesRequest, READER, On.EVERYTHING,
          method="GET", query=_TABLES),
    _read("describe", "describe_table", api.DescribeTableRequest, query=_DESCRIBE, quick=True),
    _read("exists", "table_exists", api.TableExistsRequest, answer=Answer.EMPTY, quick=True),
    Route("register_table", "/v1/table/{id}/register", api.RegisterTableRequest, ADMIN,
          On.NEW_TABLE),
    _write("deregister", "deregister_table", api.DeregisterTableRequest),
    _write("drop", "drop_table", api.DropTableRequest),
    _write("declare", "declare_table", api.DeclareTableRequest, On.NEW_TABLE),
    _write("create", "create_table", api.CreateTableRequest, On.NEW_TABLE, body=Body.ARROW,
           query=("mode", "properties", "storage_options")),
    _write("rename", "rename_table", api.RenameTableRequest, On.RENAMED),
    _write("restore", "restore_table", api.RestoreTableRequest),
    _read("count_rows", "count_table_rows", api.CountTableRowsRequest, answer=Answer.NUMBER),
    _write("insert", "insert_into_table", api.InsertIntoTableRequest, body=Body.ARROW,
           query=("branch", "mode")),
    _write("merge_insert", "merge_insert_into_table", api.MergeInsertIntoTableRequest,
           body=Body.ARROW, query=_MERGE),
    _write("update", "update_table", api.UpdateTableRequest),
    _write("delete", "delete_from_table", api.DeleteFromTableRequest),
    _read("query", "query_table", api.QueryTableRequest, answer=Answer.ARROW_FILE),
    _read("explain_plan", "explain_table_query_plan", api.ExplainTableQueryPlanRequest,
          answer=Answer.TEXT),
    _read("analyze_plan", "analyze_table_query_plan", api.AnalyzeTableQueryPlanRequest,
          answer=Answer.TEXT),
    _write("create_index", "create_table_index", api.CreateTableIndexRequest),
    _write("create_scalar_index", "create_table_scalar_index", api.CreateTableIndexRequest),
    _read("index/list", "list_table_indices", api.ListTableIndicesRequest),
    _read("index/{index_name}/stats", "describe_table_index_stats",
          api.DescribeTableIndexStatsRequest),
    _write("index/{index_name}/drop", "drop_table_index", api.DropTableIndexRequest,
           query=("branch",)),
    _read("version/list", "list_table_versions", api.ListTableVersionsRequest, query=_VERSIONS),
    _write("version/create", "create_table_version", api.CreateTableVersionRequest),
    _read("version/describe", "describe_table_version", api.DescribeTableVersionRequest),
    _write("version/delete", "batch_delete_table_versions", api.BatchDeleteTableVersionsRequest),
    Route("batch_create_table_versions", "/v1/table/version/batch-create",
          api.BatchCreateTableVersionsRequest, WRITER, On.MEMBERS),
    Route("batch_commit_tables", "/v1/table/batch-commit", api.BatchCommitTablesRequest, WRITER,
          On.MEMBERS),
    _write("schema_metadata/update", "update_table_schema_metadata",
           api.UpdateTableSchemaMetadataRequest, body=Body.MAP, answer=Answer.MAP,
           query=("branch",)),
    _write("update_field_metadata", "update_field_metadata", api.UpdateFieldMetadataRequest),
    _read("stats", "get_table_stats", api.GetTableStatsRequest),
    _write("add_columns", "alter_table_add_columns", api.AlterTableAddColumnsRequest),
    _write("alter_columns", "alter_table_alter_columns", api.AlterTableAlterColumnsRequest),
    _write("drop_columns", "alter_table_drop_columns", api.AlterTableDropColumnsRequest),
    _write("backfill_column", "alter_table_backfill_columns",
           api.AlterTableBackfillColumnsRequest, success=202),
    Route("create_materialized_view", "/v1/materialized_view/{id}/create",
          api.CreateMaterializedViewRequest, ADMIN, On.QUERIED, success=201),
    Route("refresh_materialized_view", "/v1/materialized_view/{id}/refresh",
          api.RefreshMaterializedViewRequest, ADMIN, On.QUERIED, success=202),
    _read("tags/list", "list_table_tags", api.ListTableTagsRequest, query=_PAGE),
    _read("tags/version", "get_table_tag_version", api.GetTableTagVersionRequest),
    _write("tags/create", "create_table_tag", api.CreateTableTagRequest),
    _write("tags/delete", "delete_table_tag", api.DeleteTableTagRequest),
    _write("tags/update", "update_table_tag", api.UpdateTableTagRequest),
    _write("branches/create", "create_table_branch", api.CreateTableBranchRequest),
    _read("branches/list", "list_table_branches", api.ListTableBranchesRequest, query=_PAGE),
    _write("branches/delete", "delete_table_branch", api.DeleteTableBranchRequest),
    Route("describe_transaction", "/v1/transaction/{id}/describe",
          api.DescribeTransactionRequest, READER, On.TRANSACTION),
    Route("alter_transaction", "/v1/transaction/{id}/alter", api.AlterTransactionRequest, ADMIN,
          On.TRANSACTION),
)  # fmt: skip

# `create_empty_table` is deprecated in the interface and has no route in the specification.
NOT_ROUTED: Final = frozenset({"create_empty_table"})


class Matcher:
    """Finds the routes of a path by looking up its fixed parts."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_shape: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            shape = tuple(
                "*" if part.startswith("{") else part for part in route.path.split("/")[2:]
            )
            self._by_shape.setdefault(shape, {})[route.method] = route

    def routes_of(self, parts: list[str]) -> dict[str, Route] | None:
        """The routes, by method, of a path without its `/v1/`; nothing if there is none."""
        shapes = self._by_shape
        found = shapes.get(tuple(parts))
        if found is None and len(parts) > 1:
            parts = [parts[0], "*", *parts[2:]]
            found = shapes.get(tuple(parts))
            if found is None and len(parts) > 3:
                parts[3] = "*"
                found = shapes.get(tuple(parts))
        return found
