"""Finding what can be wrong with the Lance tables of an Iceberg REST catalog.

The catalog itself is another program's; what is looked at is whether its entries, the versions it
keeps and the files of the tables fit together. Nothing is changed by looking.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Below, Objects, Root, open_root
from lakeroot.storage.findings import REPAIR, Finding, Kind, Severity, found, worst_first
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import Config
from lakeroot.storage.iceberg_rest.entries import Entries, Entry
from lakeroot.storage.iceberg_rest.observing import observe
from lakeroot.storage.iceberg_rest.syncing import schema_changes, version_changes
from lakeroot.storage.iceberg_rest.versions import Versions
from lakeroot.storage.lance_dir.checking.findings import OF_TABLES
from lakeroot.storage.lance_dir.checking.leftovers import examine_leftovers, needed_of
from lakeroot.storage.lance_dir.checking.places import is_lance_directory
from lakeroot.storage.lance_dir.checking.tables import Files, examine_table
from lakeroot.storage.lance_dir.checking.versions import Kept, examine_versions

_AT_ONCE: Final = 8
PLACED: Final = re.compile(r".+-[0-9a-f]{12}\.lance")
"""How this client names the directory of a new table."""

OWN_KINDS: Final[Mapping[str, Kind]] = {
    "entry-unreadable": Kind(Severity.ERROR, "Correct the entry in the Iceberg catalog"),
    "pointer-stale": Kind(Severity.WARNING, REPAIR, repairable=True),
    "schema-stale": Kind(Severity.WARNING, REPAIR, repairable=True),
}
"""The codes that only an Iceberg catalog has."""

KINDS: Final[Mapping[str, Kind]] = {**OWN_KINDS, **OF_TABLES}
"""Every code, and what its findings have in common."""

_finding: Final = partial(found, KINDS)


class Checkable(Protocol):
    """An Iceberg catalog, as far as looking at it needs."""

    root: Root
    config: Config
    client: Client
    entries: Entries

    def files_of(self, entry: Entry) -> Objects:
        """Open the files of a table, with what the catalog lends to open them."""
        ...


def check(
    store: Checkable, grace: timedelta, under: Identifier = (), spread: Spread = here
) -> list[Finding]:
    """Find what is wrong with the tables of the catalog, or of a namespace at any depth.

    The tables are looked at by whomever `spread` finds for it.
    """
    cutoff_ms = int((time.time() - grace.total_seconds()) * 1000)
    names = store.entries.all_names(under)
    looked_at = spread(_Looking(store, cutoff_ms), names)
    findings = [one for _, found_here in looked_at for one in found_here]
    places: dict[str, list[Identifier]] = defaultdict(list)
    for name, (location, _) in zip(names, looked_at, strict=True):
        if location is not None:
            places[location].append(name)
    findings += _shared(places)
    if not under and store.config.root is not None:
        findings += _orphans(store, set(places), cutoff_ms)
    return worst_first(findings)


@dataclass(frozen=True, slots=True)
class _Looking:
    """Looks at tables one by one, here or in another process; it pickles."""

    store: Checkable = field(repr=False)
    cutoff_ms: int

    def __call__(self, names: Sequence[Identifier]) -> list[tuple[str | None, list[Finding]]]:
        """Look at some tables; give where each is, if it is, and what is wrong with it."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(self._look, names))

    def _look(self, identifier: Identifier) -> tuple[str | None, list[Finding]]:
        try:
            entry = self.store.entries.find(identifier)
            if entry is None:
                return None, []  # dropped since it was listed
            _ = entry.is_managed
        except LakerootError as error:
            name = show(identifier)
            what = f"{name} cannot be opened"
            wrong = _finding("entry-unreadable", name, what, str(error), identifier=identifier)
            return None, [wrong]
        return entry.location, list(_table(self.store, entry, self.cutoff_ms))


def _table(store: Checkable, entry: Entry, cutoff_ms: int) -> Iterator[Finding]:
    identifier, location = entry.identifier, entry.location
    below = store.files_of(entry)
    files: Files = {info.path: info for info in below.list("")}
    kept: Kept = Versions(store.client, store.entries).kept(entry)
    if not files:
        if entry.definition.version is not None:
            name = show(identifier)
            why = f"there is nothing at {location}"
            yield _finding(
                "table-missing", name, f"{name} cannot be opened", why, identifier=identifier
            )
        return
    damage = [
        one
        for one in examine_table(identifier, location, files, below)
        # Other files may lie there: an entry without a version is only declared.
        if one.code != "table-without-version" or (entry.definition.version and not kept)
    ]
    yield from damage
    if kept:
        yield from examine_versions(
            identifier, location, files, below, kept, lambda one: _kept_now(store, one)
        )
    yield from examine_leftovers(location, files, needed_of(kept, files), cutoff_ms)
    if not damage and not store.client.server.is_native:
        yield from _pointers(store, entry)


def _pointers(store: Checkable, entry: Entry) -> Iterator[Finding]:
    """Compare what the catalog shows of a table with the table."""
    try:
        seen = observe(entry.location, entry.storage_options)
        now = store.entries.find(entry.identifier)
    except LakerootError:
        return  # It cannot be opened, and the findings above say why.
    if seen is None or now is None:
        return
    name = show(entry.identifier)
    if version_changes(now, seen):
        what = f"Readers of the catalog see another version of {name} than there is"
        why = f"it says {now.definition.version}, and the newest is {seen.version}"
        yield _finding(
            "pointer-stale", name, what, why, identifier=entry.identifier, version=seen.version
        )
    if schema_changes(now, seen):
        what = f"Readers of the catalog see another schema of {name} than it has"
        why = "it was changed without the catalog"
        yield _finding(
            "schema-stale", name, what, why, identifier=entry.identifier, version=seen.version
        )


def _kept_now(store: Checkable, identifier: Identifier) -> Kept:
    entry = store.entries.find(identifier)
    return {} if entry is None else Versions(store.client, store.entries).kept(entry)


def _shared(places: Mapping[str, list[Identifier]]) -> Iterator[Finding]:
    for location, owners in sorted(places.items()):
        inside = [other for other in places if other.startswith(f"{location}/")]
        for identifier in owners if len(owners) > 1 or inside else ():
            name = show(identifier)
            why = f"another table is at {location}, or below it"
            what = f"{name} shares its directory"
            yield _finding("row-location-shared", name, what, why, identifier=identifier)


def _orphans(store: Checkable, owned: set[str], cutoff_ms: int) -> Iterator[Finding]:
    """Find directories below the root that are named as those of tables, and are nobody's."""
    objects = open_root(store.root)
    for namespace in sorted(objects.list_directory("").directories):
        for name in sorted(objects.list_directory(namespace).directories):
            place = f"{namespace}/{name}"
            address = store.root.join(place)
            if not PLACED.fullmatch(name) or {address, f"file://{address}"} & owned:
                continue
            files = {info.path: info for info in Below(objects, place).list("")}
            youngest = max((info.modified_ms for info in files.values()), default=0)
            if files and is_lance_directory(files) and youngest <= cutoff_ms:
                why = "it was deregistered, or the writer that created or dropped it has died"
                what = f"No table is at {address}"
                yield _finding("directory-orphan", place, what, why, path=place)
