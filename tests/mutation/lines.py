"""Which test runs which lines of the core: seen once, and again where a file changes."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.mutation.modules import ARTIFACTS, LEFT_OUT, MODULES, PROJECT, TESTS, source_of
from tests.mutation.mutants import Mutant

LINES = ARTIFACTS / "mutation-lines"
PYTEST: tuple[str, ...] = (sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.plugin")
PYTEST += ("-p", "no:cacheprovider", "--no-header")
Seen = dict[str, dict[str, Any]]
"""By test: how many seconds it takes, and the lines of each module that it runs."""


def see_lines(at_once: int = 1, only: Sequence[str] = TESTS) -> Seen:
    """Run the tests as they are, unless that was done, and note the lines that each runs."""
    LINES.mkdir(parents=True, exist_ok=True)
    files = list(files_of_tests(only))
    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(_seen, files))
    return {name: told for tests in found for name, told in tests.items()}


def files_of_tests(only: Sequence[str] = TESTS) -> Iterator[Path]:
    """Walk the files of the tests that are run."""
    for place in (PROJECT / name for name in only):
        yield from [place] if place.is_file() else sorted(place.rglob("test_*.py"))


def _seen(file: Path) -> Seen:
    where = file.relative_to(PROJECT).as_posix()
    note = LINES / (where.replace("/", "-") + ".json")
    if note.exists():
        told: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
        if told["digest"] == _digest(file, told["tests"]):
            return dict(told["tests"])
    out = note.with_suffix(".new")
    out.unlink(missing_ok=True)
    sys.stdout.write(f"seeing what {where} runs\n")
    sys.stdout.flush()
    subprocess.run(
        [*PYTEST, where, "-k", f"not ({LEFT_OUT})"],
        cwd=PROJECT,
        env={**os.environ, "LAKEROOT_LINES": str(out)},
        check=False,
        stdout=subprocess.DEVNULL,
    )
    if not out.exists():
        sys.exit(f"{where} did not run; nothing can be learned from it")
    tests: Seen = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    note.write_text(json.dumps({"digest": _digest(file, tests), "tests": tests}), encoding="utf-8")
    return tests


def _digest(file: Path, tests: Seen) -> str:
    """Sum up what the lines depend on: the tests of a file, and the modules that they run."""
    modules = sorted({module for told in tests.values() for module in told["lines"]})
    known = [module for module in modules if module in MODULES]
    texts = [file.read_text(encoding="utf-8"), *known, *map(source_of, known)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def reaching(tests: Seen, mutant: Mutant) -> dict[str, float]:
    """Give the tests that run the line of a mistake, and how long each takes."""
    return {
        name: told["seconds"]
        for name, told in tests.items()
        if (lines := told["lines"].get(mutant.module))
        and (mutant.at_import or mutant.line in lines)
    }
