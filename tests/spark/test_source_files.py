"""Files that are not there are missed before Spark starts, where they can only be here."""

from pathlib import Path

import pytest

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.source_files import require_files


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "one.csv").write_text("id\n1\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "days",
        "days/one.csv",
        "days/*.csv",
        "d?ys/*",
        "file:{0}/days/one.csv",
        "file://{0}/days/one.csv",
        # Whoever could tell is not here, or these are patterns of Hadoop alone.
        "s3://bucket/none.csv",
        "hdfs:///none.csv",
        "days/{{two,one}}.csv",
        "days/[^x].csv",
    ],
)
def test_files_that_are_there_or_may_be_are_left_to_spark(path: str, tmp_path: Path) -> None:
    require_files(path.format(tmp_path), "csv")


@pytest.mark.parametrize("path", ["days/two.csv", "nights/*.csv", "file:{0}/none", "{0}/none"])
def test_a_file_that_is_not_there_is_named(path: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read as csv"):
        require_files(path.format(tmp_path), "csv")


def test_a_table_of_an_iceberg_catalog_is_no_file() -> None:
    require_files("air.flights", "iceberg")


def test_a_path_may_be_one_of_hadoop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    require_files("/none.csv", "csv")
    with pytest.raises(InvalidInputError):
        require_files("file:///none.csv", "csv")
