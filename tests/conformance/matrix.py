"""Print what each store can do, by the markers: `python -m tests.conformance.matrix`."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.stores import STORES


def cannots() -> Iterator[tuple[str, str, list[str], str]]:
    """Give every promise that some store does not keep: file, promise, stores, reason."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.conformance.{file.stem}")
        for name, function in vars(module).items():
            if not name.startswith("test_") or function.__module__ != module.__name__:
                continue
            for marker in getattr(function, "pytestmark", []):
                if isinstance(marker, pytest.Mark) and marker.name == "never":
                    yield file.stem, name, marker.args[0], marker.kwargs["reason"]


def matrix() -> str:
    """Write the support matrix as Markdown."""
    reasons: dict[tuple[str, str], tuple[list[str], int]] = {}
    for part, _, stores, reason in cannots():
        _, count = reasons.get((part, reason), ([], 0))
        reasons[part, reason] = (stores, count + 1)
    lines = [
        "| part | " + " | ".join(STORES) + " | why not |",
        "|---|" + "---|" * len(STORES) + "---|",
    ]
    for (part, reason), (stores, count) in reasons.items():
        cells = [f"{count} never" if store in stores else "yes" for store in STORES]
        title = part.removeprefix("test_").replace("_", " ")
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {reason} |")
    lines.append("")
    lines.append("Every other promise of the suite is kept by every store.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(matrix() + "\n")
