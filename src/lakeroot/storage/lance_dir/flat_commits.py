"""Commits in V1, where the directory is all there is: a change is a marker or a deletion."""

import time

from lakeroot.model.commits import (
    Change,
    Commit,
    Committed,
    DeclareTable,
    DeregisterTable,
    DropTable,
    RegisterTable,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import show
from lakeroot.model.rules import apply_change, require_room_for_table, require_table
from lakeroot.objects import Objects
from lakeroot.storage.lance_dir import placement
from lakeroot.storage.lance_dir.directory import Directory
from lakeroot.storage.lance_dir.markers import delete_table
from lakeroot.storage.lance_dir.view import DirectoryView
from lakeroot.storage.overlay import Overlay


def commit(
    objects: Objects, directory: Directory, view: DirectoryView, commit_: Commit
) -> Committed:
    """Apply changes one by one; a directory has no way to apply several at once."""
    now_ms = int(time.time() * 1000)
    for change in commit_.changes:
        _apply(objects, directory, Overlay(view), change, now_ms)
    return Committed(0, now_ms)


def _apply(
    objects: Objects, directory: Directory, draft: Overlay, change: Change, now_ms: int
) -> None:
    match change:
        case DeclareTable():
            _declare(objects, directory, draft, change)
        case RegisterTable():
            _register(objects, directory, draft, change)
        case DeregisterTable():
            table = require_table(draft, change.identifier)
            objects.put(f"{table.location}/{placement.DEREGISTERED}", placement.MARK)
        case DropTable():
            _drop(objects, directory, draft, change)
        case _:
            _refuse(change, draft, now_ms)


def _declare(objects: Objects, directory: Directory, draft: Overlay, change: DeclareTable) -> None:
    require_room_for_table(draft, change.identifier)
    if change.properties:
        raise UnsupportedOperationError(
            "A table has no properties in V1", fix="Enable the manifest to keep them"
        )
    if directory.probe(change.identifier[0]).is_deregistered:
        raise TableAlreadyExistsError(
            f"The directory of {show(change.identifier)} holds a table that was deregistered",
            fix="Register it again, or drop it first",
        )
    if not objects.put_if_absent(f"{change.location}/{placement.RESERVED}", placement.MARK):
        raise TableAlreadyExistsError(f"There is already a table {show(change.identifier)}")


def _register(
    objects: Objects, directory: Directory, draft: Overlay, change: RegisterTable
) -> None:
    require_room_for_table(draft, change.identifier)
    name = change.identifier[0]
    if change.location != placement.flat(name):
        raise UnsupportedOperationError(
            f"V1 can only register {placement.flat(name)} under the name {name}",
            "there the directory is the name",
            "Enable the manifest to give other names",
        )
    if not directory.probe(name).has_files:
        raise InvalidInputError(f"There is no table at {change.location}")
    objects.delete([f"{change.location}/{placement.DEREGISTERED}"])


def _drop(objects: Objects, directory: Directory, draft: Overlay, change: DropTable) -> None:
    if len(change.identifier) == 1 and directory.probe(change.identifier[0]).is_deregistered:
        location = placement.flat(change.identifier[0])
    else:
        location = require_table(draft, change.identifier).location
    # Hidden first: a deletion that is cut short must not leave half a table to be found.
    objects.put_if_absent(f"{location}/{placement.DEREGISTERED}", placement.MARK)
    delete_table(objects, location)
    if objects.has_any(location):
        raise ConcurrentModificationError(
            f"{show(change.identifier)} is not wholly dropped",
            "somebody wrote to its directory meanwhile, or made a table of that name",
            "Look what is there, and try again",
        )


def _refuse(change: Change, draft: Overlay, now_ms: int) -> None:
    apply_change(change, draft, now_ms)  # What is wrong with it anyway is said first.
    raise UnsupportedOperationError(
        f"V1 has no {type(change).__name__}",
        "a directory without a manifest is one flat namespace",
        "Enable the manifest",
    )
