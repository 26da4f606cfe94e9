"""Commands beside the everyday ones, and what all commands have in common."""

import io
from pathlib import Path

import click
import pytest

import lakeroot
from lakeroot.cli.app import lakeroot as group
from tests.cli.running import Run
from tests.docs.test_complete import leaves

ASKS = {
    "lakeroot gc",
    "lakeroot index drop",
    "lakeroot job delete",
    "lakeroot job merge",
    "lakeroot job update",
    "lakeroot ns drop",
    "lakeroot table deregister",
    "lakeroot table drop",
    "lakeroot tag delete",
    "lakeroot undo",
    "lakeroot version delete",
}


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    root = tmp_path / "lake"
    lake = lakeroot.open(str(root), table_version_management="true")
    lake.create_namespace("air")
    lake.create_table("air.words", [{"n": 1, "word": "a"}, {"n": 2, "word": "b"}])
    lake["air.words"].append([{"n": 3, "word": "c"}])
    lake["air.words"].tag("first", 1)
    return Run(root, capsys)


def test_a_root_that_is_a_file_is_no_empty_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    code, out, said = Run(tmp_path / "file", capsys)("ls")
    assert (code, out) == (2, "")
    assert "is a file, not a directory" in said


def test_a_version_is_shown(run: Run) -> None:
    shown = {one["what"]: one["value"] for one in run.json("version", "show", "air.words", "1")}

    assert (shown["rows"], shown["columns"], shown["tags"]) == (2, "n, word", "first")
    assert shown["operation"] in ("overwrite", "append")
    assert run("version", "show", "air.words", "9")[0] == 3
    code, _, said = run("head", "air.words", "--version", "9")
    assert code == 3
    assert "air.words has no version 9" in said
    assert "_versions" not in said


def test_a_table_is_copied_with_its_versions_and_tags(run: Run) -> None:
    assert run("table", "copy", "air.words", "copied")[0] == 0
    assert run.json("count", "copied") == {"rows": 3}
    assert [one["version"] for one in run.json("version", "list", "copied")] == [2, 1]
    assert run.json("tag", "list", "copied") == [{"tag": "first", "version": 1}]


def test_a_copy_begun_again_does_nothing_and_never_overwrites(run: Run, tmp_path: Path) -> None:
    assert run("table", "copy", "air.words", "copied")[0] == 0
    assert run("table", "copy", "air.words", "copied")[0] == 0
    lakeroot.open(run.root)["copied"].append([{"n": 4, "word": "d"}])

    code, _, said = run("table", "copy", "air.words", "copied")

    assert code == 4
    assert "already" in said
    assert run.json("count", "copied") == {"rows": 4}
    assert run("table", "copy", "air.words", "air.words")[0] == 2


def test_a_command_is_run_at_a_moment(run: Run) -> None:
    moment = str(run.json("history")[0]["version"])
    assert run("table", "drop", "air.words", "--yes")[0] == 0

    assert run.json("at", moment) == [{"kind": "table", "name": "air.words"}]
    assert run.json("at", moment, "ls", "air") == [{"kind": "table", "name": "air.words"}]
    assert run.json("ls", "-a") == []
    assert run("at", moment, "nonsense")[0] == 2
    assert run("at", moment, "at", moment, "ls")[0] == 2
    assert run("at", "never", "ls")[0] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["head", "air.words"],
        ["count", "air.words"],
        ["schema", "air.words"],
        ["show", "air.words"],
        ["version", "list", "air.words"],
        ["version", "show", "air.words", "1"],
        ["tag", "list", "air.words"],
        ["index", "list", "air.words"],
        ["ns", "show", "air"],
        ["ls", "-a"],
        ["history"],
    ],
    ids=" ".join,
)
def test_every_read_knows_the_past(run: Run, arguments: list[str]) -> None:
    moment = str(run.json("history")[0]["version"])
    before = run.json("--as-of", moment, *arguments)
    assert run("ns", "create", "later")[0] == 0

    assert run.json("--as-of", moment, *arguments) == before
    assert before != [] or arguments[0] in ("ns", "index")


@pytest.mark.parametrize(
    "arguments",
    [
        ["ns", "create", "b"],
        ["table", "drop", "air.words", "--yes"],
        ["tag", "create", "air.words", "x"],
        ["undo", "1", "--yes"],
        ["gc", "--yes"],
        ["fsck"],
        ["migrate"],
        ["sql", "SELECT 1"],
        ["job", "compact", "air.words"],
    ],
    ids=" ".join,
)
def test_the_past_is_not_changed_and_not_passed_over(run: Run, arguments: list[str]) -> None:
    before = run.json("history")

    code, _, said = run("--as-of", "1", *arguments)

    assert code in (2, 3), said
    assert "Traceback" not in said
    assert run.json("history") == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["compact", "air.wrods"],
        ["index", "air.wrods", "n"],
        ["backfill", "air.wrods", "--set", "m=n + 1", "--job-id", "a"],
        ["update", "air.wrods", "--set", "n=1", "--yes"],
        ["delete", "air.wrods", "n > 1", "--yes"],
        ["export", "air.wrods", "out"],
        ["convert", "air.wrods", "other"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_job_over_no_table_is_refused_before_spark_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("lakeroot.spark.session", no_spark)

    code, _, said = run("job", *arguments)

    assert code == 3, said
    assert "air.words" in said  # the name that was meant


def test_a_compaction_is_tried_without_spark(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeroot.spark.session", no_spark)

    assert run.json("job", "compact", "air.words", "--dry-run")["fragments_before"] > 0


def no_spark(*_: object, **__: object) -> None:
    pytest.fail("Spark was started")


def test_whatever_destroys_asks_first_and_can_be_tried() -> None:
    destroying = {
        path: {opt for param in command.params for opt in param.opts}
        for path, command in leaves(group)
        if path in ASKS
    }

    assert set(destroying) == ASKS
    assert [path for path, opts in destroying.items() if "--yes" not in opts] == []
    assert [path for path, opts in destroying.items() if "--dry-run" not in opts] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["table", "drop", "air.words"],
        ["table", "deregister", "air.words"],
        ["tag", "delete", "air.words", "first"],
        ["version", "delete", "air.words", "1", "2"],
    ],
    ids=" ".join,
)
def test_a_no_changes_nothing_and_neither_does_a_trial(
    run: Run, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run.json("history"), run.json("show", "air.words")

    assert run(*arguments, "--dry-run")[0] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run(*arguments)[0] == 130

    assert (run.json("history"), run.json("show", "air.words")) == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tag", "delete", "air.words", "none"], 3),
        (["index", "drop", "air.words", "none"], 3),
        (["ns", "drop", "air"], 4),
        (["table", "drop", "air.none"], 3),
    ],
)
def test_a_trial_fails_where_the_command_would(
    run: Run, arguments: list[str], expected: int
) -> None:
    assert run(*arguments, "--dry-run")[0] == expected
    assert run(*arguments, "--yes")[0] == expected


def test_a_question_ends_with_its_mark(run: Run) -> None:
    assert "Did you mean air.words?\n" in run("head", "air.word")[2]


def test_csv_has_a_header_for_every_kind_of_answer(run: Run) -> None:
    assert run("-o", "csv", "count", "air.words")[1] == "rows\n3\n"
    assert run("-o", "csv", "ns", "create", "b")[1] == "created\nb\n"
    assert run("-o", "csv", "diff", "1", "1")[1] == "what,name,before,after\n"
    assert run("-o", "csv", "config", "path")[1].startswith("path\n")


def test_no_command_is_without_help() -> None:
    assert [path for path, command in leaves(group) if not command.help] == []
    context = click.Context(group)
    assert [name for name in group.list_commands(context) if group.get_command(context, name)]


def test_common_options_may_follow_the_command(run: Run) -> None:
    assert run("count", "air.words", "-o", "csv")[1] == "rows\n3\n"
    assert run("ls", "--all", "--as-of", "1", "-o", "json")[1] == "[]\n"
    assert run("at", "1", "ls", "-a", "-o", "json")[1] == "[]\n"
    assert run("ls", "-o", "xml")[0] == 2


def test_no_option_means_two_things() -> None:
    for path, command in leaves(group):
        opts = [opt for param in command.params for opt in (*param.opts, *param.secondary_opts)]
        assert len(opts) == len(set(opts)), path
