"""The journey, statements, frames and conditions over Spark Connect: one server for them all."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.spark import connect_statements, every_job, journey

HOME = Path(__file__).parents[2]


@pytest.fixture
def usual_port() -> Iterator[None]:
    """Have the port of Spark Connect taken, by this test or by whoever has it already."""
    with socket.socket() as taken:
        with suppress(OSError):
            taken.bind(("", 15002))
            taken.listen()
        yield


@pytest.mark.usefixtures("usual_port")
@pytest.mark.timeout(1800)  # a server of its own, on whatever machine
def test_what_differs_over_spark_connect_is_right_or_says_what_to_use(tmp_path, subtests):
    log = tmp_path / "log"
    # Workers must find the module of a function that they are sent.
    paths = [str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.over_connect", tmp_path],
            cwd=HOME,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-5000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["session"] == "pyspark.sql.connect.session"
    assert "fork-safe" not in log.read_text()
    with subtests.test("everything works through Spark Connect"):
        journey.check(seen["journey"])
    with subtests.test("every job does through Spark Connect what it does elsewhere"):
        every_job.check(seen["jobs"])
    with subtests.test("a statement runs, or says what to use"):
        connect_statements.check(seen["statements"])
    with subtests.test("an attempt reads what its subqueries read anew, and leaves no views"):
        assert seen["looked"] == ["DELETE FROM looked.t ", 2, 4, 0]
    with subtests.test("an error comes without the trace of the server"):
        assert "Table shop.nope cannot be looked up" in seen["missing"]
        assert "\tat " not in seen["missing"]
    with subtests.test("a step that gives a frame of a column that is not there is named"):
        assert "The step 'names' gave a frame that Spark cannot compute" in seen["stepped"]
        assert "`nope`" in seen["stepped"]
    with subtests.test("one frame gives every query its own rows"):
        assert seen["frames"] == []
    with subtests.test("a condition that needs the column is refused, and no other"):
        assert seen["conditions"] == {"x": [1, 2, 0, 0, 0]}
