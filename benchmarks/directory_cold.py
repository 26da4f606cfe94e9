"""Opening a catalog and asking it one question, and what it costs to import."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lance_namespace import CreateNamespaceRequest, ListTablesRequest, TableExistsRequest

from benchmarks import catalogs
from benchmarks.catalogs import catalog, namespace_name, ours_at, peer_at, table_name
from benchmarks.report import Row, interleaved, seconds_of_process, size_label

TITLE = "Cold start"
PEER = catalogs.PEER


def run(*, quick: bool) -> Iterable[Row]:
    rounds = 10 if quick else 40
    for objects in catalogs.sizes(quick=quick):
        with catalog(objects) as root:
            yield from _opening(root, objects, "", rounds)
            # After single commits there are several data files, as there are in daily use.
            writer = ours_at(root)
            for number in range(7):
                writer.create_namespace(CreateNamespaceRequest(id=[f"later{number}"]))
            yield from _opening(root, objects, ", 8 data files", rounds)
    yield from _imports(repeats=3 if quick else 7)


def _opening(root: Path, objects: int, note: str, rounds: int) -> Iterable[Row]:
    last = min(objects, 100) - 1
    exists = TableExistsRequest(id=[namespace_name(0), table_name(last)])
    listing = ListTablesRequest(id=[namespace_name(0)], limit=10)
    asked = {
        "table_exists": lambda namespace: namespace.table_exists(exists),
        "list_tables": lambda namespace: namespace.list_tables(listing),
    }
    for name, ask in asked.items():
        taken = interleaved(
            _after_opening(ours_at, root, ask),
            _after_opening(peer_at, root, ask),
            rounds=rounds if name == "table_exists" else 3,
        )
        bar = 1.0 if name == "table_exists" else None
        yield Row(f"open + {name}{note}", size_label(objects), *taken, unit="ms", bar=bar)


def _after_opening(opener: Any, root: Path, ask: Any) -> Any:
    return lambda _: ask(opener(root))


def _imports(repeats: int) -> Iterable[Row]:
    nothing = seconds_of_process("pass", repeats)
    heavy = seconds_of_process("import lance.namespace", repeats)
    for what, code in {
        "`import lakeroot`": "import lakeroot",
        "`from lakeroot import DirectoryNamespace`": "from lakeroot import DirectoryNamespace",
    }.items():
        ours = seconds_of_process(code, repeats)
        yield Row(
            f"{what}, beyond an empty process",
            "",
            max(ours - nothing, 0.0001) * 1000,
            (heavy - nothing) * 1000,
            unit="ms",
            note="the peer: `import lance.namespace`",
        )
