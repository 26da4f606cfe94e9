"""The examples of the documentation, run as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
# Their examples talk to a server, a cluster or a catalog on the network, which their own suites
# (tests/server, tests/spark/test_guide.py, tests/iceberg) run for real.
ELSEWHERE = frozenset({"docs/iceberg.md", "docs/server.md", "docs/spark.md"})
PAGES = [
    "README.md",
    *sorted(
        page
        for page in (str(path.relative_to(PROJECT)) for path in PROJECT.glob("docs/*.md"))
        if page not in ELSEWHERE
    ),
]


def blocks(language: str) -> list[tuple[str, str]]:
    """Give the examples of a language: where they are, and what they say."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    found = [
        (f"{page}:{text[: block.start()].count(chr(10)) + 1}", block[1])
        for page in PAGES
        for text in [(PROJECT / page).read_text()]
        for block in fence.finditer(text)
    ]
    assert found, "the pages have no examples"
    return found


def run(place: str, folder: Path, *command: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    mine = {k: v for k, v in os.environ.items() if not k.startswith("LAKEROOT_")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**mine, "PATH": path, "LAKEROOT_CONFIG": str(folder / "none.toml")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"{place}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(("place", "code"), blocks("python"), ids=lambda text: text.split("\n")[0])
def test_an_example_of_the_documentation_runs(place: str, code: str, tmp_path: Path) -> None:
    warnings = "error::DeprecationWarning:__main__"
    run(place, tmp_path, sys.executable, "-W", warnings, "-c", code)


@pytest.mark.parametrize(("place", "code"), blocks("sh"), ids=lambda text: text.split("\n")[0])
def test_a_shell_session_of_the_documentation_runs(place: str, code: str, tmp_path: Path) -> None:
    run(place, tmp_path, "bash", "-euo", "pipefail", "-c", code)


LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.mark.parametrize(
    "page",
    sorted(
        str(path.relative_to(PROJECT))
        for path in [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")]
    ),
)
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    folder = (PROJECT / page).parent
    broken = []
    for target, anchor in LINK.findall((PROJECT / page).read_text()):
        place = folder / target if target else PROJECT / page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(f"{target}#{anchor}")

    assert broken == []


def anchors(page: Path) -> set[str]:
    """Give the anchors that the headings of a page become."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
