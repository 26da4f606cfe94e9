"""Make mistakes in the core modules, one at a time, and see whether a test notices.

``python -m tests.mutation --sample 300 --seed 1`` writes ``artifacts/mutation.json`` and prints the
table of docs/trust.md; with ``--docs`` it puts the table there.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.docs.sections import put_section
from tests.mutation.equivalent import SAME
from tests.mutation.lines import PYTEST, Seen, reaching, see_lines
from tests.mutation.modules import (
    ARTIFACTS,
    CORE,
    HOMES,
    MODULES,
    PROJECT,
    TESTS,
    room_of,
    source_of,
)
from tests.mutation.mutants import Mutant, mutants_of

RESULT = ARTIFACTS / "mutation.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="of tests for each mistake")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--module", default="", help="only modules with this in their name")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="only these files and folders")
    parser.add_argument("--again", action="store_true", help="try again what was not noticed")
    parser.add_argument("--see", action="store_true", help="only look which test runs what")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/trust.md")
    asked = parser.parse_args()
    ARTIFACTS.mkdir(exist_ok=True)
    tests = see_lines(asked.at_once, asked.tests)
    if asked.see:
        return
    chosen = sample(asked.sample, asked.seed, asked.module)
    known = remembered()
    left = [one for one in chosen if not is_known(known.get(one.name), one, again=asked.again)]
    say(f"{len(chosen)} mistakes, {len(chosen) - len(left)} of them known from before\n")
    with ThreadPoolExecutor(asked.at_once) as pool:
        for mutant, outcome in pool.map(lambda one: tried(one, tests, asked.seconds), left):
            known[mutant.name] = {"name": mutant.name, **outcome}
            RESULT.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
            say(f"{outcome['outcome']:9} {mutant.name} (line {mutant.line}): {mutant.what}\n")
    results = [known[mutant.name] for mutant in chosen]
    say("\n" + table(results, asked.seed))
    if asked.docs:
        put_section("mutation", table(results, asked.seed))


def sample(count: int, seed: int, only: str = "") -> list[Mutant]:
    """Choose mistakes, the same ones for the same seed, also after a change of other functions."""
    found = [
        mutant
        for module in MODULES
        if only in module
        for mutant in mutants_of(module, source_of(module))
        if (mutant.name, mutant.text) not in SAME
    ]
    return sorted(found, key=lambda one: _lot(seed, one))[:count]


def _lot(seed: int, mutant: Mutant) -> bytes:
    return hashlib.sha256(f"{seed} {mutant.name} {mutant.digest}".encode()).digest()


def remembered() -> dict[str, Any]:
    """Read what earlier runs have found: a run that was cut off goes on where it was."""
    if not RESULT.exists():
        return {}
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def is_known(found: dict[str, Any] | None, mutant: Mutant, *, again: bool) -> bool:
    """Tell whether what was found still holds: the function is the same, or it is tried again."""
    if found is None or (found["digest"], found["what"]) != (mutant.digest, mutant.what):
        return False
    return found["outcome"] == "killed" or not again


def tried(mutant: Mutant, tests: Seen, most_seconds: float) -> tuple[Mutant, Any]:
    """Run the tests that reach a mistake: a few first, and more if those do not notice it."""
    known = {"line": mutant.line, "what": mutant.what, "digest": mutant.digest}
    ordered = spread(reaching(tests, mutant), HOMES[room_of(mutant.module)])
    if not ordered:
        return mutant, {**known, "outcome": "unreached", "by": ""}
    outcome: dict[str, Any] = {}
    done = 0
    for seconds in (most_seconds / 8, most_seconds):
        some = within(ordered, seconds)[done:]
        done += len(some)
        if some:
            outcome = run(mutant, some)
        if outcome["outcome"] == "killed":
            break
    return mutant, {**known, **outcome, "tests": done, "of": len(ordered)}


def within(tests: list[tuple[str, float]], most_seconds: float) -> list[tuple[str, float]]:
    """Take the first tests, as many as there is time for, and at least one."""
    total = 0.0
    taken: list[tuple[str, float]] = []
    for name, seconds in tests:
        total += seconds
        if taken and total > most_seconds:
            break
        taken.append((name, seconds))
    return taken


def run(mutant: Mutant, tests: list[tuple[str, float]]) -> dict[str, Any]:
    """Run tests with a mistake, until one of them notices it."""
    # Other plugins take longer to load than most tests take to run.
    own = {"LAKEROOT_MUTANT": mutant.name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # A test that takes ten times as long as it should has noticed: something never ends.
    longest = 30 + 10 * max(seconds for _, seconds in tests)
    command = [*PYTEST, "-p", "pytest_timeout", "--timeout", f"{longest:.0f}", "-x", "--tb=no"]
    process = subprocess.Popen(
        [*command, *(name for name, _ in tests)],
        cwd=PROJECT,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,  # of its own, to be killed with all it has started
    )
    try:
        out, _ = process.communicate(timeout=120 + 10 * sum(seconds for _, seconds in tests))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return {"outcome": "killed", "by": "it never ended"}
    by = next((line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    return {
        "outcome": "survived" if process.returncode == 0 else "killed",
        "by": by or f"leaves with {process.returncode}" * bool(process.returncode),
    }


def spread(reached: dict[str, float], home: str) -> list[tuple[str, float]]:
    """Order tests so that every file has its turn, those at home and the quickest first."""
    files: dict[str, list[tuple[str, float]]] = {}
    by_home = sorted(reached, key=lambda name: (not name.startswith(home), reached[name]))
    for name in by_home:
        files.setdefault(Path(name.partition("::")[0]).name, []).append((name, reached[name]))
    ordered = []
    while files:
        for file in list(files):
            ordered.append(files[file].pop(0))
            if not files[file]:
                del files[file]
    return ordered


def table(results: list[dict[str, Any]], seed: int) -> str:
    """Sum the results up, one line for each part of the code."""
    counted: dict[str, Counter[str]] = {room: Counter() for room in CORE}
    for one in results:
        counted[room_of(one["name"].partition(":")[0])][one["outcome"]] += 1
    lines = [
        "| part | mistakes | noticed | not noticed | reached by no test |",
        "|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for room, outcomes in counted.items():
        total += outcomes
        lines.append(_row(f"`{room}`", outcomes))
    lines.append(_row(f"together (seed {seed})", total))
    return "\n".join(lines) + "\n"


def _row(name: str, outcomes: Counter[str]) -> str:
    whole = sum(outcomes.values())
    share = 100 * outcomes["killed"] / whole if whole else 0
    noticed = f"{outcomes['killed']} ({share:.0f} %)"
    return f"| {name} | {whole} | {noticed} | {outcomes['survived']} | {outcomes['unreached']} |"


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
