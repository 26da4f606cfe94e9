"""Commands that only look at names start quickly: they load nothing that is heavy."""

import json
import subprocess
import sys

import pytest

import lakeroot
from lakeroot.cli.app import _COMMANDS

HEAVY = (
    "boto3",
    "jinja2",
    "lance",
    "lance_namespace",
    "lancedb",
    "msgpack",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyiceberg",
    "pyspark",
    "rich",
    "urllib3",
    "uvicorn",
)
PROBE = """
import json, sys
from lakeroot.cli import main

code = 0
try:
    main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code or 0
print(json.dumps([code, [name for name in sys.modules if "." not in name]]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("lake"))
    lake = lakeroot.open(root)
    lake.create_namespace("air", {"owner": "ada"})
    lake.create_table("air.words", [{"n": 1}])
    return root


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["serve", "--help"],
        ["demo", "--help"],
        ["config", "list"],
        ["ls"],
        ["ls", "air"],
        ["ls", "--all"],
        ["-o", "json", "ls"],
        ["ns", "show", "air"],
        ["history"],
        ["undrop"],
        ["at", "1"],
        ["--as-of", "1", "ls"],
        ["copy", "--help"],
        ["job", "--help"],
    ],
    ids=" ".join,
)
def test_a_light_command_loads_nothing_heavy(root: str, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, "-r", root, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )

    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert sorted(set(HEAVY) & set(modules)) == []


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_help_says_of_a_command_what_the_command_says(name: str) -> None:
    from lakeroot.cli.app import lakeroot as group

    command = group.get_command(None, name)  # type: ignore[arg-type]

    assert command is not None
    assert _COMMANDS[name][1] == command.get_short_help_str(200)
