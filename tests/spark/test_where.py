"""A session runs where it is told to: by its caller, or else by the words of Spark itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeroot.spark import sessions

PROGRAM = """
import lakeroot.spark
spark = lakeroot.spark.session(fast_start=True)
print(spark.sparkContext.master)
spark.stop()
"""
WAYS = ("MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR")


def test_a_session_runs_where_the_defaults_of_spark_say(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master  local[1]\n")
    environment = {key: value for key, value in os.environ.items() if key not in WAYS}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1] == "local[1]"


@pytest.mark.parametrize(
    ("told", "is_told"),
    [
        ({}, False),
        ({"MASTER": "spark://there:7077"}, True),
        ({"MASTER": ""}, False),
        ({"PYSPARK_GATEWAY_PORT": "1"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--conf spark.master=local[1] pyspark-shell"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell"}, False),
    ],
)
def test_spark_is_told_in_any_of_its_own_ways(
    told: dict[str, str], is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in WAYS:
        monkeypatch.delenv(way, raising=False)
    for name, value in {"SPARK_CONF_DIR": str(tmp_path), **told}.items():
        monkeypatch.setenv(name, value)
    assert sessions._told_where() is is_told
