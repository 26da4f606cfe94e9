"""Tables with a past in every kind of catalog, and what lost commits leave in them."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa

from lakeroot.lake import Lake
from tests.fsck.conftest import ROWS, newest
from tests.fsck.killing import files_in, opened
from tests.fsck.test_killed_writers import CATALOGS

NOW = timedelta(0)


class Place:
    """A catalog with a table that has a past, an index, a tag and a branch."""

    def __init__(self, catalog: str, root: Path) -> None:
        self.kind, given = CATALOGS[catalog]
        self.root = root
        self.keeps_versions = "managed" in catalog
        self.properties = {**given, "root": str(root)}
        lake = self.lake
        lake.create_namespace("air")
        lake.create_table("air.t", ROWS)
        self.table = Path(lake["air.t"].dataset().uri.removeprefix("file://"))
        lake["air.t"].append(ROWS)
        lake["air.t"].delete("n = 3")
        lake["air.t"].dataset().create_scalar_index("n", "BTREE")
        lake["air.t"].tag("first", 1)
        side = lake["air.t"].dataset().create_branch("team/side")
        lance.write_dataset(ROWS, side, mode="append")
        lake["air.t"].overwrite(ROWS)

    @property
    def lake(self) -> Lake:
        """Open the catalog anew."""
        return opened(self.kind, self.properties)

    def gc(self, older_than: timedelta = NOW, *, dry_run: bool = False) -> set[str]:
        """Collect; give what goes of the table, below it."""
        done = self.lake.gc(older_than, dry_run=dry_run)
        location = f"{self.table.relative_to(self.root).as_posix()}/"
        return {
            one.path.removeprefix(location) for one in done.garbage if one.path.startswith(location)
        }

    def rows(self) -> dict[tuple[str | None, int], int]:
        """Read every version of every branch to its end."""
        return rows_of(self.table)


def rows_of(table: Path) -> dict[tuple[str | None, int], int]:
    main = lance.dataset(str(table))
    found = {}
    for branch in (None, *main.branches.list()):
        for one in main.checkout_version((branch, None)).versions():
            dataset = main.checkout_version((branch, one["version"]))
            found[branch, one["version"]] = dataset.to_table().num_rows
    return found


def lose(table: Path, act: Callable[[Any], object], branch: str | None = None) -> set[str]:
    """Leave what a writer leaves that is killed right before its commit; say what that is."""
    copy = Path(shutil.copytree(table, table.parent.parent / f"copy-{uuid4().hex}"))
    before = files_in(copy)
    act(lance.dataset(str(copy)).checkout_version((branch, None)))
    left = {path for path in files_in(copy) - before if "_versions/" not in path}
    for path in left:
        (table / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(copy / path, table / path)
    shutil.rmtree(copy)
    return left


def merge(dataset: Any) -> None:
    rows = pa.table({"n": pa.array([1, 99], pa.int64()), "word": ["x", "y"]})
    dataset.merge_insert("n").when_matched_update_all().when_not_matched_insert_all().execute(rows)


LOST: dict[str, Callable[[Any], object]] = {
    "append": lambda dataset: lance.write_dataset(ROWS, dataset, mode="append"),
    "delete": lambda dataset: dataset.delete("n = 5"),
    "merge": merge,
    "index": lambda dataset: dataset.create_scalar_index("word", "BITMAP"),
    "column": lambda dataset: dataset.add_columns({"twice": "n * 2"}),
}


def leave_everything(table: Path) -> set[str]:
    """Leave what lost commits leave, to the main branch and to another, staged and half written."""
    left = set()
    for act in LOST.values():
        left |= lose(table, act) | lose(table, act, "team/side")
    staged = newest(table).with_name(f"18446744073709551600.manifest-{uuid4()}")
    shutil.copy(newest(table), staged)
    private = table / f"_lakeroot-{uuid4().hex}" / "18446744073709551600.manifest"
    private.parent.mkdir()
    shutil.copy(newest(table), private)
    half = [table / "data" / ".tmpAbC123", table / "tree" / "team" / "side" / "data" / ".tmpAbC123"]
    for path in half:
        path.write_bytes(b"half")
    told = {private.parent.relative_to(table).as_posix()}
    return left | {path.relative_to(table).as_posix() for path in (staged, *half)} | told


def forget_branch(table: Path, name: str) -> None:
    """Take the name of a branch away, as one does who is killed while deleting it."""
    (table / "_refs" / "branches" / f"{name.replace('/', '%2F')}.json").unlink()
