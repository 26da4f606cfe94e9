"""The namespace client of a strict commit: it gives Lance the next version, or none."""

from typing import Any

from lance_namespace import (
    DescribeTableVersionResponse,
    LanceNamespace,
    ListTableVersionsResponse,
    TableVersion,
)

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.objects import Objects, parse_root
from lakeroot.spark.catalogs import Located, files_of
from lakeroot.spark.failures import explained
from lakeroot.tables.versions import (
    NamingScheme,
    manifest_name,
    naming_scheme,
    staged_manifest,
    versions_directory,
)


class NextVersionOnly(LanceNamespace):
    """Hand Lance exactly one version number to commit: the next one, if it is still free.

    Lance asks a client of managed versions to publish a staged manifest. This one publishes it
    the way every Lance writer does, with one put-if-absent under the final name (or through the
    catalog, if the catalog manages versions), and refuses any number but the next.
    """

    def __init__(self, table: Located, base: int, branch: str | None = None) -> None:
        self.table = table
        self.base = base
        self.branch = branch
        self.refused = False

    def namespace_id(self) -> str:
        """Name this client."""
        return f"next-version-only:{self.table.location}"

    def create_table_version(self, request: Any) -> Any:
        """Publish the staged manifest if it is of the next version and the number is free."""
        number = request["version"]
        scheme = naming_scheme(request.get("naming_scheme"))
        staged = staged_manifest(
            self.table.location,
            request["manifest_path"],
            version=number,
            scheme=scheme,
            branch=self.branch,
        )
        files = files_of(self.table)
        if number != self.base + 1 or not self._publish(request, files, staged):
            self.refused = True
            files.delete([staged.path])
            raise ConcurrentModificationError(f"Version {number} is not the next one any more")
        return {"version": self._version(number, scheme)}

    def _publish(self, request: Any, files: Objects, staged: Any) -> bool:
        if self.table.managed and self.table.ref.catalog is not None:
            try:
                self.table.ref.catalog.connect().create_table_version(request)
            except Exception as error:
                if isinstance(explained("", error), ConcurrentModificationError):
                    return False
                raise
            return True
        return files.move_if_absent(staged.path, staged.final_path)

    def list_table_versions(self, request: Any) -> ListTableVersionsResponse:
        """Answer that the version the job has read is the newest."""
        scheme = self._scheme_of(self.base)
        version = TableVersion(**self._version(self.base, scheme or NamingScheme.V2))
        return ListTableVersionsResponse(versions=[version])

    def describe_table_version(self, request: Any) -> Any:
        """Find a version on disk."""
        number = request["version"]
        number = self.base if number is None else number
        scheme = self._scheme_of(number)
        if scheme is None:
            raise ConcurrentModificationError(f"There is no version {number}")
        found = self._version(number, scheme)
        if isinstance(request, dict):
            return {"version": found}
        return DescribeTableVersionResponse(version=TableVersion(**found))

    def _scheme_of(self, number: int) -> NamingScheme | None:
        files = files_of(self.table)
        directory = versions_directory(self.branch)
        for scheme in (NamingScheme.V2, NamingScheme.V1):
            if files.exists(f"{directory}/{manifest_name(number, scheme)}"):
                return scheme
        return None

    def _version(self, number: int, scheme: NamingScheme) -> dict[str, Any]:
        name = f"{versions_directory(self.branch)}/{manifest_name(number, scheme)}"
        return {"version": number, "manifest_path": f"{_key(self.table.location)}/{name}"}


def _key(location: str) -> str:
    """Write a location as object stores name it: no scheme, no bucket, no leading slash."""
    root = parse_root(location)
    return root.uri.strip("/") if root.is_local else root.uri.partition("://")[2].partition("/")[2]
