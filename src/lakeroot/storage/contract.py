"""The narrow waist: what a format must do to be a Lakeroot catalog.

Everything above is written once against `Store`; everything below is small. A store reads fresh
views and applies commits atomically by the rules of `lakeroot.model.rules`; the side effects a
format needs on disk (markers, directories) are its own business, done so that a crash at any
moment leaves the commit either whole or undone.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from lakeroot.model.commits import Commit, Committed
from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Record, Table, TableVersion
from lakeroot.objects import Objects, Root

MARKER: Final = ".lance-"
"""What the names of files begin with that speak of a table's directory and are no part of it."""


class View(Protocol):
    """What the catalog holds, as of the moment the view was taken or later; never before."""

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of this identifier; the root is a namespace."""
        ...

    def is_empty(self, identifier: Identifier) -> bool:
        """Tell whether a namespace has no tables and no namespaces."""
        ...

    def owner_of(self, location: str) -> Identifier | None:
        """Give the table that is at a location."""
        ...

    def namespaces(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child namespaces, sorted, starting after a name."""
        ...

    def tables(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child tables, sorted, starting after a name."""
        ...

    def all_tables(self, after: Identifier | None, limit: int | None) -> list[Identifier]:
        """List every table of the catalog, sorted, starting after an identifier."""
        ...


class HistoryEntry(Struct, frozen=True):
    """One commit of the catalog: when, who, why, and which objects it changed."""

    version: int
    timestamp_ms: int
    author: str
    message: str
    created: tuple[Identifier, ...]
    altered: tuple[Identifier, ...]
    removed: tuple[Identifier, ...]
    versions: tuple[tuple[Identifier, int], ...] = ()
    """Versions of tables that were committed, where the catalog keeps them."""


class VersionsByNumber(Mapping[int, TableVersion]):
    """The versions of a table, of which the newest is known without looking at all."""

    @property
    @abstractmethod
    def newest(self) -> int:
        """Give the number of the newest version; 0 if there is none."""


class Store(Protocol):
    """A catalog in some format."""

    root: Root
    """Where the catalog and the tables it places are kept."""

    @property
    def keeps_versions(self) -> bool:
        """Tell whether the catalog arbitrates its tables' versions (an external manifest store)."""
        ...

    @property
    def is_past(self) -> bool:
        """Tell whether this is the catalog as it was, which cannot be written."""
        ...

    def read(self) -> View:
        """Take a view that shows everything acknowledged before this call."""
        ...

    def commit(self, commit: Commit) -> Committed:
        """Apply a commit, all or nothing, by the rules; raise the rule's error otherwise."""
        ...

    def place(self, identifier: Identifier) -> str:
        """Choose the location of a new table."""
        ...

    def place_unseen(self, identifier: Identifier) -> str | None:
        """Choose a location where nobody sees a table before a commit gives it its name.

        Nothing, where a commit cannot name a table and give it versions beside other changes.
        """
        ...

    def uri(self, location: str) -> str:
        """Give the address at which any Lance client can open a location."""
        ...

    def location_of(self, uri: str) -> str:
        """Understand a location as a caller writes it; refuse what this catalog may not own."""
        ...

    def has_data(self, table: Table) -> bool:
        """Tell whether a table has been written, or is only declared."""
        ...

    def files(self, table: Table) -> Objects:
        """Give the files of a table, below its location."""
        ...

    def versions(self, table: Table, branch: str | None) -> Mapping[int, TableVersion]:
        """Give the versions the catalog keeps of a table, by number (`keeps_versions`)."""
        ...

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        ...

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> "Store":
        """Give the catalog as it was at one of its versions, or at a time; it cannot be written."""
        ...

    def close(self) -> None:
        """Let go of whatever the store holds open."""
        ...


@runtime_checkable
class CommitsEach(Protocol):
    """A store in which many commits at once cost less than one after another."""

    def commit_each(self, commits: Sequence[Commit]) -> list[Committed | LakerootError]:
        """Apply many commits, each all or nothing and for itself; give how each of them ended."""
        ...
