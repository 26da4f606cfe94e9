"""The examples of the documentation, run as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/directory.md",
    "docs/tables.md",
    "docs/fsck.md",
    "docs/metastore.md",
    "docs/undo.md",
    "docs/versions.md",
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    found = [
        (f"{page}:{text[: block.start()].count(chr(10)) + 1}", block[1])
        for page in PAGES
        for text in [(PROJECT / page).read_text()]
        for block in BLOCK.finditer(text)
    ]
    assert found, "the pages have no examples"
    return found


@pytest.mark.parametrize(("place", "code"), examples(), ids=lambda value: value.splitlines()[0])
def test_an_example_of_the_documentation_runs(place: str, code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"{place}\n{done.stderr}"


SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", SHELL.findall((PROJECT / "README.md").read_text()))
def test_a_shell_session_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@pytest.mark.parametrize(
    "page",
    sorted(
        str(path.relative_to(PROJECT))
        for path in [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")]
    ),
)
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    folder = (PROJECT / page).parent
    targets = LINK.findall((PROJECT / page).read_text())

    assert [target for target in targets if not (folder / target).exists()] == []
