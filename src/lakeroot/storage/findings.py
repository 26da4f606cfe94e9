"""What a check of a catalog finds, whatever its format: every finding has a stable code."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from lakeroot.model.identifiers import Identifier

BACKUP: Final = "Put the file back from a backup"
REPAIR: Final = "Run `lakeroot fsck --repair`"


class Severity(StrEnum):
    """How bad it is: something cannot be read; something is not in order; good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Kind(NamedTuple):
    """What all findings of one code have in common."""

    severity: Severity
    fix: str
    repairable: bool = False


class Finding(Struct, frozen=True):
    """One thing that is wrong: with what, why, and what to do about it."""

    code: str
    severity: Severity
    object: str
    what: str
    why: str
    fix: str
    repairable: bool
    identifier: Identifier = ()
    """The object of the catalog that it is about, if it is about one."""
    path: str = ""
    """The file or directory that it is about, below the root, if it is about one."""
    version: int = 0
    """The version of a table that it is about, if it is about one."""


_ORDER: Final = {severity: position for position, severity in enumerate(Severity)}


def found(
    kinds: Mapping[str, Kind],
    code: str,
    subject: str,
    what: str,
    why: str,
    *,
    fix: str = "",
    identifier: Identifier = (),
    path: str = "",
    version: int = 0,
) -> Finding:
    """Make a finding of a code that a catalog's kinds have."""
    kind = kinds[code]
    return Finding(
        code,
        kind.severity,
        subject,
        what,
        why,
        fix or kind.fix,
        kind.repairable,
        identifier,
        path,
        version,
    )


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Sort findings: the worst first, each once."""
    once = dict.fromkeys(findings)
    return sorted(once, key=lambda one: (_ORDER[one.severity], one.code, one.object, one.path))
