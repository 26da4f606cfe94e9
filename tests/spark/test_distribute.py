"""One function over many items, as tasks of Spark."""

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark import distribute as module
from lakeroot.spark.distribute import distribute


@pytest.fixture(params=["_over_rdd", "_over_frame"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tasks as in a classic session, and as over Spark Connect."""
    for name in ("_over_rdd", "_over_frame"):
        monkeypatch.setattr(module, name, getattr(module, request.param))


@dataclass
class Marked:
    """An item that leaves a mark wherever it arrives."""

    number: int
    folder: str

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return arrived, (self.number, self.folder)


def arrived(number: int, folder: str) -> Marked:
    (Path(folder) / f"{number}-{os.getpid()}-{uuid.uuid4().hex}").touch()
    return Marked(number, folder)


@pytest.mark.usefixtures("way")
def test_each_task_gets_its_own_item_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    items = [Marked(number, str(tmp_path)) for number in range(6)]
    found = distribute(spark, items, lambda item: item.number * 10, what="test")
    assert found == [0, 10, 20, 30, 40, 50]
    marks = [path.name.split("-") for path in tmp_path.iterdir()]
    assert sorted(number for number, *_ in marks) == ["0", "1", "2", "3", "4", "5"]
    assert str(os.getpid()) not in {process for _, process, _ in marks}


@pytest.mark.usefixtures("way")
def test_an_error_of_a_task_is_told_in_its_own_words(spark: SparkSession) -> None:
    def refused(item: int) -> int:
        raise InvalidInputError(f"Item {item // item} is bad")

    with pytest.raises(InvalidInputError, match="Item 1 is bad"):
        distribute(spark, [1, 2], refused, what="The test failed")


def test_one_item_takes_no_job(spark: SparkSession) -> None:
    assert distribute(spark, [1], lambda _: os.getpid(), what="test") == [os.getpid()]
    assert distribute(spark, [], lambda _: os.getpid(), what="test") == []
