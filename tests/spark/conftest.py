"""One Spark session for the whole suite: starting it costs more than most tests."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lakeroot.spark
from lakeroot.spark.catalogs import DIRECTORY


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = lakeroot.spark.session(
        "tests",
        master="local[2,3]",
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

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == others:
            end = time.monotonic() + 60
            while len(list(Path(place).glob(pattern))) < others:
                assert time.monotonic() < end, "the other tasks left nothing"
                time.sleep(0.02)
            raise ValueError("bad row")
        yield from batches

    return frame.mapInArrow(task, frame.schema)
