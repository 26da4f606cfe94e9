"""Versions of tables: listed, described and deleted, whoever is their arbiter.

Without management the files in ``_versions`` are all there is. With management the catalog is an
external manifest store: a version exists from the moment the catalog says so; putting its file
into place comes after, and any reader finishes it. Files that other clients put there directly
count from the first look, and are taken into the catalog with the next commit.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.paging import after_name, token_of
from lakeroot.catalog.version_files import VersionFiles
from lakeroot.catalog.version_identity import DIGEST, SMALL, digest_of, is_of
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
from lakeroot.storage.contract import VersionsByNumber
from lakeroot.tables.versions import (
    LAST_VERSION,
    MAIN,
    VERSIONS,
    NamingScheme,
    VersionRange,
    covered,
    object_key,
    parse_manifest_name,
    parse_staging_name,
)

SCHEME: Final = "naming_scheme"
"""Where a version the catalog keeps says how its manifest is named."""

_OWN: Final = (SCHEME, DIGEST)
_SCHEMES: Final = {str(scheme): scheme for scheme in NamingScheme}
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
        if limit == 1 and descending and self._catalog.turns.are_taken and self.is_managed(branch):
            self._take_turn(identifier)
        found = self._look(identifier, branch)
        if limit == 1 and descending and after is None:
            if found.is_pinned:
                # Lance looks into the directory if it is shown nothing, and would read what
                # came later: what cannot be shown of the past is an error.
                newest = _described(identifier, found, None)
                more = any(number < newest.version for number in found.kept)
                return [newest], token_of(str(newest.version)) if more else None
            alone = found.newest_alone()
            if alone is not None:
                return alone
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

    def describe_version(
        self, identifier: Identifier, version: int | None = None, branch: str | None = None
    ) -> TableVersion:
        """Describe a version, or the newest; finish it if its writer did not."""
        return _described(identifier, self._look(identifier, branch), version)

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
                    self._catalog.commit(going.change, requires=[unchanged])
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
        on_disk = list(found.files.all())
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
            final = found.files.path_in(row.version, _scheme(row))
            if found.files.recover(found.files.relative(row.manifest_path), final):
                paths.append(final)
        cleaned_up = (number for number in found.cleaned_up(gone) if number not in spared)
        rows += [found.kept[number] for number in cleaned_up]
        once = tuple(dict.fromkeys(paths))
        return Deletion(found.table, tuple(going), tuple(rows), found.files, once)

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

    def known(
        self, table: Table, branch: str | None = None, files: VersionFiles | None = None
    ) -> "KnownVersions":
        """Look at the versions of a table."""
        is_pinned = self._store.is_past and self._store.keeps_versions
        kept: Mapping[int, TableVersion] = {}
        if is_pinned or self.is_managed(branch):
            kept = self._store.versions(table, None if branch == MAIN else branch)
        return KnownVersions(
            table,
            files or self.files(table, branch),
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

    def taken_in(self, found: "KnownVersions") -> list[Change]:
        """Say what would let the catalog keep the versions that were put beside those it keeps."""
        if not found.direct:
            return []
        described = (found.files.describe(n, found.direct[n]) for n in sorted(found.direct))
        rows = tuple(as_taken_in(found.files, one) for one in described if one is not None)
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

    def _take_turn(self, identifier: Identifier) -> None:
        turn = self.turn_at(self._catalog.table(identifier))
        if turn is not None:
            self._catalog.turns.take(turn, self._store.read)

    def _look(self, identifier: Identifier, branch: str | None) -> "KnownVersions":
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


class KnownVersions:
    """The versions of one table, or branch, as the catalog and the directory show them."""

    def __init__(
        self,
        table: Table,
        files: VersionFiles,
        kept: Mapping[int, TableVersion],
        *,
        is_pinned: bool = False,
        has_hint: bool = False,
    ) -> None:
        self.table = table
        self.files = files
        self.kept = kept
        self._last = kept.newest if isinstance(kept, VersionsByNumber) else max(kept, default=0)
        self.is_pinned = is_pinned
        self._on_disk: dict[int, str] | None = None
        self._has_hint = has_hint
        self._direct: dict[int, str] | None = None
        self._same_up_to = 0
        self._is_newest_in_place: bool | None = None

    @property
    def direct(self) -> dict[int, str]:
        """Give the versions that other clients put there, by number: their paths."""
        if self._direct is None:
            self._direct = {} if self.is_pinned else self._put_directly()
        return self._direct

    @property
    def is_newest_in_place(self) -> bool:
        """Tell whether the file of the last version the catalog keeps is in its place."""
        if self._is_newest_in_place is None:
            path = self.files.path_in(self._last, _scheme(self.kept[self._last]))
            self._is_newest_in_place = self.files.exists(path)
        return self._is_newest_in_place

    @property
    def has_any(self) -> bool:
        """Tell whether there is a version at all."""
        return bool(self.kept or self.direct)

    def newest_alone(self) -> tuple[list[TableVersion], str | None] | None:
        """List the newest version without the others; nothing if all must be looked at."""
        if self.kept:
            newest = self.version(self.newest)
            has_others = len(self.kept) + len(self.direct) > 1
            token = token_of(str(self.newest)) if has_others else None
            return None if newest is None else ([newest], token)
        first = self.files.newest()
        name = None if first is None else parse_manifest_name(first[0].rpartition("/")[2])
        if first is None or name is None:
            return None
        shown = self.files.describe(name.version, first[0])
        token = token_of(str(name.version)) if first[1] else None
        return None if shown is None else ([shown], token)

    @property
    def numbers(self) -> list[int]:
        """Give the numbers of all versions."""
        return [*self.kept, *self.direct]

    @property
    def newest(self) -> int:
        """Give the number of the newest version; 0 if there is none."""
        return max(self.direct, default=self._last)

    def look_at_all_files(self) -> None:
        """List the directory once, for whoever is going to ask for many versions."""
        if self._on_disk is None:
            self._on_disk = self.files.numbers()

    def look_from_the_newest(self) -> None:
        """Find the newest version of the past that is still there, for whoever asks for many."""
        if self.is_pinned:
            next(filter(self.version, sorted(self.kept, reverse=True)), None)

    def version(self, number: int) -> TableVersion | None:
        """Describe a version and make sure that it is in its place; nothing if it is gone."""
        row = self.kept.get(number)
        if row is not None:
            found = self._in_its_place(row)
            return found if found is None or self._is_still(row, found) else None
        if self.is_pinned:
            return None
        path = (self._on_disk or {}).get(number) or self.files.path_of(number)
        return None if path is None else self.files.describe(number, path)

    def _is_still(self, row: TableVersion, found: TableVersion) -> bool:
        """Tell whether a version of the past is not a younger one that took its number.

        Numbers are given after the newest: those before one that is the same are the same, too.
        """
        if not self.is_pinned or row.version <= self._same_up_to:
            return True
        path = self.files.relative(found.manifest_path)
        now = self.files.describe(row.version, path)
        if now is None or not is_of(row, now, lambda: self.files.content(path)):
            return False
        self._same_up_to = row.version
        return True

    def cleaned_up(self, gone: Collection[int]) -> list[int]:
        """Give the versions that Lance has cleaned up, which go when others are deleted.

        One of them would be the newest that the catalog keeps, and the table could not be read.
        A version that is not in its place yet is finished; the newest of all is never given.
        """
        if not gone:
            return []
        self.look_at_all_files()
        left = (n for n in self.kept if n < self.newest and n not in gone)
        return sorted(number for number in left if self.version(number) is None)

    def _put_directly(self) -> dict[int, str]:
        if not self.kept:
            return self.files.numbers()
        if self._is_last():
            return {}
        last = self._last
        return {number: path for number, path in self.files.numbers().items() if number > last}

    def _is_last(self) -> bool:
        """Tell, without listing all files, that none is newer than what the catalog keeps."""
        last, scheme = self._last, _scheme(self.kept[self._last])
        if not self._has_hint and scheme is NamingScheme.V2:
            # A bucket lists the newest first.
            self._is_newest_in_place = self.files.first() == last
            return self._is_newest_in_place
        # Old versions may have been cleaned up in between: then the last one we know is gone, or
        # Lance says where the newest is.
        return (
            not self.files.exists(self.files.path_in(last + 1, scheme))
            and self.is_newest_in_place
            and self._has_hint
            and self.files.hinted() <= last
        )

    def _in_its_place(self, row: TableVersion) -> TableVersion | None:
        final = self.files.path_in(row.version, _scheme(row))
        public = {key: value for key, value in row.metadata.items() if key not in _OWN}
        whole = replace(row, manifest_path=self.files.address(final), metadata=public)
        if self.files.relative(row.manifest_path) == final:
            on_disk = self._on_disk
            if self.files.exists(final) if on_disk is None else on_disk.get(row.version) == final:
                return whole
        # What is there may be another writer's, put there directly: it is the one that counts.
        found = self.files.describe(row.version, final)
        if found is None:
            # Lance can give all files of a table their names in the other scheme.
            found = self.files.describe(row.version, self.files.renamed(final))
        if found is None and self.files.recover(self.files.relative(row.manifest_path), final):
            found = self.files.describe(row.version, final)
        if found is None:
            self._allow_gone(row)
            return None
        return replace(
            whole,
            manifest_path=found.manifest_path,
            manifest_size=found.manifest_size,
            e_tag=found.e_tag,
        )

    def _allow_gone(self, row: TableVersion) -> None:
        """Pass over an old version that was cleaned up; the newest must not just vanish."""
        if row.version == self.newest and not self.is_pinned:
            raise InvalidTableStateError(
                f"Version {row.version} of {show(self.table.identifier)} is not there",
                "its manifest was deleted, but it is the newest version",
                "Put the file back from a backup, or delete the version to go back to the one "
                "before",
            )


def require_same_table(before: Table, now: Table) -> None:
    """Refuse to do to a table what was meant for another that had its name."""
    if (now.location, now.created_at_ms) != (before.location, before.created_at_ms):
        raise ConcurrentModificationError(
            f"{show(now.identifier)} is another table now",
            "the one this was meant for was dropped or renamed",
            "Read the table again and repeat",
        )


def _described(identifier: Identifier, found: KnownVersions, version: int | None) -> TableVersion:
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
    if not after.isdigit():
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


def is_staged(row: TableVersion) -> bool:
    """Tell whether a row still names the place where its manifest was staged."""
    return parse_staging_name(row.manifest_path.rpartition("/")[2]) is not None


def _scheme(row: TableVersion) -> NamingScheme:
    given = _SCHEMES.get(row.metadata.get(SCHEME, ""))
    if given is not None:
        return given
    return scheme_of(row)  # Written by others: the name of the file tells.


def scheme_of(found: TableVersion) -> NamingScheme:
    """Tell how the file of a version is named."""
    name = found.manifest_path.rpartition("/")[2]
    manifest = parse_manifest_name(name.partition("-")[0])
    return NamingScheme.V2 if manifest is None else manifest.scheme
