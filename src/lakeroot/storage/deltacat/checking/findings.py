"""What can be wrong with a metastore catalog: every finding has a code that never changes."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from lakeroot.storage.findings import BACKUP, REPAIR, Kind, Severity, found
from lakeroot.storage.lance_dir.checking.findings import KINDS as DIRECTORY_KINDS
from lakeroot.storage.lance_dir.checking.findings import OF_TABLES

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_GC: Final = "`lakeroot gc` deletes it"

OWN_KINDS: Final[Mapping[str, Kind]] = {
    "log-unreadable": Kind(_ERROR, f"{BACKUP}, or upgrade Lakeroot"),
    "log-gap": Kind(_ERROR, REPAIR, repairable=True),
    "log-entry-damaged": Kind(_WARNING, REPAIR, repairable=True),
    "checkpoint-damaged": Kind(_WARNING, REPAIR, repairable=True),
    "commit-unpublished": Kind(_WARNING, REPAIR, repairable=True),
    "revision-damaged": Kind(_WARNING, REPAIR, repairable=True),
    "revision-lost": Kind(_ERROR, f"{BACKUP}, or delete the object it belongs to"),
    "revision-gap": Kind(_WARNING, BACKUP),
    "name-file-missing": Kind(_WARNING, REPAIR, repairable=True),
    "name-dangling": Kind(_WARNING, REPAIR, repairable=True),
    "name-wrong": Kind(_ERROR, "Rename the object, or give it the name as an alias"),
    "name-duplicate": Kind(_ERROR, "Rename or delete one of the two, by its id"),
    "object-unnamed": Kind(_ERROR, REPAIR, repairable=True),
    "location-unclaimed": Kind(_WARNING, REPAIR, repairable=True),
    "position-behind": Kind(_ERROR, REPAIR, repairable=True),
    "data-file-missing": Kind(_ERROR, f"{BACKUP}, or delete the delta"),
    "data-file-damaged": Kind(_ERROR, f"{BACKUP}, or delete the delta"),
    "transaction-expired": Kind(_WARNING, REPAIR, repairable=True),
    "leftover-lease": Kind(_INFO, REPAIR, repairable=True),
    "file-orphan": Kind(_INFO, _GC),
}
"""The codes that only a metastore has."""

KINDS: Final[Mapping[str, Kind]] = {
    **OWN_KINDS,
    **OF_TABLES,
    "version-row-unmanaged": DIRECTORY_KINDS["version-row-unmanaged"],
    "leftover-unfinished-file": DIRECTORY_KINDS["leftover-unfinished-file"],
}
"""Every code, and what its findings have in common."""

finding: Final = partial(found, KINDS)
"""Makes a finding of a code."""
