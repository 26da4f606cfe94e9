"""A draft over a view: the changes of commits that are being checked, on top of what is there."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Record, Table
from lakeroot.storage.contract import View


class Overlay:
    """What a catalog will hold if the pending changes are committed."""

    def __init__(self, base: View, *, keeps_versions: bool = True) -> None:
        self._base = base
        self.keeps_versions = keeps_versions
        self._locations: dict[str, Identifier] = {}
        self.has_deep_locations = False
        """Whether one of them may lie in a directory of its own below the root."""
        self._touched_children: defaultdict[Identifier, set[str]] = defaultdict(set)
        self._undo: list[tuple[Identifier, bool, Record | None]] = []
        self.changed: dict[Identifier, Record | None] = {}

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of this identifier."""
        if identifier in self.changed:
            return self.changed[identifier]
        return self._base.get(identifier)

    def is_empty(self, identifier: Identifier) -> bool:
        """Tell whether a namespace has no tables and no namespaces."""
        touched = self._touched_children.get(identifier)
        if not touched:
            return self._base.is_empty(identifier)
        if any(self.changed.get((*identifier, name)) is not None for name in touched):
            return False
        # Some children are being removed: is any left? One more than those is enough to know.
        enough = len(touched) + 1
        left = self._base.namespaces(identifier, None, enough)
        left += self._base.tables(identifier, None, enough)
        return touched.issuperset(left)

    def owner_of(self, location: str) -> Identifier | None:
        """Give the table that is at a location."""
        if location in self._locations:
            return self._locations[location]
        owner = self._base.owner_of(location)
        return None if owner in self.changed else owner

    @property
    def new_locations(self) -> Collection[str]:
        """Give the locations of the tables that were added or replaced."""
        return self._locations.keys()

    def put(self, record: Record) -> None:
        """Add or replace an object."""
        self._set(record.identifier, record)

    def remove(self, identifier: Identifier) -> None:
        """Take an object away."""
        self._set(identifier, None)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Try the changes of one commit; if it is refused, the draft is as it was before."""
        self._undo.clear()
        keeps_versions = self.keeps_versions
        try:
            yield
        except BaseException:
            self.keeps_versions = keeps_versions
            for identifier, was_changed, record in reversed(tuple(self._undo)):
                self._set(identifier, record)
                if not was_changed:
                    del self.changed[identifier]
                    if identifier:
                        self._touched_children[identifier[:-1]].discard(identifier[-1])
            raise

    def _set(self, identifier: Identifier, record: Record | None) -> None:
        before = self.changed.get(identifier)
        self._undo.append((identifier, identifier in self.changed, before))
        if isinstance(before, Table):
            self._locations.pop(before.location, None)
        if isinstance(record, Table):
            self._locations[record.location] = identifier
            if "/" in record.location:
                self.has_deep_locations = True
        self.changed[identifier] = record
        if identifier:
            self._touched_children[identifier[:-1]].add(identifier[-1])
