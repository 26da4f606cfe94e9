"""How long a light command takes, beyond the time in which Python starts and stops."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.report import Row
from lakeroot import DirectoryNamespace

TITLE = "Light commands, over Python itself"
PEER = "what they may take"
ALLOWED_MS = 150.0
COMMANDS = ("--help", "config list", "ls", "history", "ns show air")


def run(*, quick: bool) -> Iterable[Row]:
    program = str(Path(sys.executable).with_name("lakeroot"))
    with tempfile.TemporaryDirectory(prefix="lakeroot-bench-") as root:
        namespace = DirectoryNamespace(root=root)
        namespace.create_namespace({"id": ["air"]})
        namespace.declare_table({"id": ["air", "t"]})
        asked = {one: [program, "--root", root, *one.split()] for one in COMMANDS}
        taken = _in_turns({"": [sys.executable, "-c", "pass"], **asked}, 5 if quick else 25)
    for one in COMMANDS:
        yield Row(f"`lakeroot {one}`", "", taken[one] - taken[""], ALLOWED_MS, "ms", bar=1.0)


def _in_turns(commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            taken[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(each) for name, each in taken.items()}
