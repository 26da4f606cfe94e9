"""Pipelines: from files to several tables in one publication."""

import json
from dataclasses import replace

import lance
import lance_namespace
import pyarrow as pa
import pytest

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LakerootError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark import commits, pipelines
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.pipelines import Check, Pipeline, Source, Step, Target
from tests.spark.conftest import MANAGED, put


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


def nothing(spark, frames):
    frames["raw"].count  # noqa: B018  # and no return


def listed(spark, frames):
    return [frames["raw"]]


def of_another_frame(spark, frames):
    return json.loads("{}", object_hook=lambda _: frames["wrong"])


def of_another_column(spark, frames):
    return frames["raw"].select("wrong")


def of_too_little(spark):
    return spark.range(1)


def rows_of(client, *names):
    table = lance.dataset(namespace_client=client, table_id=list(names))
    return sorted(tuple(row.values()) for row in table.to_table().to_pylist())


def test_a_file_publishes_its_tables_together_and_once(spark, tmp_path, root, managed, orders):
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
    assert again.tables == done.tables
    told = commits.properties_of(
        lance.dataset(namespace_client=managed, table_id=["shop", "orders"]), 1
    )
    assert told is not None
    assert told["lakeroot.metrics"] == '{"rows": 3, "checks": 4}'
    origin = lakeroot.open(root, table_version_management="true")["shop.orders"].origin(1)
    assert json.loads(origin["lakeroot.sources"]) == {"raw": {"path": str(orders), "format": "csv"}}
    assert (origin["lakeroot.run"], origin["operation"]) == ("monday", "overwrite")
    orders.unlink()
    pipelines.require_possible(pipelines.load(file), "monday")  # It needs no files any more.
    with pytest.raises(InvalidInputError, match=r"orders\.csv"):
        pipelines.require_possible(pipelines.load(file), "tuesday")
    with pytest.raises(InvalidInputError, match="id of a run cannot be empty"):
        pipelines.run_file(file, run_id="")
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


@pytest.mark.usefixtures("managed")
def test_what_a_function_may_make_is_not_missed_before_it_has_run(root):
    target = Target(table="shop.seed", source="raw", mode="delete", keys=("id",))
    with pytest.raises(TableNotFoundError, match="no table"):
        pipelines.require_possible(pipeline(root, target))
    step = Step(name="seed", python="some.module:seed")
    pipelines.require_possible(pipeline(root, target, steps=(step,)))
    nowhere = Target(table="nowhere.seed", source="raw")
    with pytest.raises(NamespaceNotFoundError):
        pipelines.require_possible(pipeline(root, nowhere, steps=(step,)))


def test_a_pipeline_leaves_no_names_in_the_session_and_takes_none_away(spark, root, managed):
    spark.range(3).createOrReplaceTempView("raw")
    step = Step(name="left", sql="SELECT id FROM raw WHERE id > 4")
    pipelines.run(spark, pipeline(root, Target(table="shop.one", source="left"), steps=(step,)))
    try:
        assert lakeroot.spark.read(spark, "shop.one", root=root).count() == 5
        assert spark.table("raw").count() == 3
        uses = Step(name="uses", sql="SELECT * FROM left")
        two = pipeline(root, Target(table="shop.two", source="uses"), steps=(uses,))
        with pytest.raises(LakerootError, match="left"):
            pipelines.run(spark, two)
        assert spark.table("raw").count() == 3
    finally:
        spark.catalog.dropTempView("raw")


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
        (("from: cities", "from: citis"), 22, "'cities'"),
        (("format: csv", "format: csw"), 6, "'csv'"),
        (("  - name: cities", "  - nam: cities"), 8, "'name'"),
        (("name: daily", "name: [daily"), 2, "not YAML"),
        (("  root: lake", "  rot: lake"), 3, "'root'"),
        (("  root: lake", "  profile: nowhere"), 3, "There is no profile 'nowhere'"),
        (("  root: lake", "  root:"), 3, "a text should be here"),
        (("properties: {table_version_management: true}", "properties: x"), 4, "a mapping"),
        (("name: daily", "name: [daily]"), 1, "a text should be here"),
        (("name: daily", "name: daily\nname: hourly"), 2, "'name' is here twice"),
        (("name: daily", "? [a, b]\n: c\nname: daily"), 1, "a key should be a word"),
        (("message: the daily load", "message: !!python/name:os.getcwd"), 24, "determine a con"),
        (("message: the daily load", "atomic: 'false'"), 24, "true or false"),
        (("path: orders.csv", "path: orders.csv, version: 3"), 6, "no `version`"),
        (("path: orders.csv", "path: orders.csv, table: shop.t"), 6, "`path` and `table`"),
        (("format: csv, path: orders.csv", "table: shop.t, version: abc"), 6, "a number"),
        (("format: csv, path: orders.csv", "table: shop.t, version: 1, tag: a"), 6, "exclude"),
        (("format: csv, path: orders.csv", "table: shop.t, options: {lmit: 1}"), 6, "'limit'"),
        (("path: orders.csv", "path: orders.csv, options: x"), 6, "a mapping"),
        (("path: orders.csv", "path: [orders.csv]"), 6, "a text"),
        (("tests.spark.test_pipelines:doubled", "tests.spark"), 10, "module:function"),
        (("name: doubled", "name: cities"), 10, "'cities' is used twice"),
        (("name: doubled", "name: raw"), 10, "'raw' is used twice"),
        (("table: shop.cities", "table: shop.orders"), 22, "'shop.orders' is used twice"),
        (("keys: id", "keys:"), 16, "a text"),
        (('rows: ">= 1"', 'rows: ">= x"'), 18, "not a number of rows"),
        (('rows: ">= 1"', "{}"), 18, "always holds"),
        (("not_null: [id, city]", "not_null: []"), 19, "always holds"),
        (("mode: append}", "mode: append, options: {vektors: 'x:1'}}"), 23, "'vectors'"),
        (("mode: append}", "mode: append, options: {branch: dev}}"), 23, "main branches"),
        (("mode: append}", "mode: append, options: {mode: create}}"), 23, "a key of the table"),
    ],
)
def test_a_broken_file_is_reported_with_its_line(tmp_path, change, line, words):
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.replace(*change))
    with pytest.raises(InvalidInputError, match=words) as raised:
        pipelines.load(file)
    assert f"line {line}" in str(raised.value)


SQL = "sql: SELECT city, sum(price) AS total FROM raw GROUP BY city"
BLOCK = """sql: |
      SELECT city,
        sum(price / (price - price)) AS total
      FROM raw GROUP BY city"""
FAILFAST = "path: orders.csv, schema: 'id INT, city INT, price INT', options: {mode: FAILFAST}"
JOB = """message: the daily load
jobs:
  - {job: index, table: shop.orders, column: cost, kind: BTREE}"""


@pytest.mark.usefixtures("managed", "orders")
@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("sum(price)", "nosum(price)"), 9, r"Step 'cities' .*`nosum`"),
        (("FROM raw", "FROM rwa"), 9, "Step 'cities' .*`rwa`"),
        ((SQL, BLOCK.replace("sum(price /", "nosum(price /")), 11, "`nosum`"),
        # The same for all rows, so that Spark computes it before there are any.
        ((SQL, BLOCK.replace("price / (price - price)", "1 / 0")), 11, "DIVIDE_BY_ZERO"),
        # YAML puts these lines into one.
        ((SQL, BLOCK.replace("sql: |", "sql: >").replace("sum(", "nosum(")), 9, "`nosum`"),
        # What only computing the rows brings to light: Spark says where in the SQL it is.
        ((SQL, BLOCK), 11, "DIVIDE_BY_ZERO"),
        ((":doubled", ":of_another_column"), 11, "'doubled' .*wrong"),
        (("path: orders.csv", "path: none.csv"), 6, "none.csv"),
        (("path: orders.csv", FAILFAST), 6, "Oslo"),
        (("format: csv, path: orders.csv", "table: shop.nope"), 6, r"shop\.nope"),
        (("format: csv, path: orders.csv", "sql: SELECT * FROM nope"), 6, "Source 'raw'.*`nope`"),
        (("sum(price)", "raise_error(city)"), 22, r"shop\.cities"),
        (("keys: id", "keys: [price, nope]"), 16, "nope"),
        (("keys: id", "keys: kind"), 16, "kind"),
        (('rows: ">= 1"', 'rows: ">= 9"'), 18, "there are 3"),
        (("not_null: [id, city]", "not_null: [id, town]"), 19, "'town'"),
        (("unique: id", "unique: city"), 20, "2 rows have city"),
        (("expression: price > 0", "expression: price > 1"), 21, "1 of 3 rows"),
        (("expression: price > 0", "expression: cost > 1"), 21, "cost"),
        (("expression: price > 0", "expression: price"), 21, "neither true nor false"),
        (("mode: append}", "mode: append, options: {blobs: [nope]}}"), 23, "nope"),
        (("message: the daily load", JOB), 26, "Job 1 of pipeline 'daily'.*cost"),
    ],
    ids=lambda each: each[1][:40] if isinstance(each, tuple) else None,
)
def test_an_error_of_a_run_points_at_the_line(spark, tmp_path, change, line, words):
    assert change[0] in FILE
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.replace(*change))
    with pytest.raises(LakerootError, match=words) as raised:
        pipelines.run(spark, pipelines.load(file))
    assert str(raised.value).startswith(f"{file}, line {line}: ")


@pytest.mark.usefixtures("spark", "managed", "orders")
@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("AS total FROM", "AS total all FROM"), 9, "SQL of step 'cities' .* near 'all'"),
        ((SQL, BLOCK.replace("FROM", "FORM")), 12, "SQL of step 'cities' .* near 'FORM'"),
        (("format: csv, path: orders.csv", "sql: SELEC 1"), 6, "SQL of source 'raw' .*'SELEC'"),
        (("price > 0", "price > > 0"), 21, r"a check of table shop\.orders .* near '>'"),
        (("test_pipelines:doubled", "test_pipelines:nope"), 11, "nope"),
        (("path: orders.csv", "path: none.csv"), 6, "none.csv"),
        (("table: shop.cities", "table: shpo.cities"), 22, "ns create shpo"),
        (("table_version_management: true", "author: ada"), 2, "table_version_management"),
    ],
    ids=lambda each: each[1][:40] if isinstance(each, tuple) else None,
)
def test_a_plan_points_at_the_line(tmp_path, change, line, words):
    assert change[0] in FILE
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.replace(*change))
    with pytest.raises(LakerootError, match=words) as raised:
        pipelines.plan(pipelines.load(file))
    assert str(raised.value).startswith(f"{file}, line {line}: ")


def test_an_error_of_a_pipeline_without_a_file_names_no_line(spark, root, managed):
    step = Step(name="x", sql="SELECT nope FROM raw")
    with pytest.raises(InvalidInputError, match=r"^Step 'x' of pipeline 'p' failed\. "):
        pipelines.run(spark, pipeline(root, Target(table="shop.t", source="x"), steps=(step,)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="nowhere"):
        pipelines.load(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("content", [b"\xff\xfename", None])
def test_a_file_that_is_no_text_is_refused(tmp_path, content):
    file = tmp_path / "pipeline.yaml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(InvalidInputError, match="cannot be read as a text"):
        pipelines.load(file)


def test_a_pipeline_writes_the_catalog_of_a_profile(tmp_path, monkeypatch):
    config = tmp_path / "config.toml"
    config.write_text('[profiles.dev]\nroot = "/somewhere"\n')
    monkeypatch.setenv("LAKEROOT_CONFIG", str(config))
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.replace("root: lake", "profile: dev"))
    assert dict(pipelines.load(file).catalog.properties)["root"] == "/somewhere"


@pytest.mark.parametrize("name", ["count", "rows", "a b"])
def test_a_key_may_have_any_name(spark, root, managed, name):
    step = Step(name="named", sql=f"SELECT id AS `{name}` FROM raw")
    unique = Target(table="shop.t", source="named", checks=(Check(unique=(name,)),))
    done = pipelines.run(spark, pipeline(root, unique, steps=(step,)))
    assert done.tables[0].rows == 10


def test_a_check_that_is_neither_true_nor_false_is_refused(spark, root, managed):
    target = Target(table="shop.t", source="raw", checks=(Check(expression="k"),))
    with pytest.raises(InvalidInputError, match="neither true nor false"):
        pipelines.run(spark, pipeline(root, target))


def test_a_run_that_was_cut_off_between_two_tables_goes_on_with_the_second(
    spark, root, catalog, monkeypatch
):
    first, second = (Target(table=f"shop.{name}", source="raw") for name in ("first", "second"))
    both = pipeline(root, first, second, properties={}, atomic=False)
    calls: list[object] = []

    def cut_off(*arguments, **more):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return commits.commit(*arguments, **more)

    monkeypatch.setattr("lakeroot.spark.publishing.commit", cut_off)
    with pytest.raises(KeyboardInterrupt):
        pipelines.run(spark, both, run_id="1")
    done = pipelines.run(spark, both, run_id="1")
    assert [(one.table, one.version, one.rows) for one in done.tables] == [
        ("shop.first", 1, 0),
        ("shop.second", 1, 10),
    ]
    for name in ("first", "second"):
        assert lakeroot.open(root)[f"shop.{name}"].count() == 10
    assert pipelines.run(spark, both, run_id="1").already_done


def test_tables_keep_stable_row_ids_where_they_are_asked_for(spark, root, managed):
    target = Target(table="shop.t", source="raw", options={"stableRowIds": True})
    pipelines.run(spark, pipeline(root, target))
    table = lance.dataset(namespace_client=managed, table_id=["shop", "t"])
    assert table.has_stable_row_ids


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("nothing", r"'x' of pipeline '\w+' gave None\. .*:nothing must return a Spark DataFrame"),
        ("listed", r"'x' .* gave a list\. "),
        (
            "of_another_frame",
            r"'x' .* failed\. KeyError: 'wrong' \(.*test_pipelines\.py, line LINE\)",
        ),
        (
            "of_another_column",
            r"'x' .* AnalysisException: .*wrong.* \(.*pipelines\.py, line LINE\)",
        ),
        ("of_too_little", r"'x' .* TypeError: of_too_little\(\) .*\(spark, frames\)"),
    ],
)
def test_a_function_that_is_no_step_is_named_with_what_is_wrong(
    spark, root, managed, function, says
):
    step = Step(name="x", python=f"{__name__}:{function}")
    line = globals()[function].__code__.co_firstlineno + 1
    with pytest.raises(InvalidInputError, match=says.replace("LINE", str(line))) as refused:
        pipelines.run(spark, pipeline(root, Target(table="shop.t", source="x"), steps=(step,)))
    assert refused.value.code == 13


def test_a_plan_fails_where_the_run_would(root, managed):
    good = Target(table="shop.t", source="raw")
    with pytest.raises(UnsupportedOperationError, match="table_version_management"):
        pipelines.plan(replace(pipeline(root, good), catalog=Catalog.at(f"{root}2", {})))
    missing = (Source(name="raw", table="shop.missing"),)
    with pytest.raises(TableNotFoundError, match=r"shop\.missing"):
        pipelines.plan(replace(pipeline(root, good), sources=missing))
    with pytest.raises(NamespaceNotFoundError, match="ns create shpo"):
        pipelines.plan(pipeline(root, Target(table="shpo.t", source="raw")))
    absent = (Source(name="raw", path=f"{root}/none.parquet"),)
    with pytest.raises(InvalidInputError, match=r"none\.parquet"):
        pipelines.plan(replace(pipeline(root, good), sources=absent))
    step = Step(name="x", python="nowhere:f")
    with pytest.raises(InvalidInputError, match="nowhere"):
        pipelines.plan(pipeline(root, good, steps=(step,)))
    put(managed, "shop.old", pa.table({"id": [1]}))
    with pytest.raises(TableAlreadyExistsError):
        pipelines.plan(pipeline(root, Target(table="shop.old", source="raw", mode="create")))
