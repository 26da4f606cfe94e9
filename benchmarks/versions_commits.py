"""Many writers of one managed table, and many tables in one commit."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from benchmarks.manifests import renumbered
from benchmarks.report import HIGHER, Row
from lakeroot import DirectoryNamespace
from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name

TITLE = "Commits of versions"
PEER = "plain pylance"
PROCESSES = 8
TABLES = 50

# A writer lives for the whole benchmark: what is measured is appending, not importing. It is told a
# catalog and who decides there, writes a table of its own to be warm, says so, and waits.
_WRITER = """
import sys
import lance, pyarrow as pa
from lakeroot import DirectoryNamespace
number, appends = int(sys.argv[1]), int(sys.argv[2])
rows = [pa.table({"id": [number * 1000 + n]}) for n in range(appends)]
while line := sys.stdin.readline():
    root, manages = line.split()
    place, own = {"uri": root + "/t.lance"}, {"uri": root + f"/own{number}.lance"}
    if manages == "true":
        namespace = DirectoryNamespace(root=root)
        place = {"namespace_client": namespace, "table_id": ["t"]}
        own = {"namespace_client": namespace, "table_id": [f"own{number}"]}
    for mode in ("create", "append"):
        lance.write_dataset(rows[0], mode=mode, **own)
    print("ready", flush=True)
    sys.stdin.readline()
    for one in rows:
        lance.write_dataset(one, mode="append", **place)
    print("done", flush=True)
"""


def run(*, quick: bool) -> Iterable[Row]:
    with tempfile.TemporaryDirectory(prefix="lakeroot-bench-") as place:
        yield _writers(Path(place), appends=5 if quick else 15, rounds=1 if quick else 3)
        yield _batch(Path(place) / "batch", rounds=3 if quick else 10)


def _writers(place: Path, appends: int, rounds: int) -> Row:
    writers = [_Writer(number, appends) for number in range(PROCESSES)]
    rates: dict[str, list[float]] = {"true": [], "false": []}
    for number in range(rounds):
        for manages in ("true", "false"):
            rates[manages].append(_rate(place / f"{number}{manages}", manages, appends, writers))
    for writer in writers:
        writer.end()
    ours, peer = (sorted(rates[manages])[rounds // 2] for manages in ("true", "false"))
    what = f"{PROCESSES} processes append to one table, the catalog decides; no row lost"
    return Row(what, f"{appends} each", ours, peer, unit="appends/s", bar=1.0, better=HIGHER)


class _Writer:
    def __init__(self, number: int, appends: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(number), str(appends)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def expect(self, text: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{text}\n", "a writer gave up"

    def end(self) -> None:
        self._process.communicate()


def _rate(root: Path, manages: str, appends: int, writers: list[_Writer]) -> float:
    namespace = DirectoryNamespace(root=str(root), table_version_management=manages)
    lance.write_dataset(pa.table({"id": [-1]}), namespace_client=namespace, table_id=["t"])
    for writer in writers:
        writer.say(f"{root} {manages}")
    for writer in writers:
        writer.expect("ready")
    start = time.perf_counter()
    for writer in writers:
        writer.say("go")
    for writer in writers:
        writer.expect("done")
    taken = time.perf_counter() - start
    rows = lance.dataset(namespace_client=namespace, table_id=["t"]).count_rows()
    assert rows == PROCESSES * appends + 1, "rows were lost"
    return PROCESSES * appends / taken


def _batch(root: Path, rounds: int) -> Row:
    """Commit the next version of many tables at once, beside as many single commits."""
    namespace = DirectoryNamespace(root=str(root), table_version_management="true")
    names = [f"t{number:02d}" for number in range(TABLES)]
    for name in names:
        lance.write_dataset(pa.table({"id": [1]}), namespace_client=namespace, table_id=[name])
    together, single = [], []
    for number in range(rounds):
        entries = [_staged(root, name, 2 + 2 * number) for name in names]
        start = time.perf_counter()
        namespace.batch_create_table_versions({"entries": entries})
        together.append(time.perf_counter() - start)
        entries = [_staged(root, name, 3 + 2 * number) for name in names]
        start = time.perf_counter()
        for entry in entries:
            namespace.create_table_version(entry)
        single.append(time.perf_counter() - start)
    ours, peer = (sorted(taken)[rounds // 2] * 1000 for taken in (together, single))
    what = f"{TABLES} tables in one batch, beside {TABLES} single commits of ours"
    # Less than five single commits is at least ten times less than fifty.
    return Row(what, "", ours, peer, unit="ms", bar=TABLES / 5)


def _staged(root: Path, name: str, version: int) -> dict[str, Any]:
    directory = root / f"{name}.lance" / "_versions"
    file = directory / staging_name(version, NamingScheme.V2, "next")
    file.write_bytes(renumbered((directory / manifest_name(1)).read_bytes(), version))
    return {"id": [name], "version": version, "manifest_path": str(file).lstrip("/")}
