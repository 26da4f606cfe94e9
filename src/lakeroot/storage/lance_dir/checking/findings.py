"""What can be wrong with a directory catalog: every finding has a code that never changes."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from lakeroot.storage.findings import BACKUP as _BACKUP
from lakeroot.storage.findings import REPAIR as _REPAIR
from lakeroot.storage.findings import Finding, Kind, Severity, found

__all__ = ["KINDS", "Finding", "Kind", "Severity", "finding"]

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
    "version-row-unmanaged": Kind(_WARNING, _REPAIR, repairable=True),
    "version-row-orphan": Kind(_WARNING, "Delete the row of `__manifest` with pylance"),
    "leftover-staged-manifest": Kind(_INFO, _REPAIR, repairable=True),
    "leftover-private-directory": Kind(_INFO, _REPAIR, repairable=True),
    "leftover-unfinished-file": Kind(_INFO, _REPAIR, repairable=True),
}
"""Every code, and what its findings have in common."""

OF_TABLES: Final = {
    code: KINDS[code]
    for code in (
        "row-location-shared",
        "table-missing",
        "table-unreadable",
        "table-file-missing",
        "table-file-damaged",
        "table-index-missing",
        "table-without-version",
        "directory-orphan",
        "version-missing",
        "version-stale",
        "version-unfinished",
        "version-direct",
        "leftover-staged-manifest",
        "leftover-private-directory",
    )
}
"""The codes about tables and their directories, which any catalog of Lance tables can have."""

finding: Final = partial(found, KINDS)
"""Makes a finding of a code."""
