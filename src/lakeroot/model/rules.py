"""The rules of a commit: one pure function that every store calls inside its atomic step.

`apply` checks a change against a draft (what the catalog holds, plus the earlier changes of the
same commit) and writes the outcome into the draft, or raises and leaves the rest undone.
"""

from collections.abc import Callable
from typing import Protocol, assert_never

from lakeroot.model.commits import (
    AlterNamespace,
    AlterTable,
    Change,
    Commit,
    CreateNamespace,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    DeregisterTable,
    DropNamespace,
    DropTable,
    ManageTableVersions,
    NewestVersion,
    PointTableVersions,
    RegisterTable,
    RenameTable,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
    VersionsNotKeptError,
)
from lakeroot.model.identifiers import (
    ROOT,
    Identifier,
    is_valid,
    problem_with_name,
    show,
    validate_new,
)
from lakeroot.model.records import Namespace, Record, Table


class Draft(Protocol):
    """What a catalog will hold if the commit succeeds."""

    keeps_versions: bool
    """Whether the catalog is the arbiter of its tables' versions."""

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of this identifier."""
        ...

    def is_empty(self, identifier: Identifier) -> bool:
        """Tell whether a namespace has no tables and no namespaces."""
        ...

    def owner_of(self, location: str) -> Identifier | None:
        """Give the table that is at a location."""
        ...

    def put(self, record: Record) -> None:
        """Add or replace an object."""
        ...

    def remove(self, identifier: Identifier) -> None:
        """Take an object away."""
        ...


def apply(
    commit: Commit,
    draft: Draft,
    now_ms: int,
    newest_version: Callable[[Identifier], int] | None = None,
) -> None:
    """Check a whole commit and write its outcome into the draft, or raise.

    Stores that keep versions of tables tell the newest of one, as it is before the commit.
    """
    for requirement in commit.requires:
        if isinstance(requirement, NewestVersion):
            _require_newest(requirement, newest_version)
        elif draft.get(requirement.identifier) != requirement.record:
            raise ConcurrentModificationError(
                f"{show(requirement.identifier)} has changed since it was read",
                fix="Read it again and repeat",
            )
    for change in commit.changes:
        apply_change(change, draft, now_ms)


def apply_change(change: Change, draft: Draft, now_ms: int) -> None:
    """Check one change and write its outcome into the draft, or raise."""
    match change:
        # Before the others: they come by the dozen.
        case CreateTableVersions() | PointTableVersions() | DeleteTableVersions():
            require_table(draft, change.identifier)
            if not draft.keeps_versions and not isinstance(change, DeleteTableVersions):
                raise _versions_not_kept(change.identifier)
        case CreateNamespace():
            _require_room_for_namespace(draft, change.identifier)
            draft.put(Namespace(change.identifier, change.properties, now_ms))
        case AlterNamespace():
            found = require_namespace(draft, change.identifier)
            draft.put(Namespace(found.identifier, change.properties, found.created_at_ms))
        case DropNamespace():
            _require_droppable(draft, change.identifier)
            draft.remove(change.identifier)
        case DeclareTable() | RegisterTable():
            if not _is_found_there(draft, change):
                require_room_for_table(draft, change.identifier)
            _require_free_location(draft, change.location)
            draft.put(Table(change.identifier, change.location, change.properties, now_ms))
        case AlterTable():
            table = require_table(draft, change.identifier)
            draft.put(
                Table(table.identifier, table.location, change.properties, table.created_at_ms)
            )
        case DeregisterTable() | DropTable():
            require_table(draft, change.identifier)
            draft.remove(change.identifier)
        case RenameTable():
            table = require_table(draft, change.identifier)
            require_room_for_table(draft, change.new_identifier)
            draft.remove(change.identifier)
            draft.put(
                Table(change.new_identifier, table.location, table.properties, table.created_at_ms)
            )
        case ManageTableVersions():
            draft.keeps_versions = change.enabled
        case _:
            assert_never(change)


def _require_newest(
    required: NewestVersion, newest_version: Callable[[Identifier], int] | None
) -> None:
    if newest_version is None:
        raise UnsupportedOperationError("This catalog keeps no versions of tables")
    newest = newest_version(required.identifier)
    if newest != required.version:
        raise ConcurrentModificationError(
            f"{show(required.identifier)} has changed since it was read",
            f"it was at version {required.version} and is at {newest}",
            "Read it again and repeat",
        )


def require_namespace(draft: Draft, identifier: Identifier) -> Namespace:
    """Find a namespace or say what is missing."""
    if identifier == ROOT:
        root = draft.get(ROOT)
        return root if isinstance(root, Namespace) else Namespace(ROOT)
    found = draft.get(identifier)
    if isinstance(found, Namespace):
        return found
    if not is_valid(identifier):
        raise InvalidInputError(f"{show(identifier)} cannot be a namespace", _bad_name(identifier))
    why = f"{show(identifier)} is a table" if found else ""
    raise NamespaceNotFoundError(f"There is no namespace {show(identifier)}", why)


def require_table(draft: Draft, identifier: Identifier) -> Table:
    """Find a table or say what is missing."""
    if identifier == ROOT:
        raise InvalidInputError("A table needs a name", "the identifier is empty")
    found = draft.get(identifier)
    if isinstance(found, Table):
        return found
    if not is_valid(identifier):
        raise InvalidInputError(f"{show(identifier)} cannot be a table", _bad_name(identifier))
    require_namespace(draft, identifier[:-1])
    why = f"{show(identifier)} is a namespace" if found else ""
    raise TableNotFoundError(f"There is no table {show(identifier)}", why)


def require_room_for_table(draft: Draft, identifier: Identifier) -> None:
    """Refuse a new table that has a bad name, no parent, or a name that is taken."""
    if identifier == ROOT:
        raise InvalidInputError("A table needs a name", "the identifier is empty")
    validate_new(identifier)
    require_namespace(draft, identifier[:-1])
    taken = draft.get(identifier)
    if taken is not None:
        kind = "namespace" if isinstance(taken, Namespace) else "table"
        raise TableAlreadyExistsError(f"There is already a {kind} {show(identifier)}")


def _is_found_there(draft: Draft, change: DeclareTable | RegisterTable) -> bool:
    """Tell whether a table is being registered that is known by its directory alone.

    Giving it a row of its own, under the name it has, is what a migration does.
    """
    found = draft.get(change.identifier) if isinstance(change, RegisterTable) else None
    return isinstance(found, Table) and found.location == change.location


def _require_room_for_namespace(draft: Draft, identifier: Identifier) -> None:
    if identifier == ROOT:
        raise NamespaceAlreadyExistsError("The root namespace always exists")
    validate_new(identifier)
    require_namespace(draft, identifier[:-1])
    taken = draft.get(identifier)
    if taken is not None:
        kind = "namespace" if isinstance(taken, Namespace) else "table"
        raise NamespaceAlreadyExistsError(f"There is already a {kind} {show(identifier)}")


def _require_droppable(draft: Draft, identifier: Identifier) -> None:
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped", "it always exists")
    require_namespace(draft, identifier)
    if not draft.is_empty(identifier):
        raise NamespaceNotEmptyError(
            f"The namespace {show(identifier)} is not empty",
            fix="Drop its tables and namespaces first, or drop it with behavior Cascade",
        )


def _require_free_location(draft: Draft, location: str) -> None:
    owner = draft.owner_of(location)
    if owner is not None:
        raise InvalidInputError(
            f"The location {location} already belongs to the table {show(owner)}",
            "two names must not own one table's data",
            f"Rename {show(owner)}, or deregister it first",
        )


def _versions_not_kept(identifier: Identifier) -> VersionsNotKeptError:
    return VersionsNotKeptError(
        f"The catalog keeps no versions of {show(identifier)}",
        "its version management was switched off meanwhile",
        "Nothing was changed; enable it again, or write the tables one by one",
    )


def _bad_name(identifier: Identifier) -> str:
    return next(filter(None, map(problem_with_name, identifier)))
