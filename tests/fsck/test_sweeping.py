"""Inside a table, what nothing needs goes in every kind of catalog, and what is needed stays."""

import json
import os
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

from lakeroot.objects import LocalObjects
from lakeroot.storage.garbage import moments
from lakeroot.storage.sweeping import Inside, sweep
from lakeroot.tables.job_notes import note_job
from lakeroot.tables.receipts import write_receipt
from lakeroot.tables.transactions import Status
from tests.cli.running import Run
from tests.fsck.conftest import ROWS, make_old
from tests.fsck.killing import files_in, opened, orphans
from tests.fsck.lost import LOST, Place, forget_branch, leave_everything, lose, merge
from tests.fsck.test_killed_writers import CATALOGS

NOW = timedelta(0)
MANAGED = [name for name in CATALOGS if "managed" in name]


@pytest.fixture(params=CATALOGS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "lake")


def test_what_lost_commits_have_left_goes_and_every_version_stays(place: Place) -> None:
    rows = place.rows()
    left = leave_everything(place.table)
    before = files_in(place.table)
    assert place.gc() == set()  # Its writers may be at work.
    make_old(place.root, days=5)
    short = {path for path in left if path.startswith("_lakeroot-")}
    if place.keeps_versions:  # Otherwise another may know of them.
        short |= {path for path in left if "manifest-" in path}
    assert place.gc(dry_run=True) == short  # For days, even.
    make_old(place.root, days=8)

    assert place.gc(dry_run=True) == left
    assert files_in(place.table) == before
    assert place.gc() == left

    assert place.rows() == rows
    assert orphans(place.table) == set()
    assert place.gc() == set()
    assert place.lake.check(NOW) == []
    assert lance.dataset(str(place.table), version="first").count_rows() == 10


def test_of_a_table_in_order_nothing_goes(place: Place) -> None:
    table = place.lake["air.t"]
    table.dataset().optimize.compact_files()
    table.restore(2)
    table.delete("n > 5")
    table.dataset().optimize.optimize_indices()
    lance.dataset(str(place.table)).checkout_version(("team/side", None)).delete("n = 1")
    rows = place.rows()
    before = files_in(place.table)
    make_old(place.root, days=100)

    assert place.gc() == set()

    assert files_in(place.table) >= before
    assert place.rows() == rows


@pytest.mark.parametrize("catalog", MANAGED)
def test_every_state_of_the_catalog_that_can_be_visited_stays_whole(
    tmp_path: Path, catalog: str
) -> None:
    place = Place(catalog, tmp_path / "lake")
    states = [one.version for one in place.lake.history() if one.versions]
    shown = {state: place.lake.at(state)["air.t"].to_arrow().num_rows for state in states}
    assert sorted(shown.values()) == [10, 10, 18, 18, 20]
    left = leave_everything(place.table)
    make_old(place.root)

    assert place.gc(timedelta(days=7)) == left

    for state, rows in shown.items():
        assert place.lake.at(state)["air.t"].to_arrow().num_rows == rows


def test_the_command_tells_what_goes_and_why(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    left = lose(place.table, merge)
    make_old(place.root)
    run = Run(place.root, capsys)

    told = run.json("gc", "--dry-run")
    code, _, _ = run("gc", "--yes")

    location = place.table.relative_to(place.root).as_posix()
    found = {row["path"]: row for row in told if row["path"].startswith(location)}
    assert found.keys() == {f"{location}/{path}" for path in left}
    assert {row["why"] for row in found.values()} == {"no version names it, and its writer is gone"}
    assert all(row["bytes"] > 0 for row in found.values())
    assert code == 0
    assert not any((place.table / path).exists() for path in left)


def test_blobs_stay_with_the_file_that_they_are_of(tmp_path: Path) -> None:
    schema = pa.schema([lance.blob_field("b")])
    rows = pa.table([lance.blob_array([b"x" * 5_000_000, b"y" * 100_000])], schema=schema)
    lake = opened("DirectoryNamespace", {"root": str(tmp_path / "lake")})
    table = tmp_path / "lake" / "r.lance"
    lance.write_dataset(rows, str(table), data_storage_version="2.2")
    before = files_in(table)
    left = lose(table, lambda dataset: lance.write_dataset(rows, dataset, mode="append"))
    assert sum(path.endswith(".blob") for path in left) == 2
    make_old(tmp_path / "lake")

    lake.gc(NOW)

    assert files_in(table) == before
    assert not any((table / path).parent.exists() for path in left if path.endswith(".blob"))


def test_an_index_or_a_file_with_blobs_is_as_old_as_its_youngest_part(place: Place) -> None:
    index, data = f"_indices/{uuid4()}", f"data/{uuid4().hex}"
    parts = {f"{index}/part_0.lance", f"{data}/1.blob"}
    last = {f"{index}/part_1.lance", f"{data}.lance"}
    for path in parts | last:
        (place.table / path).parent.mkdir(exist_ok=True)
        (place.table / path).write_bytes(b"part")
    make_old(place.root)
    for path in last:
        os.utime(place.table / path)

    assert place.gc() == set()

    make_old(place.root)
    assert place.gc() == parts | last


def test_what_a_job_that_runs_has_written_stays_however_old_it_is(place: Place) -> None:
    left = lose(place.table, LOST["append"])
    noted = lose(place.table, LOST["append"])
    data = {path for path in left | noted if path.startswith("data/")}
    receipt = place.table / "_lakeroot" / "jobs" / "attempt" / "1.json"
    note = place.table / "_lakeroot" / "backfills" / "job" / "run" / "2.json"
    for path in (receipt, note):
        path.parent.mkdir(parents=True)
    receipt.write_bytes(write_receipt(path for path in left if path in data))
    written = [Path(path).name for path in noted if path in data]
    note.write_text(json.dumps({"note": {}, "written": written}))
    make_old(place.root)
    for path in (receipt, note):
        os.utime(path)

    assert place.gc() == (left | noted) - data  # Of a lost commit only the transaction.

    make_old(place.root)
    assert place.gc() == data | {
        "_lakeroot/jobs/attempt/1.json",
        "_lakeroot/backfills/job/run/2.json",
    }
    assert not (place.table / "_lakeroot" / "jobs" / "attempt").exists()
    assert orphans(place.table) == set()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": 1}', '{"written": [1]}'])
def test_nothing_goes_while_a_note_of_a_job_that_runs_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    place = Place("directory", tmp_path / "lake")
    left = lose(place.table, LOST["append"])
    note = place.table / "_lakeroot" / "jobs" / "attempt" / "1.json"
    note.parent.mkdir(parents=True)
    note.write_text(content)
    make_old(place.root)
    os.utime(note)

    assert place.gc() == set()
    assert "_lakeroot/jobs/attempt/1.json" in caplog.text

    make_old(place.root)  # The job is over.
    assert place.gc() == left | {"_lakeroot/jobs/attempt/1.json"}


class GoesOnMeanwhile(LocalObjects):
    """A disk on which a dead job is run again while a collector reads the versions."""

    def get(self, path: str) -> bytes | None:
        if path.endswith(".manifest"):
            self.put("_lakeroot/backfills/job/alive-1.json", b"{}")
        return super().get(path)


def test_a_job_that_goes_on_while_versions_are_read_keeps_its_files(tmp_path: Path) -> None:
    place = Place("directory", tmp_path / "lake")
    data = {path for path in lose(place.table, LOST["append"]) if path.startswith("data/")}
    note = place.table / "_lakeroot" / "backfills" / "job" / "run" / "2.json"
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"note": {}, "written": [Path(path).name for path in data]}))
    make_old(place.root)
    disk = GoesOnMeanwhile(str(place.table))
    listed = {info.path: info for info in disk.list("")}

    swept = list(sweep(Inside("t", disk, dict), listed, moments(NOW), dry_run=False))

    assert all(one.path.startswith("t/_transactions/") for one in swept)
    assert data <= files_in(place.table)
    assert note.exists()


def test_how_a_job_went_is_told_for_ninety_days(place: Place) -> None:
    job = str(uuid4())
    note_job(LocalObjects(str(place.table)), job, Status.SUCCEEDED, {})
    make_old(place.root, days=80)
    assert place.gc() == set()

    make_old(place.root, days=91)

    assert place.gc() == {f"_lakeroot/status/{job}.json"}


# Branches


def test_a_branch_without_a_name_goes_and_its_name_can_be_given_again(place: Place) -> None:
    dataset = lance.dataset(str(place.table))
    lance.write_dataset(ROWS, dataset.create_branch("team"), mode="append")
    forget_branch(place.table, "team")
    dead = {path for path in files_in(place.table) if path.startswith("tree/team/")}
    dead = {path for path in dead if not path.startswith("tree/team/side/")}
    assert place.gc() == set()
    make_old(place.root)
    rows = place.rows()

    assert place.gc(dry_run=True) == dead
    assert place.gc() == dead

    assert place.rows() == rows
    assert orphans(place.table) == set()
    assert place.lake.check(NOW) == []
    again = lance.dataset(str(place.table)).create_branch("team")
    assert again.count_rows() == 10


def test_what_other_branches_need_of_one_that_is_gone_stays(place: Place) -> None:
    dataset = lance.dataset(str(place.table))
    parent = lance.write_dataset(ROWS, dataset.create_branch("parent"), mode="append")
    parent.create_branch("child")
    forget_branch(place.table, "parent")
    make_old(place.root)
    rows = place.rows()
    before = files_in(place.table)

    place.gc()

    assert place.rows() == rows
    assert files_in(place.table) == before  # Its versions too: the child says where it comes from.


def test_a_branch_that_a_tag_names_stays(place: Place) -> None:
    side = lance.dataset(str(place.table)).checkout_version(("team/side", None))
    lance.dataset(str(place.table)).tags.create("kept", ("team/side", side.version))
    forget_branch(place.table, "team/side")
    make_old(place.root)

    assert place.gc() == set()

    assert lance.dataset(str(place.table)).checkout_version("kept").to_table().num_rows == 28


def test_rows_that_are_to_come_into_a_branch_stay(place: Place) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False, metadata=key)])
    rows = pa.table({"n": range(100)}, schema=schema)
    table = Path(place.lake.create_table("air.w", rows).dataset().uri.removeprefix("file://"))
    branch = lance.dataset(str(table)).create_branch("side")
    branch.initialize_mem_wal()
    with branch.mem_wal_writer(str(uuid4())) as writer:
        writer.put(rows)
    (flushed,) = table.glob("tree/side/_mem_wal/*/*_gen_*")
    before = files_in(table)
    make_old(place.root)

    place.lake.gc(NOW)

    assert files_in(table) == before
    assert lance.dataset(str(flushed)).count_rows() == 100
    assert place.lake.check(NOW) == []


def test_what_lies_in_a_branch_that_has_a_name_is_no_branch_that_is_gone(place: Place) -> None:
    inner = place.table / "tree" / "team" / "side" / "inner"
    lance.write_dataset(ROWS, str(inner))
    make_old(place.root)
    before = files_in(inner)

    place.gc()

    assert files_in(inner) == before
    assert lance.dataset(str(inner)).count_rows() == 10
