"""The crash matrix: for every operation of every catalog, death before, after and in every call.

``python -m tests.faults.matrix`` tries every point and prints what became of it; ``--docs`` puts
the table into docs/trust.md and draws docs/crashes.svg. In memory the death is an exception that
nothing catches; on the disk it is SIGKILL, sent by a child process to itself.
"""

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from lakeroot.catalog import Catalog
from lakeroot.catalog.repairing import mend_directory, repair
from lakeroot.objects import LocalObjects, Objects, Root
from lakeroot.storage.deltacat import DeltaCatStore
from lakeroot.storage.deltacat.repairing import MENDABLE, mend
from lakeroot.storage.findings import Finding
from lakeroot.storage.lance_dir.removing import REMOVABLE, remove
from tests.docs.sections import PAGE, put_section
from tests.faults.objects import Crash
from tests.faults.test_crashes import FLAT, NESTED, catalog_on, seen, with_retry, written
from tests.metastore.memory import MemoryObjects

ROOT = Root("memory://faults", is_local=False)
NO_TIME = timedelta(0)
_RANDOM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|\d{10,}")
COLUMNS = {
    "read": ("get",),
    "look": ("head", "exists", "has_any"),
    "list": ("list", "list_directory", "list_names"),
    "put": ("put",),
    "put if absent": ("put_if_absent", "move_if_absent"),
    "delete": ("delete", "delete_directory", "prune_directory"),
}
CALLS = {name: column for column, names in COLUMNS.items() for name in names}
MOMENTS = ("before", "torn", "after")
Verb = Callable[[Catalog], object]

ONE_LEVEL: dict[str, Verb] = {
    name: NESTED[name]
    for name in (
        *(
            "declare",
            "drop",
            "deregister",
            "alter namespace",
            "alter root",
            "alter table",
            "rename",
        ),
        *("drop namespace", "drop cascade", "declare child", "declare many"),
    )
} | {
    "create namespace": lambda c: c.create_namespace(("new",), {"k": "v"}),
    "rename out": NESTED["rename out"],
    "drop child": NESTED["drop child"],
}


@dataclass(frozen=True)
class Kind:
    """A kind of catalog: how it is opened, and what can be done to it."""

    opened: Callable[[Objects], Catalog]
    verbs: dict[str, Verb]
    depth: int


def _directory(mode: str) -> Callable[[Objects], Catalog]:
    return lambda objects: catalog_on(objects, mode)


def _metastore(layout: str) -> Callable[[Objects], Catalog]:
    return lambda objects: Catalog(DeltaCatStore(ROOT, layout=layout, objects=objects))


KINDS = {
    "V1": Kind(_directory("v1"), FLAT, 0),
    "V2": Kind(_directory("v2"), NESTED, 2),
    "V1 and V2": Kind(_directory("compat"), NESTED, 2),
    "metastore": Kind(_metastore("spec"), ONE_LEVEL, 1),
    "metastore as deltacat": Kind(_metastore("deltacat-2"), ONE_LEVEL, 1),
}


KILLED = ("V2", "metastore")
KILLED_AT = ("declare", "drop", "rename")
"""What is killed with a signal, unless everything is: it takes a process for each point."""


class Dying:
    """Objects whose process dies at the n-th call, and does nothing after it."""

    def __init__(self, below: Objects, at: int, moment: str, die: Callable[[], None]) -> None:
        self._below, self._at, self._moment, self._die = below, at, moment, die
        self.calls: list[str] = []
        self.tore = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._below, name)
        if name not in CALLS:
            return real

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) > self._at:
                self._die()
            if len(self.calls) < self._at:
                return real(*arguments, **options)
            if self._moment == "torn" and name == "delete":
                paths = list(arguments[0])
                self.tore = len(paths) > 1
                real(paths[: len(paths) // 2])
            elif self._moment == "after":
                found = real(*arguments, **options)
                if name == "list":
                    list(found)
            self._die()
            raise AssertionError("nobody dies twice")

        return call


def furnish(objects: Objects, kind: Kind) -> None:
    """Make a catalog with some of everything."""
    catalog = kind.opened(objects)
    for name in ("t", "u", "gone"):
        written(objects, catalog.declare_table((name,)).location)
    catalog.deregister_table(("gone",))
    if kind.depth:
        catalog.create_namespaces([(("a",), {"x": "1"}), (("empty",), {})])
        written(objects, catalog.declare_table(("a", "t"), {"y": "1"}).location)
    if kind.depth > 1:
        catalog.create_namespace(("a", "b"))
        written(objects, catalog.declare_table(("a", "b", "u"), {"y": "1"}).location)


@dataclass
class Matrix:
    """What became of every point: by operation and call, how often undone, done or neither."""

    cells: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    kinds: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, verb: str, call: str, outcome: str) -> None:
        self.cells[verb, CALLS[call]][outcome] += 1
        self.kinds[kind] += 1

    @property
    def points(self) -> int:
        return sum(self.kinds.values())

    @property
    def broken(self) -> int:
        return sum(cell["broken"] for cell in self.cells.values())


class Bench:
    """One operation of one kind of catalog, to be tried again and again."""

    def __init__(self, kind: str, verb: str, fresh: Callable[[], Objects]) -> None:
        self.kind, self.verb, self.fresh = kind, verb, fresh
        self.opened, self.do = KINDS[kind].opened, KINDS[kind].verbs[verb]
        self.before = seen(self.opened(fresh()))
        whole = fresh()
        # Opening is part of it: a client that only opens must do no harm by dying either.
        counting = Dying(whole, sys.maxsize, "", lambda: None)
        self.do(self.opened(counting))
        self.calls = list(counting.calls)
        self.after = seen(self.opened(whole))
        self.tidy = tidied(self.opened, whole)

    def outcome(self, disk: Objects) -> str:
        """Look at what a dead process has left, repeat what it did, and look again."""
        found = seen(self.opened(disk))
        if found not in (self.before, self.after):
            return "broken"
        if found == self.before:
            self.do(self.opened(disk))
        else:
            with_retry(self.do, self.opened(disk))
        if seen(self.opened(disk)) != self.after:
            return "broken"
        # Findings or files that a run without a death does not leave.
        if tidied(self.opened, disk) - self.tidy:
            return "broken"
        if seen(self.opened(disk)) != self.after:
            return "broken"
        return "undone" if found == self.before else "done"


def tidied(opened: Callable[[Objects], Catalog], disk: Objects) -> Counter[str]:
    """Let time pass, repair and collect garbage; give what `fsck` still finds, and what lies there.

    Names are told without what is random in them. Files of commits are left out: there may be one
    more, which fences a dead writer, and versions of `__manifest` are kept for the history.
    """
    make_old(disk)
    catalog = opened(disk)
    store: Any = catalog.store
    if isinstance(store, DeltaCatStore):
        repair(catalog, partial(_mend_metastore, store), store.check(NO_TIME))
        store.vacuum(retention_ms=0)
    else:
        repair(catalog, mend_directory(store), store.check(NO_TIME))
        store.gc(NO_TIME, dry_run=False, author="")
    make_old(disk)
    found = Counter(f"finding {one.code}" for one in opened(disk).store.check(NO_TIME))  # type: ignore[attr-defined]
    for info in disk.list(""):
        if not info.path.startswith(("__manifest/", "txn/")):
            found[_RANDOM.sub("*", info.path)] += 1
    return found


def _mend_metastore(store: DeltaCatStore, catalog: Catalog, one: Finding) -> bool:
    if one.code in MENDABLE:
        return mend(store, one)
    return one.code in REMOVABLE and remove(store.objects, one, lambda _: False)


def make_old(disk: Objects) -> None:
    """Let everything look as if nobody had touched it for days."""
    then = time.time() - 10 * 24 * 60 * 60
    if isinstance(disk, MemoryObjects):
        disk.now_ms = lambda: int(time.time() * 1000)
        disk.held.update({path: (data, int(then * 1000)) for path, (data, _) in disk.held.items()})
    else:
        assert isinstance(disk, LocalObjects)
        for path in (Path(disk.local_path(info.path)) for info in disk.list("")):
            os.utime(path, (then, then))


def in_memory(matrix: Matrix, kinds: list[str], verbs: set[str] | None = None) -> None:
    """Try every point in memory."""
    for kind in kinds:
        made = MemoryObjects()
        furnish(made, KINDS[kind])
        for verb in KINDS[kind].verbs:
            if verbs is not None and verb not in verbs:
                continue
            fresh: Any = lambda: MemoryObjects(dict(made.held))  # noqa: B023, E731 (used at once)
            bench = Bench(kind, verb, fresh)
            for at, moment in ((n, m) for n in range(1, 400) for m in MOMENTS):
                disk = fresh()
                dying = Dying(disk, at, moment, _crash)
                try:
                    bench.do(bench.opened(dying))
                except Crash:
                    if moment != "torn" or dying.tore:
                        matrix.note(kind, verb, dying.calls[at - 1], bench.outcome(disk))
                    continue
                if moment == MOMENTS[-1]:
                    break


def by_kill(matrix: Matrix, kinds: list[str], verbs: set[str] | None = None) -> None:
    """Try every point on a disk, in children that kill themselves."""
    with tempfile.TemporaryDirectory(prefix="lakeroot-crashes-") as place:
        for kind in kinds:
            template = Path(place) / "template"
            furnish(LocalObjects(str(template)), KINDS[kind])
            for verb in KINDS[kind].verbs:
                if verbs is None or verb in verbs:
                    _kill_at_every_call(matrix, kind, verb, template, Path(place) / "lake")
            shutil.rmtree(template)


def _kill_at_every_call(matrix: Matrix, kind: str, verb: str, template: Path, lake: Path) -> None:
    def fresh() -> Objects:
        shutil.rmtree(lake, ignore_errors=True)
        return LocalObjects(str(shutil.copytree(template, lake)))

    bench = Bench(kind, verb, fresh)
    for at in range(1, 400):
        for moment in ("before", "after"):
            disk = fresh()
            child = os.fork()
            if child == 0:
                dying = Dying(disk, at, moment, lambda: os.kill(os.getpid(), signal.SIGKILL))
                try:
                    bench.do(bench.opened(dying))
                finally:
                    os._exit(0)
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                return
            call = bench.calls[min(at, len(bench.calls)) - 1]
            matrix.note(f"{kind}, SIGKILL", verb, call, bench.outcome(disk))


def _crash() -> None:
    raise Crash


def table(matrix: Matrix) -> str:
    """Draw the matrix as Markdown: undone and done, for each operation and kind of call."""
    verbs = list(dict.fromkeys(verb for verb, _ in matrix.cells))
    lines = [
        f"{matrix.points:,} points, {matrix.broken} of them neither undone nor done: "
        + ", ".join(f"{count} {kind}" for kind, count in matrix.kinds.items())
        + ".",
        "",
        "| operation | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for verb in verbs:
        cells = (matrix.cells.get((verb, column), Counter()) for column in COLUMNS)
        lines.append(f"| {verb} | " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines) + "\n"


def _cell(found: Counter[str]) -> str:
    if not found:
        return ""
    broken = f", **{found['broken']} broken**" if found["broken"] else ""
    return f"{found['undone']} / {found['done']}{broken}"


def picture(matrix: Matrix) -> str:
    """Draw the matrix as a heat map: the more often the operation was done, the darker."""
    verbs = list(dict.fromkeys(verb for verb, _ in matrix.cells))
    wide, high, left, top = 110, 26, 170, 34
    size = (left + wide * len(COLUMNS) + 10, top + high * len(verbs) + 10)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>',
    ]
    for column, name in enumerate(COLUMNS):
        middle = left + wide * column + wide // 2
        out.append(f'<text x="{middle}" y="22" text-anchor="middle">{name}</text>')
    for row, verb in enumerate(verbs):
        y = top + high * row
        out.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{verb}</text>')
        for column, name in enumerate(COLUMNS):
            found = matrix.cells.get((verb, name), Counter())
            x = left + wide * column
            out.append(_square(x, y, wide - 2, high - 2, found))
    return "\n".join([*out, "</svg>"]) + "\n"


def _square(x: int, y: int, wide: int, high: int, found: Counter[str]) -> str:
    total = sum(found.values())
    share = found["done"] / total if total else 0.0
    light = round(92 - 50 * share)
    fill = "#f4f4f4" if not total else f"hsl(205, 60%, {light}%)"
    fill = "#d22" if found["broken"] else fill
    ink = "white" if share > 0.5 else "black"
    said = f"{found['undone']} / {found['done']}" if total else ""
    return (
        f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="{fill}"/>'
        f'<text x="{x + wide // 2}" y="{y + 16}" text-anchor="middle" fill="{ink}">{said}</text>'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="put the result into the docs")
    parser.add_argument("--everything", action="store_true", help="kill at every operation")
    asked = parser.parse_args()
    matrix = Matrix()
    by_kill(matrix, list(KILLED), None if asked.everything else set(KILLED_AT))
    in_memory(matrix, list(KINDS))
    sys.stdout.write(table(matrix))
    if asked.docs:
        put_section("crashes", table(matrix))
        PAGE.with_name("crashes.svg").write_text(picture(matrix), encoding="utf-8")
    return 1 if matrix.broken else 0


if __name__ == "__main__":
    sys.exit(main())
