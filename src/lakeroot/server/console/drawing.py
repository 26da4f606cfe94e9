"""Small pictures as numbers: what the templates put into inline SVG."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

SKETCH_BARS: Final = 32
SKETCH_HEIGHT: Final = 24
MOST_LANES: Final = 24
SKETCH_WIDTH: Final = 97
_WIDEST_STEP: Final = 12


def sketch(values: Sequence[Any]) -> str:
    """Draw a vector as bars around a line, the path of an SVG; long ones are averaged."""
    numbers = [float(v) if isinstance(v, int | float) else 0.0 for v in values]
    if not numbers:
        return ""
    bars = min(SKETCH_BARS, len(numbers))
    edges = [len(numbers) * i // bars for i in range(bars + 1)]
    heights = [sum(numbers[a:b]) / (b - a) for a, b in pairwise(edges) if b > a]
    tallest = max((abs(h) for h in heights), default=0.0) or 1.0
    middle = SKETCH_HEIGHT / 2
    step = min(_WIDEST_STEP, (SKETCH_WIDTH - 1) // len(heights))
    return "".join(
        f"M{i * step + 1:g} {middle:g}v{-h / tallest * (middle - 1) or -0.4:.1f}"
        for i, h in enumerate(heights)
    )


def line(points: Sequence[tuple[int, int]], width: int = 760, height: int = 150) -> dict[str, Any]:
    """Draw numbers over positions: an SVG path, its area, and where each point is."""
    if not points:
        return {"path": "", "area": "", "points": [], "width": width, "height": height, "most": 0}
    ordered = sorted(points)
    first, last = ordered[0][0], ordered[-1][0]
    most = max(value for _, value in ordered) or 1
    pad = 10

    def x(position: int) -> float:
        share = (position - first) / (last - first) if last > first else 0.5
        return round(pad + share * (width - 2 * pad), 1)

    def y(value: int) -> float:
        return round(height - pad - value / most * (height - 2 * pad), 1)

    spots = [(x(at), y(value)) for at, value in ordered]
    path = f"M{spots[0][0]} {spots[0][1]}" + "".join(f"H{a}V{b}" for a, b in spots[1:])
    area = f"{path}V{height - pad}H{spots[0][0]}Z"
    return {
        "path": path,
        "area": area,
        "points": [
            {"x": a, "y": b, "at": at, "value": value}
            for (a, b), (at, value) in zip(spots, ordered, strict=True)
        ],
        "width": width,
        "height": height,
        "most": most,
    }


def lanes(commits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Lay commits out as columns, oldest first, and objects as lanes, the busiest first."""
    marks: dict[tuple[str, ...], list[tuple[int, str, int]]] = {}
    ordered = sorted(commits, key=lambda commit: int(commit["version"]))
    for column, commit in enumerate(ordered):
        for mark, names in _marks(commit):
            marks.setdefault(names, []).append((column, mark, int(commit["version"])))
    busiest = sorted(marks, key=lambda names: (-len(marks[names]), names))[:MOST_LANES]
    gap, left, top, row = _gap(len(ordered)), 210, 34, 24
    drawn = [
        {
            "names": list(names),
            "y": top + at * row,
            "from": left + marks[names][0][0] * gap,
            "to": left + marks[names][-1][0] * gap,
            "marks": [{"x": left + c * gap, "kind": k, "version": v} for c, k, v in marks[names]],
        }
        for at, names in enumerate(sorted(busiest))
    ]
    return {
        "lanes": drawn,
        "left_out": len(marks) - len(busiest),
        "columns": [
            {"x": left + i * gap, "version": commit["version"]} for i, commit in enumerate(ordered)
        ],
        "gap": gap,
        "width": left + max(len(ordered), 1) * gap + 10,
        "height": top + len(drawn) * row + 8,
    }


def _gap(columns: int) -> int:
    return max(16, min(40, 760 // max(columns, 1)))


def _marks(commit: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    kinds = ("created", "altered", "removed")
    found = [(kind, tuple(names)) for kind in kinds for names in commit[kind]]
    known = {names for _, names in found}
    versions = {tuple(one["id"]) for one in commit["versions"]}
    return found + [("version", names) for names in sorted(versions - known)]
