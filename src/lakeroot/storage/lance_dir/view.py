"""Both schemes as one: the manifest first, then the directory."""

from bisect import bisect_right
from collections.abc import Iterable

from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.model.records import Namespace, Record, Table
from lakeroot.storage.lance_dir.commits import is_control
from lakeroot.storage.lance_dir.directory import NOTHING, Directory, Probe
from lakeroot.storage.lance_dir.index import page
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.placement import directories_above, flat, is_component
from lakeroot.storage.lance_dir.rows import NAMESPACE, TABLE_ROW


class DirectoryView:
    """What a directory catalog holds: rows of the manifest, and directories without a row."""

    def __init__(self, manifest: ManifestTable | None, directory: Directory | None) -> None:
        self._manifest = manifest
        self._directory = directory
        self._probed: dict[str, tuple[int, Probe]] = {}

    def look(self, name: str) -> Probe:
        """Look at the directory of a name, once for each version of the catalog.

        The next question for the table is answered by what was seen. A drop that was committed
        since makes another version: what was seen before it counts no more.
        """
        if self._directory is None:
            return NOTHING
        seen = self._probed.get(name)
        version = self._version()
        if seen is None or seen[0] != version:
            seen = self._probed[name] = (version, self._directory.probe(name))
        return seen[1]

    def _version(self) -> int:
        return 0 if self._manifest is None else self._manifest.head.version

    def forget(self, identifiers: Iterable[Identifier]) -> None:
        """Forget what was remembered for a commit that is over: by now it may be otherwise."""
        for identifier in identifiers:
            if len(identifier) == 1:
                self._probed.pop(identifier[0], None)

    def get(self, identifier: Identifier) -> Record | None:
        """Give the object of this identifier; the root is a namespace."""
        if identifier == ROOT:
            return self._root()
        if self._manifest is not None:
            found = self._manifest.get(identifier)
            if found is not None:
                return found
        if self._directory is None or len(identifier) != 1 or not is_component(identifier[0]):
            return None
        name = identifier[0]
        probe = self.look(name)
        self._probed.pop(name, None)
        location = flat(name)
        if not probe.is_table or self.owner_of(location) is not None:
            return None
        return Table(identifier, location)

    def is_empty(self, identifier: Identifier) -> bool:
        """Tell whether a namespace has no tables and no namespaces."""
        if identifier == ROOT:
            return not self.namespaces(ROOT, None, 1) and not self.tables(ROOT, None, 1)
        if self._manifest is None:
            return True
        with self._manifest.lock:
            return self._manifest.index.listings.is_empty(identifier)

    def owner_of(self, location: str) -> Identifier | None:
        """Give the table that is at a location, by its row."""
        if self._manifest is None:
            return None
        with self._manifest.lock:
            return self._manifest.index.listings.locations.get(location)

    def overlapping(self, location: str) -> Identifier | None:
        """Give a table whose directory lies around a location, or inside it."""
        if self._manifest is None:
            return None
        with self._manifest.lock:
            listings = self._manifest.index.listings
            inside = (deep for deep in listings.deep_locations if deep.startswith(location + "/"))
            for place in (*directories_above(location), *inside):
                if place in listings.locations:
                    return listings.locations[place]
        return None

    def namespaces(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child namespaces, sorted, starting after a name."""
        if self._manifest is None:
            return []
        with self._manifest.lock:
            return page(self._manifest.children(parent, NAMESPACE), after, limit)

    def tables(self, parent: Identifier, after: str | None, limit: int | None) -> list[str]:
        """List the names of child tables, sorted, starting after a name."""
        if parent == ROOT and self._directory is not None:
            return page(self._root_tables(self._directory), after, limit)
        if self._manifest is None:
            return []
        with self._manifest.lock:
            return page(self._manifest.children(parent, TABLE_ROW), after, limit)

    def all_tables(self, after: Identifier | None, limit: int | None) -> list[Identifier]:
        """List every table of the catalog, sorted, starting after an identifier."""
        found: list[Identifier] = []
        if self._manifest is not None:
            with self._manifest.lock:
                found = self._manifest.index.listings.all_tables()
        if self._directory is not None:
            root = {(name,) for name in self._root_tables(self._directory)}
            found = sorted(root.union(found))
        start = 0 if after is None else bisect_right(found, after)
        return found[start:] if limit is None else found[start : start + limit]

    def _root(self) -> Namespace:
        if self._manifest is None:
            return Namespace(ROOT)
        metadata = self._manifest.head.table_metadata
        return Namespace(ROOT, {k: v for k, v in metadata.items() if not is_control(k)})

    def _root_tables(self, directory: Directory) -> list[str]:
        if self._manifest is None:
            return sorted(directory.names(frozenset()))
        with self._manifest.lock:
            listings = self._manifest.index.listings
            known = listings.tables.get(ROOT, [])
            found = directory.names(listings.locations)
            if not found:
                return known
            # A namespace and a table cannot share a name: the manifest has precedence.
            taken = set(listings.namespaces.get(ROOT, ()))
            return sorted({*known, *(name for name in found if name not in taken)})
