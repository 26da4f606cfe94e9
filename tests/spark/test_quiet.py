"""A command starts Spark without the lines it greets with, unless the user has said how it logs."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lakeroot.spark import told
from lakeroot.spark.java import bundled_java_home, plain_java_home
from lakeroot.spark.quiet import quietly

VECTORS = "--add-modules=jdk.incubator.vector"
WAYS = ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "PYSPARK_GATEWAY_PORT", "LANCE_LOG")


@pytest.fixture(autouse=True)
def told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for way in WAYS:
        monkeypatch.delenv(way, raising=False)
    conf = tmp_path / "conf"
    conf.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    return conf


def test_java_is_told_how_to_log_while_it_starts_and_the_environment_is_as_it_was_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    before = dict(os.environ)
    with quietly() as settings:
        first, last = shlex.split(os.environ["SPARK_SUBMIT_OPTS"])
        assert Path(first.partition("=file://")[2]).is_file()
        assert last == "-Dmine=1"
        assert os.environ["LANCE_LOG"].startswith("warn")
    assert settings == {"spark.log.level": "ERROR"}
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPARK_SUBMIT_OPTS", "-Dlog4j2.configurationFile=mine.xml"),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.log.level=INFO pyspark-shell"),
        ("SPARK_SUBMIT_OPTS", "-Dspark.log.level=INFO"),
        ("LOG4J_CONFIGURATION_FILE", "mine.xml"),
    ],
)
def test_whoever_tells_spark_how_to_log_is_shown_all_of_it(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with quietly() as settings:
        assert (settings, dict(os.environ)) == ({}, before)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log4j2.xml", "<Configuration/>"),
        ("spark-defaults.conf", "spark.driver.extraJavaOptions -Dlog4j.configurationFile=mine.xml"),
    ],
)
def test_files_of_spark_say_how_it_logs_too(name: str, text: str, told_nothing: Path) -> None:
    (told_nothing / name).write_text(text)
    with quietly() as settings:
        assert settings == {}


def test_a_comment_tells_spark_nothing_and_a_file_of_properties_does(
    told_nothing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (told_nothing / "spark-defaults.conf").write_text("# spark.master local\n")
    assert not told.is_told(r"spark\.master")
    (tmp_path / "mine.conf").write_text("spark.master local\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {tmp_path}/mine.conf x")
    assert told.is_told(r"spark\.master")


@pytest.mark.parametrize("named", [None, "/some/where else"])
def test_java_starts_without_its_vector_module_and_sees_its_home_as_it_was(
    named: str | None, tmp_path: Path
) -> None:
    """A program that prints what it is given stands for Java."""
    place = tmp_path / "a place" if named is None else tmp_path / named.strip("/")
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "${JAVA_HOME-none}" "$@"\n')
    program.chmod(0o755)
    found = {"PATH": str(program.parent)} if named is None else {"JAVA_HOME": str(place)}
    home = plain_java_home(tmp_path / "made", found)
    assert home is not None
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": str(home)}

    def heard(*arguments: str) -> list[str]:
        command = [f"{home}/bin/java", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert heard(VECTORS, "-Dx=a b") == ["none" if named is None else str(place), "-Dx=a b"]
    # Spark asks Java what to start, and that must be this one again.
    assert heard("-cp", "x") == [str(home), "-cp", "x"]


def test_no_java_is_made_plain_where_none_is(tmp_path: Path) -> None:
    assert plain_java_home(tmp_path, {"PATH": str(tmp_path)}) is None


def test_the_bundled_java_is_not_put_where_somebody_else_could_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / f"lakeroot-java-{os.getuid()}").symlink_to(theirs)
    assert bundled_java_home().resolve() != theirs
    assert list(theirs.iterdir()) == []


def test_a_command_says_why_a_task_failed_and_shows_no_trace_of_java(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("these are no rows")
    where = ["-m", "lakeroot", "-r", str(tmp_path / "lake"), "job", "ingest", "t"]
    done = subprocess.run(
        [sys.executable, *where, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "rows.parquet is not a Parquet file" in done.stderr
    assert "\tat " not in done.stderr
    assert done.stderr.count("\n") < 12
