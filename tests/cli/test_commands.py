import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeroot.cli.app import _COMMANDS, LazyGroup, lakeroot, main
from tests.cli.running import Run


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path / "lake", capsys)


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3], "word": ["a", "b", "c"]}), path)
    return str(path)


@pytest.fixture
def filled(run: Run, rows: str) -> Run:
    assert run("ns", "create", "air", "-s", "owner=ada")[0] == 0
    assert run("table", "create", "air.words", rows)[0] == 0
    return run


def test_an_empty_catalog_lists_nothing_and_makes_nothing(run: Run, tmp_path: Path) -> None:
    assert run.json("ls") == []
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--all"], ["undrop"]], ids=" ".join)
def test_whoever_lists_a_catalog_that_was_never_begun_is_told_so_beside_it(
    run: Run, tmp_path: Path, arguments: list[str]
) -> None:
    code, out, said = run("-o", "json", *arguments)

    assert (code, out) == (0, "[]\n")
    assert said == f"There is no catalog at {tmp_path / 'lake'} yet.\n"
    (tmp_path / "lake").mkdir()
    assert run("-o", "json", *arguments) == (0, "[]\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fsck"],
        ["fsck", "--repair"],
        ["fsck", "--spark"],
        ["gc", "--yes"],
        ["gc", "--spark", "--yes"],
        ["migrate"],
        ["optimize"],
        ["history"],
        ["undo", "1", "--yes"],
        ["undrop", "words"],
        ["diff", "1"],
        ["at", "1"],
        ["--as-of", "1", "ls"],
        ["ls", "air"],
        ["ns", "show"],
        ["ns", "drop", "air", "--yes"],
        ["head", "words"],
        ["table", "drop", "words", "--yes"],
        ["sync", "other"],
        ["job", "compact", "words"],
    ],
    ids=" ".join,
)
def test_a_directory_that_is_not_there_is_no_catalog_in_order(
    run: Run, tmp_path: Path, arguments: list[str]
) -> None:
    for root in (run.root, f"file://{run.root}"):
        run.root = root
        code, out, said = run(*arguments)
        assert (code, out) == (2, "")
        assert said.startswith(f"There is no catalog at {tmp_path / 'lake'}\n")
        assert "Check the path" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["fsck"], ["gc", "--yes"], ["migrate"], ["history"], ["optimize"]], ids=" ".join
)
def test_an_empty_directory_is_an_empty_catalog(
    run: Run, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "lake").mkdir()

    assert run(*arguments)[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["ns", "create", "air"],
        ["table", "create", "words", "{rows}"],
        ["table", "declare", "words"],
    ],
    ids=lambda each: " ".join(each[:2]),
)
def test_a_catalog_begins_with_what_is_created_in_it(
    run: Run, rows: str, arguments: list[str]
) -> None:
    code, _, said = run(*(each.format(rows=rows) for each in arguments))

    assert (code, said) == (0, "")
    assert run("fsck")[:2] == (0, "Everything is in order.\n")


def test_names_are_listed(filled: Run) -> None:
    assert filled.json("ls") == [{"kind": "namespace", "name": "air"}]
    assert filled.json("ls", "air") == [{"kind": "table", "name": "air.words"}]
    assert filled.json("ls", "-a") == [{"kind": "table", "name": "air.words"}]
    assert filled.json("ns", "show", "air") == [{"property": "owner", "value": "ada"}]


def test_rows_are_shown_and_counted(filled: Run) -> None:
    assert filled.json("head", "air.words", "-n", "1", "-c", "word") == [{"word": "a"}]
    assert filled("count", "air.words", "-w", "n > 1")[1].strip() == "2"
    assert [one["column"] for one in filled.json("schema", "air.words")] == ["n", "word"]
    assert {"what": "rows", "value": 3} in filled.json("show", "air.words")


def test_one_thing_is_told_as_one(filled: Run, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("n\n1\n")
    said = filled("table", "create", "air.one", str(tmp_path / "one.csv"))[1]
    assert said.strip() == "Created air.one with 1 row."
    filled("index", "create", "air.words", "n", "BTREE")
    assert (
        "1 version of air.words" in filled("version", "delete", "air.words", "1", "2", "--yes")[1]
    )


def test_csv_is_for_scripts(filled: Run) -> None:
    assert filled("-o", "csv", "head", "air.words")[1] == "n,word\n1,a\n2,b\n3,c\n"


def test_a_table_is_renamed_and_dropped(filled: Run) -> None:
    assert filled("table", "rename", "air.words", "moved")[0] == 0
    assert filled.json("table", "drop", "moved", "--dry-run") == [{"would drop": "moved"}]
    assert filled.json("ls", "-a") == [{"kind": "table", "name": "moved"}]
    assert filled("table", "drop", "moved", "--yes")[0] == 0
    assert filled.json("ls", "-a") == []


def test_versions_are_listed_tagged_and_restored(filled: Run) -> None:
    assert filled("tag", "create", "air.words", "first")[0] == 0
    assert filled.json("tag", "list", "air.words") == [{"tag": "first", "version": 1}]
    assert filled("version", "restore", "air.words", "1")[0] == 0
    assert [one["version"] for one in filled.json("version", "list", "air.words")] == [2, 1]


def test_an_index_is_built_listed_and_dropped(filled: Run) -> None:
    assert filled("index", "create", "air.words", "n", "BTREE", "--name", "by_n")[0] == 0
    assert [one["index"] for one in filled.json("index", "list", "air.words")] == ["by_n"]
    assert filled("index", "drop", "air.words", "by_n", "--yes")[0] == 0
    assert filled.json("index", "list", "air.words") == []


def test_the_past_is_read_with_as_of(filled: Run) -> None:
    newest = filled.json("history")[0]["version"]
    filled("table", "drop", "air.words", "--yes")

    assert filled.json("--as-of", str(newest), "ls", "-a")[0]["name"] == "air.words"
    assert {one["what"] for one in filled.json("diff", str(newest))} == {"removed"}


def test_a_v1_directory_is_migrated(run: Run, tmp_path: Path) -> None:
    import lance

    lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "lake" / "old.lance"))

    assert run.json("migrate", "--dry-run") == [{"what": "would migrate", "table": "old"}]
    assert run.json("migrate") == [{"what": "migrated", "table": "old"}]
    assert run.json("migrate") == []


def test_one_catalog_is_made_to_say_what_another_says(filled: Run, tmp_path: Path) -> None:
    target = str(tmp_path / "copy")

    planned = filled.json("sync", target, "--copy-data", "--dry-run")
    assert [one["would"] for one in planned] == ["create namespace", "copy table"]
    assert {one["outcome"] for one in filled.json("sync", target, "--copy-data")} == {"done"}
    assert filled.json("sync", target, "--copy-data") == []


def test_a_table_is_copied_into_another_catalog(filled: Run, tmp_path: Path) -> None:
    target = str(tmp_path / "copy")

    what = filled.json("copy", target, "--under", "air.words", "--into", "words")
    assert [(one["what"], one["object"]) for one in what] == [
        ("create namespace", "words"),
        ("copy table", "words.words"),
    ]
    assert filled.json("copy", target, "--under", "air.words", "--into", "words") == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["count", "air.word"], 3, "Did you mean air.words?"),
        (["ls", "nowhere"], 3, "There is no namespace nowhere"),
        (["ns", "create", "air"], 4, "already"),
        (["ns", "drop", "air"], 4, "not empty"),
        (["ns", "create", "a$b"], 2, "not allowed"),
        (["head", "air.words", "-w", "nonsense ("], 2, ""),
        (["--as-of", "yesterday", "ls"], 2, "is not a moment"),
        (["lss"], 2, "Did you mean `ls`?"),
        (["-P", "rooot=x", "ls"], 2, "There is no property `rooot`"),
        (["-P", "jobz=spark", "ls"], 2, "Did you mean `jobs`?"),
        (["-p", "nobody", "ls"], 2, "There is no profile"),
    ],
)
def test_an_error_says_what_to_do_and_has_an_exit_code(
    filled: Run, arguments: list[str], code: int, words: str
) -> None:
    found, _, err = filled(*arguments)

    assert found == code, err
    assert words in err
    assert "Traceback" not in err


def test_a_profile_names_a_catalog(
    filled: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.dev]\nroot = "{tmp_path / "lake"}"\nauthor = "ada"\n')
    monkeypatch.setenv("LAKEROOT_CONFIG", str(config))

    main(["-p", "dev", "-o", "json", "ls", "-a"])

    assert json.loads(capsys.readouterr().out)[0]["name"] == "air.words"


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    assert isinstance(lakeroot, LazyGroup)
    command = lakeroot.commands.get(name) or lakeroot.get_command(None, name)  # type: ignore[arg-type]

    assert command is not None
    assert command.help
