"""Storage calls of the metastore, counted, from small catalogs to large ones.

The peer is not run here: its figures are the calls deltacat 2.0.0.post4 makes to its filesystem,
counted once on local disk with 50 tables (get, list) and at the 50th append. They stand beside our
rows of that size only; at other sizes there is nothing to compare with.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.report import Row, size_label
from lakeroot.metastore import ManifestEntry, Metastore, manifest_of
from lakeroot.objects import LocalObjects

TITLE = "Metastore: storage calls per operation (a bar is the most that is allowed)"
PEER = "deltacat (counted once, not in this run)"

_DELTACAT = {"get": 88, "append": 1217, "list": 4863}
_COUNTED_AT = 50
_ALLOWED = {"get": 5, "append": 30, "list": 25}


SHARED = "deltacat-2, deltacat there"
"""A catalog that deltacat has opened too: its transactions are looked for at every read."""


class Counting:
    """Objects that count the calls made to them."""

    def __init__(self, below: Any) -> None:
        self._below = below
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._below, name)

        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments)

        return call

    def taken(self, work: Callable[[], object]) -> int:
        self.calls.clear()
        work()
        return self.calls.total()


def run(*, quick: bool) -> Iterator[Row]:
    for layout in ("spec", "deltacat-2", SHARED):
        yield from _by_tables(layout, [10, 50] if quick else [10, 50, 200, 10_000])
        yield from _by_revisions(layout, [1, 50] if quick else [1, 50, 5_000])


def _opened(layout: str) -> tuple[Metastore, Any]:
    objects: Any = Counting(LocalObjects(tempfile.mkdtemp(prefix="lakeroot-bench-")))
    metastore = Metastore(objects, layout=layout.partition(",")[0])
    if layout == SHARED:
        objects.put("version/2.0.0.post4.1794780603903589483", b"")
    with metastore.transaction() as txn:
        txn.create_namespace("n")
        txn.create_table("n", "t0")
    return metastore, objects


def _by_tables(layout: str, sizes: list[int]) -> Iterator[Row]:
    metastore, objects = _opened(layout)
    made = 1
    for size in sizes:
        while made < size:
            end = min(made + 500, size)
            with metastore.transaction() as txn:
                for number in range(made, end):
                    txn.create_table("n", f"t{number}")
            made = end
        metastore.view().tables("n")
        yield _row("get", layout, size, "tables", objects.taken(lambda: _get(metastore)))
        yield _row("list", layout, size, "tables", objects.taken(lambda: _list(metastore)))
        yield _row("append", layout, size, "tables", objects.taken(lambda: _append(metastore)))


def _by_revisions(layout: str, sizes: list[int]) -> Iterator[Row]:
    metastore, objects = _opened(layout)
    made = 0
    for size in sizes:
        for _ in range(size - made):
            _append(metastore)
        made = size
        yield _row("get", layout, size, "revisions", objects.taken(lambda: _get(metastore)))
        yield _row("append", layout, size, "revisions", objects.taken(lambda: _append(metastore)))
        made += 1


def _row(what: str, layout: str, size: int, of: str, calls: int) -> Row:
    verdict = "within" if calls <= _ALLOWED[what] else "**over**"
    note = f"{verdict} {_ALLOWED[what]}"
    label = f"{size_label(size)} {of}"
    peer = _DELTACAT[what] if size == _COUNTED_AT else None
    return Row(f"{what} ({layout})", label, calls, peer, "calls", note=note)


def _get(metastore: Metastore) -> None:
    metastore.view().table("n", "t0")


def _list(metastore: Metastore) -> None:
    metastore.view().tables("n")


def _append(metastore: Metastore) -> None:
    with metastore.transaction() as txn:
        manifest = manifest_of([ManifestEntry("data/x.pq")])
        txn.append_delta(txn.stream("n", "t0"), manifest)
