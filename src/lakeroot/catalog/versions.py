"""Versions of tables: listed, described and deleted, whoever is their arbiter.

Without management the files in ``_versions`` are all there is. With management the catalog is an
external manifest store: a version exists from the moment the catalog says so; putting its file
into place comes after, and any reader finishes it. Files that other clients put there directly
count from the first look, and are taken into the catalog with the next commit.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.each import each
from lakeroot.catalog.known_versions import (
    SCHEME,
    KnownVersions,
    is_staged,
    scheme_in,
    scheme_of,
)
from lakeroot.catalog.paging import after_name, token_of
from lakeroot.catalog.version_files import VersionFiles
from lakeroot.catalog.version_identity import DIGEST, SMALL, digest_of
from lakeroot.model.commits import (
    Change,
    CreateTableVersions,
    DeleteTableVersions,
    ManageTableVersions,
    RegisterTable,
    Unchanged,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableBranchNotFoundError,
    TableVersionAlreadyExistsError,
    TableVersionNotFoundError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Table, TableVersion
from lakeroot.objects import flush_together
from lakeroot.tables.versions import (
    LAST_VERSION,
    MAIN,
    VERSIONS,
    VersionRange,
    covered,
    object_key,
)

Told = TypeVar("Told")

_FEW: Final = 8
_ATTEMPTS: Final = 10


class Deletion(Struct, frozen=True):
    """Versions of a table that are to be deleted, as one look has found them.

    What comes later is not among them, however far the ranges reach that were asked for.
    """

    table: Table
    numbers: tuple[int, ...]
    rows: tuple[TableVersion, ...]
    """What the catalog keeps of them, and of those before that Lance has cleaned up."""
    files: VersionFiles
    paths: tuple[str, ...]

    @property
    def change(self) -> DeleteTableVersions:
        """Say what the catalog forgets."""
        return DeleteTableVersions(self.table.identifier, tuple(row.version for row in self.rows))

    def discard(self) -> None:
        """Delete the manifests, once the catalog has forgotten the versions."""
        self.files.discard(list(self.paths))


class TableVersions:
    """The versions of the tables of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._store = catalog.store

    def list_versions(
        self,
        identifier: Identifier,
        branch: str | None = None,
        token: str | None = None,
        limit: int | None = None,
        *,
        descending: bool = False,
    ) -> tuple[list[TableVersion], str | None]:
        """List versions, a page at a time, oldest first unless asked otherwise."""
        after = _after(token, limit)
        turn: str | None = None
        is_writers = limit == 1 and descending and self._catalog.turns.are_taken
        if is_writers and self._store.root.is_local and self.is_managed(branch):
            turn = self.turn_at(self._catalog.table(identifier))
        if turn is not None:
            self._catalog.turns.look(turn, self._store.read)
        listed = self._steadily(
            identifier,
            branch,
            lambda found: (
                (_newest_of(found) if limit == 1 and descending and after is None else None)
                or _page(found, after, limit, descending=descending)
            ),
        )
        if turn is not None:
            self._catalog.turns.looked(turn)
        return listed

    def describe_version(
        self, identifier: Identifier, version: int | None = None, branch: str | None = None
    ) -> TableVersion:
        """Describe a version, or the newest; finish it if its writer did not."""
        return self._steadily(identifier, branch, lambda found: _described(found, version))

    def _steadily(
        self, identifier: Identifier, branch: str | None, tell: Callable[[KnownVersions], Told]
    ) -> Told:
        """Look at a table's versions and tell something of them.

        Where one is not there, somebody may have deleted it after the look: then the next one tells
        what is so. Only a look that finds the same again is believed.
        """
        found = self._look(identifier, branch)
        for _ in range(_ATTEMPTS):
            try:
                return tell(found)
            except (InvalidTableStateError, TableVersionNotFoundError):
                before, found = found, self._look(identifier, branch)
                if before.is_like(found):
                    raise
        return tell(found)

    def delete_versions(
        self, identifier: Identifier, ranges: Sequence[VersionRange], branch: str | None = None
    ) -> int:
        """Delete versions: their manifests and what the catalog keeps of them, never data."""
        first: Table | None = None
        for attempt in range(_ATTEMPTS):
            going = self.to_delete(identifier, ranges, branch)
            first = first or going.table
            require_same_table(first, going.table)
            # Before the files: a version that the catalog keeps and nobody can read is worse
            # than a file that nobody looks for.
            try:
                if going.rows:
                    unchanged = Unchanged(identifier, going.table)
                    direct = self.staying(going)
                    self._catalog.commit(going.change, *direct, requires=[unchanged])
            except ConcurrentModificationError:
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                break
        going.discard()
        return len(going.numbers)

    def to_delete(
        self,
        identifier: Identifier,
        ranges: Sequence[VersionRange],
        branch: str | None = None,
        *,
        spared: Collection[int] = (),
    ) -> Deletion:
        """Find the versions that ranges cover, but for those that are spared."""
        found = self._look(identifier, branch)
        # The newest first: if their deletion is cut off, those that are left follow each other.
        on_disk = sorted(found.files.all(), reverse=True)
        there = {*(number for number, _ in on_disk), *found.kept}
        going = covered(there.difference(spared), ranges)
        gone = set(going)
        _require_untagged(found, gone.intersection(number for number, _ in on_disk))
        rows = [found.kept[number] for number in going if number in found.kept]
        paths = [path for number, path in on_disk if number in gone]
        paths += [found.files.relative(row.manifest_path) for row in rows]
        for row in filter(is_staged, rows):
            # Put into its place first, as every reader does, its number is taken until it goes: the
            # file that is deleted is not that of the next version.
            final = found.files.path_in(row.version, scheme_in(row))
            if found.files.recover(found.files.relative(row.manifest_path), final):
                paths.append(final)
        cleaned_up = (number for number in found.cleaned_up(gone) if number not in spared)
        rows += [found.kept[number] for number in cleaned_up]
        once = tuple(dict.fromkeys(paths))
        return Deletion(found.table, tuple(going), tuple(rows), found.files, once)

    def staying(self, deletion: Deletion) -> list[Change]:
        """Say what lets the catalog keep versions that were put there directly, and that stay.

        Otherwise what it keeps would end before them, and so would the table as it is now.
        """
        return self.taken_in(self.known(deletion.table), but_for=deletion.numbers)

    def enable(self) -> None:
        """Make the catalog the arbiter of its tables' versions; those there are taken in."""
        for attempt in range(_ATTEMPTS):
            taken_in = [c for table in self._tables() for c in self._all_taken_in(table)]
            try:
                self._catalog.commit(
                    ManageTableVersions(enabled=True), *taken_in, message="Manage table versions"
                )
            except TableVersionAlreadyExistsError:
                if attempt + 1 == _ATTEMPTS:
                    raise  # Others commit so fast that there is no quiet moment.
            else:
                return

    def disable(self) -> None:
        """Leave the versions to the tables' own files again; unfinished ones are finished."""
        self._store.read()
        for _ in range(_ATTEMPTS):
            self._catalog.commit(
                ManageTableVersions(enabled=False), message="Stop managing table versions"
            )
            # From now on no version is added; one may have come at the moment of the commit.
            if not any(self._store.versions(table, None) for table in self._tables()):
                return
        raise ConcurrentModificationError(
            "Version management is off, but rows of versions are left",
            "others committed at the same moment, again and again",
            "Disable it once more when there are fewer writers",
        )

    def forget_unmanaged(self, identifier: Identifier) -> bool:
        """Forget versions that were left when management was switched off; tell whether any were.

        All are, not those of one table alone, and finished before, as when it is switched off.
        """
        self._store.read()
        if self._store.keeps_versions or not self._store.versions(Table(identifier, ""), None):
            return False
        self.disable()
        return True

    def latest(self, table: Table) -> int:
        """Give the number of the newest version; 0 if the table is only declared."""
        return self.known(table).newest

    def is_managed(self, branch: str | None) -> bool:
        """Tell whether the catalog arbitrates the versions; those of branches it never does."""
        return self._store.keeps_versions and branch in (None, MAIN)

    def known(self, table: Table, branch: str | None = None) -> KnownVersions:
        """Look at the versions of a table."""
        is_pinned = self._store.is_past and self._store.keeps_versions
        kept: Mapping[int, TableVersion] = {}
        if is_pinned or self.is_managed(branch):
            kept = self._store.versions(table, None if branch == MAIN else branch)
        return KnownVersions(
            table,
            self.files(table, branch),
            kept,
            is_pinned=is_pinned,
            has_hint=self._store.root.is_local,
        )

    def files(self, table: Table, branch: str | None = None) -> VersionFiles:
        """Give the version files of a table."""
        key = object_key(self._store.uri(table.location))
        return VersionFiles(
            self._store.files(table),
            key,
            None if branch == MAIN else branch,
            is_local=self._store.root.is_local,
        )

    def taken_in(self, found: KnownVersions, but_for: Collection[int] = ()) -> list[Change]:
        """Say what would let the catalog keep the versions that were put beside those it keeps."""
        numbers = sorted(number for number in found.direct if number not in but_for)

        def look(number: int) -> TableVersion | None:
            described = found.files.describe(number, found.direct[number])
            return None if described is None else as_taken_in(found.files, described)

        rows = tuple(filter(None, each(self._store, look, numbers)))
        return [CreateTableVersions(found.table.identifier, rows)] if rows else []

    def named(self, table: Table) -> list[Change]:
        """Say what gives a table that was written unseen its name and its versions.

        Their manifests are on the disk then: nothing says of them where else they could be.
        """
        found = self.known(table)
        flush_together(map(found.files.object, found.direct.values()))
        name = RegisterTable(table.identifier, table.location, table.properties)
        return [name, *self.taken_in(found)]

    def _all_taken_in(self, table: Table) -> list[Change]:
        kept = self._store.versions(table, None)
        files = self.files(table)
        has_hint = self._store.root.is_local
        return self.taken_in(KnownVersions(table, files, kept, has_hint=has_hint))

    def turn_at(self, table: Table) -> str | None:
        """Say what writers of a table lock in turns; nothing where they cannot meet."""
        if not self._store.root.is_local or self._store.is_past:
            return None
        return f"{self._store.uri(table.location)}/{VERSIONS}"

    def _look(self, identifier: Identifier, branch: str | None) -> KnownVersions:
        found = self.known(self._catalog.table(identifier), branch)
        if branch not in (None, MAIN) and not found.has_any:
            raise TableBranchNotFoundError(
                f"{show(identifier)} {'had' if found.is_pinned else 'has'} no branch {branch!r}",
                fix="List the branches of the table to see those it has",
            )
        return found

    def _tables(self) -> Iterator[Table]:
        view = self._store.read()
        for identifier in view.all_tables(None, None):
            table = view.get(identifier)
            if isinstance(table, Table):
                yield table


def are_one(before: Table, now: Table) -> bool:
    """Tell whether two looks at a name saw one table; of some it is not known when they began."""
    began = {before.created_at_ms, now.created_at_ms} - {None}
    return before.location == now.location and len(began) < 2


def require_same_table(before: Table, now: Table) -> None:
    """Refuse to do to a table what was meant for another that had its name."""
    if not are_one(before, now):
        raise ConcurrentModificationError(
            f"{show(now.identifier)} is another table now",
            "the one this was meant for was dropped or renamed",
            "Read the table again and repeat",
        )


def _newest_of(found: KnownVersions) -> tuple[list[TableVersion], str | None] | None:
    """List the newest version alone; nothing if all must be looked at."""
    if not found.is_pinned:
        return found.newest_alone()
    # Lance looks into the directory if it is shown nothing, and would read what came later: what
    # cannot be shown of the past is an error.
    newest = _described(found, None)
    more = any(number < newest.version for number in found.kept)
    return [newest], token_of(str(newest.version)) if more else None


def _page(
    found: KnownVersions, after: int | None, limit: int | None, *, descending: bool
) -> tuple[list[TableVersion], str | None]:
    ordered = sorted(found.numbers, reverse=descending)
    if after is not None:
        ordered = [n for n in ordered if (n < after if descending else n > after)]
    if limit is None or limit > _FEW:
        found.look_at_all_files()
    found.look_from_the_newest()
    shown: list[TableVersion] = []
    for position, number in enumerate(ordered):
        if limit is not None and len(shown) >= limit:
            rest = bool(shown) and position < len(ordered)
            return shown, token_of(str(shown[-1].version)) if rest else None
        version = found.version(number)
        if version is not None:
            shown.append(version)
    return shown, None


def _described(found: KnownVersions, version: int | None) -> TableVersion:
    identifier = found.table.identifier
    number = found.newest if version is None else version
    if number == 0 and version is None:
        raise TableVersionNotFoundError(
            f"{show(identifier)} {'had' if found.is_pinned else 'has'} no versions",
            "it was only declared then" if found.is_pinned else "it is only declared",
        )
    described = found.version(number) if 0 < number <= LAST_VERSION else None
    if described is None:
        raise TableVersionNotFoundError(
            f"{show(identifier)} has no version {number}",
            "it had, and the version was deleted since" if number in found.kept else "",
            "List the versions of the table to see those it has",
        )
    return described


def _after(token: str | None, limit: int | None) -> int | None:
    if limit is not None and limit < 0:
        raise InvalidInputError(f"`limit` cannot be {limit}", fix="Use 0 or more")
    after = after_name(token)
    if after is None:
        return None
    if not re.fullmatch("[0-9]{1,20}", after):
        raise InvalidInputError("This page token is of another listing")
    return int(after)


def as_taken_in(files: VersionFiles, found: TableVersion) -> TableVersion:
    """Write a version that was put there directly as the catalog keeps it."""
    kept = {SCHEME: str(scheme_of(found))}
    if (found.manifest_size or 0) <= SMALL:
        content = files.content(files.relative(found.manifest_path))
        if content is not None:
            kept[DIGEST] = digest_of(content)
    return replace(found, metadata=kept)


def _require_untagged(found: KnownVersions, going: Collection[int]) -> None:
    """Refuse to delete what has a name: the tag would mean the next version of that number."""
    tags = sorted(tag for tag, number in found.files.tags() if number in going) if going else []
    if tags:
        raise InvalidInputError(
            f"Versions of {show(found.table.identifier)} cannot be deleted",
            f"they are tagged: {', '.join(tags)}",
            "Delete the tags first, or leave their versions out",
        )
