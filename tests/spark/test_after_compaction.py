"""Jobs and streams find their own commits past a compaction that took an index along."""

import pytest

import lakeroot.spark
from tests.spark.test_streaming import pump


@pytest.fixture
def compacted(spark, root, catalog):
    for start in (0, 10, 20):
        lakeroot.spark.write(spark.range(start, start + 10), "shop.t", root=root)
    lakeroot.spark.index(spark, "shop.t", root=root, column="id", kind="BTREE")
    assert lakeroot.spark.compact(spark, "shop.t", root=root).fragments_after == 1
    return lambda: lakeroot.spark.read(spark, "shop.t", root=root).count()


def test_changes_with_a_job_id_happen_once_after_a_compaction(spark, root, compacted):
    for _ in range(2):
        lakeroot.spark.write(spark.range(100, 101), "shop.t", root=root, job_id="w")
        lakeroot.spark.merge(spark.range(100, 102), "shop.t", on="id", root=root, job_id="m")
        lakeroot.spark.delete(spark, "shop.t", where="id = 2", root=root, job_id="d")
        lakeroot.spark.backfill(spark, "shop.t", values={"twice": "id * 2"}, root=root, job_id="b")
    assert compacted() == 31


def test_a_stream_goes_into_a_table_that_was_compacted_and_out_of_it(
    spark, root, compacted, tmp_path
):
    lakeroot.spark.write(spark.range(50, 55), "shop.source", root=root)
    pump(spark, root, str(tmp_path / "into"), "shop.source", "shop.t")
    pump(spark, root, str(tmp_path / "out"), "shop.t", "shop.copy")
    assert compacted() == 35
    assert lakeroot.spark.read(spark, "shop.copy", root=root).count() == 35
