"""How Java and the Python workers of a session meet, and what workers leave out of collections."""

import gc
import stat
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeroot.spark import workers
from lakeroot.spark.distribute import distribute


def test_a_worker_leaves_its_imports_out_of_collections_from_its_second_task_on(
    spark: SparkSession,
) -> None:
    def frozen(_: int) -> int:
        return gc.get_freeze_count()

    before = gc.get_freeze_count()
    # However the tasks are shared out among workers, somebody has a second one.
    rounds = [distribute(spark, list(range(8)), frozen, what="test") for _ in range(2)]
    assert max(map(max, rounds)) > 10_000
    # The command line freezes what is there when it ends, so this process may have begun with some.
    assert gc.get_freeze_count() <= before, "the driver is not ours to tune"


@pytest.mark.parametrize(
    "task",
    [
        "scanning",
        "write_tasks",
        "source_writing",
        "streaming",
        "refilling",
        "row_changes",
        "metastore.reading",
        "metastore.writing",
        "spark_sql.tasks",
    ],
)
def test_a_worker_loads_no_client_of_catalogs_for_a_task_that_asks_none(task: str) -> None:
    clients = "{'lance_namespace', 'pydantic', 'pyiceberg'}"
    look = f"import sys, lakeroot.spark.{task}; print({clients} & {{*sys.modules}})"
    run = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_every_name_of_the_package_is_fetched_when_it_is_asked_for() -> None:
    # In a program of its own: here others have imported every module.
    asked = (
        "import lakeroot.spark as s; assert dir(s) == sorted(s.__all__);"
        "assert all(callable(getattr(s, name)) for name in {*s.__all__} - {*s._ROOMS});"
        "print(s.pipelines.run_file.__name__, s.metastore.__name__, hasattr(s, 'nothing'))"
    )
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["run_file", "lakeroot.spark.metastore", "False"]


def test_workers_are_reached_by_sockets_that_only_their_owner_can_reach(
    spark: SparkSession,
) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    directory = Path(str(conf.get("spark.python.unix.domain.socket.dir")))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert any(stat.S_ISSOCK(each.stat().st_mode) for each in directory.iterdir())


# Says where its sockets are, and is killed.
_KILLED = """
import os, sys, tempfile
from lakeroot.spark import workers
tempfile.tempdir, workers._LONGEST_DIRECTORY = sys.argv[1], 1000
print(workers.unix_sockets()["spark.python.unix.domain.socket.dir"], flush=True)
os.kill(os.getpid(), 9)
"""


def test_sockets_of_a_killed_program_are_removed_by_the_next_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(workers, "_LONGEST_DIRECTORY", 1000)
    mine = workers.unix_sockets.__wrapped__()["spark.python.unix.domain.socket.dir"]
    for _ in range(2):
        run = [sys.executable, "-c", _KILLED, str(tmp_path)]
        killed = subprocess.run(run, capture_output=True, text=True, check=False).stdout.strip()
        assert {str(each) for each in tmp_path.iterdir()} == {mine, killed}


def test_workers_are_reached_by_tcp_where_the_name_of_a_socket_would_be_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert workers.unix_sockets.__wrapped__() == {}


def test_a_worker_whose_java_is_gone_says_nothing_of_it_and_tells_every_other_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_error = workers._unless_nobody_hears(traceback.print_exc)
    for error in (BrokenPipeError("nobody hears"), ConnectionResetError("somebody does")):
        try:
            raise error
        except OSError:
            print_error()
    told = capsys.readouterr().err
    assert "nobody hears" not in told
    assert "somebody does" in told
