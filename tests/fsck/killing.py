"""Writers that are killed in the middle of their work, and what Lance itself says a table needs."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lakeroot
from lakeroot.lake import Lake
from tests.fsck.conftest import ROWS

IN_TRANSACTION = "in a transaction of the catalog"
MOMENTS = {
    "while rows are written": "data/.tmp*",
    "when a data file is there": "data/*.lance",
    "when rows are marked as deleted": "_deletions/*",
    "when an index is written": "_indices/*/*",
    "when a transaction is written": "_transactions/*",
    "when a version is there or staged": "_versions/*",
    "when a branch begins": "tree/*/_versions/*",
    "when a branch is written": "tree/*/data/*",
    IN_TRANSACTION: "_lakeroot-*/*",
}
"""When writers are killed: as soon as a file like this is there that was not there before."""


def opened(kind: str, properties: dict[str, str]) -> Lake:
    return Lake(getattr(lakeroot, kind)(**properties), "")


def work(lake: Lake, name: str) -> None:
    """Change a table in every way there is, for ever."""
    many = pa.table({"n": range(50_000), "word": [f"word {n}" for n in range(50_000)]})
    keeps_versions = lake.namespace.catalog.store.keeps_versions  # type: ignore[attr-defined]
    for number in count():
        table = lake[name]
        table.append(many)
        table.delete(f"n = {number % 7}")
        table.merge(many.slice(0, 100), "n")
        table.dataset().create_scalar_index("word", "BTREE", replace=True)
        if keeps_versions:
            with lake.transaction("both") as tx:
                tx.append(table.id, ROWS)
                tx.append(table.id, ROWS)
        side = table.dataset().create_branch(f"side-{number}")
        lance.write_dataset(ROWS, side, mode="append")
        table.dataset().branches.delete(f"side-{number}")
        table.dataset().optimize.compact_files()


def kill_at(moment: str, kind: str, properties: dict[str, str], name: str, place: Path) -> None:
    """Let a writer work on a table, and kill it in a moment of its work."""
    pattern = MOMENTS[moment]
    before = set(place.glob(pattern))
    arguments = [kind, json.dumps(properties), name]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fsck.killing", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stderr is not None
        while not set(place.glob(pattern)) - before:
            assert writer.poll() is None, writer.stderr.read()
            time.sleep(0.0005)  # The writer needs the processor more than we do.
        writer.kill()


def files_in(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def needed(place: Path) -> set[str]:
    """Ask Lance which data, deletion and index files the versions of all branches are made of."""
    main = lance.dataset(str(place))
    found: set[str] = set()
    for dataset in _every_version(main):
        for fragment in dataset.get_fragments():
            found |= {f"data/{file.path}" for file in fragment.metadata.files}
            deleted = fragment.deletion_file()
            found |= {f"_deletions/{Path(deleted).name}"} if deleted else set()
        segments = [one for index in dataset.describe_indices() for one in index.segments]
        found |= {f"_indices/{segment.uuid}" for segment in segments}
    return found


def orphans(place: Path) -> set[str]:
    """Give the files of a table that Lance has no use for, by what it says itself."""
    made_of = needed(place)
    branches = set(lance.dataset(str(place)).branches.list())
    return {
        path for path in files_in(place) if not _is_of_use(path, made_of, branches)
    } | _superfluous_transactions(place)


def _is_of_use(path: str, made_of: set[str], branches: set[str]) -> bool:
    if path.startswith("tree/"):
        branch = next((one for one in branches if path.startswith(f"tree/{one}/")), None)
        if branch is None:
            return False
        path = path.removeprefix(f"tree/{branch}/")
    first = path.partition("/")[0]
    if first.startswith(".lance-"):
        return True  # a marker of the catalog
    if first == "_versions":
        return path.endswith((".manifest", "latest_version_hint.json"))
    if first == "_indices":
        return "/".join(path.split("/")[:2]) in made_of
    return first in ("_refs", "_transactions") or path in made_of


def _superfluous_transactions(place: Path) -> set[str]:
    """Tell whether there are more transactions than versions."""
    left = set()
    for directory in [place, *(path.parent for path in place.glob("tree/**/_versions"))]:
        transactions = list((directory / "_transactions").glob("*"))
        if len(transactions) > len(list((directory / "_versions").glob("*.manifest"))):
            left |= {path.relative_to(place).as_posix() for path in transactions}
    return left


def _every_version(main: Any) -> Iterator[Any]:
    for branch in (None, *main.branches.list()):
        newest = main.checkout_version((branch, None))
        for one in newest.versions():
            yield main.checkout_version((branch, one["version"]))


if __name__ == "__main__":
    work(opened(sys.argv[1], json.loads(sys.argv[2])), sys.argv[3])
