"""Single commits, bulk commits, and the bytes each leaves behind, on equal copies in turns."""

import statistics
from collections.abc import Iterable
from pathlib import Path

from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DropNamespaceRequest,
)

from benchmarks import catalogs
from benchmarks.catalogs import catalog, namespace_name, ours_at, peer_at, table_name
from benchmarks.report import Row, asking, interleaved, size_label

TITLE = "Commits"
PEER = catalogs.PEER
BARS: dict[int, float | None] = {10: None, 1_000: 3.0, 10_000: 3.0, 100_000: 15.0}
BULK = 200


def run(*, quick: bool) -> Iterable[Row]:
    for objects in catalogs.sizes(quick=quick):
        with catalog(objects) as mine, catalog(objects) as theirs:
            yield from _single_commits(mine, theirs, objects, rounds=15 if quick else 50)
        with catalog(objects) as mine, catalog(objects) as theirs:
            yield from _bulk(mine, theirs, objects, rounds=3 if quick else 7)


def _single_commits(mine: Path, theirs: Path, objects: int, rounds: int) -> Iterable[Row]:
    ours, peer = ours_at(mine), peer_at(theirs)
    size, bar = size_label(objects), BARS[objects]
    new = [[f"new{serial:04d}"] for serial in range(rounds)]
    tables = [[namespace_name(0), f"fresh{serial:04d}"] for serial in range(rounds)]
    # Rows that were there from the beginning, so that taking one away touches the large file.
    old = [[namespace_name(0), table_name(serial + 1)] for serial in range(min(rounds, 9))]
    operations = [
        ("create_namespace", CreateNamespaceRequest, new, bar),
        ("declare_table", DeclareTableRequest, tables, bar),
        ("deregister_table (recent)", DeregisterTableRequest, tables, None),
        ("deregister_table (old)", DeregisterTableRequest, old, None),
        ("drop_namespace", DropNamespaceRequest, new, None),
    ]
    for label, request, identifiers, expected in operations:
        requests = [request(id=identifier) for identifier in identifiers]
        operation = label.partition(" ")[0]
        ask, ask_peer = getattr(ours, operation), getattr(peer, operation)
        before = _weight(mine), _weight(theirs)
        taken = interleaved(asking(ask, requests), asking(ask_peer, requests), rounds=len(requests))
        yield Row(label, size, *taken, unit="ms", bar=expected)
        if operation == "create_namespace":
            grown = (_weight(mine) - before[0], _weight(theirs) - before[1])
            each = (grown[0] / rounds / 1000, grown[1] / rounds / 1000)
            yield Row("bytes left by one commit", size, *each, unit="KB")


def _bulk(mine: Path, theirs: Path, objects: int, rounds: int) -> Iterable[Row]:
    ours, peer = ours_at(mine), peer_at(theirs)
    each: list[float] = []
    singles: list[float] = []
    for number in range(rounds):
        names = [[namespace_name(0), f"bulk{number}-{serial:04d}"] for serial in range(BULK)]
        one = DeclareTableRequest(id=[namespace_name(0), f"single{number}"])
        together, single = interleaved(
            asking(ours.declare_tables, [names]), asking(peer.declare_table, [one]), rounds=1
        )
        each.append(together / BULK)
        singles.append(single)
    yield Row(
        f"declare {BULK} tables in one commit, per table",
        size_label(objects),
        statistics.median(each),
        statistics.median(singles),
        unit="ms",
        bar=100.0 if objects == 100_000 else None,
        note="the peer declares one at a time",
    )


def _weight(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "__manifest").rglob("*") if path.is_file())
