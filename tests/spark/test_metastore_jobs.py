"""Jobs on tables of a metastore: tried, run, run again; from Python, a shell and a pipeline."""

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeroot
from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data import TableWriter, read_rows
from lakeroot.metastore.jobs import JOB
from lakeroot.metastore.schemes import PartitionKey, PartitionScheme, Transform
from lakeroot.model.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark import metastore as on_spark
from lakeroot.spark import pipelines
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.pipelines.notes import ids_of_jobs
from tests.cli.running import Run

ARROW = pa.schema([("id", pa.int64()), ("city", pa.string()), ("price", pa.int64())])
COLUMNS = "id long, city string, price long"
BY_CITY = PartitionScheme((PartitionKey(("city",), Transform()),), "by city", "by-city")
ROWS = [(1, "Oslo", 10), (2, "Bern", 20), (3, "Oslo", 30)]


@pytest.fixture
def store(root: str) -> Metastore:
    """A metastore with a table of each kind, and three rows in them."""
    return made_in(root, "spec")


@pytest.fixture
def of_deltacat(root: str) -> Metastore:
    """The same in the layout that released deltacat reads."""
    return made_in(root, "deltacat-2")


def made_in(root: str, layout: str) -> Metastore:
    made = Metastore.open(root, layout=layout)
    rows = pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in ROWS], ARROW)
    with made.transaction() as txn:
        txn.create_namespace("shop")
        for name, keys, properties in (
            ("plain", (), {}),
            ("orders", ("id", "city"), {}),
            ("lazy", ("id", "city"), {"read_optimization_level": "none"}),
        ):
            schema = schema_of(ARROW, merge_keys=keys)
            options: dict[str, Any] = {"schema": schema, "properties": properties}
            txn.create_table("shop", name, partition_scheme=BY_CITY, **options)
            writer = TableWriter(txn, "shop", name)
            (writer.upsert if keys else writer.append)(rows)
    return made


def of(root: str, table: str) -> list[tuple[Any, ...]]:
    rows = read_rows(Metastore.open(root).view(), "shop", table).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def files(root: str) -> list[tuple[str, int]]:
    found = (path for path in Path(root).rglob("*") if path.is_file())
    return sorted((str(path), path.stat().st_mtime_ns) for path in found)


def test_rows_are_deleted_by_the_name_of_one_column(spark, root, store) -> None:
    frame = spark.createDataFrame([("Oslo",)], "city string")
    on_spark.delete(frame, "shop.plain", root=root, on="city")
    assert of(root, "plain") == [ROWS[1]]


def deltas(store: Metastore, table: str) -> list[Any]:
    view = store.view()
    stream = view.stream("shop", table)
    return [delta for part in view.partitions(stream) for delta in view.deltas(part)]


def test_a_dry_run_counts_what_the_job_changes_and_changes_nothing(spark, root, store):
    two = spark.createDataFrame([(3, "Oslo", 33), (4, "Rome", 40)], COLUMNS)
    oslo = two.select("city").limit(1)
    calls: list[tuple[Callable[..., Any], Any, str, dict[str, Any], tuple[int, int, int]]] = [
        (on_spark.append, two, "plain", {}, (2, 2, 2)),
        (on_spark.add, two, "plain", {}, (2, 2, 2)),
        (on_spark.upsert, two, "orders", {}, (2, 2, 0)),
        (on_spark.upsert, two, "lazy", {}, (2, 2, 2)),
        (on_spark.delete, two, "lazy", {}, (2, 2, 2)),
        (on_spark.delete, oslo, "orders", {"on": ["city"]}, (1, 1, 0)),
        (on_spark.replace, two, "orders", {}, (2, 2, 2)),
    ]
    for change, frame, table, options, counts in calls:
        given: dict[str, Any] = {"root": root, **options}
        before = files(root), of(root, table)
        would = change(frame, f"shop.{table}", dry_run=True, **given)
        assert (would.rows, would.partitions, would.deltas) == counts
        assert (would.transaction, would.files, would.already_done) == (None, 0, False)
        assert (files(root), of(root, table)) == before
        done = change(frame, f"shop.{table}", **given)
        assert (done.rows, done.partitions, done.deltas) == counts
        assert done.transaction in Metastore.open(root).log.index.sequences
    assert of(root, "plain") == sorted([*ROWS, *[(3, "Oslo", 33), (4, "Rome", 40)] * 2])
    assert of(root, "lazy") == [(1, "Oslo", 10), (2, "Bern", 20)]
    assert of(root, "orders") == [(3, "Oslo", 33), (4, "Rome", 40)]


def test_a_dry_run_counts_every_partition_where_the_rows_may_lie(spark, root, store):
    one = spark.createDataFrame([(1,)], "id long")
    for table, deltas in (("plain", 0), ("orders", 0), ("lazy", 2)):
        for dry_run in (True, False):
            done = on_spark.delete(one, f"shop.{table}", root=root, on="id", dry_run=dry_run)
            assert (done.rows, done.partitions, done.deltas) == (1, 2, deltas)
        assert of(root, table) == ROWS[1:]
    nothing = on_spark.delete(one.limit(0), "shop.plain", root=root, on="id", dry_run=True)
    assert (nothing.rows, nothing.partitions) == (0, 0)


def test_a_dry_run_refuses_what_the_job_would(spark, root, store):
    wrong = spark.createDataFrame([("x", "Oslo", 1)], "id string, city string, price long")
    right = spark.createDataFrame(ROWS, COLUMNS)
    for verb, frame, table, error in (
        ("append", wrong, "shop.plain", InvalidInputError),
        ("append", right, "shop.orders", InvalidInputError),
        ("upsert", right, "shop.plain", InvalidInputError),
        ("append", right, "shop.plane", TableNotFoundError),
        ("append", right, "shoop.plain", NamespaceNotFoundError),
    ):
        messages = []
        for dry_run in (True, False):
            with pytest.raises(error) as raised:
                getattr(on_spark, verb)(frame, table, root=root, dry_run=dry_run)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


def test_a_job_that_is_run_again_does_nothing_and_says_so(spark, root, of_deltacat):
    frame = spark.createDataFrame([(4, "Rome", 40), (5, "Oslo", 50)], COLUMNS)
    for verb, table in (
        ("append", "plain"),
        ("upsert", "orders"),
        ("upsert", "lazy"),
        ("delete", "lazy"),
        ("replace", "orders"),
    ):
        change, job = getattr(on_spark, verb), f"{verb}-{table}"
        given: dict[str, Any] = {"root": root, "job_id": job}
        done = change(frame, f"shop.{table}", **given)
        assert {(delta.properties or {}).get(JOB) for delta in deltas(of_deltacat, table)} >= {job}
        left = files(root)
        again = change(frame, f"shop.{table}", **given)
        assert again.already_done
        assert (again.transaction, again.rows, again.partitions, again.files) == (
            *(done.transaction, done.rows, done.partitions, done.files),
        )
        assert change(frame, f"shop.{table}", dry_run=True, **given) == again
        assert on_spark.find_done(verb, f"shop.{table}", **given) == again
        assert files(root) == left
    assert len(of(root, "plain")) == 5
    # The id is of one table: under the same, another one can have a job of its own.
    other = on_spark.upsert(frame, "shop.orders", root=root, job_id="append-plain")
    assert not other.already_done


def test_the_id_of_a_job_is_of_one_verb_and_refused_for_another(spark, root, store):
    frame = spark.createDataFrame([(4, "Rome", 40)], COLUMNS)
    done = on_spark.upsert(frame, "shop.lazy", root=root, job_id="17")
    left = of(root, "lazy")
    for again in (
        lambda: on_spark.delete(frame, "shop.lazy", root=root, job_id="17"),
        lambda: on_spark.delete(frame, "shop.lazy", root=root, job_id="17", dry_run=True),
        lambda: on_spark.compact(spark, "shop.lazy", root=root, job_id="17"),
        lambda: on_spark.find_done("delete", "shop.lazy", root=root, job_id="17"),
    ):
        with pytest.raises(InvalidInputError, match=f"{done.transaction} did 'upsert'"):
            again()
    assert of(root, "lazy") == left


def test_a_job_that_is_named_by_a_number_is_done_once_too(spark, root, store):
    frame = spark.createDataFrame([(4, "Rome", 40)], COLUMNS)
    jobs: list[Any] = [0, 0, "0"]
    done = [on_spark.append(frame, "shop.plain", root=root, job_id=each) for each in jobs]
    assert [each.already_done for each in done] == [False, True, True]
    assert len(of(root, "plain")) == 4


def test_a_compaction_can_be_tried_and_is_done_once(spark, root, store):
    frame = spark.createDataFrame([(1, "Oslo", 11), (9, "Oslo", 90)], COLUMNS)
    for _ in range(2):
        on_spark.upsert(frame, "shop.lazy", root=root)
    before, rows = files(root), of(root, "lazy")
    nothing: Any = None

    would = on_spark.compact(nothing, "shop.lazy", root=root, dry_run=True)
    assert files(root) == before
    done = on_spark.compact(spark, "shop.lazy", root=root, job_id="compact")
    again = on_spark.compact(nothing, "shop.lazy", root=root, job_id="compact")
    idle = on_spark.compact(nothing, "shop.lazy", root=root, job_id="another")

    assert (would.partitions, would.files_before, would.files) == (2, 4, 2)
    assert (done.partitions, done.files_before, done.files) == (2, 4, 2)
    assert (again.already_done, again.files_before, again.files) == (True, 4, 2)
    assert (idle.transaction, idle.partitions, idle.already_done) == (None, 0, False)
    assert of(root, "lazy") == rows


def test_two_attempts_at_one_job_at_the_same_moment_write_one_delta(spark, root, of_deltacat):
    frame = spark.createDataFrame([(7, "Oslo", 70)], COLUMNS)
    together, done = threading.Barrier(2), []

    def attempt() -> None:
        together.wait()
        done.append(on_spark.append(frame, "shop.plain", root=root, job_id="both"))

    racing = [threading.Thread(target=attempt) for _ in range(2)]
    for each in racing:
        each.start()
    for each in racing:
        each.join()

    assert sorted(each.already_done for each in done) == [False, True]
    assert done[0].transaction == done[1].transaction
    assert of(root, "plain") == sorted([*ROWS, (7, "Oslo", 70)])


FILE = """\
name: deltas
catalog: {root: lake}
sources:
  raw: {format: csv, path: two.csv, schema: "id LONG, city STRING, price LONG"}
steps:
  - {name: dear, sql: SELECT * FROM raw WHERE price > 35}
jobs:
  - {job: metastore append, table: shop.plain, from: raw}
  - {job: metastore upsert, table: shop.lazy, from: raw, metastore: {root: lake}}
  - {job: metastore delete, table: shop.lazy, from: dear, on: [city, price]}
  - {job: metastore compact, table: shop.lazy}
  - {job: metastore replace, table: shop.orders, from: dear}
message: the deltas of a day
"""


@pytest.fixture
def file(store, tmp_path: Path) -> Path:
    (tmp_path / "two.csv").write_text("id,city,price\n3,Oslo,33\n4,Rome,40\n")
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE)
    return path


def test_a_pipeline_changes_tables_of_a_metastore_once_for_a_run(spark, root, file):
    planned = pipelines.plan(pipelines.load(file))
    first = pipelines.run_file(file, run_id="monday", spark=spark)
    (file.parent / "two.csv").unlink()
    again = pipelines.run_file(file, run_id="monday", spark=spark)

    assert "then metastore delete shop.lazy (from dear, on city, price)" in planned
    assert [each.did["rows"] for each in first.jobs if "rows" in each.did] == [2, 2, 1, 1]
    assert [each.already_done for each in first.jobs] == [False] * 5
    assert [each.already_done for each in again.jobs] == [True] * 5
    assert [each.did for each in again.jobs] == [each.did for each in first.jobs]
    assert again.already_done
    assert of(root, "plain") == sorted([*ROWS, (3, "Oslo", 33), (4, "Rome", 40)])
    assert of(root, "lazy") == [(1, "Oslo", 10), (2, "Bern", 20), (3, "Oslo", 33)]
    assert of(root, "orders") == [(4, "Rome", 40)]
    messages = [record.message for record in Metastore.open(root).transactions(limit=5)]
    assert messages == ["the deltas of a day"] * 5
    assert not [view.name for view in spark.catalog.listTables() if view.name in ("raw", "dear")]


def test_a_run_goes_on_with_the_job_that_failed(spark, root, file):
    file.write_text(FILE.replace("on: [city, price]", "on: [town]"))
    with pytest.raises(InvalidInputError, match=r"Job 3 of .*'town'.*run id 'monday'"):
        pipelines.run_file(file, run_id="monday", spark=spark)
    file.write_text(FILE)

    done = pipelines.run_file(file, run_id="monday", spark=spark)

    assert [each.already_done for each in done.jobs] == [True, True, False, False, False]
    assert len(of(root, "plain")) == 5


def test_a_run_is_known_again_though_the_keys_of_a_metastore_have_changed(spark, root, file):
    def done(*lines: str) -> list[bool]:
        job = "  - {job: metastore append, table: shop.plain, from: raw"
        jobs = "\n".join(f"{job}{line}}}" for line in lines)
        file.write_text(FILE[: FILE.index("jobs:")] + f"jobs:\n{jobs}\n")
        result = pipelines.run_file(file, run_id="monday", spark=spark)
        return [each.already_done for each in result.jobs]

    old, new = (f", metastore: {{root: lake, properties: {{storage.key: {key}}}}}" for key in "on")

    assert done(old) == [False]
    assert done(new) == done("") == [True]
    assert len(of(root, "plain")) == 5
    assert done("", new) == [True, False]


def test_jobs_on_like_tables_of_two_metastores_are_known_apart(root, tmp_path: Path):
    made_in(root, "spec")
    made_in(str(tmp_path / "far"), "spec")
    near, far = Catalog.at(root), Catalog.at(str(tmp_path / "far"))
    there = pipelines.Job(job="metastore compact", table="shop.lazy", options={"metastore": far})
    here = replace(there, options={})
    alone, both = (
        ids_of_jobs(pipelines.Pipeline(name="p", catalog=near, jobs=jobs), "monday")
        for jobs in ((here,), (there, here, here))
    )
    assert alone[0] == both[1]
    assert both[1] != both[2]


def test_a_plan_says_what_is_missing_before_spark_starts(store, file, tmp_path: Path):
    for wrong, right, error in (
        ("shop.plane", "shop.plain", TableNotFoundError),
        ("shoop.plain", "shop.plain", NamespaceNotFoundError),
        ("{root: lakes}", "{root: lake}", UnsupportedOperationError),
    ):
        file.write_text(FILE.replace(right, wrong))
        for look in (pipelines.plan, pipelines.require_possible):
            with pytest.raises(error):
                look(pipelines.load(file))
    file.write_text(FILE)
    csv = tmp_path / "two.csv"
    csv.rename(tmp_path / "gone.csv")
    for look in (pipelines.plan, pipelines.require_possible):
        with pytest.raises(InvalidInputError, match=r"two\.csv"):
            look(pipelines.load(file))
    elsewhere = Catalog.of("rest", {"uri": "http://127.0.0.1:1"})
    job = pipelines.Job(job="metastore compact", table="shop.plain")
    with pytest.raises(UnsupportedOperationError, match="The catalog is no metastore"):
        pipelines.plan(pipelines.Pipeline(name="p", catalog=elsewhere, jobs=(job,)))


def test_sources_are_looked_at_for_jobs_that_are_not_done_and_nothing_before_them_makes(
    spark, root, file, tmp_path: Path
):
    wrong = FILE.replace("on: [city, price]", "on: [town]")
    file.write_text(wrong)
    with pytest.raises(InvalidInputError, match="town"):
        pipelines.run_file(file, run_id="monday", spark=spark)
    csv = tmp_path / "two.csv"
    csv.rename(tmp_path / "gone.csv")
    with pytest.raises(InvalidInputError, match=r"two\.csv"):
        pipelines.require_possible(pipelines.load(file), "monday")

    (tmp_path / "gone.csv").rename(csv)
    file.write_text(FILE)
    pipelines.run_file(file, run_id="monday", spark=spark)
    csv.unlink()
    pipelines.require_possible(pipelines.load(file), "monday")
    with pytest.raises(InvalidInputError, match=r"two\.csv"):
        pipelines.require_possible(pipelines.load(file), "tuesday")


def test_jobs_may_be_given_what_jobs_before_them_make(spark, root, tmp_path: Path):
    path = tmp_path / "pipeline.yaml"
    lines = [
        f"{{job: export, table: t, target: {root}/out, columns: [id, city, price]}}",
        "{job: convert, table: t, to: {root: there}, name: copied}",
        "{job: metastore append, table: shop.plain, from: files, metastore: {root: deltas}}",
        "{job: metastore append, table: shop.plain, from: rows, metastore: {root: deltas}}",
    ]
    sources = f"{{files: {{path: {root}/out}}, rows: {{table: copied}}}}"
    made_in(str(tmp_path / "deltas"), "spec")
    lake = lakeroot.open(str(tmp_path / "there"))
    lake.create_table("t", pa.Table.from_pylist([{"id": 9, "city": "Rome", "price": 90}], ARROW))

    def told(jobs: list[str]) -> pipelines.Pipeline:
        listed = "".join(f"  - {line}\n" for line in jobs)
        path.write_text(f"name: p\ncatalog: {{root: there}}\nsources: {sources}\njobs:\n{listed}")
        return pipelines.load(path)

    for look in (pipelines.plan, pipelines.require_possible):
        for late in (lines[2:], lines[1:], [lines[0], *lines[2:]]):
            with pytest.raises((InvalidInputError, TableNotFoundError)):
                look(told(late))
    planned = pipelines.plan(told(lines))
    done = pipelines.run_file(path, spark=spark)

    assert "read rows: table copied" in planned
    assert [each.did["rows"] for each in done.jobs] == [1] * 4
    assert len(of(str(tmp_path / "deltas"), "plain")) == 5


@pytest.fixture
def run(spark, root, store, tmp_path: Path, capsys) -> Run:
    (tmp_path / "two.csv").write_text("id,city,price\n3,Oslo,33\n4,Rome,40\n")
    (tmp_path / "oslo.csv").write_text("city\nOslo\n")
    return Run(root, capsys)


def test_every_command_can_be_tried_run_and_run_again(run, root, tmp_path: Path) -> None:
    two, oslo = str(tmp_path / "two.csv"), str(tmp_path / "oslo.csv")
    csv = ["-f", "csv", "--schema", COLUMNS]
    jobs = [
        (["append", "shop.plain", two, *csv], {"rows": 2, "partitions": 2, "deltas": 2}),
        (["add", "shop.plain", two, *csv], {"rows": 2, "partitions": 2, "deltas": 2}),
        (["upsert", "shop.lazy", two, *csv], {"rows": 2, "partitions": 2, "deltas": 2}),
        (["delete", "shop.lazy", oslo, "-f", "csv", "--on", "city", "--yes"], {"deltas": 1}),
        (["compact", "shop.lazy"], {"partitions": 3, "files": 3}),
        (["replace", "shop.orders", two, *csv, "--yes"], {"rows": 2, "deltas": 2}),
    ]
    for number, (arguments, expected) in enumerate(jobs):
        job = ["job", "metastore", *arguments, "--job-id", str(number)]
        before = files(root)
        would = run.json(*job, "--dry-run")
        assert (expected.items() <= would.items(), would["transaction"]) == (True, None), would
        assert files(root) == before
        done = run.json(*job)
        assert (expected.items() <= done.items(), done["already_done"]) == (True, False), done
        assert run.json(*job) == {**done, "already_done": True}
    for path in (two, oslo):
        Path(path).unlink()  # what was done before needs no files, and asks nobody
    for number, (arguments, _) in enumerate(jobs):
        job = ["job", "metastore", *(word for word in arguments if word != "--yes")]
        assert "was done before" in run(*job, "--job-id", str(number))[1]
        assert "It was done before." in run(*job, "--job-id", str(number), "--dry-run")[1]
    assert of(root, "plain") == sorted([*ROWS, *[(3, "Oslo", 33), (4, "Rome", 40)] * 2])
    assert of(root, "lazy") == [(2, "Bern", 20), (4, "Rome", 40)]
    assert of(root, "orders") == [(3, "Oslo", 33), (4, "Rome", 40)]


def test_people_are_told_asked_and_refused_as_by_other_jobs(
    run, root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    job = ["job", "metastore"]
    two = [str(tmp_path / "two.csv"), "-f", "csv", "--schema", COLUMNS]
    before = files(root)
    said = run(*job, "upsert", "shop.orders", *two, "--dry-run")[1]
    assert said == "Would upsert 2 rows: 2 partitions written anew.\n"
    one = [str(tmp_path / "oslo.csv"), "-f", "csv", "--on", "city", "--dry-run"]
    said = run(*job, "delete", "shop.orders", *one)[1]
    assert said == "Would delete the rows that match 1 given one: 1 partition written anew.\n"
    said = run(*job, "replace", "shop.orders", *two, "--dry-run")[1]
    assert said == "Would put 2 rows in the place of all others: 2 partitions with a delta each.\n"
    assert "nothing to compact in 2 files" in run(*job, "compact", "shop.plain", "--dry-run")[1]
    assert "stays as it is" in run(*job, "compact", "shop.plain")[1]
    for question, *words in (("match 2 given", "delete"), ("by 2 rows", "replace")):
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        code, out, _ = run(*job, *words, "shop.orders", *two)
        assert (code, question in out) == (130, True), out
    for code, arguments in (
        (3, ["append", "shop.plane", *two]),
        (3, ["append", "shoop.plain", *two]),
        (2, ["append", "plain", *two]),
        (2, ["append", "shop.orders", *two]),
        (2, ["upsert", "shop.orders", str(tmp_path / "none.csv"), "-f", "csv"]),
        (2, ["upsert", "shop.orders", two[0], "-f", "csvv"]),
        (2, ["upsert", "shop.orders", *two[:3]]),  # a key is no int, as Spark takes it to be
        (2, ["delete", "shop.orders", *two, "--on", "town", "--yes"]),
    ):
        assert run(*job, *arguments)[0] == code, arguments
    assert files(root) == before
    code, _, said = Run(tmp_path / "none", capsys)(*job, "append", "shop.plain", *two)
    assert (code, "is no metastore" in said) == (2, True), said
    assert (
        "2 rows upserted, 2 partitions written anew" in run(*job, "upsert", "shop.orders", *two)[1]
    )
