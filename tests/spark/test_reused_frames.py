"""A frame of the source in Python: no query of it gets the filters of another."""

import pytest

from lakeroot.spark.spark_sql.sourcing import COLUMNAR
from tests.spark.reused import disagreements


@pytest.mark.parametrize("columnar", ["false", "true"])
def test_one_frame_gives_every_query_its_own_rows(spark, root, columnar):
    spark.conf.set(COLUMNAR, columnar)
    try:
        assert disagreements(spark, root, 12) == []
    finally:
        spark.conf.unset(COLUMNAR)
