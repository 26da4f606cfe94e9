"""People who wait see how far it is; pipes and scripts see nothing of it."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakeroot
from lakeroot.model.progress import counted, each, listening

LAKEROOT = str(Path(sys.executable).with_name("lakeroot"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lake = lakeroot.open(str(tmp_path / "lake"))
    lake.create_namespace("air")
    for name in ("a", "b", "c"):
        lake.create_table(f"air.{name}", pa.table({"x": [1, 2, 3]}))
    return tmp_path / "lake"


def on_a_terminal(root: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command whose messages go to a terminal; its answer still goes into a pipe."""
    ours, theirs = pty.openpty()
    command = [LAKEROOT, "-r", str(root), *arguments]
    plain = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=plain) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # On Linux that is how the other end says goodbye.
                break
            if not piece:
                break
            said += piece
        assert process.stdout is not None
        answer = process.stdout.read().decode()
    os.close(ours)
    return process.returncode, answer, said.decode()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fsck"], "Checking tables"),
        (["migrate"], "Looking at tables"),
        (["sync", "{other}", "--copy-data"], "Carrying over"),
        (["table", "copy", "air.a", "air.d"], "Copying files"),
    ],
)
def test_a_person_sees_how_far_it_is(
    root: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    filled = [one.replace("{other}", str(tmp_path / "other")) for one in arguments]

    code, answer, said = on_a_terminal(root, *filled)

    assert code == 0
    assert words in said
    assert words not in answer


def test_a_script_sees_nothing_of_it(root: Path) -> None:
    command = [LAKEROOT, "-r", str(root), "-o", "json", "fsck"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
    assert done.stderr == ""


def test_whoever_listens_is_told_of_every_part() -> None:
    told: list[tuple[str, int, int]] = []
    with listening(lambda doing, done, total: told.append((doing, done, total))):
        assert list(each([7, 8], "Counting")) == [7, 8]
        assert list(counted(iter("ab"), "Spelling", 2)) == ["a", "b"]
    assert list(each([9], "Unheard")) == [9]

    assert told == [
        *[("Counting", done, 2) for done in range(3)],
        *[("Spelling", done, 2) for done in range(3)],
    ]
