"""A session runs where it is told to: by its caller, or else by the words of Spark itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeroot.spark import sessions

PROGRAM = """
import os
import lakeroot.spark
from lakeroot.spark.quiet import quietly
with quietly() as config:
    spark = lakeroot.spark.session(fast_start=True, config=config)
print(spark.sparkContext.master)
spark.range(3).write.saveAsTable("kept")
print(spark.table("kept").count())
print(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
logger = spark._jvm.org.slf4j.LoggerFactory.getLogger("mine")
logger.error("an error of Spark")
assert spark._jvm.System.getenv("JAVA_HOME") == os.environ.get("JAVA_HOME")
spark.stop()
"""
WAYS = (
    "MASTER",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_SUBMIT_OPTS",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR",
)


def test_a_session_runs_where_it_is_told_leaves_nothing_behind_and_says_only_what_matters(
    tmp_path: Path,
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master  local[1]\nspark.yarn.access.namenodes  none\n"
    )
    here = tmp_path / "here"
    here.mkdir()
    environment = {key: value for key, value in os.environ.items() if key not in WAYS}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=here,
        env={**environment, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    master, rows, warehouse = done.stdout.strip().splitlines()
    assert (master, rows) == ("local[1]", "3")
    assert list(here.iterdir()) == []
    assert not Path(warehouse).exists()
    said = done.stderr.splitlines()
    assert [line for line in said if " ERROR mine: an error of Spark" in line]
    warnings = [line for line in said if " ERROR mine: " not in line]
    assert all("spark.yarn.access.namenodes" in line for line in warnings), said
    assert warnings, "what Spark warns of at its start is shown"


@pytest.mark.parametrize(
    ("told", "is_told"),
    [
        ({}, False),
        ({"MASTER": "spark://there:7077"}, True),
        ({"MASTER": ""}, False),
        ({"PYSPARK_GATEWAY_PORT": "1"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--conf spark.master=local[1] pyspark-shell"}, True),
        ({"SPARK_SUBMIT_OPTS": "-Dspark.master=local[1]"}, True),
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


@pytest.mark.parametrize(
    ("told", "is_told"),
    [
        ({}, False),
        ({"PYSPARK_GATEWAY_PORT": "1"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--name mine pyspark-shell"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--conf spark.app.name=mine pyspark-shell"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}, False),
    ],
)
def test_an_application_keeps_the_name_that_spark_is_told(
    told: dict[str, str], is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in WAYS:
        monkeypatch.delenv(way, raising=False)
    for name, value in {"SPARK_CONF_DIR": str(tmp_path), **told}.items():
        monkeypatch.setenv(name, value)
    assert sessions._told_name() is is_told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.sql.warehouse.dir=mine pyspark-shell"),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.sql.catalogImplementation=hive pyspark-shell"),
        ("SPARK_SUBMIT_OPTS", "-Dspark.sql.warehouse.dir=mine"),
        ("PYSPARK_GATEWAY_PORT", "1"),
        ("HADOOP_CONF_DIR", "hadoop"),
    ],
)
def test_a_warehouse_of_the_user_is_left_where_it_is(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in WAYS:
        monkeypatch.delenv(way, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "hadoop").mkdir()
    (tmp_path / "hadoop" / "hive-site.xml").write_text("<configuration/>")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    assert sessions._warehouse({}) == {}
