"""What needs no Spark to be seen is said before Spark takes its time to start."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lakeroot
from lakeroot.cli import jobs, metastore_jobs, sparking
from lakeroot.metastore import Metastore, schema_of
from lakeroot.model.errors import NamespaceNotFoundError, TableNotFoundError
from lakeroot.spark import metastore as on_spark
from lakeroot.spark.catalogs import Catalog, TableRef, locate
from lakeroot.spark.commits import JOB, commit
from lakeroot.spark.opening import open_table
from tests.cli.running import Run

PIPELINE = """\
name: daily
catalog: {root: lake, properties: {table_version_management: true}}
sources: {raw: {format: csv, path: rows.csv}}
tables: [{table: shop.rows, from: raw, mode: create}]
jobs: [{job: compact, table: shop.words}]
"""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    # Imported before: the one that imports the other would keep what it finds there.
    for module in (jobs, metastore_jobs, sparking):
        monkeypatch.setattr(module, "spark_session", refuse)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    root = tmp_path / "lake"
    lake = lakeroot.open(str(root), table_version_management="true")
    lake.create_namespace("shop")
    lake.create_table("shop.words", [{"id": 1, "word": "a"}])
    (tmp_path / "rows.csv").write_text("id\n1\n")
    return Run(root, capsys)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["update", "shop.wrods", "--set", "id=1"], 3, "shop.words"),
        (["delete", "shop.wrods", "id = 1"], 3, "shop.words"),
        (["delete", "shop.words", "", "--dry-run"], 2, "needs a predicate"),
        (["compact", "shop.wrods"], 3, "shop.words"),
        (["index", "shop.wrods", "id"], 3, "shop.words"),
        (["backfill", "shop.wrods", "--set", "n=id", "--job-id", "a"], 3, "shop.words"),
        (["backfill", "shop.words", "--set", "n=idd", "--job-id", "a"], 3, "'idd'"),
        (["backfill", "shop.words", "--set", "n=id", "--job-id", ""], 2, "needs a job id"),
        (["export", "shop.wrods", "out"], 3, "shop.words"),
        (["convert", "shop.wrods", "other"], 3, "shop.words"),
        (["convert", "shop.words", "{0}/other"], 3, "no namespace shop"),
        (["convert", "shop.words", "{0}/lake"], 4, "already exists"),
        (["ingest", "shpo.rows", "{0}/rows.csv", "-f", "csv"], 3, "ns create shpo"),
        (["ingest", "shop.rows", "{0}/none.csv", "-f", "csv"], 2, "none.csv"),
        (["ingest", "shop.words", "{0}/rows.csv", "--mode", "create"], 4, "already exists"),
        (["ingest", "shop.words", "{0}/rows.csv", "--mode", "apend"], 2, "'append'"),
        (["merge", "shpo.rows", "{0}/rows.csv", "--on", "id"], 3, "ns create shpo"),
        (["merge", "shop.words", "{0}/*.parquet", "--on", "id"], 2, "cannot be read as parquet"),
        (["merge", "shop.words", "{0}/rows.csv", "--on", "id", "-f", "csw"], 2, "'csv'"),
        (["merge", "shop.words", "{0}/rows.csv", "--on", "id", "-f", "csv", "-R", "x"], 2, "'x'"),
        (["ingest", "shop.rows", "{0}/rows.csv", "-f", "csw"], 2, "'csv'"),
        (["ingest", "shop.rows", "a.b", "-f", "iceberg", "--schema", "id long"], 2, "`schema`"),
        (["export", "shop.words", "{0}/out", "-f", "parket"], 2, "'parquet'"),
        (["export", "shop.words", "{0}/out", "--mode", "apend"], 2, "'append'"),
    ],
)
def test_a_job_that_cannot_be_is_refused_without_spark(
    run: Run, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    given = [each.format(tmp_path) for each in arguments]
    found, _, said = run("job", *given)
    assert (found, words in said) == (code, True), said


@pytest.fixture
def deltas(tmp_path: Path, run: Run) -> Run:
    """A metastore beside the directory of the others."""
    run.root = str(tmp_path / "deltas")
    with Metastore.open(run.root).transaction() as txn:
        txn.create_namespace("shop")
        schema = schema_of(pa.schema([("id", pa.int64())]), merge_keys=["id"])
        txn.create_table("shop", "orders", schema=schema)
    return run


ROWS = ("append", "add", "upsert", "delete", "replace")


@pytest.mark.parametrize("verb", ROWS)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-f", "csw"], "Did you mean 'csv'?"),
        (["-f", "iceberg", "--schema", "id long"], "`schema` is not for"),
        (["-f", "csv", "-R", "header"], "'header'"),
    ],
    ids=str,
)
def test_files_that_no_change_of_deltas_can_be_given_are_refused_without_spark(
    deltas: Run, tmp_path: Path, verb: str, options: list[str], words: str
) -> None:
    rows = str(tmp_path / "rows.csv")
    found, _, said = deltas("job", "metastore", verb, "shop.orders", rows, *options)
    assert (found, words in said) == (2, True), said


@pytest.mark.parametrize("verb", [*ROWS, "compact"])
@pytest.mark.parametrize(
    ("table", "words"),
    [("shop.ordres", "Did you mean shop.orders?"), ("shpo.orders", "Did you mean shop?")],
)
def test_a_table_of_deltas_that_is_missing_is_answered_with_the_nearest_name(
    deltas: Run, tmp_path: Path, verb: str, table: str, words: str
) -> None:
    given = [] if verb == "compact" else [str(tmp_path / "rows.csv"), "-f", "csv"]
    found, _, said = deltas("job", "metastore", verb, table, *given)
    assert (found, words in said) == (3, True), said


def test_whoever_reads_deltas_with_spark_is_told_the_nearest_name(deltas: Run) -> None:
    nobody: Any = None
    for missing in (
        lambda name: on_spark.read(nobody, name, root=deltas.root),
        lambda name: on_spark.find_done("append", name, root=deltas.root),
        lambda name: on_spark.compact(nobody, name, root=deltas.root),
    ):
        with pytest.raises(TableNotFoundError, match=r"Did you mean shop\.orders\?"):
            missing("shop.ordres")
        with pytest.raises(NamespaceNotFoundError, match=r"Did you mean shop\?"):
            missing("shpo.orders")
        with pytest.raises(TableNotFoundError) as unlike:
            missing("shop.xyz")
        assert unlike.value.fix == ""


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("shop.rows", "shpo.rows"), 3, "ns create shpo"),
        (("rows.csv", "none.csv"), 2, "none.csv"),
        (("shop.rows", "shop.words"), 4, "already exists"),
        (("table: shop.words", "table: shop.wrods"), 3, "shop.wrods"),
        (("format: csv, path: rows.csv", "table: shop.words, version: 9"), 3, "version 9"),
        ((", properties: {table_version_management: true}", ""), 2, "table_version_management"),
        (("root: lake", "impl: no.such.thing"), 2, "cannot be built"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--run-id", "monday"], ["--plan"]], ids=str)
def test_a_pipeline_that_cannot_be_is_refused_without_spark(
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str],
    code: int,
    words: str,
    more: list[str],
) -> None:
    monkeypatch.delenv("LAKEROOT_ROOT", raising=False)
    file = tmp_path / "pipeline.yaml"
    assert change[0] in PIPELINE
    file.write_text(PIPELINE.replace(*change))
    found, _, said = Run("", capsys)("run", str(file), *more)
    assert (found, words in said) == (code, True), said
    line = PIPELINE[: PIPELINE.index(change[0])].count("\n") + 1
    assert said.startswith(f"{file}, line {line}: "), said


STEPS = """\
steps:
  - name: twice
    sql: |
      SELECT id,
             id * 2 AS twice
      FROM raw
"""


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        # Whether there is such a function or table, only a session could tell.
        (("id * 2", "no_such_function(id)"), 0, ""),
        (("AS twice", "AS twice thrice"), 2, "line 8: The SQL of step 'twice' cannot be parsed"),
    ],
)
def test_a_plan_parses_sql_without_a_session(
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str],
    code: int,
    words: str,
) -> None:
    monkeypatch.delenv("LAKEROOT_ROOT", raising=False)
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.replace("tables:", STEPS.replace(*change) + "tables:"))
    found, _, said = Run("", capsys)("run", str(file), "--plan")
    assert (found, words in said) == (code, True), said
    assert ("near 'thrice'" in said) == bool(code)


def test_a_backfill_that_was_done_is_known_without_spark(run: Run) -> None:
    properties = {"table_version_management": "true"}
    table = locate(TableRef(Catalog.at(run.root, properties), ("shop", "words")))
    now = open_table(table)
    same = lance.LanceOperation.Project(now.lance_schema)
    commit(table, now, same, read_version=now.version, properties={JOB: "a"})
    code, _, said = run("job", "backfill", "shop.words", "--set", "n=id", "--job-id", "a")
    assert (code, said) == (0, "")
