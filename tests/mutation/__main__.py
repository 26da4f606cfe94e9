"""Make mistakes in the core modules, one at a time, and see whether a test notices.

``python -m tests.mutation --sample 300 --seed 1`` writes ``artifacts/mutation.json`` and prints the
table of docs/trust.md; with ``--docs`` it puts the table there.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.docs.sections import put_section
from tests.mutation.modules import CORE, LEFT_OUT, MODULES, PROJECT, SOURCE, TESTS, room_of
from tests.mutation.mutants import Mutant, mutants_of

ARTIFACTS = PROJECT / "artifacts"
LINES = ARTIFACTS / "mutation-lines.json"
RESULT = ARTIFACTS / "mutation.json"
PYTEST: tuple[str, ...] = (sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.plugin")
PYTEST += ("-p", "no:cacheprovider", "--no-header")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40, help="of tests for each mistake")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--module", default="", help="only modules with this in their name")
    parser.add_argument("--anew", action="store_true", help="look anew which test runs what")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/trust.md")
    asked = parser.parse_args()
    ARTIFACTS.mkdir(exist_ok=True)
    if asked.anew or not LINES.exists():
        see_lines()
    tests = json.loads(LINES.read_text(encoding="utf-8"))
    chosen = sample(asked.sample, asked.seed, asked.module)
    results = []
    with ThreadPoolExecutor(asked.at_once) as pool:
        for mutant, outcome in pool.map(lambda one: tried(one, tests, asked.seconds), chosen):
            results.append({"name": mutant.name, **outcome})
            say(f"{len(results)}/{len(chosen)} {outcome['outcome']:9} {mutant.module}")
            say(f":{mutant.line} {mutant.what}\n")
    told = {"seed": asked.seed, "results": results}
    RESULT.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    say("\n" + table(results, asked.seed))
    if asked.docs:
        put_section("mutation", table(results, asked.seed))


def sample(count: int, seed: int, only: str = "") -> list[Mutant]:
    """Choose mistakes, the same ones for the same seed and the same code."""
    found = [
        mutant
        for module in MODULES
        if only in module
        for mutant in mutants_of(module, source_of(module))
    ]
    return random.Random(seed).sample(found, min(count, len(found)))


def source_of(module: str) -> str:
    return (SOURCE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def see_lines() -> None:
    """Run the tests once as they are, and note which lines of the core each of them runs."""
    LINES.unlink(missing_ok=True)
    environment = {**os.environ, "LAKEROOT_LINES": str(LINES)}
    command = [*PYTEST, *TESTS, "-k", f"not ({LEFT_OUT})"]
    subprocess.run(command, cwd=PROJECT, env=environment, check=False)
    if not LINES.exists():
        sys.exit("The tests did not run; nothing can be learned from them")


def tried(mutant: Mutant, tests: dict[str, Any], most_seconds: float) -> tuple[Mutant, Any]:
    """Run the tests that reach a mistake: a few first, and more if those do not notice it."""
    reached = {
        name: told["seconds"]
        for name, told in tests.items()
        if mutant.line in told["lines"].get(mutant.module, ())
    }
    known = {"line": mutant.line, "what": mutant.what}
    if not reached:
        return mutant, {**known, "outcome": "unreached", "by": ""}
    ordered = spread(reached)
    few = within(ordered, most_seconds / 5)
    outcome = run(mutant, [name for name, _ in few], 10 * most_seconds + 120)
    more = within(ordered, most_seconds)[len(few) :]
    if outcome["outcome"] == "survived" and more:
        outcome = run(mutant, [name for name, _ in more], 10 * most_seconds + 120)
    return mutant, {**known, **outcome}


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


def run(mutant: Mutant, tests: list[str], limit: float) -> dict[str, Any]:
    """Run tests with a mistake, until one of them notices it."""
    # Other plugins take longer to load than most tests take to run.
    own = {"LAKEROOT_MUTANT": mutant.name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    process = subprocess.Popen(
        [*PYTEST, "-p", "pytest_timeout", "-x", "--tb=no", *tests],
        cwd=PROJECT,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return {"outcome": "killed", "by": "it never ended", "tests": len(tests)}
    by = next((line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    return {
        "outcome": "survived" if process.returncode == 0 else "killed",
        "by": by or f"leaves with {process.returncode}" * bool(process.returncode),
        "tests": len(tests),
    }


def spread(reached: dict[str, float]) -> list[tuple[str, float]]:
    """Order tests so that every file has its turn, its quickest tests first."""
    files: dict[str, list[tuple[str, float]]] = {}
    for name, seconds in sorted(reached.items(), key=lambda one: one[1]):
        files.setdefault(Path(name.partition("::")[0]).name, []).append((name, seconds))
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
