"""Taking a commit back: its inverse, worked out from the states before, after and now.

Nothing is rewritten: the inverse is a commit of its own, and can be taken back itself. It is
refused where the objects have changed since, and where the data it would need has been deleted.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.commits import (
    AlterNamespace,
    AlterTable,
    Change,
    CreateNamespace,
    DeregisterTable,
    DropNamespace,
    DropTable,
    RegisterTable,
    RenameTable,
    Unchanged,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    NotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Namespace, Record, Table
from lakeroot.storage.contract import HistoryEntry

TRASH_COMMITS: Final = 500
"""How many commits are searched for tables that can have their names back."""


class Inverse(Struct, frozen=True):
    """What takes a commit back: changes of names, and tables to restore to older versions."""

    commit: int
    changes: tuple[Change, ...] = ()
    requires: tuple[Unchanged, ...] = ()
    restores: tuple[tuple[Table, int], ...] = ()

    @property
    def message(self) -> str:
        """The message of the commit that takes another back."""
        return f"Undo version {self.commit}"

    def lines(self) -> list[str]:
        """Say what is done, a line for each change."""
        told = [_told(change) for change in self.changes]
        return told + [f"restore {show(t.identifier)} to version {v}" for t, v in self.restores]


class Trashed(Struct, frozen=True):
    """A table that lost its name and still has its data."""

    table: Table
    commit: int
    timestamp_ms: int


def inverse_of(catalog: Catalog, commit: int) -> Inverse:
    """Work out the inverse of a commit, or refuse."""
    entry = _entry(catalog, commit)
    before, after = _before(catalog, commit), catalog.at(commit)
    objects = (*entry.created, *entry.altered, *entry.removed)
    old, then, now = (
        {one: _get(state, one) for one in objects} for state in (before, after, catalog)
    )
    for identifier in objects:
        if not _same(then[identifier], now[identifier]):
            raise ConcurrentModificationError(
                f"Version {commit} cannot be undone",
                f"since then {show(identifier)} has changed",
                "Undo the later commits first, or make the change by hand",
            )
    restores = tuple(_restores(catalog, before, after, entry))
    changes = tuple(_changes(catalog, old, now))
    if not changes and not restores:
        raise InvalidInputError(f"Version {commit} changed nothing that could be undone")
    requires = tuple(Unchanged(one, record) for one, record in now.items())
    return Inverse(commit, changes, requires, restores)


def recovery_of(catalog: Catalog, identifier: Identifier) -> Inverse:
    """Work out how a table that lost its name gets it back."""
    if _get(catalog, identifier) is not None:
        raise TableAlreadyExistsError(f"{show(identifier)} is there; it needs no bringing back")
    for entry in catalog.history(TRASH_COMMITS):
        if identifier in entry.removed:
            old = _get(_before(catalog, entry.version), identifier)
            if isinstance(old, Table):
                change = _registration(catalog, old)
                return Inverse(entry.version, (change,), (Unchanged(identifier, None),))
    raise TableNotFoundError(
        f"There was no table {show(identifier)}",
        f"none of the last {TRASH_COMMITS} commits took it away",
    )


def trash(catalog: Catalog) -> list[Trashed]:
    """List the tables that lost their names and still have their data, the latest first."""
    found: dict[str, Trashed] = {}
    view = catalog.store.read()
    for entry in catalog.history(TRASH_COMMITS):
        for identifier in entry.removed:
            table = _get(_before(catalog, entry.version), identifier)
            if not isinstance(table, Table) or table.location in found:
                continue
            if view.owner_of(table.location) is None and catalog.store.has_data(table):
                found[table.location] = Trashed(table, entry.version, entry.timestamp_ms)
    return list(found.values())


def _entry(catalog: Catalog, commit: int) -> HistoryEntry:
    newest = next(iter(catalog.history(1)), None)
    reach = 0 if newest is None else newest.version - commit + 1
    for entry in catalog.history(reach) if reach > 0 else ():
        if entry.version == commit:
            return entry
    raise InvalidInputError(
        f"There is no commit {commit} to undo", fix="`history` lists the commits that are kept"
    )


def _before(catalog: Catalog, commit: int) -> Catalog | None:
    return catalog.at(commit - 1) if commit > 1 else None


def _get(catalog: Catalog | None, identifier: Identifier) -> Record | None:
    return None if catalog is None else catalog.store.read().get(identifier)


def _same(one: Record | None, other: Record | None) -> bool:
    if isinstance(one, Table) and isinstance(other, Table):
        return (one.location, dict(one.properties)) == (other.location, dict(other.properties))
    if isinstance(one, Namespace) and isinstance(other, Namespace):
        return dict(one.properties) == dict(other.properties)
    return one is None and other is None


def _changes(
    catalog: Catalog,
    old: dict[Identifier, Record | None],
    now: dict[Identifier, Record | None],
) -> Iterator[Change]:
    """Give the changes from now back to then: names away from below, names back from above."""
    lost = {t.location: t for i, t in old.items() if isinstance(t, Table) and now[i] is None}
    renamed: set[Identifier] = set()
    for identifier in sorted(now):
        record = now[identifier]
        if isinstance(record, Table) and old[identifier] is None and record.location in lost:
            renamed |= {identifier, lost[record.location].identifier}
    namespaces = [i for i in sorted(old) if isinstance(old[i], Namespace) and now[i] is None]
    for identifier in namespaces:
        yield CreateNamespace(identifier, dict(_properties(old[identifier])))
    for identifier in sorted(now):
        record = now[identifier]
        if identifier in renamed and isinstance(record, Table):
            yield RenameTable(identifier, lost[record.location].identifier)
    for identifier in sorted(now, reverse=True):
        if identifier not in renamed and old[identifier] is None:
            yield _removal(catalog, now[identifier], identifier)
    for identifier in sorted(old):
        record, present = old[identifier], now[identifier]
        if isinstance(record, Table) and identifier not in renamed:
            yield from _back(catalog, record, present)
        elif isinstance(record, Namespace) and present is not None:
            yield AlterNamespace(identifier, dict(record.properties))


def _removal(catalog: Catalog, record: Record | None, identifier: Identifier) -> Change:
    if isinstance(record, Namespace):
        return DropNamespace(identifier)
    # The data stays, so that this can be taken back as well. It is not left to gc: the commit may
    # have registered a table that was there before.
    has_data = isinstance(record, Table) and catalog.store.has_data(record)
    return DeregisterTable(identifier) if has_data else DropTable(identifier)


def _back(catalog: Catalog, record: Table, present: Record | None) -> Iterator[Change]:
    if isinstance(present, Table) and present.location == record.location:
        yield AlterTable(record.identifier, dict(record.properties))
        return
    if isinstance(present, Table):
        yield DeregisterTable(record.identifier)
    yield _registration(catalog, record)


def _registration(catalog: Catalog, table: Table) -> RegisterTable:
    if not catalog.store.has_data(table):
        raise InvalidTableStateError(
            f"{show(table.identifier)} cannot be brought back",
            "its data was deleted with its name",
            "Restore the data from a backup and register it",
        )
    return RegisterTable(table.identifier, table.location, dict(table.properties))


def _restores(
    catalog: Catalog, before: Catalog | None, after: Catalog, entry: HistoryEntry
) -> Iterator[tuple[Table, int]]:
    versions = TableVersions(catalog)
    for identifier in sorted({table for table, _ in entry.versions} - set(entry.created)):
        committed = max(number for table, number in entry.versions if table == identifier)
        table, old = _get(catalog, identifier), _get(before, identifier)
        is_newest = isinstance(table, Table) and versions.latest(table) == committed
        if not isinstance(table, Table) or not (is_newest and _is_there(after, table, committed)):
            raise ConcurrentModificationError(
                f"Version {entry.version} cannot be undone",
                f"since then {show(identifier)} has changed",
                "Restore the version of the table that you want",
            )
        known = TableVersions(before).latest(old) if before and isinstance(old, Table) else 0
        if known == 0:
            raise InvalidTableStateError(
                f"Version {entry.version} cannot be undone",
                f"before it {show(identifier)} had no rows",
                "Undo the commit that created the table",
            )
        if before is None or not _is_there(before, table, known):
            raise InvalidTableStateError(
                f"Version {entry.version} cannot be undone",
                f"version {known} of {show(identifier)} was deleted since",
                "Restore the version of the table that you want",
            )
        yield table, known


def _is_there(state: Catalog, table: Table, version: int) -> bool:
    """Tell whether a version is still the one it was, and none that took its number."""
    try:
        TableVersions(state).describe_version(table.identifier, version)
    except NotFoundError:
        return False
    return True


def _properties(record: Record | None) -> dict[str, str]:
    return {} if record is None else dict(record.properties)


def _told(change: Change) -> str:
    words = {
        CreateNamespace: "create namespace",
        DropNamespace: "drop namespace",
        AlterNamespace: "give its old properties to namespace",
        RegisterTable: "bring back",
        DeregisterTable: "take the name away (the data stays) of",
        DropTable: "drop",
        AlterTable: "give its old properties to",
    }
    if isinstance(change, RenameTable):
        return f"rename {show(change.identifier)} to {show(change.new_identifier)}"
    return f"{words[type(change)]} {show(change.identifier)}"
