"""What the guide promises about rights, written down a second time, without looking at the code.

docs/server.md: a reader lists, describes and reads; a writer also creates, changes, renames and
drops tables and their rows, and creates namespaces; an admin also drops namespaces, registers
tables and alters transactions. A grant holds for everything inside. What is not granted looks as
if it did not exist; who knows of an object but may not do this is told so.
"""

from dataclasses import dataclass
from enum import Enum

Path = tuple[str, ...]
Grants = tuple[tuple[str, Path], ...]

RANKS = {"reader": 1, "writer": 2, "admin": 3}


class Verdict(Enum):
    """What becomes of a call, before the catalog is asked anything."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class Need:
    """What an operation needs: a rank on an object, and how much of it the caller must know."""

    role: str
    kind: str  # "table", "namespace", "new", "sight"


def rank(grants: Grants, path: Path) -> int:
    """The strongest grant on an object or on anything that holds it."""
    return max((RANKS[role] for role, on in grants if path[: len(on)] == on), default=0)


def knows(grants: Grants, path: Path) -> bool:
    """Whether a namespace may be known: something above, at or inside it is granted."""
    return any(path[: len(on)] == on or on[: len(path)] == path for _, on in grants)


def verdict(grants: Grants, need: Need, path: Path) -> Verdict:
    """Decide one object of one call."""
    if need.kind == "sight":
        return Verdict.ALLOWED if knows(grants, path) else Verdict.HIDDEN
    held = rank(grants, path)
    if held >= RANKS[need.role]:
        return Verdict.ALLOWED
    if need.kind == "new":  # the same whether the name is taken or not: it tells nothing
        return Verdict.FORBIDDEN
    if need.kind == "namespace":
        return Verdict.FORBIDDEN if knows(grants, path) else Verdict.HIDDEN
    return Verdict.FORBIDDEN if held else Verdict.HIDDEN


def worst(verdicts: list[Verdict]) -> Verdict:
    """Decide a call on several objects: the first that is not allowed."""
    return next((one for one in verdicts if one is not Verdict.ALLOWED), Verdict.ALLOWED)
