"""The journey of a table on a cluster of real processes."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakeroot.spark.java import java_home
from lakeroot.spark.sessions import FAST_START_FLAGS
from tests.spark.journey import check

HOME = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(1800)  # up to six JVMs, on whatever machine
PATIENCE_S = 600


def travelled(where: str, root: Path, log: Path) -> dict[str, Any]:
    """Run the journey in a process of its own, where no other session is."""
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.journey", where, str(root)],
            cwd=HOME,
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
        )
    said = log.read_text()
    assert done.returncode == 0, said[-5000:]
    assert "fork-safe" not in said
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def test_everything_works_on_a_cluster_of_processes(tmp_path):
    with cluster(tmp_path) as master:
        seen = travelled(master, tmp_path / "lake", tmp_path / "log")
    executors = {home for home in seen["homes"] if str(tmp_path) in home}
    assert len(executors) == len(seen["homes"]) == 2
    check(seen)


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
