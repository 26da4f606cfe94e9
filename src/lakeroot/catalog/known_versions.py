"""The versions of one table at one look: what the catalog keeps, and what is on the disk."""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec.structs import replace

from lakeroot.catalog.paging import token_of
from lakeroot.catalog.version_files import VersionFiles
from lakeroot.catalog.version_identity import DIGEST, is_of
from lakeroot.model.errors import InvalidTableStateError
from lakeroot.model.identifiers import show
from lakeroot.model.records import Table, TableVersion
from lakeroot.storage.contract import VersionsByNumber
from lakeroot.tables.versions import NamingScheme, parse_manifest_name, parse_staging_name

SCHEME: Final = "naming_scheme"
"""Where a version the catalog keeps says how its manifest is named."""

_OWN: Final = (SCHEME, DIGEST)
_SCHEMES: Final = {str(scheme): scheme for scheme in NamingScheme}


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
        self._first: TableVersion | None = None
        """The version that a bucket lists first, if it was asked."""

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
            path = self.files.path_in(self._last, scheme_in(self.kept[self._last]))
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

    def is_like(self, other: "KnownVersions") -> bool:
        """Tell whether another look has found the same versions, as far as their newest tells."""
        return (self.newest, self.digest(self.newest)) == (
            other.newest,
            other.digest(other.newest),
        )

    def digest(self, number: int) -> str | None:
        """Give what the catalog has noted of a version's manifest, if it has."""
        row = self.kept.get(number)
        return None if row is None else row.metadata.get(DIGEST)

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
        last, scheme = self._last, scheme_in(self.kept[self._last])
        if not self._has_hint and scheme is NamingScheme.V2:
            # A bucket lists the newest first.
            self._first = self.files.first()
            self._is_newest_in_place = self._first is not None and self._first.version == last
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
        final = self.files.path_in(row.version, scheme_in(row))
        public = {key: value for key, value in row.metadata.items() if key not in _OWN}
        whole = replace(row, manifest_path=self.files.address(final), metadata=public)
        if self.files.relative(row.manifest_path) == final:
            on_disk = self._on_disk
            if self.files.exists(final) if on_disk is None else on_disk.get(row.version) == final:
                return whole
        # What is there may be another writer's, put there directly: it is the one that counts.
        found = self._described(row.version, final)
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

    def _described(self, number: int, path: str) -> TableVersion | None:
        """Describe the version in a file, if possible without asking for it once more."""
        listed, self._first = self._first, None  # Whoever asks again wants to know what is so now.
        if listed is not None and listed.manifest_path == self.files.address(path):
            return listed
        return self.files.describe(number, path)

    def _allow_gone(self, row: TableVersion) -> None:
        """Pass over an old version that was cleaned up; the newest must not just vanish."""
        if row.version == self.newest and not self.is_pinned:
            raise InvalidTableStateError(
                f"Version {row.version} of {show(self.table.identifier)} is not there",
                "its manifest was deleted, but it is the newest version",
                "Put the file back from a backup, or delete the version to go back to the one "
                "before",
            )


def is_staged(row: TableVersion) -> bool:
    """Tell whether a row still names the place where its manifest was staged."""
    return parse_staging_name(row.manifest_path.rpartition("/")[2]) is not None


def scheme_in(row: TableVersion) -> NamingScheme:
    """Tell how the file of a version is named, as its row says."""
    given = _SCHEMES.get(row.metadata.get(SCHEME, ""))
    if given is not None:
        return given
    return scheme_of(row)  # Written by others: the name of the file tells.


def scheme_of(found: TableVersion) -> NamingScheme:
    """Tell how the file of a version is named."""
    name = found.manifest_path.rpartition("/")[2]
    manifest = parse_manifest_name(name.partition("-")[0])
    return NamingScheme.V2 if manifest is None else manifest.scheme
