"""A session runs where it is told to: by its caller, or else by the words of Spark itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import lakeroot.spark
spark = lakeroot.spark.session(fast_start=True)
print(spark.sparkContext.master)
spark.stop()
"""


def ran(**told: str) -> str:
    """Say where a session without a master runs, in a process that is told so."""
    ways = ("MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR")
    environment = {key: value for key, value in os.environ.items() if key not in ways}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, **told},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("way", ["variable", "arguments", "defaults"])
def test_a_session_runs_where_spark_is_told_to(way: str, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master  local[1]\n")
    told = {
        "variable": {"MASTER": "local[1]"},
        "arguments": {"PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"},
        "defaults": {"SPARK_CONF_DIR": str(tmp_path)},
    }
    assert ran(**told[way]) == "local[1]"
