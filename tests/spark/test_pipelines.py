"""Pipelines: from files to several tables in one publication."""

import lance
import lance_namespace
import pytest

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LakerootError,
    UnsupportedOperationError,
)
from lakeroot.spark import pipelines
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.pipelines import Check, Pipeline, Source, Step, Target

MANAGED = {"table_version_management": "true"}


@pytest.fixture
def managed(root):
    client = lakeroot.DirectoryNamespace(root=root, **MANAGED)
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    return client


@pytest.fixture
def orders(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text("id,city,price\n1,Oslo,5\n2,Molde,7\n3,Oslo,1\n")
    return path


FILE = """\
name: daily
catalog:
  root: lake
  properties: {table_version_management: true}
sources:
  raw: {format: csv, path: orders.csv}
steps:
  - name: cities
    sql: SELECT city, sum(price) AS total FROM raw GROUP BY city
  - name: doubled
    python: tests.spark.test_pipelines:doubled
tables:
  - table: shop.orders
    from: raw
    mode: merge
    keys: id
    checks:
      - rows: ">= 1"
      - not_null: [id, city]
      - unique: id
      - expression: price > 0
  - {table: shop.cities, from: cities, mode: overwrite}
  - {table: shop.doubled, from: doubled, mode: append}
message: the daily load
"""


def doubled(spark, frames):
    return frames["raw"].selectExpr("id", "price * 2 AS price")


def rows_of(client, *names):
    table = lance.dataset(namespace_client=client, table_id=list(names))
    return sorted(tuple(row.values()) for row in table.to_table().to_pylist())


def test_a_file_publishes_its_tables_together_and_once(spark, tmp_path, managed, orders):
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE)
    planned = pipelines.plan(pipelines.load(file))
    assert "merge shop.orders (new) from raw on id, 4 checks" in planned
    assert planned[-1] == "publish 3 tables in one commit"
    done = pipelines.run_file(file, run_id="monday", spark=spark)
    assert [(t.table, t.version, t.rows) for t in done.tables] == [
        ("shop.orders", 1, 3),
        ("shop.cities", 1, 2),
        ("shop.doubled", 1, 3),
    ]
    again = pipelines.run_file(file, run_id="monday", spark=spark)
    assert again.already_done
    orders.write_text("id,city,price\n2,Bergen,8\n4,Oslo,1\n")
    pipelines.run_file(file, run_id="tuesday", spark=spark)
    assert rows_of(managed, "shop", "orders") == [
        (1, "Oslo", 5),
        (2, "Bergen", 8),
        (3, "Oslo", 1),
        (4, "Oslo", 1),
    ]
    assert rows_of(managed, "shop", "cities") == [("Bergen", 8), ("Oslo", 1)]
    assert len(rows_of(managed, "shop", "doubled")) == 5
    messages = [entry.message for entry in managed.catalog.history()]
    assert messages.count("the daily load") == 2


def pipeline(root, *tables, properties=MANAGED, **more):
    return Pipeline(
        name="p",
        catalog=Catalog.at(root, properties),
        sources=(Source(name="raw", sql="SELECT id, id % 4 AS k FROM range(10)"),),
        tables=tables,
        **more,
    )


def test_a_failed_check_publishes_nothing(spark, root, managed):
    good = Target(table="shop.good", source="raw")
    for wrong, words in (
        (Check(unique=("k",)), "unique"),
        (Check(expression="id < 9"), "1 of 10 rows"),
        (Check(rows="> 10"), "there are 10"),
        (Check(not_null=("id",), expression="id = nullif(id, 3)"), "1 of 10"),
    ):
        bad = Target(table="shop.bad", source="raw", checks=(wrong,))
        with pytest.raises(InvalidTableStateError, match=words):
            pipelines.run(spark, pipeline(root, good, bad))
    request = lance_namespace.ListTablesRequest(id=["shop"])
    assert managed.list_tables(request).tables == []


def test_a_failure_in_the_last_table_takes_the_first_back(spark, root, managed):
    lakeroot.spark.write(
        spark.range(3), "shop.first", root=root, **{"property.table_version_management": "true"}
    )
    first = Target(table="shop.first", source="one")
    second = Target(table="shop.second", source="two")
    broken = pipeline(
        root,
        first,
        second,
        steps=(
            Step(name="one", sql="SELECT id FROM raw"),
            Step(name="two", sql="SELECT raise_error('no') AS x FROM raw"),
        ),
    )
    with pytest.raises(LakerootError):
        pipelines.run(spark, broken)
    assert rows_of(managed, "shop", "first") == [(0,), (1,), (2,)]


def test_a_catalog_without_versions_is_refused_or_published_one_by_one(spark, root, catalog):
    target = Target(table="shop.t", source="raw")
    with pytest.raises(UnsupportedOperationError, match="table_version_management"):
        pipelines.run(spark, pipeline(root, target, properties={}))
    done = pipelines.run(spark, pipeline(root, target, properties={}, atomic=False), run_id="1")
    assert done.tables[0].rows == 10
    again = pipelines.run(spark, pipeline(root, target, properties={}, atomic=False), run_id="1")
    assert again.already_done


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("keys: id", "kes: id"), 16, "'keys'"),
        (("mode: merge", "mode: merg"), 13, "'merge'"),
        (("from: cities", "from: citis"), 13, "'cities'"),
        (("format: csv", "format: csw"), 6, "'csv'"),
        (("  - name: cities", "  - nam: cities"), 8, "'name'"),
        (("name: daily", "name: [daily"), 2, "not YAML"),
        (("  root: lake", "  rot: lake"), 3, "'root'"),
    ],
)
def test_a_broken_file_is_reported_with_its_line(tmp_path, change, line, words):
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.replace(*change))
    with pytest.raises(InvalidInputError, match=words) as raised:
        pipelines.load(file)
    assert f"line {line}" in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="nowhere"):
        pipelines.load(tmp_path / "nowhere.yaml")
