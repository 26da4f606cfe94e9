"""Warm reads: the same pydantic request to both, on one directory, in turns."""

from collections.abc import Callable, Iterable
from typing import Any

from lance_namespace import (
    DescribeNamespaceRequest,
    DescribeTableRequest,
    ListNamespacesRequest,
    ListTablesRequest,
    NamespaceExistsRequest,
    TableExistsRequest,
)

from benchmarks import catalogs
from benchmarks.catalogs import catalog, namespace_name, ours_at, peer_at, table_name
from benchmarks.report import Row, asking, interleaved, size_label

TITLE = "Warm reads"
PEER = catalogs.PEER
BAR = 30.0

Asked = tuple[str, str, Callable[[int], Any]]


def run(*, quick: bool) -> Iterable[Row]:
    for objects in catalogs.sizes(quick=quick):
        with catalog(objects) as root:
            yield from _reads(ours_at(root), peer_at(root), objects, rounds=10 if quick else 40)


def _reads(ours: Any, peer: Any, objects: int, rounds: int) -> Iterable[Row]:
    for label, operation, make in _asked(objects):
        requests = [make(serial) for serial in range(50)]
        ask, ask_peer = getattr(ours, operation), getattr(peer, operation)
        assert all(_same(ask(request), ask_peer(request)) for request in requests[:5])
        taken = interleaved(
            asking(ask, requests),
            asking(ask_peer, requests),
            rounds=rounds,
            calls=(100, 3),
        )
        yield Row(label, size_label(objects), *taken, unit="ms", bar=BAR)


def _asked(objects: int) -> Iterable[Asked]:
    spaces = -(-objects // 100)
    full_spaces = max(objects // 100, 1)
    tables = min(objects, 100) - 1

    def table(serial: int) -> list[str]:
        return [namespace_name(serial * 7 % full_spaces), table_name(serial % tables + 1)]

    def space(serial: int) -> list[str]:
        return [namespace_name(serial * 7 % spaces)]

    yield "describe_table", "describe_table", lambda i: DescribeTableRequest(id=table(i))
    yield "table_exists", "table_exists", lambda i: TableExistsRequest(id=table(i))
    yield (
        "describe_namespace",
        "describe_namespace",
        lambda i: DescribeNamespaceRequest(id=space(i)),
    )
    yield "namespace_exists", "namespace_exists", lambda i: NamespaceExistsRequest(id=space(i))
    first = [namespace_name(0)]
    yield f"list_tables ({tables})", "list_tables", lambda _: ListTablesRequest(id=first)
    yield (
        "list_tables (page of 10)",
        "list_tables",
        lambda _: ListTablesRequest(id=first, limit=10),
    )
    yield (
        f"list_namespaces ({min(spaces, 100)})",
        "list_namespaces",
        lambda _: ListNamespacesRequest(id=[], limit=100),
    )


def _same(ours: Any, peer: Any) -> bool:
    return type(ours) is type(peer) and _names(ours) == _names(peer)


def _names(answer: Any) -> list[str]:
    return sorted(getattr(answer, "tables", None) or getattr(answer, "namespaces", None) or [])
