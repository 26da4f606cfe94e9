"""Statements, frames and conditions over Spark Connect: one server for all of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.connect_statements import check

HOME = Path(__file__).parents[2]


@pytest.mark.timeout(1800)  # a server of its own, on whatever machine
def test_what_differs_over_spark_connect_is_right_or_says_what_to_use(tmp_path, subtests):
    log = tmp_path / "log"
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.over_connect", tmp_path],
            cwd=HOME,
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-5000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["session"] == "pyspark.sql.connect.session"
    with subtests.test("a statement runs, or says what to use"):
        check(seen["statements"])
    with subtests.test("one frame gives every query its own rows"):
        assert seen["frames"] == []
    with subtests.test("a condition that needs the column is refused, and no other"):
        assert seen["conditions"] == {"x": [1, 2, 0, 0, 0]}
