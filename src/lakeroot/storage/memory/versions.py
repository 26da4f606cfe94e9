"""The versions a memory catalog keeps, and what a commit makes of them."""

from lakeroot.model.commits import (
    Change,
    Commit,
    CreateTableVersions,
    DeleteTableVersions,
    DeregisterTable,
    DropTable,
    ManageTableVersions,
    PointTableVersions,
    RenameTable,
)
from lakeroot.model.errors import TableVersionAlreadyExistsError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import TableVersion

Versions = dict[tuple[Identifier, str | None, int], TableVersion]
"""Versions by table, branch and number."""


def versions_after(versions: Versions, commit: Commit) -> Versions:
    """Give the versions that are kept once a commit is applied, or refuse it."""
    for change in commit.changes:
        versions = _after(versions, change)
    return versions


def _after(versions: Versions, change: Change) -> Versions:
    match change:
        case CreateTableVersions() | PointTableVersions():
            new = {(change.identifier, change.branch, one.version): one for one in change.versions}
            for table, _, number in new.keys() & versions.keys():
                if isinstance(change, CreateTableVersions):
                    raise TableVersionAlreadyExistsError(
                        f"{show(table)} already has a version {number}"
                    )
            return {**versions, **new}
        case DeleteTableVersions():
            gone = {(change.identifier, change.branch, number) for number in change.versions}
            return {key: found for key, found in versions.items() if key not in gone}
        case DropTable() | DeregisterTable():
            return {key: found for key, found in versions.items() if key[0] != change.identifier}
        case RenameTable():
            old, name = change.identifier, change.new_identifier
            return {(name if k[0] == old else k[0], k[1], k[2]): v for k, v in versions.items()}
        case ManageTableVersions(enabled=False):
            return {}
        case _:
            return versions
