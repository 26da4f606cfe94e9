"""A long job that is run again after days goes on with files that are there, and stay there."""

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.spark.distribute import distribute
from lakeroot.spark.refilling import refill
from tests.fsck.conftest import make_old
from tests.spark.conftest import put
from tests.spark.test_writing import orphans


@pytest.fixture
def numbers(catalog):
    data = pa.table({"id": pa.array(range(20), pa.int64()), "twice": pa.array([0] * 20)})
    return put(catalog, "shop.numbers", data, max_rows_per_file=5)


class Job:
    """A backfill of a new column, or a refill of an old one, and what happens while it runs."""

    def __init__(self, spark, root, kind):
        self.spark, self.root = spark, root
        self.column = {"backfilling": "size", "refilling": "twice"}[kind]
        self.module = f"lakeroot.spark.{kind}"

    def run(self):
        where = {"root": self.root, "job_id": "long"}
        if self.column == "size":
            values = {"size": "id * 2"}
            return lakeroot.spark.backfill(self.spark, "shop.numbers", values=values, **where)
        return refill(self.spark, "shop.numbers", column="twice", expression="id * 2", **where)

    def die_before_the_commit(self):
        def died(*_, **__):
            raise RuntimeError("died")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{self.module}.commit", died)
            with pytest.raises(RuntimeError, match="died"):
                self.run()

    def run_while(self, happens):
        """Let something happen once the job has seen what is finished."""

        def spied(*given, **more):
            happens()
            return distribute(*given, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{self.module}.distribute", spied)
            return self.run()


@pytest.fixture(params=["backfilling", "refilling"])
def job(request, spark, root, numbers):
    return Job(spark, root, request.param)


def notes_in(place):
    """Give the data files of each fragment that is finished."""
    found = (json.loads(p.read_text()) for p in Path(place).glob("_lakeroot/backfills/**/*.json"))
    return [note["written"] for note in found if "written" in note]


def is_right(place, job):
    table = lance.dataset(place)
    table.validate()
    rows = table.to_table()
    assert rows.column(job.column).to_pylist() == [i * 2 for i in rows.column("id").to_pylist()]
    assert not list(Path(place).glob("_lakeroot/backfills/*/*"))


def test_what_a_job_goes_on_with_is_no_garbage_however_long_it_lay(job, root, numbers):
    job.die_before_the_commit()
    make_old(Path(root), days=9)
    lance.write_dataset(pa.table({"id": [20], "twice": [0]}), numbers, mode="append")
    collected = []

    done = job.run_while(lambda: collected.append(lakeroot.open(root).gc()))

    assert [found.garbage for found in collected] == [()]
    assert (done.fragments, done.computed) == (5, 1)
    is_right(numbers, job)


def test_what_is_deleted_while_a_job_goes_on_is_computed_again(job, root, numbers):
    """As by a cleanup that had looked before the job went on."""
    job.die_before_the_commit()
    finished = [name for written in notes_in(numbers) for name in written]
    happened = []

    def cleanup():
        happened.append(True)
        for name in finished:
            (Path(numbers) / "data" / name).unlink(missing_ok=True)

    done = job.run_while(cleanup)

    assert len(happened) == 2
    # A backfill that finds all finished does the first fragment once more, after this cleanup.
    assert (done.fragments, done.computed) == (4, 3 if job.column == "size" else 4)
    is_right(numbers, job)


def test_a_dry_run_leaves_no_sign_of_life(spark, root, numbers):
    job = Job(spark, root, "backfilling")
    job.die_before_the_commit()
    before = sorted(Path(numbers).rglob("*"))
    left = lakeroot.spark.backfill(
        spark, "shop.numbers", root=root, values={"size": "id * 2"}, job_id="long", dry_run=True
    )
    assert left.computed == 0
    assert sorted(Path(numbers).rglob("*")) == before
    job.run()
    is_right(numbers, job)
    make_old(Path(root), days=9)
    lakeroot.open(root).gc()
    assert orphans(numbers) == set()
