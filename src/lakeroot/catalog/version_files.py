"""The version files of one table: what lies in its ``_versions`` directories."""

import contextlib
import json
import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    NotFoundError,
    TableVersionAlreadyExistsError,
)
from lakeroot.model.records import TableVersion
from lakeroot.objects import Below, ObjectInfo, Objects
from lakeroot.storage.lance_dir.manifest_check import checked
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.versions import write_hint
from lakeroot.tables.litter import TAGS
from lakeroot.tables.versions import (
    MAIN,
    SUFFIX,
    NamingScheme,
    StagedManifest,
    manifest_name,
    parse_manifest_name,
    versions_directory,
)

_MAGIC: Final = b"LANC"
_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_V2_LENGTH: Final = len(manifest_name(1))
_TAG: Final = ".json"
_HINT: Final = "latest_version_hint.json"
_PLAIN_HINT: Final = re.compile(rb'\{"version":([0-9]{1,19})\} *')


class VersionFiles:
    """The committed and staged manifests of a table, or of one of its branches."""

    def __init__(
        self, files: Objects, table_key: str, branch: str | None = None, *, is_local: bool = False
    ) -> None:
        self._files = files
        self._key = table_key
        self._is_local = is_local
        self._branch = None if branch == MAIN else branch
        self.directory = versions_directory(branch)

    def numbers(self) -> dict[int, str]:
        """Give every version that has a file, with the file's path below the table."""
        return dict(self.all())

    def all(self) -> Iterator[tuple[int, str]]:
        """Give every file of a version; one that is being renamed may have a file of each name."""
        for name in self._files.list_names(self.directory):
            manifest = parse_manifest_name(name)
            if manifest is not None:
                yield manifest.version, f"{self.directory}/{name}"

    def newest(self) -> tuple[str, bool] | None:
        """Give the path of the newest version, and whether there are others; nothing if unclear.

        Tables have thousands of versions, and this is asked at every opening. Where all files are
        named by scheme V2, the newest is the first by name, and no other name has to be read.
        """
        names = self._files.list_names(self.directory)
        if any(len(name) < _V2_LENGTH and name != _HINT for name in names):
            return None
        first = min(names, default="")
        if parse_manifest_name(first) is None:
            return None
        others = (name for name in names if name != first and name.endswith(SUFFIX))
        return f"{self.directory}/{first}", next(others, None) is not None

    def is_newest(self, version: int) -> bool:
        """Tell, without listing all files, that a version is the newest.

        Only a disk has the note that says so; without it the answer is no.
        """
        return (
            self._is_local
            and version > 0
            and self.hinted() == version
            and self.path_of(version) is not None
        )

    def note_newest(self, version: int) -> None:
        """Note a version as Lance does, for whoever looks for the newest; only a hint."""
        objects, path = self._files, f"{self.directory}/{_HINT}"
        if isinstance(objects, Below):
            objects, path = objects.above(path)
        with contextlib.suppress(LakerootError):
            write_hint(objects, version, path)

    def tags(self) -> Iterator[tuple[str, int]]:
        """Give the tags of versions of this branch, each with its version."""
        for name in self._files.list_names(TAGS):
            content = self._files.get(f"{TAGS}/{name}") if name.endswith(_TAG) else None
            try:
                found: Any = json.loads(content or b"null")
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("branch") == self._branch:
                version = found.get("version")
                if isinstance(version, int):
                    yield name.removesuffix(_TAG), version

    def first(self) -> TableVersion | None:
        """Describe the version that is listed first; nothing if there is none."""
        for found in self._files.list(self.directory):
            manifest = parse_manifest_name(found.path.rpartition("/")[2])
            if manifest is not None:
                return self._described(manifest.version, found)
        return None

    def hinted(self) -> int:
        """Give the newest version as Lance notes it beside the versions; 0 if it does not."""
        content = self._files.get(f"{self.directory}/{_HINT}")
        plain = _PLAIN_HINT.fullmatch(content or b"")
        if plain is not None:
            return int(plain[1])
        try:
            found: Any = json.loads(content or b"null")
        except ValueError:
            return 0
        version = found.get("version") if isinstance(found, dict) else None
        return version if isinstance(version, int) else 0

    def path_of(self, version: int) -> str | None:
        """Find the file of a version, in either naming scheme."""
        for scheme in (NamingScheme.V2, NamingScheme.V1):
            path = self.path_in(version, scheme)
            if self._files.exists(path):
                return path
        return None

    def path_in(self, version: int, scheme: NamingScheme) -> str:
        """Name the file of a version, whether it is there or not."""
        return f"{self.directory}/{manifest_name(version, scheme)}"

    def renamed(self, path: str) -> str:
        """Name the file of a version in the other scheme, which Lance can migrate a table to."""
        manifest = parse_manifest_name(path.rpartition("/")[2])
        if manifest is None:
            return path
        is_v1 = manifest.scheme is NamingScheme.V1
        return self.path_in(manifest.version, NamingScheme.V2 if is_v1 else NamingScheme.V1)

    def exists(self, path: str) -> bool:
        """Tell whether there is a file."""
        return self._files.exists(path)

    def describe(self, version: int, path: str) -> TableVersion | None:
        """Describe the version in a file; nothing if the file is gone."""
        found = self._files.head(path)
        return None if found is None else self._described(version, found)

    def _described(self, version: int, found: ObjectInfo) -> TableVersion:
        address = self.address(found.path)
        return TableVersion(version, address, found.size, found.e_tag, found.modified_ms)

    def address(self, path: str) -> str:
        """Give a path below the table as Lance clients write it: a key of the storage."""
        return f"{self._key}/{path}"

    def relative(self, address: str) -> str:
        """Give the address of a manifest as a path below the table.

        Only its name counts: a manifest lies in this directory or nowhere, also after the whole
        catalog was copied to another place.
        """
        return f"{self.directory}/{address.rpartition('/')[2]}"

    def staged(self, manifest: StagedManifest) -> bytes | None:
        """Read a staged manifest; refuse one that is damaged."""
        content = self._files.get(manifest.path)
        if content is None:
            return None
        if not _is_whole(content):
            raise _damaged(manifest, "it is not a whole manifest")
        try:
            said = checked(content)
        except MalformedError as error:
            raise _damaged(manifest, str(error)) from error
        if said.version != manifest.final.version:
            raise InvalidInputError(
                f"The staged manifest {manifest.path} is of another version",
                f"version {manifest.final.version} was asked for, and it says {said.version}",
                "Write the manifest of the version that is to be created",
            )
        if said.branch != self._branch:
            # Its files lie in the directory of its own branch, so nobody could read it here.
            raise InvalidInputError(
                f"The staged manifest {manifest.path} is of another branch",
                f"a version of {_shown(self._branch)} was asked for, and it is one of "
                f"{_shown(said.branch)}",
                "Create the branch if there is none, and write to the table at that branch",
            )
        return content

    def finalise(self, manifest: StagedManifest, content: bytes, *, flush: bool = True) -> bool:
        """Put a manifest into its final place; tell whether the staged one may still be there.

        The same bytes may be in that place already. Where the catalog says which version it is,
        its place need not be flushed: if it is lost, the staged one is there again.
        """
        path, is_moved = manifest.final_path, self._move(manifest, flush=flush)
        if is_moved:
            return False
        is_put = is_moved is None and self._files.put_if_absent(path, content)
        if not is_put and self._files.get(path) != content:
            raise TableVersionAlreadyExistsError(
                f"Another writer has already put a different version at {path}",
                fix="Read the table again and commit the version after its newest",
            )
        return True

    def _move(self, manifest: StagedManifest, *, flush: bool) -> bool | None:
        """Give it its final name, if that is free; nothing where it has to be written anew."""
        if not self._is_local:
            return None
        try:
            return self._files.move_if_absent(manifest.path, manifest.final_path, flush=flush)
        except NotFoundError:
            return None

    def object(self, path: str) -> tuple[Objects, str]:
        """Give a file as what it is to the storage, to be flushed with others."""
        return self._files, path

    def content(self, path: str) -> bytes | None:
        """Read the file of a version, in either naming scheme; nothing if there is none."""
        found = self._files.get(path)
        return self._files.get(self.renamed(path)) if found is None else found

    def holds(self, path: str, content: bytes) -> bool:
        """Tell whether a file has exactly this content."""
        return self._files.get(path) == content

    def recover(self, staged_path: str, final_path: str) -> bool:
        """Finish what a writer left unfinished; tell whether the version is whole now."""
        content = self._files.get(staged_path)
        if content is None:
            # Either it was never ours to finish, or somebody finished it this very moment.
            return self._files.exists(final_path)
        self._files.put_if_absent(final_path, content)
        return True

    def discard(self, paths: list[str]) -> None:
        """Delete files that are not needed any more."""
        self._files.delete(paths)


def _shown(branch: str | None) -> str:
    return "the main branch" if branch is None else f"the branch {branch!r}"


def _damaged(manifest: StagedManifest, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"The staged manifest {manifest.path} is damaged",
        why,
        "Write the manifest there again, then create the version",
    )


def _is_whole(content: bytes) -> bool:
    """Tell whether these bytes are framed as a manifest is: a footer that leads to the message."""
    if len(content) < _LENGTH.size + _FOOTER.size:
        return False
    position, _, _, magic = _FOOTER.unpack_from(content, len(content) - _FOOTER.size)
    end = len(content) - _FOOTER.size
    if magic != _MAGIC or position > end - _LENGTH.size:
        return False
    return bool(position + _LENGTH.size + _LENGTH.unpack_from(content, position)[0] == end)
