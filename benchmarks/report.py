"""What a benchmark says: our figure beside the peer's, as a ratio against a bar."""

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

LOWER, HIGHER = "lower is better", "higher is better"


@dataclass(frozen=True)
class Row:
    """One measurement of two implementations, made in the same run."""

    what: str
    size: str
    ours: float
    peer: float | None
    unit: str
    bar: float | None = None
    better: str = LOWER
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Tell how many times better ours is."""
        if self.peer is None:
            return None
        good, bad = (self.ours, self.peer) if self.better == LOWER else (self.peer, self.ours)
        return bad / good if good else float("inf")

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        value = self.ours if self.ratio is None else self.ratio
        return "met" if value >= self.bar else "**missed**"


def heading(title: str, peer: str) -> str:
    """Write the head of a Markdown table."""
    columns = f"| measure | size | lakeroot | {peer} | ratio | bar | |"
    return f"### {title}\n\n{columns}\n|---|---|---|---|---|---|---|"


def line(row: Row) -> str:
    """Write a measurement as a line of a Markdown table."""
    ratio = "" if row.ratio is None else f"{_figure(row.ratio)}x"
    bar = "" if row.bar is None else f"≥ {row.bar:g}x"
    theirs = "" if row.peer is None else f"{_figure(row.peer)} {row.unit}"
    note = " ".join(filter(None, (row.verdict, row.note)))
    ours = f"{_figure(row.ours)} {row.unit}"
    return f"| {row.what} | {row.size} | {ours} | {theirs} | {ratio} | {bar} | {note} |"


def machine() -> str:
    """Say where and with what the figures were made."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = f"{len(names)} x {names[0].partition(':')[2].strip()}" if names else cpu
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("lakeroot", "pylance"))
    day = datetime.now(UTC).date().isoformat()
    return f"{day}, {cpu}, Python {platform.python_version()}, {versions}"


def interleaved(
    ours: Callable[[int], object],
    peer: Callable[[int], object],
    *,
    rounds: int,
    calls: tuple[int, int] = (1, 1),
) -> tuple[float, float]:
    """Time two calls in turns, and give the median milliseconds of one call of each.

    Each call gets a serial number, so that it can use a name of its own. Several calls may make
    up a turn where one would be too short to be timed.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    serials = [0, 0]
    for _ in range(rounds):
        for side, call in enumerate((ours, peer)):
            start = time.perf_counter()
            for _ in range(calls[side]):
                call(serials[side])
                serials[side] += 1
            taken[side].append((time.perf_counter() - start) * 1000 / calls[side])
    return statistics.median(taken[0]), statistics.median(taken[1])


def asking(operation: Callable[[Any], object], requests: Sequence[Any]) -> Callable[[int], object]:
    """Make a call that sends one request after the other, and starts over after the last."""
    return lambda serial: operation(requests[serial % len(requests)])


def seconds_of_process(code: str, repeats: int) -> float:
    """Give the median wall time of a fresh Python process that runs some code."""
    taken: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def size_label(objects: int) -> str:
    """Write a number of objects shortly."""
    return f"{objects // 1000}k" if objects >= 1000 else str(objects)


def _figure(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
