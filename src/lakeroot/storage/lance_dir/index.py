"""The rows of one version in memory, by identifier: what every read is answered from."""

import gc
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.model.records import Record
from lakeroot.storage.lance_dir.rows import NAMESPACE, TABLE_ROW, VERSION_ROW, Row, record_of


class Entry(NamedTuple):
    """A row and where it lies: a data file and an offset in it."""

    row: Row
    path: str
    offset: int


class Index:
    """Rows by identifier. The sorted listings are made when first asked for, then kept."""

    def __init__(self) -> None:
        self._entries: dict[Identifier, Entry] = {}
        # Rows that repeat an identifier, made by writers that append without checking.
        self.repeated: dict[Identifier, list[Entry]] = {}
        # The identifiers of each data file by offset, to know what a deleted row was.
        self._members: dict[str, list[Identifier | None]] = {}
        self._listings: _Listings | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Iterable[Entry]:
        """Give every entry, the repeated ones included."""
        yield from self._entries.values()
        for repeated in self.repeated.values():
            yield from repeated

    def entry(self, identifier: Identifier) -> Entry | None:
        """Give the entry of an identifier."""
        return self._entries.get(identifier)

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of an identifier; nothing if it is of a kind we do not know."""
        found = self._entries.get(identifier)
        return None if found is None else record_of(found.row)

    def positions(self, identifier: Identifier) -> Iterator[Entry]:
        """Give every row of an identifier."""
        found = self._entries.get(identifier)
        if found is not None:
            yield found
            yield from self.repeated.get(identifier, ())

    def members(self, path: str) -> list[Identifier | None]:
        """Give the identifiers of a data file, by offset."""
        return self._members.get(path, [])

    def rows_of_file(self, path: str) -> Iterator[tuple[Identifier, Row]]:
        """Give the rows of a data file, by identifier."""
        entries = self._entries
        return ((found, entries[found].row) for found in self.members(path) if found is not None)

    def put_file(self, path: str, rows: Iterable[Row], deleted: Container[int]) -> None:
        """Add the rows of a data file that is not known yet."""
        members: list[Identifier | None] = []
        self._members[path] = members
        entries = self._entries
        with _without_collecting():
            for offset, row in enumerate(rows):
                if offset in deleted:
                    members.append(None)
                    continue
                identifier = tuple(row[0].split(DELIMITER))
                members.append(identifier)
                if identifier in entries:
                    self.repeated.setdefault(identifier, []).append(Entry(row, path, offset))
                else:
                    entries[identifier] = Entry(row, path, offset)
                    if self._listings is not None:
                        self._listings.add(row)

    def put_or_move(self, entry: Entry) -> None:
        """Add a row, or know a row that is there already at another position."""
        identifier = entry.row.identifier
        if identifier not in self._entries or identifier in self.repeated:
            self.put(entry)
        else:
            self._entries[identifier] = entry
            self._place(entry, identifier)

    def put(self, entry: Entry) -> None:
        """Add a row. A second row of one identifier does not replace the first."""
        identifier = entry.row.identifier
        self._place(entry, identifier)
        if identifier in self._entries:
            self.repeated.setdefault(identifier, []).append(entry)
            return
        self._entries[identifier] = entry
        if self._listings is not None:
            self._listings.add(entry.row)

    def _place(self, entry: Entry, identifier: Identifier) -> None:
        members = self._members.setdefault(entry.path, [])
        if len(members) <= entry.offset:
            members.extend([None] * (entry.offset + 1 - len(members)))
        members[entry.offset] = identifier

    def discard(self, identifier: Identifier, path: str, offset: int) -> None:
        """Take away the row at a position."""
        members = self._members.get(path)
        if members is not None and offset < len(members):
            members[offset] = None
        found = self._entries.get(identifier)
        if found is None:
            return
        others = self.repeated.pop(identifier, [])
        if (found.path, found.offset) != (path, offset):
            others = [e for e in others if (e.path, e.offset) != (path, offset)]
        else:
            del self._entries[identifier]
            if self._listings is not None:
                self._listings.remove(found.row)
            if others:
                first = others.pop(0)
                self._entries[identifier] = first
                if self._listings is not None:
                    self._listings.add(first.row)
        if others:
            self.repeated[identifier] = others

    def forget(self, path: str) -> None:
        """Forget a data file; its rows are gone already."""
        self._members.pop(path, None)

    @property
    def listings(self) -> "_Listings":
        """Give the sorted listings."""
        if self._listings is None:
            with _without_collecting():
                self._listings = _Listings(self._entries)
        return self._listings


class _Listings:
    """Children by parent, sorted; tables by location; versions by table."""

    def __init__(self, entries: Mapping[Identifier, Entry]) -> None:
        self.namespaces: dict[Identifier, list[str]] = {}
        self.tables: dict[Identifier, list[str]] = {}
        self.locations: dict[str, Identifier] = {}
        # Hardly ever is one directory below another; then it must not be inside a table.
        self.deep_locations: set[str] = set()
        self.versions: dict[Identifier, dict[int, Row]] = {}
        # Asked for by every commit; a table may have thousands of versions.
        self.newest_versions: dict[Identifier, int] = {}
        # Rows of versions that have another row too, padded or not: each counts for itself.
        self.spelled_twice: dict[Identifier, dict[int, list[Row]]] = {}
        # How many children of kinds we do not know: a namespace that has any is not empty.
        self._unknown: Counter[Identifier] = Counter()
        self._all_tables: list[Identifier] | None = None
        for identifier, entry in entries.items():
            self._add(identifier, entry.row, list.append)
        for children in (*self.namespaces.values(), *self.tables.values()):
            children.sort()

    def add(self, row: Row) -> None:
        """Add a row in its place."""
        self._add(row.identifier, row, insort)

    def remove(self, row: Row) -> None:
        """Take a row out."""
        identifier = row.identifier
        if row.object_type == VERSION_ROW:
            number = _version(identifier)
            if number is not None:
                self._remove_version(identifier[:-1], number, row)
            return
        children = self._children(row.object_type)
        if children is None:
            self._unknown[identifier[:-1]] -= 1
            return
        names = children.get(identifier[:-1], [])
        position = bisect_left(names, identifier[-1])
        if position < len(names) and names[position] == identifier[-1]:
            del names[position]
            if not names:
                del children[identifier[:-1]]
        if row.object_type == TABLE_ROW:
            self._all_tables = None
            if row.location is not None and self.locations.get(row.location) == identifier:
                del self.locations[row.location]
                self.deep_locations.discard(row.location)

    def is_empty(self, parent: Identifier) -> bool:
        """Tell whether a namespace has no children."""
        return (
            parent not in self.namespaces
            and parent not in self.tables
            and not self._unknown[parent]
        )

    def all_tables(self) -> list[Identifier]:
        """List every table, sorted."""
        if self._all_tables is None:
            self._all_tables = sorted(
                (*parent, name) for parent, names in self.tables.items() for name in names
            )
        return self._all_tables

    def _add(
        self, identifier: Identifier, row: Row, place: Callable[[list[str], str], None]
    ) -> None:
        if row.object_type == VERSION_ROW:
            number = _version(identifier)
            if number is not None:
                table = identifier[:-1]
                rows = self.versions.setdefault(table, {})
                if number in rows:
                    self._spell_twice(table, number, row)
                rows[number] = row
                self.newest_versions[table] = max(number, self.newest_versions.get(table, 0))
            return
        children = self._children(row.object_type)
        if children is None:
            self._unknown[identifier[:-1]] += 1
            return
        place(children.setdefault(identifier[:-1], []), identifier[-1])
        if row.object_type == TABLE_ROW:
            self._all_tables = None
            if row.location is not None:
                self.locations.setdefault(row.location, identifier)
                if "/" in row.location:
                    self.deep_locations.add(row.location)

    def _spell_twice(self, table: Identifier, number: int, row: Row) -> None:
        """Keep the rows of a version that say its number in another way than this one."""
        twice = self.spelled_twice.setdefault(table, {})
        before = (*twice.pop(number, ()), self.versions[table][number])
        others = [one for one in before if one.object_id != row.object_id]
        if others:
            twice[number] = others

    def _remove_version(self, table: Identifier, number: int, row: Row) -> None:
        rows = self.versions.get(table, {})
        if number in self.spelled_twice.get(table, {}):
            self._spell_twice(table, number, row)
            rows[number] = self.spelled_twice[table][number].pop()
            if not self.spelled_twice[table][number]:
                del self.spelled_twice[table][number]
            return
        rows.pop(number, None)
        if not rows:
            self.versions.pop(table, None)
            self.newest_versions.pop(table, None)
        elif self.newest_versions[table] == number:
            self.newest_versions[table] = max(rows)

    def _children(self, object_type: str) -> dict[Identifier, list[str]] | None:
        if object_type == NAMESPACE:
            return self.namespaces
        return self.tables if object_type == TABLE_ROW else None


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Make many objects at once, none of which can be garbage.

    Otherwise the collector walks over all of them again and again, which takes twice the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def page(names: list[str], after: str | None, limit: int | None) -> list[str]:
    """Cut one page out of a sorted list."""
    start = 0 if after is None else bisect_right(names, after)
    return names[start:] if limit is None else names[start : start + limit]


def _version(identifier: Identifier) -> int | None:
    # Padded to 20 digits by some writers, plain in the specification.
    name = identifier[-1]
    return int(name) if name.isascii() and name.isdigit() else None
