"""Run the benchmarks: ``python -m benchmarks [--only directory] [--quick]``.

A benchmark is a module ``<part>_<what>.py`` of this package with a ``TITLE``, a ``PEER`` and a
function ``run(*, quick: bool) -> Iterable[Row]``.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

from benchmarks.report import heading, line, machine


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--only", action="append", default=[], help="names that start like this")
    parser.add_argument("--quick", action="store_true", help="small catalogs, few repetitions")
    parser.add_argument("--list", action="store_true", help="show the names and stop")
    options = parser.parse_args(arguments)
    chosen = [name for name in names() if not options.only or name.startswith(tuple(options.only))]
    if not chosen:
        parser.error(f"there is no such benchmark; there are {', '.join(names())}")
    if options.list:
        print("\n".join(chosen))
        return 0
    print(f"Measured {machine()}: `python -m benchmarks {' '.join(arguments)}`\n", flush=True)
    for name in chosen:
        start = time.monotonic()
        module = importlib.import_module(f"benchmarks.{name}")
        print(heading(module.TITLE, module.PEER), flush=True)
        for row in module.run(quick=options.quick):
            print(line(row), flush=True)
        print(flush=True)
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return 0


def names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*_*.py"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
