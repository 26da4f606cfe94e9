"""Rows on their way to Python workers: in batches that stay small, however long the rows are."""

import pytest

from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.spark import row_tasks
from lakeroot.spark.failures import translated
from lakeroot.spark.row_tasks import BATCH_BYTES, over_rows

MEGABYTE = 1 << 20


def sizes(batches):
    return [(batch.num_rows, batch.nbytes) for batch in batches]


@pytest.fixture
def no_fallback(monkeypatch):
    """Let a test fail, rather than pass the slow way."""

    def made(frame, task, prepared=row_tasks._prepared):
        found = prepared(frame, task)
        assert found is not None
        return found

    monkeypatch.setattr(row_tasks, "_prepared", made)


@pytest.mark.usefixtures("no_fallback")
def test_narrow_rows_go_in_as_many_as_the_session_allows(spark):
    most = int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch"))
    tasks = over_rows(spark.range(0, 4 * most, 1, 2), sizes)
    assert [[rows for rows, _ in task] for task in tasks] == [[most, most]] * 2


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("wide", ["repeat('x', 1048576)", "binary(repeat('x', 1048576))"])
def test_wide_rows_go_in_few(spark, wide):
    frame = spark.range(0, 20, 1, 1).selectExpr("id", f"{wide} AS wide")
    (task,) = over_rows(frame, sizes)
    assert sum(rows for rows, _ in task) == 20
    assert max(size for _, size in task) <= BATCH_BYTES + 2 * MEGABYTE
    assert len(task) > 1


@pytest.mark.usefixtures("no_fallback")
def test_a_task_without_rows_is_a_task(spark):
    tasks = over_rows(spark.range(0, 9, 1, 3).where("id < 1"), sizes)
    assert [len(task) for task in tasks] == [1, 0, 0]


@pytest.mark.usefixtures("no_fallback")
def test_what_a_task_raises_arrives_as_it_is(spark):
    def refused(batches):
        raise InvalidInputError(f"These are {sum(batch.num_rows for batch in batches)} rows")

    with pytest.raises(LakerootError, match="These are 5 rows"), translated("It failed"):
        over_rows(spark.range(0, 5, 1, 1), refused)


def test_both_ways_hand_over_the_same_rows(spark, monkeypatch):
    frame = spark.range(0, 5000, 1, 2).selectExpr(
        "id",
        "if(id % 3 = 0, null, concat('n', id)) AS name",
        "array(float(id), null) AS list",
        "struct(id AS a, cast(id AS decimal(20, 3)) AS b) AS s",
        "map('k', id) AS m",
        "timestamp_micros(id) AS t",
    )

    def rows(batches):
        return [row for batch in batches for row in batch.to_pylist()]

    quick = over_rows(frame, rows)
    monkeypatch.setattr(row_tasks, "_prepared", lambda frame, task: None)
    assert over_rows(frame, rows) == quick
    assert [len(task) for task in quick] == [2500, 2500]
