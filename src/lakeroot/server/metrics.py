"""What the server counts, in the text format of Prometheus.

Every worker counts for itself and leaves its numbers in a directory of the whole server once a
second; whichever worker is asked adds them all up. Counters of workers that ended stay counted.
"""

import contextlib
import json
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
_HELP: Final = {
    "lakeroot_requests_total": "Requests answered, by face, operation and status.",
    "lakeroot_request_seconds": "Time from the request line to the last byte of the answer.",
    "lakeroot_refused_total": "Requests refused by a limit or for lack of rights.",
    "lakeroot_requests_in_flight": "Requests being worked on.",
}


class Metrics:
    """The counters of one worker."""

    def __init__(self, shared: Path | None = None) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[tuple[str, str], list[float]] = {}
        self._refused: Counter[str] = Counter()
        self.in_flight = 0
        self._shared = shared

    def count(self, face: str, operation: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._requests[face, operation, status] += 1
        times = self._seconds.get((face, operation))
        if times is None:
            times = self._seconds[face, operation] = [0.0] * (len(_BUCKETS) + 2)
        times[-1] += seconds
        times[-2] += 1
        place = bisect_left(_BUCKETS, seconds)
        if place < len(_BUCKETS):
            times[place] += 1

    def refuse(self, reason: str) -> None:
        """Count one refusal."""
        self._refused[reason] += 1

    def publish(self) -> None:
        """Leave the numbers where the other workers can read them."""
        if self._shared is None:
            return
        target = self._shared / f"{os.getpid()}.json"
        fresh = target.with_suffix(".new")
        fresh.write_text(json.dumps(self._state()))
        fresh.replace(target)

    def text(self) -> str:
        """Write the numbers of all workers as Prometheus reads them."""
        states = [self._state(), *self._others()]
        lines: list[str] = []
        _counters(
            lines, "lakeroot_requests_total", states, "requests", ("face", "operation", "status")
        )
        _counters(lines, "lakeroot_refused_total", states, "refused", ("reason",))
        _histogram(lines, states)
        lines += [f"# HELP lakeroot_requests_in_flight {_HELP['lakeroot_requests_in_flight']}"]
        lines += ["# TYPE lakeroot_requests_in_flight gauge"]
        lines += [f"lakeroot_requests_in_flight {sum(s['in_flight'] for s in states)}"]
        return "\n".join(lines) + "\n"

    def _state(self) -> dict[str, Any]:
        return {
            "requests": [[*map(str, key), n] for key, n in self._requests.items()],
            "refused": [[key, n] for key, n in self._refused.items()],
            "seconds": [[*key, *times] for key, times in self._seconds.items()],
            "in_flight": self.in_flight,
        }

    def _others(self) -> Iterable[dict[str, Any]]:
        if self._shared is None:
            return
        for file in sorted(self._shared.glob("*.json")):
            if file.stem != str(os.getpid()):
                # The numbers of a worker that is gone, or whose file is damaged, are left out.
                with contextlib.suppress(OSError, ValueError):
                    yield json.loads(file.read_text())


def _counters(
    lines: list[str], name: str, states: list[dict[str, Any]], field: str, labels: tuple[str, ...]
) -> None:
    total: Counter[tuple[str, ...]] = Counter()
    for state in states:
        for *key, number in state[field]:
            total[tuple(key)] += number
    lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} counter"]
    for found, number in sorted(total.items()):
        lines.append(f"{name}{_labels(dict(zip(labels, found, strict=True)))} {number}")


def _histogram(lines: list[str], states: list[dict[str, Any]]) -> None:
    name = "lakeroot_request_seconds"
    total: dict[tuple[str, str], list[float]] = {}
    for state in states:
        for face, operation, *times in state["seconds"]:
            before = total.get((face, operation), [0.0] * len(times))
            total[face, operation] = [a + b for a, b in zip(before, times, strict=True)]
    lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} histogram"]
    for (face, operation), times in sorted(total.items()):
        labels = {"face": face, "operation": operation}
        reached = 0.0
        for bound, number in zip(_BUCKETS, times, strict=False):
            reached += number
            lines.append(f"{name}_bucket{_labels({**labels, 'le': f'{bound:g}'})} {reached:g}")
        lines.append(f"{name}_bucket{_labels({**labels, 'le': '+Inf'})} {times[-2]:g}")
        lines.append(f"{name}_sum{_labels(labels)} {times[-1]:.6f}")
        lines.append(f"{name}_count{_labels(labels)} {times[-2]:g}")


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
