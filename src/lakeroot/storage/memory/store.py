"""A catalog in dictionaries."""

import threading
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

from lakeroot.model.commits import (
    Commit,
    Committed,
    CreateTableVersions,
    DeclareTable,
    DropTable,
    ManageTableVersions,
    RegisterTable,
)
from lakeroot.model.errors import (
    InvalidInputError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.model.records import Namespace, Record, Table, TableVersion
from lakeroot.model.rules import apply
from lakeroot.objects import Below, Objects, Root, open_root
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.memory.versions import Versions, versions_after
from lakeroot.storage.overlay import Overlay

Records = dict[Identifier, Record]


class MemoryView:
    """A frozen picture of the dictionaries."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of this identifier; the root is a namespace."""
        return self._records.get(identifier)

    def is_empty(self, identifier: Identifier) -> bool:
        """Tell whether a namespace has no tables and no namespaces."""
        return not any(child and child[:-1] == identifier for child in self._records)

    def owner_of(self, location: str) -> Identifier | None:
        """Give the table that is at a location."""
        tables = (found for found in self._records.values() if isinstance(found, Table))
        return next((table.identifier for table in tables if table.location == location), None)

    def namespaces(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child namespaces, sorted, starting after a name."""
        return self._children(Namespace, parent, after)[:limit]

    def tables(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child tables, sorted, starting after a name."""
        return self._children(Table, parent, after)[:limit]

    def all_tables(self, after: Identifier | None, limit: int | None) -> list[Identifier]:
        """List every table of the catalog, sorted, starting after an identifier."""
        tables = (found for found, record in self._records.items() if isinstance(record, Table))
        return sorted(table for table in tables if after is None or table > after)[:limit]

    def _children(self, kind: type[Record], parent: Identifier, after: str | None) -> list[str]:
        return sorted(
            child[-1]
            for child, record in self._records.items()
            if child and child[:-1] == parent and isinstance(record, kind)
            if after is None or child[-1] > after
        )


class MemoryStore:
    """A catalog in dictionaries, one picture per commit."""

    def __init__(
        self,
        root: Root,
        *,
        keeps_versions: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = root
        self._keeps_versions = keeps_versions
        self._objects = open_root(root)
        self._clock = clock
        self._lock = threading.Lock()
        self._records: Records = {ROOT: Namespace(ROOT)}
        self._versions: Versions = {}
        self._past: list[tuple[Records, Versions, HistoryEntry]] = []

    @property
    def keeps_versions(self) -> bool:
        """Tell whether the catalog arbitrates its tables' versions."""
        return self._keeps_versions

    @property
    def is_past(self) -> bool:
        """Tell whether this is the catalog as it was."""
        return False

    def read(self) -> MemoryView:
        """Take a picture."""
        return MemoryView(self._records)

    def commit(self, commit: Commit) -> Committed:
        """Apply a commit, all or nothing."""
        with self._lock:
            now_ms = int(self._clock() * 1000)
            draft = Overlay(self.read(), keeps_versions=self._keeps_versions)
            apply(commit, draft, now_ms, self._newest_version)
            self._require_tables(commit)
            self._reserve(commit)
            versions = versions_after(self._versions, commit)
            before = self._records
            after = {**before, **draft.changed}
            self._versions = versions
            for change in commit.changes:
                if isinstance(change, ManageTableVersions):
                    self._keeps_versions = change.enabled
            self._records = {found: record for found, record in after.items() if record}
            entry = _entry(len(self._past) + 1, now_ms, commit, before, self._records)
            self._past.append((self._records, versions, entry))
        for change in commit.changes:
            if isinstance(change, DropTable):
                table = before.get(change.identifier)
                if isinstance(table, Table) and self.read().owner_of(table.location) is None:
                    self._objects.delete_directory(table.location)
        return Committed(entry.version, now_ms)

    def _newest_version(self, table: Identifier) -> int:
        return max((key[2] for key in self._versions if key[:2] == (table, None)), default=0)

    def _reserve(self, commit: Commit) -> None:
        # A location that was reserved can be registered again, written or not.
        for change in commit.changes:
            if isinstance(change, DeclareTable):
                self._objects.put_if_absent(f"{change.location}/.lance-reserved", b"reserved")

    def _require_tables(self, commit: Commit) -> None:
        for change in commit.changes:
            if isinstance(change, RegisterTable) and not self._objects.has_any(change.location):
                raise InvalidInputError(f"There is no table at {change.location}")

    def place(self, identifier: Identifier) -> str:
        """Choose the location of a new table."""
        return f"{uuid4().hex}"

    def place_unseen(self, identifier: Identifier) -> str:
        """Choose the location of a new table, which no table has before it has a name."""
        return self.place(identifier)

    def uri(self, location: str) -> str:
        """Give the address at which any Lance client can open a location."""
        return self.root.join(location)

    def location_of(self, uri: str) -> str:
        """Understand a location as a caller writes it."""
        location = self.root.locate(uri)
        if location is None:
            raise InvalidInputError(f"The location {uri!r} is not inside the root of the catalog")
        return location

    def has_data(self, table: Table) -> bool:
        """Tell whether a table has been written, or is only declared."""
        return self._objects.has_any(f"{table.location}/_versions")

    def files(self, table: Table) -> Objects:
        """Give the files of a table, below its location."""
        return Below(self._objects, table.location)

    def versions(self, table: Table, branch: str | None) -> dict[int, TableVersion]:
        """Give the versions the catalog keeps of a table, by number."""
        return {
            number: version
            for (identifier, of_branch, number), version in self._versions.items()
            if identifier == table.identifier and of_branch == branch
        }

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Tell what each commit changed, the newest first."""
        entries = [entry for _, _, entry in reversed(self._past)]
        return iter(entries[:limit])

    def at(self, version: int | None = None, timestamp_ms: int | None = None) -> "MemoryStore":
        """Give the catalog as it was; it cannot be written."""
        if (version is None) == (timestamp_ms is None):
            raise InvalidInputError("Say either a version or a time")
        for records, versions, entry in reversed(self._past):
            if entry.version == version or (
                timestamp_ms is not None and entry.timestamp_ms <= timestamp_ms
            ):
                past = _PastStore(self.root, keeps_versions=self._keeps_versions, clock=self._clock)
                past._records = records  # noqa: SLF001 (a store of the same family)
                past._versions = versions  # noqa: SLF001
                return past
        raise InvalidInputError(
            "The catalog did not exist at that time"
            if version is None
            else f"The catalog has no version {version}"
        )

    def close(self) -> None:
        """Nothing is held open."""


class _PastStore(MemoryStore):
    @property
    def is_past(self) -> bool:
        return True

    def commit(self, commit: Commit) -> Committed:
        raise UnsupportedOperationError("The past cannot be changed", fix="Open the catalog itself")


def _entry(
    version: int, now_ms: int, commit: Commit, before: Records, after: Records
) -> HistoryEntry:
    return HistoryEntry(
        version=version,
        timestamp_ms=now_ms,
        author=commit.author,
        message=commit.message,
        created=tuple(sorted(after.keys() - before.keys())),
        altered=tuple(sorted(k for k in after.keys() & before.keys() if after[k] != before[k])),
        removed=tuple(sorted(before.keys() - after.keys())),
        versions=tuple(
            (change.identifier, version.version)
            for change in commit.changes
            if isinstance(change, CreateTableVersions)
            for version in change.versions
        ),
    )
