"""The journey of a table on a cluster of real processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import lakeroot
from lakeroot.spark.java import java_home
from lakeroot.spark.sessions import FAST_START_FLAGS
from tests.fsck.conftest import files, make_old
from tests.spark import every_job, journey, losses
from tests.spark.test_writing import orphans

HOME = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(1800)  # up to six JVMs, on whatever machine
PATIENCE_S = 600


def travelled(where: str, root: Path, log: Path) -> dict[str, Any]:
    """Run the journey in a process of its own, which kills itself at the end."""
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.journey", where, str(root)],
            cwd=HOME,
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
        )
    said = log.read_text()
    assert done.returncode == -signal.SIGKILL, said[-5000:]
    assert "fork-safe" not in said
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def test_everything_works_on_a_cluster_of_processes(spark, tmp_path, subtests):
    root = tmp_path / "lake"
    with cluster(tmp_path) as master:
        seen = travelled(master, root, tmp_path / "log")
    executors = {home for home in seen["homes"] if str(tmp_path) in home}
    assert len(executors) == len(seen["homes"]) == 2
    journey.check(seen)
    with subtests.test("every job does on a cluster what it does elsewhere"):
        every_job.check(seen["jobs"])
    with subtests.test("an executor that is killed loses and doubles no row"):
        assert seen["lost"] == {
            "killed": [True, True],
            "written": [1, 120, 12],
            "merged": [2, 20, 20],
        }
        check_losses(Path(f"{root}-lost"))
    with subtests.test("a driver that is killed before it commits has changed nothing"):
        check_killed_driver(Path(f"{root}-killed"), seen["before"])
    with subtests.test("a job of a killed driver is run again and happens once"):
        check_run_again(spark, Path(f"{root}-killed"))


def check_losses(root: Path) -> None:
    """Look whether the rows are right, and all that attempts have left is collected."""
    lake = lakeroot.open(str(root))
    place = lake["shop.t"].dataset().uri
    words = [[n, "new" if n >= 100 else "old"] for n in range(140)]
    assert every_job.rows_of(str(root), "shop.t") == words
    # Nobody has heard of the files of the task that was killed.
    assert orphans(place)
    make_old(root)
    lake.gc()
    assert orphans(place) == set()
    assert not list(root.rglob("_lakeroot/jobs/*"))
    assert not list(root.rglob(".tmp*"))
    assert lake.check(timedelta(0)) == []
    assert every_job.rows_of(str(root), "shop.t") == words


def check_killed_driver(root: Path, before: dict[str, Any]) -> None:
    """Look at tables whose driver has died, and collect what it left: of a copy."""
    copy = Path(shutil.copytree(root, f"{root}-copy"))
    lake = lakeroot.open(str(copy))
    assert losses.state(str(copy)) == before["state"]
    assert len(orphans(lake["shop.grows"].dataset().uri)) == 2
    make_old(copy)
    lake.gc()
    assert losses.state(str(copy)) == before["state"]
    assert _of_tables(files(copy)) == _of_tables(before["files"])
    # The name of the table that was to be made stays declared.
    assert "shop.begins" in lake.tables()


def _of_tables(names: Iterable[str]) -> set[str]:
    """Choose files of tables: neither the catalog's own nor reservations of names."""
    tables = (name for name in names if not name.startswith("__manifest/"))
    return {name for name in tables if not name.endswith("/.lance-reserved")}


def check_run_again(spark: SparkSession, root: Path) -> None:
    """Run the jobs again, twice: they publish once."""
    for already_done in (False, True):
        for name, job in losses.jobs(spark, str(root)).items():
            assert job().already_done == already_done, name
    old, new = [[n, "old"] for n in range(20)], [[n, "new"] for n in range(15, 40)]
    expected = {
        "grows": sorted(old + new),
        "begins": new,
        "merges": old[:15] + new,
        "computes": [[n, "old", n * 2] for n in range(20)],
    }
    lake = lakeroot.open(str(root))
    for name, rows in expected.items():
        assert every_job.rows_of(str(root), f"shop.{name}") == rows, name
    make_old(root)
    lake.gc()
    assert lake.check(timedelta(0)) == []
    for name, rows in expected.items():
        assert orphans(lake[f"shop.{name}"].dataset().uri) == set(), name
        assert every_job.rows_of(str(root), f"shop.{name}") == rows, name
    assert not list(root.rglob("_lakeroot/*/*"))


@contextmanager
def cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """Run a standalone master and its workers from the files of the pyspark wheel."""
    with ExitStack() as stack:
        master, text = _started(stack, directory / "master.log", "master.Master", "-h", "127.0.0.1")
        address = _awaited(master, text, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            place = directory / f"worker{number}"
            arguments = ("-c", "1", "-m", "1g", "-d", str(place), "-h", "127.0.0.1", address)
            worker, text = _started(stack, directory / f"{number}.log", "worker.Worker", *arguments)
            _awaited(worker, text, "Successfully registered with master")
        yield address


def _started(
    stack: ExitStack, log: Path, program: str, *arguments: str
) -> tuple["subprocess.Popen[bytes]", Path]:
    home = Path(pyspark.__file__).parent
    java = java_home()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": FAST_START_FLAGS,
        **({"JAVA_HOME": str(java)} if java is not None else {}),
    }
    more = ["--webui-port", "0", "--port", "0"]
    file = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(
        [home / "bin" / "spark-class", f"org.apache.spark.deploy.{program}", *more, *arguments],
        env=environment,
        stdout=file,
        stderr=subprocess.STDOUT,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process, log


def _awaited(process: "subprocess.Popen[bytes]", log: Path, pattern: str) -> str:
    for _ in range(PATIENCE_S * 10):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[found.re.groups]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(log.read_text(errors="replace")[-3000:])
