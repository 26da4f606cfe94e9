"""A catalog: namespaces and tables by identifier, in whatever store."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, TypeVar

from lakeroot.catalog import paging
from lakeroot.catalog.modes import DropBehavior, DropMode, RegisterMode
from lakeroot.catalog.paging import Page
from lakeroot.catalog.turns import Turns
from lakeroot.model.commits import (
    AlterNamespace,
    AlterTable,
    Change,
    Commit,
    Committed,
    CreateNamespace,
    DeclareTable,
    DeregisterTable,
    DropNamespace,
    DropTable,
    RegisterTable,
    RenameTable,
    Requirement,
    Unchanged,
)
from lakeroot.model.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    DirectoryTakenError,
    InvalidInputError,
    LakerootError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotFoundError,
)
from lakeroot.model.identifiers import ROOT, Identifier, validate_new
from lakeroot.model.records import Namespace, Table
from lakeroot.model.rules import require_namespace, require_table
from lakeroot.model.texts import require_text
from lakeroot.storage.contract import MARKER, CommitsEach, HistoryEntry, Store, View
from lakeroot.storage.overlay import Overlay
from lakeroot.tables.options import CreateMode

Result = TypeVar("Result")

_ATTEMPTS = 20


class Catalog:
    """The verbs over one store."""

    def __init__(self, store: Store, author: str = "") -> None:
        self.store = store
        self.author = author
        self.turns = Turns()

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalog, (self.store, self.author)

    # Namespaces

    def create_namespace(
        self,
        identifier: Identifier,
        properties: Mapping[str, str] | None = None,
        mode: CreateMode = CreateMode.CREATE,
    ) -> Namespace:
        """Create a namespace; by its mode, keep or replace the one that is there."""
        properties = checked_properties(properties)
        if mode is CreateMode.OVERWRITE:
            return self._overwrite_namespace(identifier, properties)
        try:
            self.commit(CreateNamespace(identifier, properties))
        except AlreadyExistsError:
            if mode is not CreateMode.EXIST_OK:
                raise
            found = self.store.read().get(identifier)
            if not isinstance(found, Namespace):
                raise
            return found
        return Namespace(identifier, properties)

    def _overwrite_namespace(
        self, identifier: Identifier, properties: Mapping[str, str]
    ) -> Namespace:
        def changes(view: View) -> list[Change]:
            if identifier == ROOT:
                return [AlterNamespace(ROOT, properties)]
            found = view.get(identifier)
            gone = _all_within(view, identifier) if isinstance(found, Namespace) else []
            return [*gone, CreateNamespace(identifier, properties)]

        self._commit_until_unraced(changes)
        return Namespace(identifier, properties)

    def alter_namespace(self, identifier: Identifier, properties: Mapping[str, str]) -> Namespace:
        """Replace the properties of a namespace, the root included."""
        self.commit(AlterNamespace(identifier, checked_properties(properties)))
        return Namespace(identifier, properties)

    def describe_namespace(self, identifier: Identifier) -> Namespace:
        """Find a namespace."""
        return require_namespace(Overlay(self.store.read()), identifier)

    def list_namespaces(
        self, parent: Identifier = ROOT, token: str | None = None, limit: int | None = None
    ) -> Page[str]:
        """List the names of the child namespaces of a namespace."""
        view = self.store.read()
        self._require_parent(view, parent)
        after = paging.after_name(token)
        return paging.cut(lambda a, n: view.namespaces(parent, a, n), after, limit)

    def drop_namespace(
        self,
        identifier: Identifier,
        mode: DropMode = DropMode.FAIL,
        behavior: DropBehavior = DropBehavior.RESTRICT,
    ) -> Namespace | None:
        """Drop a namespace; by its behavior, with everything in it."""
        found = self.store.read().get(identifier)
        cascades = behavior is DropBehavior.CASCADE and isinstance(found, Namespace)
        try:
            if cascades and identifier != ROOT:
                self._commit_until_unraced(lambda view: _all_within(view, identifier))
            else:
                self.commit(DropNamespace(identifier))
        except NamespaceNotFoundError:
            if mode is not DropMode.SKIP:
                raise
            return None
        return found if isinstance(found, Namespace) else None

    # Tables

    def table(self, identifier: Identifier) -> Table:
        """Find a table."""
        view = self.store.read()
        found = view.get(identifier) if identifier else None
        # A view may show what came after it: the second look can find what the first did not.
        return found if isinstance(found, Table) else require_table(Overlay(view), identifier)

    def declare_table(
        self,
        identifier: Identifier,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> Table:
        """Reserve a name and a location for a table that has no data yet."""
        return self.declare_tables([(identifier, properties or {})], location=location)[0]

    def declare_tables(
        self,
        tables: Iterable[tuple[Identifier, Mapping[str, str]]],
        *,
        location: str | None = None,
    ) -> list[Table]:
        """Declare many tables in one commit."""
        given = [(identifier, checked_properties(properties)) for identifier, properties in tables]
        for identifier, _ in given:
            _require_table_name(identifier)
        own = None if location is None else self._own(location)

        def declare() -> list[Table]:
            declared = [
                DeclareTable(identifier, own or self.store.place(identifier), properties)
                for identifier, properties in given
            ]
            self.commit(*declared)
            return [Table(one.identifier, one.location, one.properties) for one in declared]

        return declare() if own else placed_again(declare)

    def declare_each(
        self, tables: Sequence[tuple[Identifier, Mapping[str, str] | None, str | None]]
    ) -> list[Table | LakerootError]:
        """Declare tables for many callers at once: each with its own outcome, by itself."""
        outcomes = self._declare_each(tables)
        again = [
            number
            for number, made in enumerate(outcomes)
            if isinstance(made, DirectoryTakenError) and tables[number][2] is None
        ]
        made_again = self._declare_each([tables[number] for number in again]) if again else []
        for number, made in zip(again, made_again, strict=True):
            outcomes[number] = _lost_again() if isinstance(made, DirectoryTakenError) else made
        return outcomes

    def _declare_each(
        self, tables: Sequence[tuple[Identifier, Mapping[str, str] | None, str | None]]
    ) -> list[Table | LakerootError]:
        outcomes: list[Table | LakerootError] = []
        changes: dict[int, DeclareTable] = {}
        for number, (identifier, properties, location) in enumerate(tables):
            try:
                _require_table_name(identifier)
                given = checked_properties(properties)
                place = self.store.place(identifier) if location is None else self._own(location)
            except LakerootError as error:
                outcomes.append(error)
            else:
                changes[number] = DeclareTable(identifier, place, given)
                outcomes.append(Table(identifier, place, given))
        commits = [Commit((change,), author=self.author) for change in changes.values()]
        for number, made in zip(changes, self._commit_each(commits), strict=True):
            if isinstance(made, LakerootError):
                outcomes[number] = made
        return outcomes

    def _commit_each(self, commits: Sequence[Commit]) -> list[Committed | LakerootError]:
        if isinstance(self.store, CommitsEach):
            return self.store.commit_each(commits)
        outcomes: list[Committed | LakerootError] = []
        for commit in commits:
            try:
                outcomes.append(self.store.commit(commit))
            except LakerootError as error:
                outcomes.append(error)
        return outcomes

    def create_namespaces(
        self, namespaces: Iterable[tuple[Identifier, Mapping[str, str]]]
    ) -> list[Namespace]:
        """Create many namespaces in one commit, parents before their children."""
        created = [CreateNamespace(found, checked_properties(given)) for found, given in namespaces]
        self.commit(*created)
        return [Namespace(one.identifier, one.properties) for one in created]

    def register_table(
        self,
        identifier: Identifier,
        location: str,
        properties: Mapping[str, str] | None = None,
        mode: RegisterMode = RegisterMode.CREATE,
    ) -> Table:
        """Give a name to the table at a location inside the catalog's root."""
        _require_table_name(identifier)
        change = RegisterTable(identifier, self._own(location), checked_properties(properties))

        def changes(view: View) -> list[Change]:
            replaced = mode is RegisterMode.OVERWRITE and isinstance(view.get(identifier), Table)
            return [DeregisterTable(identifier), change] if replaced else [change]

        self._commit_until_unraced(changes)
        return Table(identifier, change.location, change.properties)

    def alter_table(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """Replace the properties of a table."""
        self.commit(AlterTable(identifier, checked_properties(properties)))

    def deregister_table(self, identifier: Identifier) -> Table:
        """Take the name away and leave the data."""
        found = self.table(identifier)
        self.commit(DeregisterTable(identifier))
        return found

    def withdraw_table(self, declared: Table) -> None:
        """Take back a declaration of ours whose first rows could not be written.

        Others may have found the table and be writing to it: nothing but markers is deleted, and
        a table with files of any kind stays declared, to be created by whoever comes next.
        """
        identifier = declared.identifier
        files = self.store.files(declared)
        if not all(one.path.startswith(MARKER) for one in files.list("")):
            return
        found = self.table(identifier)
        if found.location != declared.location:
            return
        self.commit(DeregisterTable(identifier), requires=[Unchanged(identifier, found)])
        files.delete([one.path for one in files.list("") if one.path.startswith(MARKER)])
        files.prune_directory("")
        if self.store.has_data(declared):
            self.register_table(identifier, declared.location, declared.properties)

    def drop_table(self, identifier: Identifier) -> Table | None:
        """Take the name away and delete the data."""
        found = self.store.read().get(identifier) if identifier else None
        _require_named(identifier)
        self.commit(DropTable(identifier))
        return found if isinstance(found, Table) else None

    def rename_table(self, identifier: Identifier, new_identifier: Identifier) -> None:
        """Give a table another name, in the same namespace or another."""
        _require_table_name(new_identifier)
        self.commit(RenameTable(identifier, new_identifier))

    def list_tables(
        self,
        parent: Identifier = ROOT,
        token: str | None = None,
        limit: int | None = None,
        *,
        include_declared: bool = True,
    ) -> Page[str]:
        """List the names of the tables of a namespace."""
        view = self.store.read()
        self._require_parent(view, parent)
        keep = None if include_declared else lambda name: self._has_data(view, (*parent, name))
        after = paging.after_name(token)
        return paging.cut(lambda a, n: view.tables(parent, a, n), after, limit, keep)

    def list_all_tables(
        self, token: str | None = None, limit: int | None = None, *, include_declared: bool = True
    ) -> Page[Identifier]:
        """List the identifiers of all tables, of every namespace."""
        view = self.store.read()
        keep = None if include_declared else lambda identifier: self._has_data(view, identifier)
        return paging.cut(view.all_tables, paging.after_identifier(token), limit, keep)

    def _has_data(self, view: View, identifier: Identifier) -> bool:
        found = view.get(identifier)
        return isinstance(found, Table) and self.store.has_data(found)

    # The whole catalog

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        return self.store.history(limit)

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> "Catalog":
        """Give the catalog as it was at one of its versions, or at a time; read only."""
        for what, given in (("version", version), ("time", timestamp_ms)):
            if given is not None and not isinstance(given, SupportsIndex):
                raise InvalidInputError(
                    f"The {what} of a catalog cannot be {given!r}",
                    "it is a whole number",
                    "Take it from the history",
                )
        return Catalog(self.store.at(version, timestamp_ms), self.author)

    def commit(
        self, *changes: Change, requires: Iterable[Requirement] = (), message: str = ""
    ) -> Committed:
        """Apply changes together or not at all."""
        return self.store.commit(Commit(changes, tuple(requires), message, self.author))

    def close(self) -> None:
        """Let go of whatever the store holds open."""
        self.store.close()

    def _commit_until_unraced(self, plan: Callable[[View], list[Change]]) -> Committed:
        """Commit changes that were worked out from a view; work them out again if it was old."""
        changes = plan(self.store.read())
        for _ in range(_ATTEMPTS):
            try:
                return self.commit(*changes)
            except (NotFoundError, AlreadyExistsError, NamespaceNotEmptyError):
                before, changes = changes, plan(self.store.read())
                if changes == before:
                    raise  # Nothing was raced: it is simply not allowed.
        raise ConcurrentModificationError(
            "The catalog kept changing while this was worked out", fix="Try again"
        )

    def _require_parent(self, view: View, parent: Identifier) -> None:
        if parent != ROOT:
            require_namespace(Overlay(view), parent)

    def _own(self, location: str) -> str:
        if any("\ud800" <= letter <= "\udfff" for letter in location):
            raise InvalidInputError(
                f"{location!r} is not a location", "it holds half of a surrogate pair"
            )
        return self.store.location_of(location)


def placed_again(declare: Callable[[], Result], *, some_given: bool = False) -> Result:
    """Declare tables in directories that the catalog chooses; choose again if one was lost.

    Between the choice and the commit others can make a table of the name there and drop it. Where
    callers have given some of the directories, it may be one of theirs that cannot be had.
    """
    try:
        return declare()
    except DirectoryTakenError:
        pass
    try:
        return declare()
    except DirectoryTakenError as error:
        if some_given:
            raise
        raise _lost_again() from error


def _lost_again() -> ConcurrentModificationError:
    return ConcurrentModificationError(
        "The directory for a new table was lost as it was declared",
        "others made tables of its name there and dropped them, time and again",
        "Try again",
    )


def _all_within(view: View, identifier: Identifier) -> list[Change]:
    """Drop a namespace and everything in it, the deepest first."""
    tables = view.tables(identifier, None, None)
    changes: list[Change] = [DropTable((*identifier, name)) for name in tables]
    for name in view.namespaces(identifier, None, None):
        changes += _all_within(view, (*identifier, name))
    return [*changes, DropNamespace(identifier)]


def checked_properties(properties: Mapping[str, str] | None) -> Mapping[str, str]:
    """Give properties that may be kept, or refuse them."""
    for key, value in (properties or {}).items():
        require_text(key, "The name of a property")
        require_text(value, f"The property {key!r}")
        if key.startswith("lakeroot."):
            raise InvalidInputError(
                f"The property {key!r} is reserved", "Lakeroot keeps its own under `lakeroot.`"
            )
    return dict(properties or {})


def _require_named(identifier: Identifier) -> None:
    if identifier == ROOT:
        raise InvalidInputError("A table needs a name", "the identifier is empty")


def _require_table_name(identifier: Identifier) -> None:
    _require_named(identifier)
    validate_new(identifier)
