"""Every caller, every operation, every scope, on both faces, against an oracle of its own.

Whether a call is allowed is decided before the catalog is asked, so a call that is allowed may
still be wrong for another reason (404 of a missing table, 409 of one that is there, 400 of a bad
body): what must never happen is that it is refused as forbidden, or that one that is not allowed
gets through.
"""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import lance_namespace
import pytest
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest

from lakeroot.server import Settings, hash_of, new_token, serving
from lakeroot.server.iceberg.routes import ROUTES as ICEBERG_ROUTES
from lakeroot.server.lance.routes import ROUTES as LANCE_ROUTES
from tests.server.conftest import IMPL
from tests.server.http import Answer, Client
from tests.server.rights_oracle import Grants, Need, Verdict, verdict, worst

CALLERS: Final[dict[str, Grants]] = {
    "nobody": (),
    "root-reader": (("reader", ()),),
    "root-writer": (("writer", ()),),
    "root-admin": (("admin", ()),),
    "prod-reader": (("reader", ("prod",)),),
    "prod-writer": (("writer", ("prod",)),),
    "prod-admin": (("admin", ("prod",)),),
    "eu-writer": (("writer", ("prod", "eu")),),
    "table-reader": (("reader", ("prod", "users")),),
    "table-writer": (("writer", ("prod", "eu", "sales")),),
    "mixed": (("reader", ("prod",)), ("writer", ("prod", "eu")), ("admin", ("other",))),
    "two-roles": (("reader", ("prod", "users")), ("writer", ("prod", "users"))),
    "look-alike": (("admin", ("pro",)), ("admin", ("prod2",)), ("admin", ("Prod",))),
}
ADMINS: Final = [caller for caller in CALLERS if "admin" in caller]
"""They come last: they may drop what the others ask for."""
TABLES: Final = [("prod", "users"), ("prod", "eu", "sales"), ("other", "t"), ("prod", "none")]
NAMESPACES: Final = [(), ("prod",), ("prod", "eu"), ("other",), ("none",)]

R, W, A = "reader", "writer", "admin"
LANCE: Final[dict[str, tuple[str, str]]] = {
    "list_namespaces": (R, "sight"), "describe_namespace": (R, "namespace"),
    "create_namespace": (W, "new"), "drop_namespace": (A, "namespace"),
    "namespace_exists": (R, "sight"), "list_tables": (R, "sight"),
    "describe_table": (R, "table"), "table_exists": (R, "table"), "register_table": (A, "new"),
    "deregister_table": (W, "table"), "drop_table": (W, "table"), "declare_table": (W, "new"),
    "create_table": (W, "new"), "restore_table": (W, "table"), "count_table_rows": (R, "table"),
    "insert_into_table": (W, "table"), "merge_insert_into_table": (W, "table"),
    "update_table": (W, "table"), "delete_from_table": (W, "table"), "query_table": (R, "table"),
    "explain_table_query_plan": (R, "table"), "analyze_table_query_plan": (R, "table"),
    "create_table_index": (W, "table"), "create_table_scalar_index": (W, "table"),
    "list_table_indices": (R, "table"), "describe_table_index_stats": (R, "table"),
    "drop_table_index": (W, "table"), "list_table_versions": (R, "table"),
    "create_table_version": (W, "table"), "describe_table_version": (R, "table"),
    "batch_delete_table_versions": (W, "table"), "update_table_schema_metadata": (W, "table"),
    "update_field_metadata": (W, "table"), "get_table_stats": (R, "table"),
    "alter_table_add_columns": (W, "table"), "alter_table_alter_columns": (W, "table"),
    "alter_table_drop_columns": (W, "table"), "alter_table_backfill_columns": (W, "table"),
    "list_table_tags": (R, "table"), "get_table_tag_version": (R, "table"),
    "create_table_tag": (W, "table"), "delete_table_tag": (W, "table"),
    "update_table_tag": (W, "table"), "create_table_branch": (W, "table"),
    "list_table_branches": (R, "table"), "delete_table_branch": (W, "table"),
}  # fmt: skip
ELSEWHERE: Final = {
    # Judged by what is in their bodies: tests of their own below, or in test_identity.py.
    "rename_table", "list_all_tables", "batch_create_table_versions", "batch_commit_tables",
    "create_materialized_view", "refresh_materialized_view", "describe_transaction",
    "alter_transaction",
}  # fmt: skip
ICEBERG: Final[dict[str, tuple[str, str]]] = {
    "loadNamespaceMetadata": (R, "namespace"), "namespaceExists": (R, "sight"),
    "dropNamespace": (A, "namespace"), "updateProperties": (W, "namespace"),
    "listTables": (R, "sight"), "loadTable": (R, "table"), "updateTable": (W, "table"),
    "dropTable": (W, "table"), "tableExists": (R, "table"), "reportMetrics": (R, "table"),
    "loadCredentials": (R, "table"), "planTableScan": (R, "table"), "fetchScanTasks": (R, "table"),
    "createTable": (W, "new"), "registerTable": (A, "new"),
}  # fmt: skip
ICEBERG_ELSEWHERE: Final = {
    "getConfig", "listNamespaces", "createNamespace", "renameTable", "commitTransaction",
    "listViews", "createView", "loadView", "viewExists", "replaceView", "dropView",
}  # fmt: skip
ARROW: Final = {"content-type": "application/vnd.apache.arrow.stream"}
BODIES: Final[dict[str, Any]] = {
    "explain_table_query_plan": {"query": {"k": 1, "vector": {}}},
    "query_table": {"k": 1, "vector": {}}, "analyze_table_query_plan": {"k": 1, "vector": {}},
    "register_table": {"location": "nowhere.lance"}, "restore_table": {"version": 1},
    "update_table": {"updates": [["x", "1"]]}, "delete_from_table": {"predicate": "true"},
    "create_table_index": {"column": "x", "index_type": "BTREE"},
    "create_table_scalar_index": {"column": "x", "index_type": "BTREE"},
    "create_table_version": {"version": 1, "manifest_path": "x"},
    "batch_delete_table_versions": {"ranges": [{"start_version": 1, "end_version": 1}]},
    "alter_table_add_columns": {"new_columns": [{"name": "y", "expression": "1"}]},
    "alter_table_alter_columns": {"alterations": [{"path": "x", "rename": "y"}]},
    "alter_table_drop_columns": {"columns": ["x"]},
    "alter_table_backfill_columns": {"column": "x"},
    "update_field_metadata": {"updates": [{"path": "x", "metadata": {}}]},
    "get_table_tag_version": {"tag": "t"}, "create_table_tag": {"tag": "t", "version": 1},
    "delete_table_tag": {"tag": "t"}, "update_table_tag": {"tag": "t", "version": 1},
    "create_table_branch": {"name": "b"}, "delete_table_branch": {"name": "b"},
    # Iceberg
    "updateProperties": {"updates": {}}, "updateTable": {"requirements": [], "updates": []},
    "createTable": {"name": "new", "schema": {"type": "struct", "fields": []}},
    "registerTable": {"name": "new", "metadata-location": "file:///nowhere"},
    "reportMetrics": {}, "planTableScan": {}, "fetchScanTasks": {"plan-task": "x"},
}  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A server with all callers over a catalog that some calls may change."""
    directory = tmp_path_factory.mktemp("matrix")
    properties = {"root": str(directory / "catalog")}
    namespace = lance_namespace.connect(IMPL, properties)
    for name in (["prod"], ["other"], ["prod", "eu"]):
        namespace.create_namespace(CreateNamespaceRequest(id=name))
    for table in (["prod", "users"], ["prod", "eu", "sales"], ["other", "t"]):
        namespace.declare_table(DeclareTableRequest(id=table))
    tokens = {name: new_token() for name in CALLERS}
    file = directory / "access.toml"
    file.write_text(_access(tokens))
    settings = Settings(IMPL, properties, port=0, log_requests=False, access_file=file)
    with serving(settings) as address:
        yield address, tokens


def _access(tokens: dict[str, str]) -> str:
    lines = []
    for name, token in tokens.items():
        lines += ["[[tokens]]", f'name = "{name}"', f'sha256 = "{hash_of(token)}"']
        for role, on in CALLERS[name]:
            names = ", ".join(f'"{one}"' for one in on)
            lines += ["[[grants]]", f'to = "token:{name}"', f'role = "{role}"', f"on = [{names}]"]
    return "\n".join(lines)


def _agrees(answer: Answer, expected: Verdict, *, kind: str) -> bool:
    if expected is Verdict.FORBIDDEN:
        return answer.status == 403
    if expected is Verdict.HIDDEN:
        return answer.status == 404 and _code(answer) in (None, 4 if kind == "table" else 1)
    return answer.status not in (401, 403) and answer.status < 500


def _code(answer: Answer) -> Any:
    """The code of an error of Lance REST; Iceberg's have none, and a HEAD has no body."""
    return answer.json.get("code") if answer.body else None


def cases() -> list[tuple[str, str, tuple[str, ...]]]:
    """All operations on all objects of their kind; what ends an object comes last."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    for operation, (_, kind) in LANCE.items():
        on_table = "table" in operation and operation != "list_tables"
        objects = TABLES if on_table else NAMESPACES
        found += [("lance", operation, path) for path in objects if path or kind != "new"]
    for operation in ICEBERG:
        in_table = "{table}" in _iceberg(operation).path
        found += [("iceberg", operation, path) for path in (TABLES if in_table else NAMESPACES[1:])]
    return sorted(found, key=lambda case: any(w in case[1].lower() for w in ("drop", "deregister")))


def _iceberg(operation: str) -> Any:
    return next(route for route in ICEBERG_ROUTES if route.operation == operation)


def _ask(client: Client, face: str, operation: str, path: tuple[str, ...]) -> Answer:
    body = BODIES.get(operation, {})
    if face == "lance":
        route = next(one for one in LANCE_ROUTES if one.operation == operation)
        address = route.path.replace("{id}", quote("$".join(path) or "$", safe=""))
        address = address.replace("{index_name}", "i")
        if route.body.name == "ARROW":
            extra = "?on=x" if operation == "merge_insert_into_table" else ""
            return client.call(route.method, address + extra, b"no arrow", headers=ARROW)
        return client.call(route.method, address, None if route.method == "GET" else body)
    given = _iceberg(operation)
    namespace, table = (path[:-1], path[-1]) if "{table}" in given.path else (path, "")
    address = given.path.replace("{namespace}", quote("\x1f".join(namespace), safe=""))
    sent = body if given.method == "POST" else None
    return client.call(given.method, f"/iceberg/v1/{address.replace('{table}', table)}", sent)


def _expected(caller: str, face: str, operation: str, path: tuple[str, ...]) -> tuple[Verdict, str]:
    role, kind = (LANCE if face == "lance" else ICEBERG)[operation]
    created = (*path, "new") if operation in ("createTable", "registerTable") else path
    return verdict(CALLERS[caller], Need(role, kind), created), kind


def test_the_matrix_knows_every_operation_of_both_faces() -> None:
    assert {route.operation for route in LANCE_ROUTES} == {*LANCE, *ELSEWHERE}
    assert {route.operation for route in ICEBERG_ROUTES} == {*ICEBERG, *ICEBERG_ELSEWHERE}
    assert len(CALLERS) * len(cases()) >= 2_500


@pytest.mark.parametrize("caller", [*(c for c in CALLERS if "admin" not in c), *ADMINS])
def test_a_caller_may_do_what_the_guide_says_and_nothing_else(
    url: tuple[str, dict[str, str]], caller: str
) -> None:
    address, tokens = url
    wrong = []
    with Client(address, {"authorization": f"Bearer {tokens[caller]}"}) as client:
        for face, operation, path in cases():
            expected, kind = _expected(caller, face, operation, path)
            answer = _ask(client, face, operation, path)
            if not _agrees(answer, expected, kind=kind):
                wrong.append((face, operation, path, expected.value, answer.status, answer.body))
    assert wrong == []


@pytest.mark.parametrize("caller", CALLERS)
def test_both_ends_of_a_rename_and_every_member_of_a_batch_are_judged(
    url: tuple[str, dict[str, str]], caller: str
) -> None:
    address, tokens = url
    grants = CALLERS[caller]
    wrong = []
    change, make = Need(W, "table"), Need(W, "new")
    with Client(address, {"authorization": f"Bearer {tokens[caller]}"}) as client:
        for source in [("prod", "gone"), ("prod", "eu", "gone"), ("other", "gone")]:
            for target in [("prod",), ("prod", "eu"), ("other",)]:
                new = (*target, "moved")
                expected = worst([verdict(grants, change, source), verdict(grants, make, new)])
                body: Any = {"new_table_name": "moved", "new_namespace_id": list(target)}
                lance = client.post(f"/v1/table/{quote('$'.join(source))}/rename", body)
                body = {
                    "source": {"namespace": source[:-1], "name": source[-1]},
                    "destination": {"namespace": target, "name": "moved"},
                }
                iceberg = client.post("/iceberg/v1/tables/rename", body)
                members = [
                    {"deregister_table": {"id": source}}, {"declare_table": {"id": [*target, "/"]}}
                ]  # fmt: skip
                batch = client.post("/v1/table/batch-commit", {"operations": members})
                wrong += [
                    (source, target, expected, answer.status, answer.body)
                    for answer in (lance, iceberg, batch)
                    if not _agrees(answer, expected, kind="table")
                ]
    assert wrong == []


@pytest.mark.parametrize("caller", CALLERS)
def test_lists_show_what_leads_to_something_granted_and_nothing_else(
    url: tuple[str, dict[str, str]], caller: str
) -> None:
    address, tokens = url
    grants = CALLERS[caller]
    there = {("prod",), ("other",)}
    with Client(address, {"authorization": f"Bearer {tokens[caller]}"}) as client:
        lance = client.get("/v1/namespace/%24/list")
        iceberg = client.get("/iceberg/v1/namespaces")
    seen = sorted(name for (name,) in there if any(on[:1] in ((), (name,)) for _, on in grants))
    if not grants:
        assert (lance.status, iceberg.status) == (404, 404)
        return
    assert [name for name in lance.json["namespaces"] if (name,) in there] == seen
    assert [name[0] for name in iceberg.json["namespaces"] if tuple(name) in there] == seen
