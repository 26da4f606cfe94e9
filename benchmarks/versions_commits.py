"""Many writers of one managed table, and many tables in one commit."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from tests.s3 import running

from benchmarks.manifests import renumbered, table_of_versions
from benchmarks.report import HIGHER, Row
from benchmarks.slow_network import in_between
from benchmarks.versions_many import MANY
from lakeroot import DirectoryNamespace
from lakeroot.catalog.versions import TableVersions
from lakeroot.objects.disks import disk_of
from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name

TITLE = "Commits of versions"
PEER = "plain pylance"
PROCESSES = 8
TABLES = 50
_KINDS = ("ours", "plain", "tracked")
VECTOR = 768

# A writer lives for the whole benchmark: what is measured is appending, not importing. It is told a
# catalog and who decides there, writes a table of its own to be warm, says so, and waits. When
# Lance gives up because others were first twenty times, or for thirty seconds, the append is
# repeated, and counted.
_WRITER = """
import sys
import lance, pyarrow as pa
from benchmarks.versions_commits import catalog, table
number = int(sys.argv[1])
while line := sys.stdin.readline():
    root, kind, appends, size = line.split()
    rows = [table(number * 1000 + n, int(size)) for n in range(int(appends))]
    place, own = {"uri": root + "/t.lance"}, {"uri": root + f"/own{number}.lance"}
    if kind != "plain":
        namespace = catalog(kind, root)
        place = {"namespace_client": namespace, "table_id": ["t"]}
        own = {"namespace_client": namespace, "table_id": [f"own{number}"]}
    for mode in ("create", "append"):
        lance.write_dataset(rows[0], mode=mode, **own)
    print("ready", flush=True)
    sys.stdin.readline()
    given_up = 0
    while rows:
        try:
            lance.write_dataset(rows[-1], mode="append", **place)
            rows.pop()
        except OSError as error:
            if not any(word in str(error) for word in ("conflict", "concurrent writers")):
                raise
            given_up += 1
    print("done", given_up, flush=True)
"""


def run(*, quick: bool) -> Iterable[Row]:
    with tempfile.TemporaryDirectory(prefix="lakeroot-bench-") as place:
        writers = [_Writer(number) for number in range(PROCESSES)]
        # Tables of 120 versions, 2,000 and 4,800: whoever races repeats more work then.
        for appends, rounds in ((5, 1),) if quick else ((15, 5), (250, 3), (600, 1)):
            yield from _writers(Path(place) / str(appends), writers, appends, rounds)
        # A table that has been in use for a while.
        versions, appends, rounds = (30, 5, 1) if quick else (MANY, 60, 5)
        yield _writers_of_many(Path(place) / "many", writers, versions, appends, rounds)
        yield from _writers(
            Path(place) / "vectors", writers, 3 if quick else 10, 1 if quick else 5, size=10_000
        )
        for writer in writers:
            writer.end()
        size = "in memory" if disk_of(place).is_memory else "on a disk"
        yield _batch(f"{place}/batch", size, rounds=3 if quick else 10)
        yield _batch_in_a_bucket(Path(place) / "s3", rounds=1 if quick else 5, seconds=0.015)
    if disk_of(place).is_memory:
        # What is committed waits for a disk, where there is one: here, then.
        with tempfile.TemporaryDirectory(prefix=".lakeroot-bench-", dir=".") as here:
            yield _batch(str(Path(here).resolve()), "on a disk", rounds=3 if quick else 10)


def catalog(kind: str, root: str) -> Any:
    """Open a catalog: ours, which decides about versions, or the one that pylance has for it."""
    if kind == "ours":
        return DirectoryNamespace(root=root, table_version_management="true")
    return lance.namespace.DirectoryNamespace(root=root, table_version_tracking_enabled="true")


def table(number: int, size: int) -> pa.Table:
    """Make the rows of one append: a number, or many with vectors."""
    if size == 1:
        return pa.table({"id": [number]})
    values = np.random.default_rng(abs(number)).random(size * VECTOR, dtype="float32")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), VECTOR)
    return pa.table({"id": pa.array(range(size), pa.int64()), "vector": vectors})


def _writers(
    place: Path, writers: list["_Writer"], appends: int, rounds: int, size: int = 1
) -> Iterable[Row]:
    rates: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    given_up = dict.fromkeys(_KINDS, 0)
    for number in range(rounds):
        for kind in _KINDS:
            rate, gave_up = _rate(place / f"{number}{kind}", kind, appends, writers, size)
            shutil.rmtree(place / f"{number}{kind}")
            rates[kind].append(rate)
            given_up[kind] += gave_up
    ours, plain, tracked = (sorted(rates[kind])[rounds // 2] for kind in _KINDS)
    each = "a row" if size == 1 else f"{size:,} vectors"
    for peer, other, bar in (("plain", plain, 1.0), ("tracked", tracked, None)):
        what = f"{PROCESSES} processes append {each} a time to one table, the catalog decides"
        if peer == "tracked":
            what += "; peer: the catalog of pylance that decides"
        note = f"given up and repeated {given_up['ours']} : {given_up[peer]}"
        yield Row(
            what,
            f"{appends} each",
            ours,
            other,
            unit="appends/s",
            bar=bar,
            better=HIGHER,
            note=note,
        )


def _writers_of_many(
    place: Path, writers: list["_Writer"], versions: int, appends: int, rounds: int
) -> Row:
    table_of_versions(place / "template", versions)
    rates: dict[str, list[float]] = {"ours": [], "plain": []}
    given_up = dict.fromkeys(rates, 0)
    for number in range(rounds):
        for kind in rates:
            root = place / f"{number}{kind}"
            shutil.copytree(place / "template", root)
            if kind == "ours":
                DirectoryNamespace(root=str(root)).enable_version_management()
            rate, gave_up = _appended(root, kind, appends, writers, size=1)
            shutil.rmtree(root)
            rates[kind].append(rate)
            given_up[kind] += gave_up
    ours, plain = (sorted(rates[kind])[rounds // 2] for kind in rates)
    return Row(
        f"{PROCESSES} processes append a row a time to a table of {versions:,} versions",
        f"{appends} each",
        ours,
        plain,
        unit="appends/s",
        bar=1.0,
        better=HIGHER,
        note=f"given up and repeated {given_up['ours']} : {given_up['plain']}",
    )


class _Writer:
    def __init__(self, number: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def expect(self, text: str) -> list[int]:
        """Wait for a word, and give the numbers after it."""
        assert self._process.stdout is not None
        said, *numbers = self._process.stdout.readline().split() or ["nothing"]
        assert said == text, f"a writer said {said} instead of {text}"
        return [int(number) for number in numbers]

    def end(self) -> None:
        self._process.communicate()


def _rate(
    root: Path, kind: str, appends: int, writers: list[_Writer], size: int
) -> tuple[float, int]:
    lance.write_dataset(table(-1, size), namespace_client=_looking(kind, root), table_id=["t"])
    return _appended(root, kind, appends, writers, size)


def _appended(
    root: Path, kind: str, appends: int, writers: list[_Writer], size: int
) -> tuple[float, int]:
    """Let every writer append to the table that is there, and count what came."""
    namespace = _looking(kind, root)
    before = lance.dataset(namespace_client=namespace, table_id=["t"]).count_rows()
    for writer in writers:
        writer.say(f"{root} {kind} {appends} {size}")
    for writer in writers:
        writer.expect("ready")
    start = time.perf_counter()
    for writer in writers:
        writer.say("go")
    given_up = sum(number for writer in writers for number in writer.expect("done"))
    taken = time.perf_counter() - start
    rows = lance.dataset(namespace_client=namespace, table_id=["t"]).count_rows()
    assert rows == before + PROCESSES * appends * size, "rows were lost"
    return PROCESSES * appends / taken, given_up


def _looking(kind: str, root: Path) -> Any:
    return DirectoryNamespace(root=str(root)) if kind == "plain" else catalog(kind, str(root))


def _batch(root: str, where: str, rounds: int, **properties: str) -> Row:
    """Commit the next version of many tables at once, beside as many single commits."""
    namespace = DirectoryNamespace(root=root, table_version_management="true", **properties)
    names = [f"t{number:02d}" for number in range(TABLES)]
    for name in names:
        lance.write_dataset(pa.table({"id": [1]}), namespace_client=namespace, table_id=[name])
    together, single = [], []
    for number in range(rounds):
        entries = [_staged(namespace, name, 2 + 2 * number) for name in names]
        start = time.perf_counter()
        namespace.batch_create_table_versions({"entries": entries})
        together.append(time.perf_counter() - start)
        entries = [_staged(namespace, name, 3 + 2 * number) for name in names]
        start = time.perf_counter()
        for entry in entries:
            namespace.create_table_version(entry)
        single.append(time.perf_counter() - start)
    ours, peer = (sorted(taken)[rounds // 2] * 1000 for taken in (together, single))
    what = f"{TABLES} tables in one batch, beside {TABLES} single commits of ours"
    # Less than five single commits is at least ten times less than fifty.
    return Row(what, where, ours, peer, unit="ms", bar=TABLES / 5)


def _batch_in_a_bucket(place: Path, rounds: int, seconds: float) -> Row:
    """Do the same in a bucket, behind a network whose requests take so long."""
    with running(place) as s3, in_between(int(s3.endpoint.rpartition(":")[2]), seconds) as port:
        behind = f"http://127.0.0.1:{port}"
        far = replace(s3, endpoint=behind, options={**s3.options, "endpoint": behind})
        where = f"in a bucket, {seconds * 1000:g} ms a request"
        return _batch(far.new_root(), where, rounds, **far.properties)


def _staged(namespace: DirectoryNamespace, name: str, version: int) -> dict[str, Any]:
    table = namespace.catalog.table((name,))
    objects, files = (
        namespace.catalog.store.files(table),
        TableVersions(namespace.catalog).files(table),
    )
    manifest = objects.get(f"{files.directory}/{manifest_name(1)}")
    assert manifest is not None
    path = f"{files.directory}/{staging_name(version, NamingScheme.V2, 'next')}"
    objects.put(path, renumbered(manifest, version))
    return {"id": [name], "version": version, "manifest_path": files.address(path)}
