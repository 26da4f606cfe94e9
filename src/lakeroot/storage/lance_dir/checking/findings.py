"""What can be wrong with a directory catalog: every finding has a code that never changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from lakeroot.model.identifiers import Identifier


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


@dataclass(frozen=True, slots=True)
class Finding:
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


_BACKUP: Final = "Put the file back from a backup"
_REPAIR: Final = "Run `lakeroot fsck --repair`"
_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

KINDS: Final[Mapping[str, Kind]] = {
    "manifest-unreadable": Kind(_ERROR, _BACKUP),
    "manifest-too-new": Kind(_ERROR, "Upgrade Lakeroot"),
    "manifest-file-missing": Kind(_ERROR, _BACKUP),
    "manifest-file-unreadable": Kind(_ERROR, _BACKUP),
    "manifest-index-missing": Kind(
        _ERROR, "Drop the index of `__manifest` with pylance, then run `lakeroot optimize`"
    ),
    "history-unreadable": Kind(
        _WARNING, f"{_BACKUP}; until then the catalog cannot be opened as of this version"
    ),
    "history-gap": Kind(_WARNING, f"{_BACKUP}, and clean up nothing of `__manifest` with pylance"),
    "history-restarted": Kind(_ERROR, _REPAIR, repairable=True),
    "row-type-unknown": Kind(_INFO, "Nothing has to be done; a newer client may know it"),
    "row-duplicate": Kind(_WARNING, _REPAIR, repairable=True),
    "row-conflict": Kind(_ERROR, "Delete the wrong row of `__manifest` with pylance"),
    "row-location-shared": Kind(_ERROR, "Deregister one of the tables; do not drop it"),
    "row-location-invalid": Kind(
        _ERROR, "Deregister the table, and register it at a directory below the root"
    ),
    "row-parent-missing": Kind(_ERROR, "Create the namespace"),
    "row-name-invalid": Kind(_WARNING, "Rename the object"),
    "row-metadata-unreadable": Kind(_WARNING, "Set the properties of the object again"),
    "table-missing": Kind(
        _ERROR, "Put the directory back from a backup, or deregister or drop the table"
    ),
    "table-unreadable": Kind(
        _ERROR, f"{_BACKUP}, or delete it to go back to the version of the table before"
    ),
    "table-file-missing": Kind(_ERROR, f"{_BACKUP}, or restore an older version of the table"),
    "table-file-damaged": Kind(_ERROR, f"{_BACKUP}, or restore an older version of the table"),
    "table-index-missing": Kind(_ERROR, "Drop the index and build it again"),
    "table-without-version": Kind(_WARNING, "Write the table again, or drop it"),
    "directory-orphan": Kind(
        _WARNING,
        "Register the directory to have the table back; `lakeroot gc` deletes it if it was "
        "dropped, or nothing was ever committed there",
    ),
    "directory-unregistered": Kind(_INFO, "Run `lakeroot migrate` to give it a row"),
    "marker-deregistered": Kind(_WARNING, _REPAIR, repairable=True),
    "marker-reserved": Kind(_WARNING, _REPAIR, repairable=True),
    "version-missing": Kind(
        _ERROR, f"{_BACKUP}, or delete the version to go back to the one before"
    ),
    "version-stale": Kind(_INFO, "Nothing has to be done; deleting the version removes the row"),
    "version-unfinished": Kind(_WARNING, _REPAIR, repairable=True),
    "version-direct": Kind(_WARNING, _REPAIR, repairable=True),
    "version-row-orphan": Kind(_WARNING, "Delete the row of `__manifest` with pylance"),
    "leftover-staged-manifest": Kind(_INFO, _REPAIR, repairable=True),
    "leftover-private-directory": Kind(_INFO, _REPAIR, repairable=True),
    "leftover-unfinished-file": Kind(_INFO, _REPAIR, repairable=True),
}
"""Every code, and what its findings have in common."""


def finding(
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
    """Make a finding of a code."""
    kind = KINDS[code]
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
