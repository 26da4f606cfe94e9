"""Garbage goes, and nothing else does: after crashes, beside writers, whatever rows say."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from lance.fragment import write_fragments
from lance_namespace import InvalidInputError, InvalidTableStateError

from lakeroot.lake import Lake
from lakeroot.lake.table import ipc
from lakeroot.storage.lance_dir.rows import Row
from lakeroot.tables.receipts import write_receipt
from lakeroot.tables.versions import data_directory
from tests.fsck.conftest import ROWS, add_rows, directory, files, fill, make_old, newest, opened
from tests.versions.storage import Death, opened_on

NOW = timedelta(0)


def paths(lake: Lake, older_than: timedelta = timedelta(days=7), **options: bool) -> set[str]:
    return {one.path for one in lake.gc(older_than, **options).garbage}


def leave_uncommitted(root: Path, name: str) -> Path:
    """Leave what a writer leaves that died before its first commit."""
    place = root / name
    lance.write_dataset(ROWS, str(place))
    shutil.rmtree(place / "_versions")
    return place


# What goes


def test_a_directory_where_nothing_was_committed_goes(root: Path) -> None:
    place = leave_uncommitted(root, "0a1b2c3d_air$x")
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    make_old(root)
    before = files(root)

    planned = opened(root).gc(dry_run=True)

    assert [(one.path, one.size_bytes) for one in planned.garbage if one.path != "__manifest"] == [
        (place.name, size)
    ]
    assert files(root) == before
    assert opened(root).gc().garbage[0] == planned.garbage[0]
    assert not place.exists()
    assert opened(root)["air.t"].count() == 18


def test_the_rest_of_a_dropped_table_goes(root: Path) -> None:
    rest = {name: shutil.copytree(name, root.parent / name.name) for name in tables_of(root)}
    lake = opened(root)
    lake.drop_table("air.t", now=True)
    lake.drop_table("r", now=True)
    for name, copy in rest.items():
        shutil.move(copy, name)
    (root / "r.lance" / ".lance-deregistered").touch()
    make_old(root)

    assert paths(opened(root)) >= {name.name for name in rest}
    assert not any(name.exists() for name in rest)
    assert opened(root).check() == []


def tables_of(root: Path) -> list[Path]:
    return [directory(root, "air$t"), root / "r.lance"]


# What stays


@pytest.mark.parametrize("name", ["r", "air.t"])
def test_a_deregistered_table_stays_even_where_one_was_dropped_before(
    root: Path, name: str
) -> None:
    lake = opened(root)
    lake.drop_table("r", now=True)
    lake.create_table("r", ROWS)
    done = lake.namespace.deregister_table({"id": name.split(".")})
    place = Path(done.location)
    # Older than the window, but younger than the drop.
    for path in [*(root / "__manifest").rglob("*")]:
        os.utime(path, (time.time() - 1e6, time.time() - 1e6))
    for path in place.rglob("*"):
        os.utime(path, (time.time() - 9e5, time.time() - 9e5))

    opened(root).gc()

    assert lance.dataset(str(place)).count_rows() in (10, 18)


def test_a_table_that_was_dropped_and_registered_again_stays(root: Path) -> None:
    place = directory(root, "air$t")
    copy = shutil.copytree(place, root.parent / "copy")
    lake = opened(root)
    lake.drop_table("air.t", now=True)
    shutil.move(copy, place)
    for path in place.rglob("*"):
        os.utime(path, (time.time() - 2e6, time.time() - 2e6))
    for path in (root / "__manifest").rglob("*"):
        os.utime(path, (time.time() - 1e6, time.time() - 1e6))
    lake.namespace.register_table({"id": ["air", "again"], "location": place.name})
    lake.namespace.deregister_table({"id": ["air", "again"]})

    opened(root).gc()

    assert lance.dataset(str(place)).count_rows() > 0


@pytest.mark.parametrize(
    "location", ["{root}/0a1b2c3d_air$x", "./0a1b2c3d_air$x", "0a1b2c3d_air$x/inner"]
)
def test_whatever_a_row_may_mean_stays(root: Path, location: str) -> None:
    leave_uncommitted(root, "0a1b2c3d_air$x")
    add_rows(root, Row("air$x", "view", location.format(root=root), None))
    make_old(root)

    opened(root).gc()

    assert (root / "0a1b2c3d_air$x" / "data").exists()


def test_what_lance_did_not_write_stays(root: Path) -> None:
    (root / "deadbeef_photos").mkdir()
    (root / "deadbeef_photos" / "cat.png").write_bytes(b"cat")
    lance.write_dataset(ROWS, str(root / "plain.lance"))
    make_old(root)

    opened(root).gc()

    assert (root / "deadbeef_photos" / "cat.png").exists()
    assert lance.dataset(str(root / "plain.lance")).count_rows() == 10


def test_what_is_young_stays_however_short_the_window(root: Path) -> None:
    make_old(root)
    place = leave_uncommitted(root, "0a1b2c3d_air$x")

    opened(root).gc(NOW)

    assert place.exists()


def leave_a_dead_job(table: Path) -> set[str]:
    """Leave what a job leaves whose driver died: one had committed, two had not, to a branch too.

    Give what is nobody's.
    """
    lance.dataset(str(table)).create_branch("team/side")
    known = set(files(table))
    rows = lance.dataset(str(table)).to_table().slice(0, 3)
    receipts = []
    for branch in (None, "team/side"):
        target = lance.dataset(str(table)).checkout_version((branch, None))
        (written,) = write_fragments(rows, target, mode="append")
        receipts.append([f"{data_directory(branch)}/{each.path}" for each in written.files])
    left = set(files(table)) - known
    assert left == {path for each in receipts for path in each}
    done = lance.write_dataset(rows, str(table), mode="append")
    receipts.append([f"data/{done.get_fragments()[-1].metadata.files[0].path}"])
    receipts.append(["data/../_versions/1.manifest", "../x.lance", "data"])
    for number, paths_written in enumerate(receipts):
        place = table / "_lakeroot" / "jobs" / "attempt" / f"{number}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(write_receipt(paths_written))
        left.add(str(place.relative_to(table)))
    return left


@pytest.mark.parametrize("managed", ["false", "true"])
def test_what_a_job_has_left_whose_driver_died_goes(tmp_path: Path, managed: str) -> None:
    root = tmp_path / "jobs"
    lake = opened(root, table_version_management=managed)
    fill(lake)
    table = directory(root, "air$t")
    left = leave_a_dead_job(table)
    before = set(files(table))
    rows = lance.dataset(str(table)).count_rows()
    opened(root).gc(NOW)
    assert set(files(table)) == before  # It may be at work.
    make_old(root, days=5)
    opened(root).gc(NOW)
    assert set(files(table)) == before  # For days, even.
    make_old(root, days=8)
    expected = {f"{table.name}/{path}" for path in left}
    assert paths(opened(root), dry_run=True) >= expected
    assert set(files(table)) == before
    assert paths(opened(root)) >= expected
    assert set(files(table)) == before - left
    assert lance.dataset(str(table)).to_table().num_rows == rows
    assert lance.dataset(str(table)).checkout_version(("team/side", None)).to_table().num_rows


def test_nothing_of_a_job_goes_while_a_version_cannot_be_read(root: Path) -> None:
    table = directory(root, "air$t")
    left = leave_a_dead_job(table)
    newest(table).with_name("18446744073709551000.manifest").write_bytes(b"damaged")
    make_old(root)

    opened(root).gc()

    assert left <= set(files(table))


def test_tags_branches_and_the_past_of_tables_stay(root: Path) -> None:
    lake = opened(root)
    lake["air.t"].tag("first", 1)
    lake.namespace.create_table_branch({"id": ["air", "t"], "name": "side"})
    table = directory(root, "air$t")
    before = files(table)
    make_old(root)

    opened(root).gc(NOW)

    assert files(table) == before


def test_nothing_goes_while_the_rows_cannot_be_read(root: Path) -> None:
    leave_uncommitted(root, "0a1b2c3d_air$x")
    newest(root / "__manifest").write_bytes(b"damaged")
    make_old(root)
    before = files(root)

    with pytest.raises(InvalidTableStateError):
        opened(root).gc()
    assert files(root) == before


def test_a_file_in_the_root_that_somebody_left_unfinished_stops_nothing(root: Path) -> None:
    (root / "notes#1").write_bytes(b"half")
    make_old(root)

    opened(root).gc(timedelta(days=7))

    assert not (root / "notes#1").exists()


def test_a_window_cannot_be_negative(root: Path) -> None:
    with pytest.raises(InvalidInputError):
        opened(root).gc(timedelta(days=-1))


# Writers that die


ACTS: dict[str, Callable[[Any], object]] = {
    "create": lambda ns: ns.create_table({"id": ["air", "new"]}, ipc(ROWS)),
    "create_flat": lambda ns: ns.create_table({"id": ["new"]}, ipc(ROWS)),
    "declare": lambda ns: ns.declare_table({"id": ["air", "new"]}),
    "drop": lambda ns: ns.drop_table({"id": ["air", "t"]}),
    "drop_flat": lambda ns: ns.drop_table({"id": ["r"]}),
    "deregister": lambda ns: ns.deregister_table({"id": ["r"]}),
    "rename": lambda ns: ns.rename_table(
        {"id": ["r"], "new_namespace_id": ["air"], "new_table_name": "r2"}
    ),
    "cascade": lambda ns: ns.drop_namespace({"id": ["air"], "behavior": "Cascade"}),
}


@pytest.mark.parametrize("act", ACTS)
def test_after_a_death_at_any_call_and_a_clean_up_nothing_is_left(
    template: Path, tmp_path: Path, act: str
) -> None:
    deaths = 0
    for call in range(1, 60):
        root = Path(shutil.copytree(template, tmp_path / f"{act}-{call}"))
        namespace, disk = opened_on(str(root), manages=False)
        disk.dies_at, disk.dies_after = call, bool(call % 2)
        try:
            ACTS[act](namespace)
        except Death:
            deaths += 1
        make_old(root)
        kept = {name: opened(root)[name] for name in opened(root).tables()}

        opened(root).repair(opened(root).check())
        opened(root).gc()

        assert opened(root).check() == []
        assert set(opened(root).tables()) == set(kept)
        owned = {Path(one.dataset().uri).name for n, one in kept.items() if is_written(one, n)}
        # A table that was deregistered is the one thing that may be without a row.
        on_disk = {path.parent.name for path in root.glob("*/_versions")} - {"__manifest"}
        assert on_disk - owned <= ({"r.lance"} if act == "deregister" else set())
        shutil.rmtree(root)
        if disk.calls < call:
            break
    assert deaths >= 1


def is_written(table: Any, name: str) -> bool:
    return name != "air.declared" and (name not in ("air.new", "new") or has_version(table))


def has_version(table: Any) -> bool:
    return bool(table.versions())


WRITER = """
import sys, pyarrow as pa, lakeroot
lake = lakeroot.open(sys.argv[1])
rows = pa.table({"n": list(range(100))})
for number in range(1000):
    name = f"air.k{number}"
    lake.create_table(name, rows)
    lake[name].append(rows)
    if number % 3 == 2:
        lake.drop_table(name, now=True)
        print("dropped", name, flush=True)
    else:
        print("created", name, flush=True)
"""


@pytest.mark.parametrize("acknowledged", [2, 6])
def test_after_kill_9_of_a_writer_and_a_clean_up_nothing_is_lost_or_left(
    root: Path, acknowledged: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = [process.stdout.readline().split() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    said += [line.split() for line in process.stdout.read().splitlines()]
    process.wait()
    process.stdout.close()
    make_old(root)

    opened(root).repair(opened(root).check())
    opened(root).gc()

    lake = opened(root)
    assert lake.check() == []
    for what, name in said:
        if what == "created":
            assert lake[name].count() == 200
        else:
            assert name not in lake


def test_collecting_beside_a_writer_takes_nothing_of_his(root: Path) -> None:
    names = [f"air.k{number}" for number in range(12)]
    failures: list[Exception] = []

    def write() -> None:
        lake = opened(root)
        try:
            for name in names:
                lake.create_table(name, ROWS)
                lake[name].append(ROWS)
        except Exception as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    collector = opened(root)
    while writer.is_alive():
        age_tables(root)
        collector.gc(NOW)
    writer.join()

    assert failures == []
    assert [opened(root)[name].count() for name in names] == [20] * len(names)
    assert [one for one in opened(root).check() if one.severity == "error"] == []


def age_tables(root: Path) -> None:
    """Make what is being written look abandoned, but for data that a version may yet name."""
    then = time.time() - 5 * 24 * 60 * 60
    for path in root.glob("*_air$*/**/*"):
        try:
            os.utime(path, (then, then))
        except FileNotFoundError:
            continue
