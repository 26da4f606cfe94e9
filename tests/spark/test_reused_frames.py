"""A frame of the source in Python: no query of it gets the filters of another."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakeroot.spark.spark_sql.sourcing import COLUMNAR
from tests.spark.journey import CONNECT
from tests.spark.reused import disagreements

HOME = Path(__file__).parents[2]


@pytest.mark.parametrize("columnar", ["false", "true"])
def test_one_frame_gives_every_query_its_own_rows(spark, root, columnar):
    spark.conf.set(COLUMNAR, columnar)
    try:
        assert disagreements(spark, root, 12) == []
    finally:
        spark.conf.unset(COLUMNAR)


@pytest.mark.timeout(1800)  # a server of its own, on whatever machine
def test_one_frame_gives_every_query_its_own_rows_through_spark_connect(root, tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.reused", CONNECT, root],
            cwd=HOME,
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-5000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen == {"session": "pyspark.sql.connect.session", "wrong": []}
