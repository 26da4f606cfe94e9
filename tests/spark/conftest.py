"""One Spark session for each worker of the suite: starting it costs more than most tests."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lakeroot
import lakeroot.spark
from lakeroot.spark import caring
from lakeroot.spark.catalogs import DIRECTORY
from lakeroot.spark.distribute import distribute

MANAGED = {"table_version_management": "true"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = lakeroot.spark.session(
        "tests",
        master="local[2,2]",
        fast_start=True,
        config={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"},
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def catalog(root: str) -> lance_namespace.LanceNamespace:
    client = lance_namespace.connect(DIRECTORY, {"root": root})
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    return client


@pytest.fixture
def managed(root: str) -> lakeroot.DirectoryNamespace:
    """A catalog that arbitrates the versions of its tables."""
    client = lakeroot.DirectoryNamespace(root=root, **MANAGED)
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    return client


@pytest.fixture
def people(catalog: lance_namespace.LanceNamespace) -> str:
    data = pa.table(
        {
            "id": pa.array(range(20), pa.int64()),
            "name": [f"n{i}" for i in range(20)],
            "age": pa.array([i % 7 for i in range(20)], pa.int32()),
        }
    )
    return put(catalog, "shop.people", data, max_rows_per_file=6)


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Let two tasks share what there is to look after, however little; give their groups."""
    groups: list[Any] = []

    def spied(spark: SparkSession, items: Any, work: Any, *, what: str) -> list[Any]:
        groups.extend(items)
        return distribute(spark, items, work, what=what)

    monkeypatch.setattr(caring, "_FEWEST", 1)
    monkeypatch.setattr(caring, "_TASKS_PER_CORE", 1)
    monkeypatch.setattr(caring, "distribute", spied)
    return groups


def put(
    catalog: lance_namespace.LanceNamespace, name: str, data: pa.Table, **options: object
) -> str:
    """Create a table in the catalog with pylance alone, and return where it lies."""
    names = name.split(".")
    location = catalog.declare_table(lance_namespace.DeclareTableRequest(id=names)).location
    assert location is not None
    lance.write_dataset(data, location, mode="overwrite", **options)
    return str(location)


def fails_last(frame: DataFrame, place: str, pattern: str) -> DataFrame:
    """Let the last task of a frame fail when the others have left what they leave.

    Spark ends a job at the first failure and does not wait for the tasks beside it: what such a
    task still writes is there only later, for garbage collection to find.
    """
    others = frame.rdd.getNumPartitions() - 1
    before = _whole_files(place, pattern)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == others:
            end = time.monotonic() + 60
            while len(_whole_files(place, pattern) - before) < others:
                assert time.monotonic() < end, "the other tasks left nothing"
                time.sleep(0.02)
            raise ValueError("bad row")
        yield from batches

    return frame.mapInArrow(task, frame.schema)


def _whole_files(place: str, pattern: str) -> set[Path]:
    """Give the files that are written to their end: one of Parquet is there before its last byte.

    The receipt by which a job says that it wants others is of no task.
    """
    return {
        path
        for path in Path(place).glob(pattern)
        if path.name != "wanted.json"
        and (path.suffix == ".json" or path.read_bytes()[8:].endswith(b"PAR1"))
    }
