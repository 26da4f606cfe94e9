"""TPC-H data from its own generator: the answers are those of Spark's Parquet, to the last cent."""

import shutil
import subprocess
import sysconfig

import pytest

import lakeroot.spark

SCALE = "0.1"
ROWS = 600_572

Q1 = """
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
       sum(l_extendedprice * (1 - l_discount)),
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
       avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
FROM {lineitem} WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
"""
Q6 = """
SELECT sum(l_extendedprice * l_discount) FROM {lineitem}
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""


@pytest.fixture(scope="module")
def tpch(spark, tmp_path_factory):
    """Generate the largest table, and load it."""
    here = tmp_path_factory.mktemp("tpch")
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts"))
    assert program is not None, "tpchgen-cli is in the dev group: run `make setup`"
    command = [program, "parquet", "-s", SCALE, "-T", "lineitem", "-o", str(here)]
    subprocess.run(command, check=True, capture_output=True)
    root = str(here / "lake")
    file = str(here / "lineitem.parquet")
    lakeroot.spark.use_catalog(spark, "tpch", root=root)
    spark.sql("CREATE NAMESPACE tpch.sf")
    done = lakeroot.spark.ingest(spark, file, "sf.lineitem", root=root)
    assert done.rows == ROWS
    spark.read.parquet(file).createOrReplaceTempView("parquet_lineitem")
    lakeroot.spark.read(spark, "sf.lineitem", root=root).createOrReplaceTempView("lance_lineitem")
    return root


@pytest.mark.parametrize("query", [Q1, Q6], ids=["Q1", "Q6"])
def test_a_query_of_tpch_answers_as_over_parquet(spark, tpch, query):
    over_parquet = spark.sql(query.format(lineitem="parquet_lineitem")).collect()
    assert len(over_parquet) == (4 if query is Q1 else 1)
    for lineitem in ("tpch.sf.lineitem", "lance_lineitem"):
        assert spark.sql(query.format(lineitem=lineitem)).collect() == over_parquet
