"""What clients of a catalog saw: which call, when it began and ended, and what it answered."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

NEVER = 2**63
"""The end of a call whose answer nobody got."""


class Outcome(StrEnum):
    """How a call ended for its client."""

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one client; times are of a clock that all clients share."""

    client: str
    group: str
    verb: str
    names: tuple[str, ...] = ()
    value: str | None = None
    began: int = 0
    ended: int = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    answer: Any = None

    def __str__(self) -> str:
        what = ", ".join([*self.names, *([self.value] if self.value is not None else [])])
        end = "never answered" if self.ended == NEVER else f"{self.ended:>6}"
        told = _told(self.answer)
        return (
            f"{self.began:>6} to {end}  {self.client:<8} {self.verb}({what}): {self.outcome}{told}"
        )


def _told(answer: Any) -> str:
    if answer is None:
        return ""
    shown = sorted(answer) if isinstance(answer, frozenset) else answer
    return f" {shown}"


def written(call: Call) -> str:
    """Write a call as one line."""
    plain = asdict(call)
    if isinstance(call.answer, frozenset):
        plain["answer"] = {"set": sorted(call.answer)}
    return json.dumps(plain)


def read(line: str) -> Call:
    """Read what `written` wrote."""
    plain = json.loads(line)
    plain["names"] = tuple(plain["names"])
    plain["outcome"] = Outcome(plain["outcome"])
    if isinstance(plain["answer"], dict) and "set" in plain["answer"]:
        plain["answer"] = frozenset(plain["answer"]["set"])
    return Call(**plain)
