"""Jobs of a pipeline: what is done to its tables after they are published."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakeroot
from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    TableColumnNotFoundError,
    TableIndexAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark import pipelines
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.pipelines import Job, Pipeline, Source, Target
from tests.spark.conftest import MANAGED, put

FILE = """\
name: daily
catalog: {root: lake, properties: {table_version_management: true}}
sources:
  raw:
    {format: csv, path: orders.csv, schema: "id INT, city STRING, price INT", options: {header: no}}
tables:
  - {table: shop.orders, from: raw, mode: append}
jobs:
  - {job: update, table: shop.orders, set: {price: price * 10}, where: city = 'Oslo'}
  - {job: delete, table: shop.orders, where: id = 2}
  - {job: backfill, table: shop.orders, set: {tax: price * 2}}
  - {job: index, table: shop.orders, column: id, kind: BTREE}
  - {job: compact, table: shop.orders}
  - {job: export, table: shop.orders, target: out, columns: [id, tax], where: id > 1}
  - {job: convert, table: shop.orders, to: {root: other}, name: copied}
  - {job: gc, older_than: 7d}
  - {job: fsck, grace: 1d}
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "orders.csv").write_text("1,Oslo,5\n2,Molde,7\n3,Oslo,1\n")
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def orders(managed):
    put(managed, "shop.orders", pa.table({"id": [1, 2, 3], "price": [5, 7, 1]}))
    return Catalog.at(managed.catalog.store.root.uri, MANAGED)


def rows(managed, table="orders"):
    found = managed_dataset(managed, table).to_table()
    return found.sort_by("id").to_pylist()


def managed_dataset(managed, table="orders"):
    return lance.dataset(namespace_client=managed, table_id=["shop", table])


def embedded(batch):
    return pa.record_batch({"half": pc.divide(batch["price"], 2)})


def doing(catalog, *jobs):
    return Pipeline(name="care", catalog=catalog, jobs=jobs)


def test_jobs_of_every_kind_run_after_the_publication(spark, managed, file, tmp_path):
    done = pipelines.run_file(file, run_id="monday", spark=spark)

    assert [each.job for each in done.jobs] == [
        *("update", "delete", "backfill", "index", "compact"),
        *("export", "convert", "gc", "fsck"),
    ]
    assert rows(managed) == [
        {"id": 1, "city": "Oslo", "price": 50, "tax": 100},
        {"id": 3, "city": "Oslo", "price": 10, "tax": 20},
    ]
    assert [each.name for each in managed_dataset(managed).describe_indices()] == ["id_idx"]
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"id": 3, "tax": 20}]
    other = lakeroot.open(str(tmp_path / "other"))
    assert other["copied"].count() == 2


def test_a_run_that_is_over_does_nothing_again(spark, managed, file):
    first = pipelines.run_file(file, run_id="monday", spark=spark)
    version = managed_dataset(managed).version

    again = pipelines.run_file(file, run_id="monday", spark=spark)

    assert not first.already_done
    assert again.already_done
    assert [each.did for each in again.jobs if each.table] == [
        each.did for each in first.jobs if each.table
    ]
    assert all(each.already_done for each in again.jobs if each.table)
    assert managed_dataset(managed).version == version


def test_a_job_that_failed_is_where_the_run_goes_on(spark, managed, orders):
    update = Job(job="update", table="shop.orders", options={"set": {"price": "price + 1"}})
    wrong = Job(job="index", table="shop.orders", options={"column": "cost", "kind": "BTREE"})
    right = replace(wrong, options={"column": "price", "kind": "BTREE"})

    with pytest.raises(TableColumnNotFoundError, match=r"Job 2 of pipeline 'care'.*run id 'one'"):
        pipelines.run(spark, doing(orders, update, wrong), run_id="one")
    done = pipelines.run(spark, doing(orders, update, right), run_id="one")

    assert [each.already_done for each in done.jobs] == [True, False]
    assert [row["price"] for row in rows(managed)] == [6, 8, 2]


def test_a_job_is_known_by_what_it_does_and_not_by_its_place(spark, managed, orders):
    raises = Job(job="update", table="shop.orders", options={"set": {"price": "price + 1"}})
    compact = Job(job="compact", table="shop.orders")

    pipelines.run(spark, doing(orders, raises), run_id="one")
    done = pipelines.run(spark, doing(orders, compact, raises, raises), run_id="one")

    assert [each.already_done for each in done.jobs] == [False, True, False]
    assert [row["price"] for row in rows(managed)] == [7, 9, 3]


def test_a_job_is_known_again_though_the_keys_to_its_target_have_changed(
    spark, managed, orders, tmp_path
):
    def told(key):
        to = Catalog.at(str(tmp_path / "other"), {"storage.secret_access_key": key})
        writer = {"uri": f"sqlite://me:{key}@{tmp_path}/c.db", "warehouse": "w", "token": key}
        iceberg = {"target": "a.b", "format": "iceberg", "mode": "append", "writer": writer}
        return (
            Job(job="convert", table="shop.orders", options={"to": to, "name": "copied"}),
            Job(job="export", table="shop.orders", options=iceberg),
        )

    (convert, export), (again, exported_again) = told("old"), told("new")
    pipelines.run(spark, doing(orders, convert), run_id="one")
    done = pipelines.run(spark, doing(orders, again), run_id="one")

    assert done.already_done
    assert export.digest == exported_again.digest
    elsewhere = {**convert.options, "to": Catalog.at(str(tmp_path / "more"))}
    assert replace(convert, options=elsewhere).digest != convert.digest
    other = {**export.options, "writer": {**export.options["writer"], "warehouse": "v"}}
    assert replace(export, options=other).digest != export.digest


def test_a_run_is_known_again_though_its_versions_were_cleaned_up(spark, managed, file):
    file.write_text(FILE[: FILE.index("jobs:")])
    pipelines.run_file(file, run_id="monday", spark=spark)
    lance.write_dataset(
        managed_dataset(managed).to_table(),
        namespace_client=managed,
        table_id=["shop", "orders"],
        mode="overwrite",
    )
    managed_dataset(managed).cleanup_old_versions(timedelta(0))

    again = pipelines.run_file(file, run_id="monday", spark=spark)

    assert again.already_done
    assert len(rows(managed)) == 3


def test_the_run_of_a_day_fills_what_came_since_the_last(spark, managed, orders):
    fill = Job(job="backfill", table="shop.orders", options={"set": {"tax": "price * 2"}})
    pipelines.run(spark, doing(orders, fill), run_id="one")
    lance.write_dataset(
        pa.table({"id": [4], "price": [9], "tax": pa.array([None], pa.int64())}),
        namespace_client=managed,
        table_id=["shop", "orders"],
        mode="append",
    )

    pipelines.run(spark, doing(orders, fill), run_id="two")

    assert [row["tax"] for row in rows(managed)] == [10, 14, 2, 18]


def test_what_spark_refuses_is_an_error_of_the_job(spark, managed, orders):
    wrong = Job(job="update", table="shop.orders", options={"set": {"price": "cost +"}})

    with pytest.raises(LakerootError, match=r"Job 1 of pipeline 'care'.*run id 'one'") as error:
        pipelines.run(spark, doing(orders, wrong), run_id="one")

    assert error.value.code == 13


def test_an_export_that_was_cut_off_is_made_anew(spark, managed, orders, tmp_path):
    target = tmp_path / "out"
    job = Job(job="export", table="shop.orders", options={"target": str(target)})
    target.mkdir()
    with pytest.raises(LakerootError):
        pipelines.run(spark, doing(orders, job), run_id="one")

    pipelines.run(spark, doing(orders, job), run_id="one")

    assert pq.read_table(target).num_rows == 3


def test_an_index_of_another_kind_is_built_anew_and_one_of_another_column_stays(
    spark, managed, orders
):
    def make(column, kind):
        options = {"column": column, "kind": kind, "name": "found"}
        return doing(orders, Job(job="index", table="shop.orders", options=options))

    pipelines.run(spark, make("id", "BITMAP"))
    pipelines.run(spark, make("id", "BTREE"))
    (found,) = managed_dataset(managed).describe_indices()
    assert found.index_type == "BTree"

    with pytest.raises(TableIndexAlreadyExistsError):
        pipelines.run(spark, make("price", "BTREE"))


def test_a_file_of_care_alone_is_no_run_of_before(spark, orders):
    assert not pipelines.run(spark, doing(orders, Job(job="gc"))).already_done


def test_the_lance_namespace_tells_how_a_job_went(spark, managed, orders):
    delete = Job(job="delete", table="shop.orders", options={"where": "id = 1"})
    (done,) = pipelines.run(spark, doing(orders, delete), run_id="one").jobs

    told = managed.describe_transaction({"id": ["shop", "orders", done.id]})

    assert told.status.upper() == "SUCCEEDED"
    assert told.properties["deleted"] == "1"


def test_an_index_that_knows_every_row_stays_and_one_that_does_not_is_built_anew(
    spark, managed, orders
):
    make = Job(job="index", table="shop.orders", options={"column": "id", "kind": "BTREE"})
    pipelines.run(spark, doing(orders, make), run_id="one")
    kept = managed_dataset(managed).version
    pipelines.run(spark, doing(orders, make), run_id="two")
    assert managed_dataset(managed).version == kept

    lance.write_dataset(
        pa.table({"id": [4], "price": [2]}),
        namespace_client=managed,
        table_id=["shop", "orders"],
        mode="append",
    )
    pipelines.run(spark, doing(orders, make), run_id="three")

    stats = managed_dataset(managed).stats.index_stats("id_idx")
    assert (stats["num_indexed_rows"], stats["num_unindexed_rows"]) == (4, 0)


def test_a_column_is_filled_by_a_function(spark, managed, orders):
    options = {"function": "tests.spark.test_pipeline_jobs:embedded", "reads": ("price",)}

    pipelines.run(spark, doing(orders, Job(job="backfill", table="shop.orders", options=options)))

    assert [row["half"] for row in rows(managed)] == [2, 3, 0]


def test_a_directory_is_migrated(spark, root):
    lance.write_dataset(pa.table({"id": [1]}), f"{root}/old.lance")

    done = pipelines.run(spark, doing(Catalog.at(root), Job(job="migrate")))

    assert done.jobs[0].did == {"migrated": 1}


def test_a_migration_says_how_many_tables_it_left_alone(spark, root):
    for name in ("old", "x$y"):
        lance.write_dataset(pa.table({"id": [1]}), f"{root}/{name}.lance")

    done = pipelines.run(spark, doing(Catalog.at(root), Job(job="migrate")))

    assert done.jobs[0].did == {"migrated": 1, "left_alone": 1}


def test_another_kind_of_catalog_has_nothing_to_migrate(spark, tmp_path):
    metastore = Catalog.of("lakeroot.DeltaCatNamespace", {"root": str(tmp_path / "metastore")})

    with pytest.raises(UnsupportedOperationError):
        pipelines.run(spark, doing(metastore, Job(job="migrate")))


def test_errors_of_fsck_are_errors_of_the_run(spark, managed, orders):
    (data,) = _directory(managed).glob("data/*.lance")
    data.unlink()

    with pytest.raises(LakerootError, match="fsck found 1 errors"):
        pipelines.run(spark, doing(orders, Job(job="fsck")))


def _directory(managed):
    return Path(managed.describe_table({"id": ["shop", "orders"]}).location.removeprefix("file://"))


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        ("update", [(1, 5), (2, 70), (3, 1)]),
        ("delete", [(1, 5), (3, 1)]),
        ("merge", [(1, 5), (2, 70), (3, 1), (9, 90)]),
    ],
)
def test_rows_are_changed_by_their_keys(spark, managed, orders, mode, left):
    changes = spark.createDataFrame(pandas.DataFrame({"id": [2, 9], "price": [70, 90]}))
    changes.createOrReplaceTempView("changes")
    target = Target(table="shop.orders", source="some", mode=mode, keys=("id",))
    source = Source(name="some", sql="SELECT * FROM changes")
    pipeline = Pipeline(name="keys", catalog=orders, sources=(source,), tables=(target,))

    pipelines.run(spark, pipeline)

    assert [(row["id"], row["price"]) for row in rows(managed)] == left


@pytest.mark.parametrize("more", ["", ", 'returned' AS reason"])
def test_keys_alone_are_enough_to_delete_by(spark, managed, orders, more):
    """Whatever else the rows have, and whatever the table needs of new rows."""
    schema = pa.schema([("id", pa.int64()), pa.field("price", pa.int64(), nullable=False)])
    whole = managed_dataset(managed).to_table().cast(schema)
    lance.write_dataset(
        whole, namespace_client=managed, table_id=["shop", "orders"], mode="overwrite"
    )
    target = Target(table="shop.orders", source="some", mode="delete", keys=("id",))
    source = Source(name="some", sql=f"SELECT CAST(3 AS BIGINT) AS id{more}")

    pipelines.run(spark, Pipeline(name="keys", catalog=orders, sources=(source,), tables=(target,)))

    assert [row["id"] for row in rows(managed)] == [1, 2]


@pytest.mark.parametrize("mode", ["update", "delete"])
def test_a_table_that_is_not_there_has_no_rows_to_change(spark, managed, mode):
    target = Target(table="shop.nothing", source="some", mode=mode, keys=("id",))
    source = Source(name="some", sql="SELECT 3 AS id")
    catalog = Catalog.at(managed.catalog.store.root.uri, MANAGED)
    pipeline = Pipeline(name="keys", catalog=catalog, sources=(source,), tables=(target,))

    with pytest.raises(TableNotFoundError):
        pipelines.plan(pipeline)
    with pytest.raises(TableNotFoundError):
        pipelines.run(spark, pipeline)


def test_a_plan_tells_of_the_jobs_and_of_no_keys(managed, orders):
    secret = {"writer": {"token": "s3cret"}, "target": "a.b", "format": "iceberg"}
    told = pipelines.plan(
        doing(
            orders,
            Job(job="index", table="shop.orders", options={"column": "id", "kind": "BTREE"}),
            Job(job="export", table="shop.orders", options=secret),
            Job(job="update", table="shop.orders", options={"set": {"price": "price * 2"}}),
            Job(job="gc", options={"older_than": "7d"}),
        )
    )

    assert told == [
        "pipeline care",
        "then index shop.orders (column id, kind BTREE)",
        "then export shop.orders (target a.b, format iceberg)",
        "then update shop.orders (set price = price * 2)",
        "then gc (older_than 7d)",
    ]


def test_a_plan_says_that_a_table_is_missing_unless_the_run_may_make_it(managed, orders):
    compact = Job(job="compact", table="shop.copy")
    convert = Job(job="convert", table="shop.orders", options={"to": orders, "name": "shop.copy"})
    for look in (pipelines.plan, pipelines.require_possible):
        with pytest.raises(TableNotFoundError):
            look(doing(orders, compact, convert))
        look(doing(orders, convert, compact))
        look(doing(orders, Job(job="migrate"), compact))
        step = pipelines.Step(name="any", python="tests.spark.test_pipelines:doubled")
        look(replace(doing(orders, compact), steps=(step,)))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{table: shop.orders}", "the key 'job' is missing"),
        ("{job: indx, table: shop.orders}", "index"),
        ("{job: index, table: shop.orders, kind: BTREE}", "needs `column`"),
        ("{job: index, table: shop.orders, column: id, kind: BTRE}", "BTREE"),
        ("{job: index, table: shop.orders, column: id, kind: btre}", "Did you mean 'BTREE'"),
        ("{job: index, table: shop.orders, column: id, kind: IVF_SQ}", "lakeroot index create"),
        ("{job: index, table: shop.orders, column: id, kind: BTREE, partition: 3}", "partitions"),
        ("{job: index, table: shop.orders, column: id, kind: IVF_PQ, partitions: x}", "number"),
        ("{job: compact}", "needs one"),
        ("{job: gc, table: shop.orders}", "the whole catalog"),
        ("{job: gc, older_than: a while}", "span"),
        ("{job: delete, table: shop.orders}", "needs `where`"),
        ("{job: backfill, table: shop.orders}", "either `set` or `function`"),
        ("{job: export, table: shop.orders, target: out, format: parket}", "parquet"),
        ("{job: convert, table: shop.orders, to: {rot: x}}", "root"),
        ("{job: convert, table: shop.orders, to: {root: x}, mode: creat}", "create"),
        ("{job: export, table: shop.orders, target: out, mode: Overwrite}", "overwrite"),
        ("{job: backfill, table: shop.orders, set: {x: y}, resume: nevr}", "never"),
        ("{job: update, table: shop.orders, set: {}}", "says nothing"),
        ("{job: update, table: shop.orders, set: {x: y}, truncate_nanos: yse}", "true or false"),
        ("{job: update, table: shop.orders, set: {x: }}", "says nothing"),
        ("{job: gc, keep: 5}", "old_versions"),
        ("{job: gc, old_versions: true, keep: 0}", "says nothing"),
        ("{job: metastore upsert, table: shop.orders}", "needs `from`"),
        ("{job: metastore upsert, table: shop.orders, from: raw}", "no source and no step"),
        ("{job: metastore upsert, table: orders, from: raw}", "namespace.table"),
        ("{job: metastore compact, table: shop.orders, from: raw}", "has no `from`"),
        ("{job: metastore merge, table: shop.orders}", "no job 'metastore merge'"),
        ("compact", "a mapping"),
    ],
)
def test_a_mistake_in_a_job_is_told_with_its_line(tmp_path, line, told):
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"name: care\ncatalog: {{root: lake}}\njobs:\n  - {line}\n")

    with pytest.raises(InvalidInputError, match="line 4") as error:
        pipelines.load(path)

    assert told in str(error.value)


def test_a_mistake_with_keys_in_it_does_not_tell_them():
    given = {"to": {"root": "x", "properties": {"secret": "s3cret"}}}

    with pytest.raises(InvalidInputError) as error:
        Job(job="convert", table="shop.orders", options=given)

    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("kind", ["FTS", "fts", "ivfpq", "Label_List"])
def test_a_kind_of_index_has_the_names_that_it_has_elsewhere(kind):
    Job(job="index", table="shop.orders", options={"column": "id", "kind": kind})


def test_a_file_without_tables_and_jobs_is_refused(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text("name: care\ncatalog: {root: lake}\njobs: []\n")

    with pytest.raises(InvalidInputError, match="no job"):
        pipelines.load(path)
