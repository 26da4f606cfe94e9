"""The commands that run on Spark, in the session of the tests, as a shell would call them."""

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

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


def test_every_job_can_be_tried_run_and_read_as_json(spark, run, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    module = "tests.spark.test_commands:lengths"
    jobs: Iterable[tuple[list[str], dict[str, object], dict[str, object]]] = [
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
        ("w30", 60, 3),
    ]
    again = run.json("job", "backfill", "shop.words", "--set", "twice=id * 2", "--job-id", "a")
    assert flat(again)["already_done"] is True


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
        (["update", "shop.words", "--set", "nothing", "--dry-run"], "Write KEY=VALUE"),
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

        def export(mode: str, **options: object) -> int:
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
