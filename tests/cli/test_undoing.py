"""`lakeroot undo` and `undrop`."""

import json
from pathlib import Path

import pytest

from lakeroot.cli.app import main


def call(capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(["-r", str(root), *arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_commit_is_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, tmp_path, "ns", "create", "air", "--set", "owner=ada")[0] == 0
    commit = str(json.loads(call(capsys, tmp_path, "-o", "json", "history")[1])[0]["version"])
    assert "drop namespace air" in call(capsys, tmp_path, "undo", commit, "--dry-run")[1]
    assert "air" in call(capsys, tmp_path, "ls")[1]
    assert call(capsys, tmp_path, "undo", commit, "--yes")[0] == 0
    assert "air" not in call(capsys, tmp_path, "ls")[1]
    code, _, said = call(capsys, tmp_path, "undo", commit, "--yes")
    assert code != 0
    assert "Since then air has changed" in said


def test_a_table_gets_its_name_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("n\n1\n2\n")
    lake = tmp_path / "lake"
    assert call(capsys, lake, "table", "create", "words", str(rows))[0] == 0
    assert call(capsys, lake, "table", "deregister", "words", "--yes")[0] == 0
    (lost,) = json.loads(call(capsys, lake, "-o", "json", "undrop")[1])
    assert lost["table"] == "words"
    assert call(capsys, lake, "undrop", "words")[0] == 0
    assert call(capsys, lake, "count", "words")[1].strip() == "2"
    code, _, said = call(capsys, lake, "undrop", "never")
    assert code != 0
    assert "There was no table never" in said
