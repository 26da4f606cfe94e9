"""The namespace client of a strict commit: it gives Lance the next version, or none."""

from collections.abc import Sequence
from typing import Any, Protocol

from lance_namespace import (
    DescribeTableVersionResponse,
    LanceNamespace,
    ListTableVersionsResponse,
    TableVersion,
)

from lakeroot.model.errors import (
    ConcurrentModificationError,
    LakerootError,
    TableVersionNotFoundError,
)
from lakeroot.objects import Objects, parse_root
from lakeroot.tables.faults import translation
from lakeroot.tables.versions import (
    NamingScheme,
    StagedManifest,
    manifest_name,
    naming_scheme,
    staged_manifest,
    versions_directory,
)


class Arbiter(Protocol):
    """Whoever decides which manifest becomes a version of a table."""

    def found(self, number: int) -> dict[str, Any] | None:
        """Describe a version; nothing if there is none."""
        ...

    def publish(self, request: Any, staged: StagedManifest) -> dict[str, Any] | None:
        """Make a staged manifest a version, and describe it; nothing if its number is taken."""
        ...


class FilesDecide:
    """The first who puts a manifest under the name of a version, as every Lance writer does."""

    def __init__(self, location: str, files: Objects, branch: str | None = None) -> None:
        self._key = _key(location)
        self._files = files
        self._directory = versions_directory(branch)

    def found(self, number: int) -> dict[str, Any] | None:
        """Find the file of a version, in either naming scheme."""
        for scheme in (NamingScheme.V2, NamingScheme.V1):
            path = f"{self._directory}/{manifest_name(number, scheme)}"
            if self._files.exists(path):
                return {"version": number, "manifest_path": f"{self._key}/{path}"}
        return None

    def publish(self, request: Any, staged: StagedManifest) -> dict[str, Any] | None:
        """Move a staged manifest to its place, unless there is one."""
        if not self._files.move_if_absent(staged.path, staged.final_path):
            return None
        return {
            "version": request["version"],
            "manifest_path": f"{self._key}/{staged.final_path}",
        }


class CatalogDecides:
    """A catalog that manages the versions of its tables."""

    def __init__(self, client: Any, table_id: Sequence[str], branch: str | None = None) -> None:
        self._client = client
        self._table: dict[str, Any] = {"id": list(table_id)}
        if branch is not None:
            self._table["branch"] = branch

    def found(self, number: int) -> dict[str, Any] | None:
        """Ask for a version."""
        try:
            return _told(self._client.describe_table_version({**self._table, "version": number}))
        except Exception as error:
            if isinstance(translation(error, ""), TableVersionNotFoundError):
                return None
            raise

    def publish(self, request: Any, staged: StagedManifest) -> dict[str, Any] | None:
        """Ask for the next version."""
        try:
            return _told(self._client.create_table_version(request))
        except Exception as error:
            if isinstance(translation(error, ""), ConcurrentModificationError):
                return None
            raise


def _told(answer: Any) -> dict[str, Any]:
    told = answer["version"]
    return {"version": told["version"], "manifest_path": told["manifest_path"]}


class NextVersionOnly(LanceNamespace):
    """Hand Lance exactly one version number to commit: the next one, if it is still free.

    Lance asks a client of managed versions to publish a staged manifest. This one has its arbiter
    publish it, and refuses any number but the next.
    """

    def __init__(
        self, location: str, files: Objects, base: int, arbiter: Arbiter, branch: str | None = None
    ) -> None:
        self._location = location
        self._files = files
        self._base = base
        self._arbiter = arbiter
        self._branch = branch
        self.refused = False
        self.failure: LakerootError | None = None
        """What the arbiter said, if that was something else than that the number is taken."""

    def namespace_id(self) -> str:
        """Name this client."""
        return f"next-version-only:{self._location}"

    def create_table_version(self, request: Any) -> Any:
        """Publish the staged manifest if it is of the next version and the number is free."""
        number = request["version"]
        staged = staged_manifest(
            self._location,
            request["manifest_path"],
            version=number,
            scheme=naming_scheme(request.get("naming_scheme")),
            branch=self._branch,
        )
        published = self._publish(request, staged) if number == self._base + 1 else None
        if published is None:
            self.refused = True
            self._files.delete([staged.path])
            raise ConcurrentModificationError(f"Version {number} is not the next one any more")
        return {"version": published}

    def _publish(self, request: Any, staged: StagedManifest) -> dict[str, Any] | None:
        try:
            return self._arbiter.publish(request, staged)
        except Exception as error:
            self.failure = translation(error, "Committing")
            raise

    def list_table_versions(self, request: Any) -> ListTableVersionsResponse:
        """Answer that the version the change has read is the newest."""
        found = self._arbiter.found(self._base)
        if found is None:
            self.refused = True  # It was cleaned up, or the table is another one by now.
            raise ConcurrentModificationError(f"There is no version {self._base} any more")
        return ListTableVersionsResponse(versions=[TableVersion(**found)])

    def describe_table_version(self, request: Any) -> Any:
        """Find a version.

        Lance looks whether a number that was refused is there all the same, three times with
        pauses, and warns of it. It is told that another has it, which ends the look at once.
        """
        number = request["version"]
        found = self._arbiter.found(self._base if number is None else number)
        if found is None and self.refused:
            known = self._arbiter.found(self._base)
            found = None if known is None else {**known, "version": number}
        if found is None:
            raise ConcurrentModificationError(f"There is no version {number}")
        if isinstance(request, dict):
            return {"version": found}
        return DescribeTableVersionResponse(version=TableVersion(**found))


def _key(location: str) -> str:
    """Write a location as object stores name it: no scheme, no bucket, no leading slash."""
    root = parse_root(location)
    return root.uri.strip("/") if root.is_local else root.uri.partition("://")[2].partition("/")[2]
