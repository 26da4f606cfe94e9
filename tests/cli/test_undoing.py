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


def test_what_is_dropped_comes_back_unless_it_was_to_go_now(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("n\n1\n2\n")
    for name in ("words", "others"):
        assert run("table", "create", name, str(rows))[0] == 0
    code, out, _ = run("table", "drop", "words", "--yes")
    assert (code, out) == (0, "Dropped words. `lakeroot undrop words` brings it back.\n")
    assert run("undrop", "words")[0] == 0
    assert run.json("count", "words") == {"rows": 2}
    done = run.json("table", "drop", "words", "others", "--now", "--yes")
    assert done == {"dropped": ["words", "others"], "kept": []}
    assert run.json("undrop") == []
    assert run("undrop", "words")[0] == 4


def test_a_namespace_is_dropped_with_its_tables_and_comes_back(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("n\n1\n2\n")
    assert run("ns", "create", "air")[0] == 0
    assert run("table", "create", "air.words", str(rows))[0] == 0
    assert run("ns", "drop", "air", "--cascade", "--yes")[0] == 0
    assert run.json("ls", "-a") == []
    assert run("undo", str(run.json("history")[0]["version"]), "--yes")[0] == 0
    assert run.json("count", "air.words") == {"rows": 2}
    assert run("ns", "drop", "air", "--cascade", "--now", "--yes")[0] == 0
    assert run.json("undrop") == []
