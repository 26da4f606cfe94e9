"""Tables that are dropped, or dropped and made anew, when a job has done its work and commits."""

import functools
from typing import Any

import lance
import pyarrow as pa
import pytest

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import LakerootError, TableNotFoundError
from lakeroot.spark import backfilling, changing, maintenance, row_changes, write_tasks

JOBS = {
    "write": (write_tasks, "over_rows"),
    "merge": (row_changes, "over_rows"),
    "small merge": (row_changes, "commit_changes"),
    "update": (row_changes, "over_rows"),
    "delete": (changing, "distribute"),
    "compact": (maintenance, "distribute"),
    "index": (maintenance, "distribute"),
    "backfill": (backfilling, "distribute"),
}
FLAT = {"manifest_enabled": "false"}


def run(spark, job, root, **properties):
    where: dict[str, Any] = {
        "impl": "lakeroot.DirectoryNamespace",
        "properties": {"root": root, **properties},
        "table": "t",
    }
    rows = spark.createDataFrame([(3, 9.0), (99, 9.0)], "id long, v double")
    jobs = {
        "write": lambda: lakeroot.spark.write(rows, **where),
        "merge": lambda: lakeroot.spark.merge(rows, on="id", strategy="spark", **where),
        "small merge": lambda: lakeroot.spark.merge(rows, on="id", strategy="driver", **where),
        "update": lambda: lakeroot.spark.update(spark, set={"v": "v + 1"}, where="id < 3", **where),
        "delete": lambda: lakeroot.spark.delete(spark, where="id < 3", **where),
        "compact": lambda: lakeroot.spark.compact(spark, **where),
        "index": lambda: lakeroot.spark.index(spark, column="id", kind="BTREE", **where),
        "backfill": lambda: lakeroot.spark.backfill(
            spark, values={"w": "id * 2"}, job_id="w", **where
        ),
    }
    return jobs[job]()


def made(namespace, value):
    """Make a table of two fragments, as a client of pylance alone would; return where it lies."""
    location = namespace.declare_table({"id": ["t"]}).location
    for start in (0, 10):
        rows = {"id": pa.array(range(start, start + 10), pa.int64()), "v": [value] * 10}
        lance.write_dataset(pa.table(rows), location, mode="append" if start else "overwrite")
    return location


def just_before_the_commit(monkeypatch, job, happen):
    """Let something happen once, when the work of a job is done or about to be committed."""
    module, name = JOBS[job]
    real = getattr(module, name)

    @functools.wraps(real)
    def spied(*arguments, **named):
        monkeypatch.setattr(module, name, real)
        if name == "commit_changes":
            happen()
            return real(*arguments, **named)
        done = real(*arguments, **named)
        happen()
        return done

    monkeypatch.setattr(module, name, spied)


def replaced_by_then(monkeypatch, job, root, **properties):
    """Make a table, and another in its stead before a job commits; give where that is, by then."""
    namespace = lakeroot.DirectoryNamespace(root=root, **properties)
    made(namespace, 1.0)
    places: list[str] = []

    def replaced():
        namespace.drop_table({"id": ["t"]})
        places.append(made(namespace, 7.0))

    just_before_the_commit(monkeypatch, job, replaced)
    return places


@pytest.mark.parametrize("job", JOBS)
def test_a_job_whose_table_went_into_the_trash_says_so_and_leaves_it_as_it_was(
    spark, root, monkeypatch, job
):
    location = made(lakeroot.DirectoryNamespace(root=root), 1.0)
    just_before_the_commit(monkeypatch, job, lambda: lakeroot.open(root).drop_table("t"))
    with pytest.raises(TableNotFoundError, match="was dropped or renamed while the job ran"):
        run(spark, job, root)
    assert lance.dataset(location).version == 2
    assert lakeroot.open(root).tables() == []


@pytest.mark.parametrize("job", ["delete", "compact", "index", "backfill"])
@pytest.mark.parametrize("properties", [{}, FLAT], ids=["elsewhere", "in the same place"])
def test_a_job_does_to_the_new_table_what_it_did_to_the_one_that_it_replaced(
    spark, root, monkeypatch, job, properties
):
    places = replaced_by_then(monkeypatch, job, root, **properties)
    run(spark, job, root, **properties)
    [place] = places
    now = lance.dataset(place)
    assert now.version > 2
    assert set(now.to_table()["v"].to_pylist()) == {7.0}
    assert now.count_rows() == (17 if job == "delete" else 20)
    assert len(now.get_fragments()) == (1 if job == "compact" else 2)
    assert [each.name for each in now.describe_indices()] == (["id_idx"] if job == "index" else [])
    assert ("w" in now.schema.names) == (job == "backfill")


SAME_NUMBER = {"merge": {3: 9.0, 99: 9.0}, "update": dict.fromkeys(range(3), 8.0)}


@pytest.mark.parametrize("job", ["merge", "small merge", "update"])
@pytest.mark.parametrize("properties", [{}, FLAT], ids=["a catalog", "directories alone"])
def test_rows_are_changed_in_the_new_table_whose_newest_version_has_the_same_number(
    spark, root, monkeypatch, job, properties
):
    places = replaced_by_then(monkeypatch, job, root, **properties)
    run(spark, job, root, **properties)
    [place] = places
    found = {row["id"]: row["v"] for row in lance.dataset(place).to_table().to_pylist()}
    changed = SAME_NUMBER[job.removeprefix("small ")]
    assert found == dict.fromkeys(range(20), 7.0) | changed


@pytest.mark.parametrize("properties", [{}, FLAT], ids=["a catalog", "directories alone"])
def test_rows_that_were_written_for_another_table_are_not_appended(
    spark, root, monkeypatch, properties
):
    places = replaced_by_then(monkeypatch, "write", root, **properties)
    with pytest.raises(LakerootError, match="while"):
        run(spark, "write", root, **properties)
    now = lance.dataset(places[0])
    assert now.to_table()["v"].to_pylist() == [7.0] * 20
