"""Print what each store can do, by the markers: `python -m tests.conformance.matrix`.

With `--readme`, the short form of it is written into the README, which a test compares.
"""

import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.stores import STORES

README: Final = Path(__file__).parents[2] / "README.md"
KINDS: Final = {
    "directory": ("dir-v2", "dir-compat"),
    "directory, V1 only": ("dir-v1",),
    "metastore": ("metastore",),
    "Iceberg REST": ("iceberg",),
}
"""What a reader calls the stores, by how their names begin."""
_PLACE: Final = re.compile(r"(?<=<!-- support matrix -->\n).*?(?=<!-- end -->)", re.DOTALL)
_FIXTURES: Final = frozenset({"store", "opened", "namespace", "lake", "other"})


def promises() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Give every promise of the suite: file, name, test."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.conformance.{file.stem}")
        for name, function in vars(module).items():
            if not name.startswith("test_") or function.__module__ != module.__name__:
                continue
            if _FIXTURES & set(inspect.signature(function).parameters):
                yield file.stem, name, function


def cannots() -> Iterator[tuple[str, str, list[str], str]]:
    """Give every promise that some store does not keep: file, promise, stores, reason."""
    for part, name, function in promises():
        for marker in getattr(function, "pytestmark", []):
            if isinstance(marker, pytest.Mark) and marker.name == "never":
                yield part, name, marker.args[0], marker.kwargs["reason"]


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


def summary() -> str:
    """Write the matrix for readers: which promises each kind of catalog keeps, and why not all."""
    made = Counter(part for part, _, _ in promises())
    broken: dict[str, set[tuple[str, str]]] = {kind: set() for kind in KINDS}
    reasons: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for part, name, stores, reason in cannots():
        for kind in KINDS:
            marked = [one in stores for one in stores_of(kind)]
            if any(marked) and not all(marked):
                raise ValueError(f"{name} is kept by some stores of the kind {kind!r} only")
            if any(marked):
                broken[kind].add((part, name))
                reasons[kind].add(reason)
    lines = [
        "| keeps the promises about | " + " | ".join(KINDS) + " |",
        "|---|" + "---|" * len(KINDS),
    ]
    for part, count in made.items():
        kept = [count - sum(one == part for one, _ in broken[kind]) for kind in KINDS]
        # Words, not numbers: a new test that everybody passes is no news for a reader.
        cells = ["yes" if n == count else "partly" if n else "no" for n in kept]
        title = part.removeprefix("test_").replace("_", " ")
        lines.append("| " + " | ".join([title, *cells]) + " |")
    whys = ["; ".join(sorted(reasons[kind])) for kind in KINDS]
    lines.append("| " + " | ".join(["why not all", *whys]) + " |")
    return "\n".join(lines) + "\n"


def stores_of(kind: str) -> list[str]:
    """Give the stores of a kind."""
    return [one for one in STORES if any(_begins(one, start) for start in KINDS[kind])]


def _begins(store: str, start: str) -> bool:
    return store == start or store.startswith(f"{start}-")


def in_readme() -> str:
    """Give what the README says now."""
    found = _PLACE.search(README.read_text())
    return found[0] if found else ""


if __name__ == "__main__":
    if "--readme" in sys.argv:
        README.write_text(_PLACE.sub(lambda _: summary(), README.read_text(), count=1))
    else:
        sys.stdout.write(matrix() + "\n")
