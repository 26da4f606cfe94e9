"""What a transaction has read must still be so when it reads more, and when it is published.

A look back at everything read so far, after each new table, makes all reads those of one instant:
no table has changed from its own look to the last one. The commit requires the same once more,
inside of its atomic step.
"""

from collections.abc import Iterable

from lakeroot.catalog import Catalog
from lakeroot.catalog.versions import TableVersions, are_one
from lakeroot.model.commits import NewestVersion, Requirement, Unchanged
from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Table
from lakeroot.namespace.staging import Base, ReplacedError
from lakeroot.storage.contract import VersionsByNumber


class ChangedError(ConcurrentModificationError):
    """A table is not what it was when a transaction looked at it."""

    def __init__(self, identifier: Identifier, what: str, version: int | None = None) -> None:
        super().__init__(what)
        self.identifier = identifier
        self.version = version
        """The first version that was not seen."""


def still(
    catalog: Catalog, bases: Iterable[Base], missing: Iterable[Identifier]
) -> list[Requirement]:
    """Look back at tables, and at names without one; say what has to hold for them from now on."""
    view, versions = catalog.store.read(), TableVersions(catalog)
    required: list[Requirement] = []
    for base in bases:
        identifier = base.table.identifier
        now = view.get(identifier)
        if not isinstance(now, Table):
            raise ChangedError(identifier, f"The table {show(identifier)} is gone")
        if not are_one(base.table, now):
            raise ReplacedError(identifier)
        found = versions.known(now)
        if found.newest != base.version:
            raise ChangedError(
                identifier,
                f"{show(identifier)} was looked at in version {base.version} "
                f"and is at version {found.newest} now",
                base.version + 1,
            )
        if base.digest not in (None, found.digest(base.version)):
            raise ChangedError(
                identifier,
                f"Version {base.version} of {show(identifier)} is another one now",
                base.version,
            )
        kept = found.kept
        newest = kept.newest if isinstance(kept, VersionsByNumber) else max(kept, default=0)
        required += Unchanged(identifier, now), NewestVersion(identifier, newest)
    for identifier in missing:
        if view.get(identifier) is not None:
            raise ChangedError(identifier, f"{show(identifier)} was not there, and now it is")
        required.append(Unchanged(identifier, None))
    return required
