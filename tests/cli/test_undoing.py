"""`lakeroot undo` and `undrop`."""

from pathlib import Path

import pytest

from tests.cli.running import Run


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path / "lake", capsys)


def test_a_commit_is_taken_back(run: Run) -> None:
    assert run("ns", "create", "air", "--set", "owner=ada")[0] == 0
    commit = str(run.json("history")[0]["version"])
    assert run.json("undo", commit, "--dry-run") == [{"would": "drop namespace air"}]
    assert "air" in run("ls")[1]
    assert run("undo", commit, "--yes")[0] == 0
    assert "air" not in run("ls")[1]
    code, _, said = run("undo", commit, "--yes")
    assert code != 0
    assert "Since then air has changed" in said


def test_a_table_gets_its_name_back(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("n\n1\n2\n")
    assert run("undrop")[1] == "No table that lost its name still has its data.\n"
    assert run("table", "create", "words", str(rows))[0] == 0
    assert run.json("table", "deregister", "words", "--dry-run") == [{"would deregister": "words"}]
    assert run("table", "deregister", "words", "--yes")[0] == 0
    (lost,) = run.json("undrop")
    assert lost["table"] == "words"
    assert run("undrop", "words")[0] == 0
    assert run("count", "words")[1].strip() == "2"
    code, _, said = run("undrop", "never")
    assert code != 0
    assert "There was no table never" in said
