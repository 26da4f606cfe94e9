"""Make long histories on every catalog, judge them, and print the figures.

python -m tests.histories [--calls 20000] [--seeds 3] [catalog ...]
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.histories.catalogs import KINDS
from tests.histories.ledgers import LEDGERS, transact
from tests.histories.running import Judged, by_processes, by_threads

Run = Callable[[str, Path, int, int], Judged]
_PART = {"dir-managed": 20}
"""How much less is asked of transactions on rows: each writes data files of its own."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("catalogs", nargs="*", default=[])
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    chosen = given.catalogs or list(KINDS)
    _tell("| catalog | clients | calls | no answer | given up | seconds | unexplained |")
    _tell("|---|---|---|---|---|---|---|")
    failed = False
    for catalog in chosen:
        runs: list[tuple[str, Run, int]] = [("6 threads", by_threads, given.calls)]
        if catalog != "memory":
            runs.append(("3 processes, one killed", by_processes, given.calls // 4))
        if catalog in LEDGERS:
            runs.append(("4 transacting", transact, given.calls // 2 // _PART.get(catalog, 1)))
        for clients, run, calls in runs:
            failed |= _run(catalog, clients, run, calls, given.seeds)
    return int(failed)


def _run(catalog: str, clients: str, run: Run, calls: int, seeds: int) -> bool:
    whole = Judged()
    for seed in range(seeds):
        directory = Path(tempfile.mkdtemp(prefix="lakeroot-histories-"))
        try:
            found = run(catalog, directory, seed, calls)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        whole.calls += found.calls
        whole.unknown += found.unknown
        whole.given_up += found.given_up
        whole.seconds += found.seconds
        for text in [*found.strange, *found.wrong]:
            sys.stderr.write(f"seed {seed}: {text}\n")
        whole.strange += found.strange
        whole.wrong += found.wrong
    _tell(
        f"| {catalog} | {clients} | {whole.calls:,} | {whole.unknown} | {whole.given_up} "
        f"| {whole.seconds:.0f} | {len(whole.wrong) + len(whole.strange)} |"
    )
    return bool(whole.wrong or whole.strange)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
