"""Shells complete real names, by the protocol that the shells speak."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakeroot

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    lake = lakeroot.open(str(root))
    for name in ("air", "air.deep", "archive"):
        lake.create_namespace(name)
    for name in ("air.flights", "air.airports", "lost"):
        lake.create_table(name, [{"n": 1}])
    lake.namespace.deregister_table({"id": ["lost"]})
    (root / "config.toml").write_text(f'[profiles.dev]\nroot = "{root}"\n')
    return root


def environment(root: Path, **more: str) -> dict[str, str]:
    mine = {key: value for key, value in os.environ.items() if not key.startswith("LAKEROOT")}
    path = f"{BIN}:{os.environ['PATH']}"
    return {**mine, "PATH": path, "LAKEROOT_CONFIG": str(root / "config.toml"), **more}


def in_bash(root: Path, *words: str) -> list[str]:
    """Press the tab key in a real bash, after these words."""
    script = """
        eval "$(_LAKEROOT_COMPLETE=bash_source lakeroot)"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _lakeroot_completion lakeroot
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", script, "bash", "lakeroot", *words],
        env=environment(root),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stderr
    return done.stdout.split()


def in_zsh(root: Path, *words: str) -> list[str]:
    """Ask as the function does that zsh loads: three lines for each offer."""
    done = subprocess.run(
        ["lakeroot"],
        env=environment(
            root,
            _LAKEROOT_COMPLETE="zsh_complete",
            COMP_WORDS=" ".join(["lakeroot", *words]),
            COMP_CWORD=str(len(words)),
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[1::3]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["head", "air."], ["air.airports", "air.flights"]),
        (["table", "drop", "air.f"], ["air.flights"]),
        (["ls", "a"], ["air", "archive"]),
        (["ls", "air."], ["air.deep"]),
        (["undrop", ""], ["lost"]),
        (["count", "nothing"], []),
    ],
    ids=lambda value: " ".join(value),
)
def test_names_of_the_catalog_are_offered(root: Path, words: list[str], offered: list[str]) -> None:
    assert in_bash(root, "-r", str(root), *words) == offered
    assert in_zsh(root, "-p", "dev", *words) == offered


def test_commands_and_profiles_are_offered(root: Path) -> None:
    assert in_bash(root, "ver") == ["version"]
    assert in_zsh(root, "version", "s") == ["show"]
    assert in_bash(root, "-p", "d") == ["dev"]


def test_a_catalog_that_cannot_be_opened_offers_nothing_and_says_nothing(root: Path) -> None:
    assert in_bash(root, "-p", "nobody", "head", "a") == []
    assert in_zsh(root, "-P", "rooot=x", "head", "a") == []
