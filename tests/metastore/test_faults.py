"""Crashes at every write, many processes, long histories: nothing acknowledged is lost."""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data import TableWriter, read_rows
from lakeroot.metastore.naming import commit_path
from lakeroot.model.errors import LakerootError

from .conftest import SCHEMA, append, urls, with_table
from .memory import Crash, CrashingObjects, MemoryObjects

DELTACATS_VERSION = "version/2.0.0.post4.1794780603903589483"


def workload(metastore: Metastore, done: list[str]) -> None:
    with metastore.transaction("one") as txn:
        txn.create_namespace("ns")
        txn.create_table("ns", "t")
    done.append("one")
    with metastore.transaction("two") as txn:
        txn.update_table("ns", "t", new_name="u")
    done.append("two")
    append(metastore, "data/1.pq", table="u")
    done.append("three")
    with metastore.transaction("four") as txn:
        txn.update_namespace("ns", new_name="n2")
    done.append("four")
    metastore.checkpoint()
    append(metastore, "data/2.pq", namespace="n2", table="u")
    done.append("five")


def state(metastore: Metastore) -> tuple[object, ...]:
    view = metastore.view()
    found = []
    for namespace in view.namespaces():
        names = [table.name for table in view.tables(namespace.name)]
        tables = tuple((name, tuple(urls(metastore, namespace.name, name))) for name in names)
        found.append((namespace.name, tables))
    return tuple(found)


STATES = [
    (),
    (("ns", (("t", ()),)),),
    (("ns", (("u", ()),)),),
    (("ns", (("u", ("data/1.pq",)),)),),
    (("n2", (("u", ("data/1.pq",)),)),),
    (("n2", (("u", ("data/1.pq", "data/2.pq")),)),),
]


def count_writes(layout: str) -> int:
    counting = CrashingObjects(MemoryObjects(), at=-1, how="before")
    workload(Metastore(counting, layout=layout), [])  # type: ignore[arg-type]
    return counting.writes


@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_crash_at_any_write_leaves_one_state_or_the_next(layout: str, how: str) -> None:
    total = count_writes(layout)
    assert total > 25
    for at in range(1, total + 1):
        objects = MemoryObjects()
        done: list[str] = []
        with pytest.raises(Crash):
            workload(Metastore(CrashingObjects(objects, at, how), layout=layout), done)  # type: ignore[arg-type]
        survivor = Metastore(objects, layout=layout)
        found = state(survivor)

        assert found in (STATES[len(done)], STATES[min(len(done) + 1, 5)]), (how, at)
        with survivor.transaction() as txn:
            txn.create_namespace("z after")
        assert state(Metastore(objects))[:-1] == found
        _is_published(objects, layout)


def keyed_workload(metastore: Metastore, done: list[list[int]]) -> None:
    schema = schema_of(SCHEMA.arrow, merge_keys=["id"])
    with metastore.transaction() as txn:
        txn.create_namespace("ns")
        txn.create_table("ns", "t", schema=schema)
    done.append([])
    for number in (1, 2):
        with metastore.transaction() as txn:
            TableWriter(txn, "ns", "t").upsert([{"id": number, "name": "x"}])
        done.append([*done[-1], number])
    metastore.vacuum(retention_ms=0)
    with metastore.transaction() as txn:
        TableWriter(txn, "ns", "t").delete([{"id": 1}])
    done.append([2])
    metastore.vacuum(retention_ms=0)


def ids_in(metastore: Metastore) -> list[int] | None:
    view = metastore.view()
    if view.find_namespace("ns") is None:
        return None
    return sorted(read_rows(view, "ns", "t")["id"].to_pylist())


@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_crash_while_rows_are_written_or_cleaned_loses_none(layout: str, how: str) -> None:
    states = [None, [], [1], [1, 2], [2], [2]]
    for at in itertools.count(1):
        objects = MemoryObjects()
        objects.now_ms = lambda: time.time_ns() // 1_000_000
        done: list[list[int]] = []
        try:
            keyed_workload(Metastore(CrashingObjects(objects, at, how), layout=layout), done)  # type: ignore[arg-type]
        except Crash:
            pass
        else:
            break
        survivor = Metastore(objects, layout=layout)
        found = ids_in(survivor)
        assert found in (states[len(done)], states[len(done) + 1]), (how, at)
        survivor.vacuum(retention_ms=0)
        assert ids_in(Metastore(objects)) == found, (how, at)
        if found is not None:
            _leaves_no_litter(objects)
    assert at > 30


def _leaves_no_litter(objects: MemoryObjects) -> None:
    """Once the leases of the dead have run out, there is no data file that nobody needs."""
    objects.now_ms = lambda: time.time_ns() // 1_000_000 + 3 * 24 * 60 * 60 * 1000
    metastore = Metastore(objects)
    metastore.vacuum(retention_ms=0)
    assert {path for path in objects.held if path.startswith("data/")} == set(urls(metastore))


def _is_published(objects: MemoryObjects, layout: str) -> None:
    """What the log says is also in the files that other implementations read."""
    files_only = {p: d for p, d in objects.held.items() if not p.startswith("txn/_")}
    imported = Metastore(MemoryObjects(files_only), layout=layout, read_only=True)
    assert state(imported) == state(Metastore(MemoryObjects(objects.held)))


def test_a_torn_log_entry_is_nothing_to_everybody(layout: str) -> None:
    objects = MemoryObjects()
    metastore = with_table(Metastore(objects, layout=layout))
    head = metastore.log.sync().head
    objects.put(commit_path(head + 1), b"LRC1 half of an entry")
    append(metastore, "data/1.pq")

    assert urls(Metastore(MemoryObjects(objects.held))) == ["data/1.pq"]


@pytest.mark.parametrize("how", ["made", "torn"])
def test_two_who_make_a_catalog_at_once_make_one(layout: str, how: str) -> None:
    objects = MemoryObjects()
    late = Metastore(objects, layout=layout)
    late.view()
    put, others = objects.put_if_absent, [how]

    def overtaken(path: str, data: bytes) -> bool:
        while others:
            if others.pop() == "made":
                with_table(Metastore(MemoryObjects(objects.held), layout=layout), "theirs")
            else:
                objects.put(path, b"LRC1 half of an entry")
        return put(path, data)

    objects.put_if_absent = overtaken  # type: ignore[method-assign]
    with_table(late, "ours")
    for client in (late, Metastore(MemoryObjects(objects.held))):
        names = [one.name for one in client.view().namespaces()]
        assert names == (["ours", "theirs"] if how == "made" else ["ours"])
        assert client.layout.value == layout


def test_a_dead_writers_file_hides_nothing_and_blocks_nothing(layout: str) -> None:
    objects = MemoryObjects()
    metastore = with_table(Metastore(objects, layout=layout))
    with metastore.transaction() as txn:
        txn.update_namespace("ns", properties={"v": "T1"})
    committed = next(p for p in objects.held if "_update_" in p and p.count("/") <= 4)
    dead = committed.replace(txn.txn_id, "9999999999999999999_00000000-0000-4000-8000-000000000000")
    objects.put(dead, b"uncommitted")
    again = Metastore(MemoryObjects(objects.held))

    assert again.view().namespace("ns").properties == {"v": "T1"}
    with again.transaction() as txn:
        txn.update_namespace("ns", properties={"v": "T3"})
    assert metastore.view().namespace("ns").properties == {"v": "T3"}


def test_a_file_that_was_lost_or_damaged_is_mended_from_the_log(layout: str) -> None:
    objects = MemoryObjects()
    with_table(Metastore(objects, layout=layout))
    for path in [p for p in objects.held if p.endswith(".mpk")]:
        for damage in (None, b"", b"\xc1\xc1"):
            held = dict(objects.held)
            if damage is None:
                del held[path]
            else:
                held[path] = (damage, 0)
            view = Metastore(MemoryObjects(held)).view()
            assert view.stream("ns", "t").format == "deltacat"


def test_a_damaged_checkpoint_is_passed_over(layout: str) -> None:
    objects = MemoryObjects()
    metastore = with_table(Metastore(objects, layout=layout))
    metastore.checkpoint()
    append(metastore, "data/1.pq")
    checkpoint = next(p for p in objects.held if "_checkpoint/0" in p)
    for damage in (b"", b"x" * 40, objects.held[checkpoint][0][:-7]):
        held = {**objects.held, checkpoint: (damage, 0)}
        assert urls(Metastore(MemoryObjects(held))) == ["data/1.pq"]
    held = {**objects.held, "txn/_checkpoint/_latest": (b"?", 0)}
    assert urls(Metastore(MemoryObjects(held))) == ["data/1.pq"]


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "noise": lambda data: bytes(byte ^ 0x5A for byte in data) or b"noise",
    "foreign": lambda _: b"\x81\xa3key\xa5value",
}


def _catalog(objects: MemoryObjects, layout: str) -> None:
    metastore = with_table(Metastore(objects, layout=layout))
    with metastore.transaction() as txn:
        TableWriter(txn, "ns", "t").append([{"id": 1, "name": "a"}])
    with metastore.transaction() as txn:
        txn.update_table("ns", "t", new_name="u")
    with metastore.transaction() as txn:
        TableWriter(txn, "ns", "u").append([{"id": 2, "name": "b"}])


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_any_damaged_file_is_made_good_or_told(
    layout: str, how: str, *, has_checkpoint: bool
) -> None:
    objects = MemoryObjects()
    _catalog(objects, layout)
    if has_checkpoint:
        Metastore(objects).checkpoint()
    newest = max(path for path in objects.held if "/_commit/" in path)
    told = set()
    for path in objects.held:
        if how == "missing" and path == newest and not has_checkpoint and layout == "spec":
            continue  # nobody can tell a log from one that ends earlier
        held = dict(objects.held)
        damaged = DAMAGE[how](held.pop(path)[0])
        if damaged is not None:
            held[path] = (damaged, 0)
        try:
            metastore = Metastore(MemoryObjects(held))
            assert read_rows(metastore.view(), "ns", "u")["id"].to_pylist() == [1, 2], path
            assert len(list(metastore.transactions())) == 4, path
            with metastore.transaction() as txn:
                TableWriter(txn, "ns", "u").append([{"id": 3, "name": "c"}])
            metastore.vacuum()
            again = read_rows(Metastore(MemoryObjects(held)).view(), "ns", "u")
            assert again["id"].to_pylist() == [1, 2, 3], path
        except LakerootError:
            told.add(path)

    assert {path for path in objects.held if path.startswith("data/")} <= told
    assert all(path.startswith("data/") or path.endswith(".mpk") for path in told)


def _append_many(root: str, writer: int, count: int) -> None:
    metastore = Metastore.open(root)
    for number in range(count):
        append(metastore, f"data/{writer}-{number}.pq")


def test_eight_processes_lose_no_acknowledged_append(tmp_path: Path, layout: str) -> None:
    with_table(Metastore.open(str(tmp_path), layout=layout))
    _append_from_eight_processes(tmp_path, 100)


def test_eight_processes_lose_nothing_where_deltacat_has_been(tmp_path: Path) -> None:
    metastore = with_table(Metastore.open(str(tmp_path), layout="deltacat-2"))
    metastore.objects.put(DELTACATS_VERSION, b"")
    _append_from_eight_processes(tmp_path, 10)


def _append_from_eight_processes(root: Path, each: int) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lakeroot.metastore"])
    writers = [
        context.Process(target=_append_many, args=(str(root), writer, each)) for writer in range(8)
    ]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * 8
    found = urls(Metastore.open(str(root)))

    assert len(found) == 8 * each
    assert set(found) == {f"data/{w}-{n}.pq" for w in range(8) for n in range(each)}
    for writer in range(8):
        own = [url for url in found if url.startswith(f"data/{writer}-")]
        assert own == [f"data/{writer}-{number}.pq" for number in range(each)]


def test_a_killed_process_loses_nothing_it_had_acknowledged(tmp_path: Path, layout: str) -> None:
    with_table(Metastore.open(str(tmp_path), layout=layout))
    script = textwrap.dedent(
        f"""
        from lakeroot.metastore import Metastore
        from tests.metastore.conftest import append
        metastore = Metastore.open({str(tmp_path)!r})
        for number in range(100000):
            append(metastore, f"data/{{number}}.pq")
            print(number, flush=True)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(20)]
    time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    acknowledged += [int(line) for line in process.stdout.read().split()]
    process.wait()
    metastore = Metastore.open(str(tmp_path))
    found = urls(metastore)

    assert found[: len(acknowledged)] == [f"data/{number}.pq" for number in acknowledged]
    assert len(found) - len(acknowledged) in (0, 1)
    assert append(metastore, "data/after.pq") == len(found) + 1


def _revise(root: Path, count: int) -> None:
    metastore = Metastore.open(str(root))
    with metastore.transaction() as txn:
        txn.create_namespace("n")
    for number in range(count):
        with metastore.transaction() as txn:
            txn.update_namespace("n", properties={"v": number})
    again = Metastore.open(str(root))

    assert again.view().namespace("n").properties == {"v": count - 1}
    assert again.log.index.last_number(again.view().namespace("n").id, is_name=False) == count + 1


def test_five_thousand_revisions_of_one_object_are_nothing_special(
    tmp_path: Path, layout: str
) -> None:
    with_table(Metastore.open(str(tmp_path), layout=layout))
    _revise(tmp_path, 5_100)


def test_the_thousandth_revision_is_nothing_special_where_deltacat_has_been(tmp_path: Path) -> None:
    # There a look at what other writers do is part of every commit; released deltacat stops at
    # a thousand revisions.
    metastore = with_table(Metastore.open(str(tmp_path), layout="deltacat-2"))
    metastore.objects.put(DELTACATS_VERSION, b"")
    _revise(tmp_path, 1_050)
