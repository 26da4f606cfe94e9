"""The commands that run on Spark, in the session of the tests, as a shell would call them."""

import datetime as dt
import io
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import InvalidInputError, TableAlreadyExistsError
from tests.cli.running import Run
from tests.server.processes import served
from tests.spark.conftest import put

WORDS = pa.table(
    {"id": pa.array(range(40), pa.int64()), "word": [f"w{number}" for number in range(40)]}
)
_numbers = itertools.count()


def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A function that a backfill is given by name."""
    sizes = [len(word) for word in batch.column("word").to_pylist()]
    return pa.record_batch([pa.array(sizes, pa.int32())], names=["size"])


@pytest.fixture
def run(spark, root, catalog, capsys) -> Run:
    put(catalog, "shop.words", WORDS, max_rows_per_file=20)
    return Run(root, capsys)


def version(run: Run) -> int:
    return lakeroot.open(run.root)["shop.words"].version


def test_every_job_can_be_tried_run_and_read_as_json(
    spark, run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    module = "tests.spark.test_commands:lengths"
    jobs: list[tuple[list[str], dict[str, object], dict[str, object]]] = [
        (
            ["update", "shop.words", "--set", "word=upper(word)", "--where", "id < 3", "--yes"],
            {"would update": 3},
            {"updated": 3},
        ),
        (["index", "shop.words", "id"], {"name": "id_idx", "segments": 0}, {"name": "id_idx"}),
        (
            ["backfill", "shop.words", "--set", "twice=id * 2", "--job-id", "a"],
            {"fragments": 3, "computed": 3},
            {"computed": 3, "already_done": False},
        ),
        (
            ["backfill", "shop.words", "--function", module, "--reads", "word", "--job-id", "b"],
            {"fragments": 3},
            {"already_done": False},
        ),
        (
            ["export", "shop.words", out, "--where", "id >= 30", "--column", "id"],
            {"would export": 10},
            {"rows": 10, "target": out},
        ),
    ]
    changes = str(tmp_path / "changes.parquet")
    pq.write_table(WORDS.slice(38).set_column(0, "id", pa.array([39, 99])), changes)
    gone = str(tmp_path / "gone.csv")
    Path(gone).write_text("id;word\n99;x\n")
    deleting = [
        *("merge", "shop.words", gone, "--on", "id", "--format", "csv", "-R", "sep=;"),
        *("--when-matched", "delete", "--when-not-matched", "nothing", "--yes"),
    ]
    jobs += [
        (
            ["merge", "shop.words", changes, "--on", "id"],
            {"would merge": 2, "inserted": 1, "updated": 1},
            {"inserted": 1, "updated": 1},
        ),
        (
            deleting,
            {"deleted": 1, "inserted": 0},
            {"deleted": 1, "inserted": 0},
        ),
        (
            ["update", "shop.words", "--set", "word='x'", "--where", "word rlike '^w3.$'", "--yes"],
            {"would update": 10},
            {"updated": 10},
        ),
        (
            ["delete", "shop.words", "id >= 38", "--yes", "--job-id", "d"],
            {"would delete": 2},
            {"deleted": 2},
        ),
    ]
    for arguments, planned, expected in jobs:
        before = version(run)
        said = run.json("job", *arguments, "--dry-run")
        assert planned.items() <= flat(said).items(), said
        assert version(run) == before
        done = flat(run.json("job", *arguments))
        assert expected.items() <= done.items(), done
    assert pq.read_table(out).column("id").to_pylist() == list(range(30, 40))
    rows = run.json("sql", "SELECT word, twice, size FROM lake.shop.words WHERE id IN (1, 30)")
    assert sorted((row["word"], row["twice"], row["size"]) for row in rows) == [
        ("W1", 2, 2),
        ("x", 60, 3),
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run("job", *deleting[:-1])[0] == 130
    again = run.json("job", "backfill", "shop.words", "--set", "twice=id * 2", "--job-id", "a")
    assert flat(again)["already_done"] is True


def test_people_are_told_what_a_job_has_done_and_what_was_done_before(
    spark, run, tmp_path: Path
) -> None:
    (tmp_path / "more.csv").write_text("50;fifty;x\n51;fifty-one;y\n")
    more = [
        *("job", "ingest", "shop.words", str(tmp_path / "more.csv"), "--format", "csv"),
        *("--schema", "id long, word string, note string", "-R", "header=false", "-R", "sep=;"),
        *("-W", "mergeSchema=true", "--job-id", "more"),
    ]
    code, said, aside = run(*more, "--dry-run")
    assert (code, "note" in said, "Would write 2 rows" in aside) == (0, True, True), aside
    would = run.json(*more, "--dry-run")
    assert (would["rows"], would["already_done"]) == (2, False)
    assert would["columns"][-1] == {"column": "note", "type": "string"}
    assert version(run) == 1
    assert "version 2: 2 rows came in" in run(*more)[1]
    (tmp_path / "more.csv").unlink()  # what was done before needs no files
    assert "version 2: the job was done before" in run(*more)[1]
    assert "It was done before" in run(*more, "--dry-run")[2]
    assert run.json(*more, "--dry-run")["already_done"] is True
    assert lakeroot.open(run.root)["shop.words"].count("note = 'x'") == 1
    delete = ["job", "delete", "shop.words", "id >= 50", "--job-id", "d"]
    assert run.json(*delete, "--dry-run") == {"would delete": 2, "already_done": False}
    assert "2 rows deleted" in run(*delete, "--yes")[1]
    assert "done before" in run(*delete)[1]  # and nobody is asked
    assert run.json(*delete, "--dry-run") == {"would delete": 0, "already_done": True}
    assert "Would fold" in run("job", "compact", "shop.words", "--dry-run")[1]
    assert "fragments before, 1 now" in run("job", "compact", "shop.words")[1]
    assert "nothing to fold" in run("job", "compact", "shop.words", "--dry-run")[1]


def test_a_change_that_was_made_before_asks_for_nothing_and_reads_nothing(
    run, tmp_path: Path
) -> None:
    pq.write_table(WORDS.slice(0, 2), tmp_path / "two.parquet")
    update = ["job", "update", "shop.words", "--set", "word='x'", "--where", "id = 1"]
    merge = ["job", "merge", "shop.words", str(tmp_path / "two.parquet"), "--on", "id"]
    gone = ["--when-matched", "delete", "--when-not-matched", "nothing"]
    run(*update, "--job-id", "u", "--yes")
    run(*merge, *gone, "--job-id", "m", "--yes")
    assert version(run) == 3
    (tmp_path / "two.parquet").unlink()
    for again in ([*update, "--job-id", "u"], [*merge, *gone, "--job-id", "m"]):
        assert "done before" in run(*again)[1]
        assert run.json(*again, "--dry-run")["already_done"] is True
        assert "It was done before." in run(*again, "--dry-run")[1]


def test_an_update_may_be_told_to_do_without_nanoseconds(run, catalog) -> None:
    times = pa.table({"id": [1], "at": pa.array([1_000_000_007], pa.timestamp("ns"))})
    put(catalog, "shop.times", times)
    update = ["job", "update", "shop.times", "--set", "at=at + INTERVAL 1 HOUR", "--yes"]
    code, _, said = run(*update)
    assert (code, "nanoseconds" in said) == (2, True), said
    assert run.json(*update, "--truncate-nanos")["updated"] == 1


def test_a_dry_run_of_an_export_refuses_what_the_export_would(run, tmp_path: Path) -> None:
    export = ["job", "export", "shop.words", str(tmp_path / "out"), "--dry-run"]
    assert run(*export, "-f", "icebergg")[0] == 2
    assert run(*export, "--mode", "upsert")[0] == 2
    assert run(*export, "--column", "wrod")[0] == 3
    lakeroot.open(run.root)["shop.words"].dataset().drop_columns(["word"])
    assert run(*export, "--column", "word")[0] == 3
    assert "40" in run(*export, "--column", "word", "--version", "1")[1]
    assert run(*export, "-f", "iceberg", "-W", "uri=http://127.0.0.1:1", "-W", "type=rest")[0] == 6


def test_a_backfill_is_by_expressions_or_by_a_function(run) -> None:
    fill = ["job", "backfill", "shop.words", "--job-id", "b", "--set", "n=id"]
    code, _, said = run(*fill, "--function", "tests.spark.test_commands:lengths")
    assert (code, "exclude each other" in said) == (2, True)
    code, _, said = run(*fill[:-2], "--function", "no_such_module:f")
    assert (code, "PYTHONPATH" in said) == (2, True)


def test_a_table_is_converted_into_another_catalog(spark, run, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    lakeroot.open(other, table_version_management="true").create_namespace("shop")
    convert = ["job", "convert", "shop.words", other, "--job-id", "c"]

    planned = flat(run.json(*convert, "--dry-run"))
    assert (planned["rows"], planned["files"], planned["already_done"]) == (40, 0, False)
    assert lakeroot.open(other).tables("shop") == []
    done = flat(run.json(*convert))
    assert (done["rows"], done["version"], done["already_done"]) == (40, 1, False)
    assert lakeroot.open(other)["shop.words"].count() == 40
    assert flat(run.json(*convert))["already_done"] is True

    code, _, said = run(*convert[:-2])
    assert (code, "already exists" in said) == (4, True)
    lakeroot.open(run.root)["shop.words"].append([{"id": 99, "word": "x"}])
    old = [*convert[:-2], "--to", "shop.old", "--version", "1", "-T", "durable=false"]
    assert flat(run.json(*old))["rows"] == 40
    assert lakeroot.open(other)["shop.old"].count() == 40
    for wrong in (["shop.wrods", other], ["shop.words", other, "-T", "durable"]):
        assert run("job", "convert", *wrong, "--dry-run")[0] != 0


def flat(answer: object) -> dict[str, object]:
    """Read an answer of one value, or of several."""
    if isinstance(answer, dict):
        return answer
    assert isinstance(answer, list)
    return {key: value for one in answer for key, value in one.items()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["index", "shop.words", "wrod", "--dry-run"], "Did you mean 'word'"),
        (["index", "shop.words", "id", "--kind", "BTRE", "--dry-run"], "'BTREE'"),
        (
            ["backfill", "shop.words", "--set", "id=1", "--job-id", "x", "--dry-run"],
            "already has a column 'id'",
        ),
        (
            ["backfill", "shop.words", "--function", "nowhere:f", "--job-id", "x", "--dry-run"],
            "Write it as module:function",
        ),
        (["export", "shop.words", "out", "--format", "parket"], "'parquet'"),
        (["update", "shop.words", "--set", "nothing", "--dry-run"], "Write COLUMN=EXPRESSION"),
    ],
)
def test_a_job_that_cannot_be_is_refused_and_changes_nothing(
    run, arguments: list[str], words: str
) -> None:
    before = version(run)
    code, _, said = run("job", *arguments)
    assert code != 0
    assert words in said
    assert "Traceback" not in said
    assert version(run) == before


def test_a_merge_makes_a_table_that_is_missing(run, tmp_path: Path) -> None:
    pq.write_table(WORDS, tmp_path / "words.parquet")

    done = run.json("job", "merge", "shop.more", str(tmp_path / "words.parquet"), "--on", "id")

    assert done["inserted"] == lakeroot.open(run.root)["shop.more"].count() == 40


def test_a_profile_names_the_catalog_for_spark_too(
    spark, run, root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.dev]\nroot = "{root}"\n')
    monkeypatch.setenv("LAKEROOT_CONFIG", str(config))
    assert lakeroot.spark.read(spark, "shop.words", profile="dev").count() == 40
    lakeroot.spark.use_catalog(spark, "by_profile", profile="dev")
    assert spark.sql("SELECT max(id) FROM by_profile.shop.words").collect()[0][0] == 39
    with pytest.raises(InvalidInputError, match="There is no profile 'prod'"):
        lakeroot.spark.read(spark, "shop.words", profile="prod")
    with pytest.raises(InvalidInputError, match="exclude each other"):
        lakeroot.spark.read(spark, "shop.words", profile="dev", root=root)


def test_a_table_is_exported_into_an_iceberg_catalog(spark, root, catalog, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "small": pa.array([1, None, -3], pa.int16()),
            "word": ["a", None, "c"],
            "when": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None, None]),
            "vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        }
    )
    put(catalog, "shop.t", rows, max_rows_per_file=2)
    with served(str(tmp_path / "other")) as server:
        uri = f"{server.url}/iceberg"
        other = load_catalog("other", type="rest", uri=uri)
        other.create_namespace("shop")

        def export(mode: str, **options: Any) -> int:
            return lakeroot.spark.export(
                spark,
                "shop.t",
                "shop.copy",
                format="iceberg",
                mode=mode,
                writer={"type": "rest", "uri": uri},
                root=root,
                **options,
            )

        def ids() -> list[int]:
            found = other.load_table("shop.copy").scan().to_arrow()
            return sorted(found.column("id").to_pylist())

        assert export("error") == 3
        copied = other.load_table("shop.copy").scan().to_arrow().sort_by("id")
        for name in ("word", "when", "vector", "small"):
            assert copied.column(name).to_pylist() == rows.column(name).to_pylist()
        with pytest.raises(TableAlreadyExistsError, match=r"shop\.copy exists"):
            export("error")
        assert export("append", filter="id = 3") == 1
        assert ids() == [1, 2, 3, 3]
        assert export("overwrite", filter="id < 3") == 2
        assert ids() == [1, 2]
        assert export("overwrite", filter="id > 99") == 0
        assert ids() == []


@pytest.mark.parametrize(
    ("statement", "expected", "words"),
    [
        ("SELEC 1", 2, "PARSE_SYNTAX_ERROR"),
        ("SELECT wrod FROM {0}.shop.words", 2, "`word`"),
        ("SELECT * FROM {0}.shop.wrods", 3, "TABLE_OR_VIEW_NOT_FOUND"),
        ("SHOW TABLES IN {0}.shpo", 3, "SCHEMA_NOT_FOUND"),
        ("SELECT * FROM {0}.shop.words VERSION AS OF 99", 3, "no version 99"),
        ("SELECT * FROM {0}.shop.words VERSION AS OF 'none'", 3, "no tag 'none'"),
    ],
)
def test_a_statement_that_cannot_be_run_is_said_in_three_lines(
    run, statement: str, expected: int, words: str
) -> None:
    name = f"said{next(_numbers)}"
    code, _, said = run("sql", "--name", name, statement.format(name))
    assert code == expected, said
    assert words in said
    assert len(said.splitlines()) <= 3
    assert "\\tat " not in said  # nor is it logged, with a trace of Java in one line


PIPELINE = """\
name: daily
catalog: {root: lake, properties: {table_version_management: true}}
sources: {raw: {sql: "SELECT id FROM range(3)"}}
tables: [{table: shop.numbers, from: raw, checks: [{expression: "id < 2"}]}]
"""


def test_a_pipeline_is_planned_run_once_and_read_as_json(
    spark, capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEROOT_ROOT", raising=False)
    lake = lakeroot.open(str(tmp_path / "lake"), table_version_management="true")
    lake.create_namespace("shop")
    run, file = Run("", capsys), tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    planned = run.json("run", str(file), "--plan")
    assert {"step": "append shop.numbers (new) from raw, 1 check"} in planned
    assert lake.tables() == []
    code, _, said = run("run", str(file))
    assert code == 1
    assert "1 of 3 rows break it" in said
    assert "Traceback" not in said
    file.write_text(PIPELINE.replace("id < 2", "id < 3"))
    for starts_spark in (True, False):
        if not starts_spark:
            monkeypatch.setattr("lakeroot.cli.sparking.spark_session", None)
        done = run.json("run", str(file), "--run-id", "monday")
        assert [(one["table"], one["version"]) for one in done] == [("shop.numbers", 1)]
    assert lake["shop.numbers"].count() == 3


@pytest.mark.parametrize(
    "words", [["--root", "elsewhere"], ["--profile", "x"], ["-P", "a=b"], ["--as-of", "1"]]
)
def test_a_pipeline_refuses_to_be_pointed_elsewhere(
    capsys, tmp_path: Path, words: list[str]
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    code, _, said = Run("", capsys)(*words, "run", str(file), "--plan")
    assert code == 2
    assert f"{words[0]} is not for pipelines" in said
