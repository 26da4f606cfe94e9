"""Taking a commit back that meets a version which was put there directly after it looked.

The other writer was told that the version is theirs, so it is: the catalog keeps theirs. The rest
of the commit goes, because it was one.
"""

import contextlib
from collections.abc import Sequence

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.staged_versions import Staged
from lakeroot.catalog.versions import Deletion, as_taken_in
from lakeroot.model.commits import (
    AlterTable,
    Change,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    DeregisterTable,
    PointTableVersions,
    RegisterTable,
)
from lakeroot.model.errors import LakerootError, VersionsNotKeptError
from lakeroot.model.records import Table, TableVersion
from lakeroot.objects import delete_together
from lakeroot.storage.contract import Store


def taking_back(
    store: Store, others: Sequence[Change], deletions: Sequence[Deletion]
) -> list[Change]:
    """Say, before a commit, what would take back all of it but its own versions.

    The names of new tables go, and their versions with them; names that it took away come back,
    properties become what they were, and versions that it deleted are kept again: their manifests
    are still there.
    """
    back: list[Change] = []
    view = store.read() if others else None
    for change in reversed(others):
        before = view.get(change.identifier) if view is not None else None
        if isinstance(change, DeclareTable | RegisterTable):
            back.append(DeregisterTable(change.identifier))
        elif isinstance(change, AlterTable) and isinstance(before, Table):
            back.append(AlterTable(change.identifier, before.properties))
        elif isinstance(change, DeregisterTable) and isinstance(before, Table):
            back.append(RegisterTable(change.identifier, before.location, before.properties))
            kept = store.versions(before, None)
            back += _kept_again(before, tuple(kept[number] for number in sorted(kept)))
    for deletion in deletions:
        back += _kept_again(deletion.table, deletion.rows)
    return back


def give_way(
    catalog: Catalog, new: Sequence[Staged], placed: Sequence[Staged], back: Sequence[Change]
) -> None:
    """Take a commit back: its versions, of which some are in their places, and what was with it."""
    gone = {change.identifier for change in back if isinstance(change, DeregisterTable)}
    changes = [*back]
    changes += [_own_or_theirs(one) for one in new if one.table.identifier not in gone]
    # Without its staged manifest nobody puts ours into place again. One that has to stay could
    # only be put there until the next commit says that it is none.
    for one in new:
        with contextlib.suppress(LakerootError):
            one.files.discard([one.manifest.path])
    message = "Give way to a version that was put there directly"
    try:
        catalog.commit(*changes, message=message)
    except VersionsNotKeptError:
        # What was kept of versions is forgotten already; names are still to be put right.
        names = [one for one in changes if isinstance(one, DeregisterTable | RegisterTable)]
        if names:
            catalog.commit(*names, message=message)
    delete_together(one.files.object(one.manifest.final_path) for one in placed)


def _kept_again(table: Table, rows: tuple[TableVersion, ...]) -> list[Change]:
    return [CreateTableVersions(table.identifier, rows)] if rows else []


def _own_or_theirs(one: Staged) -> Change:
    """Forget a version of ours, unless another has its number: then that one is kept."""
    taken = one.files.path_of(one.asked.version)
    theirs = None
    if taken is not None and not one.files.holds(taken, one.content):
        theirs = one.files.describe(one.asked.version, taken)
    if theirs is None:
        return DeleteTableVersions(one.table.identifier, (one.asked.version,))
    return PointTableVersions(one.table.identifier, (as_taken_in(one.files, theirs),))
